"""From a contract file to a working engine: the only place that picks backends."""

from __future__ import annotations

from pathlib import Path

from defray.config.reader import read_contract
from defray.core.contract import Contract
from defray.data.source import Source
from defray.engine import Engine
from defray.errors import BadInput
from defray.ledger.store import Ledger
from defray.noise.sampler import Sampler
from defray.session import Session
from defray.standing import check_promises
from defray.transcript import terms_of


def open_contract(path: str | Path) -> Session:
    """Read the contract, open (or create) its ledger and its source.

    Raises ContractError (also where the budget cannot keep a promise), LedgerError or SourceUnavailable.
    """
    if not isinstance(path, str | Path):
        raise BadInput(
            f"a contract is named by its path, not by {type(path).__name__}", hint='"contract.toml"'
        )
    return Session(wire(read_contract(Path(path))))


def wire(contract: Contract, *, source: Source | None = None) -> Engine:
    """An engine on the contract's own backends (``source``: another one, for tests)."""
    ledger = open_ledger(contract)
    try:
        check_promises(contract, ledger)
        data = source if source is not None else open_source(contract, ledger)
    except BaseException:
        ledger.close()
        raise
    return Engine(contract, ledger, data, _sampler())


def ledger_path(contract: Contract) -> Path:
    """Where a SQLite ledger lies: as declared, else beside the contract with the suffix .ledger."""
    if contract.ledger.path is not None:
        return contract.directory / contract.ledger.path
    stem = contract.path.stem if contract.path is not None else "contract"
    return contract.directory / f"{stem}.ledger"


def witness_path(contract: Contract) -> Path:
    """Where the ledger's witness lies: as declared, else beside the ledger with the suffix .witness."""
    if contract.ledger.witness is not None:
        return contract.directory / contract.ledger.witness
    ledger = ledger_path(contract)
    return ledger.with_name(f"{ledger.name}.witness")


def open_ledger(contract: Contract, *, witnessed: bool = True) -> Ledger:
    """The contract's ledger; one that is not ``witnessed`` is not held against its witness."""
    if contract.ledger.kind != "sqlite":
        raise BadInput(f"ledger kind {contract.ledger.kind} is not available in this version")
    from defray.ledger.sqlite import SqliteLedger

    witness = witness_path(contract) if witnessed else None
    return SqliteLedger.open(ledger_path(contract), terms_of(contract), witness=witness)


def open_source(contract: Contract, ledger: Ledger) -> Source:
    """The contract's data, to be read only; the ledger keys its fingerprint and may remember it."""
    from defray.data.duckdb import DuckDBSource

    return DuckDBSource(contract, ledger.secret, remember=ledger.remembered, memo=ledger.remember)


def _sampler() -> Sampler:
    from defray.noise.opendp_sampler import OpenDPSampler

    return OpenDPSampler()
