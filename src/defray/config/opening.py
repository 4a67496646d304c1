"""From a contract file to a working engine: the only place that picks backends."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from defray.config.reader import read_contract
from defray.config.server import missing
from defray.core.contract import Contract
from defray.data.source import Source
from defray.engine import Engine
from defray.errors import BadInput, MissingExtra
from defray.ledger.moving import Movable
from defray.ledger.store import Ledger
from defray.ledger.witness import Witness, older
from defray.noise.sampler import Sampler
from defray.session import Session
from defray.standing import check_promises
from defray.transcript import terms_of

if TYPE_CHECKING:
    from defray.data.postgresql.source import PostgresSource
    from defray.ledger.postgresql.address import Address


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


def open_ledger(contract: Contract, *, witnessed: bool = True, leaving: bool = False) -> Movable:
    """The contract's ledger; one that is not ``witnessed`` is not held against its witness, one that is
    ``leaving`` may bear the mark of one that was moved."""
    terms, witness = terms_of(contract), witness_path(contract) if witnessed else None
    if contract.ledger.kind == "postgresql":
        address = ledger_address(contract)
        from defray.ledger.postgresql.ledger import PostgresLedger

        return PostgresLedger.open(address, terms, witness=witness, leaving=leaving)
    from defray.ledger.sqlite import SqliteLedger

    return SqliteLedger.open(ledger_path(contract), terms, witness=witness, leaving=leaving)


def ledger_address(contract: Contract) -> Address:
    """Where a PostgreSQL ledger is: by ``DEFRAY_LEDGER_DSN`` where that is set, else as declared."""
    try:
        from defray.ledger.postgresql.address import Address
    except ImportError:
        raise MissingExtra(
            "a ledger in PostgreSQL needs psycopg", hint='pip install "defray[postgres]"'
        ) from None
    spec = contract.ledger
    dsn = os.environ.get("DEFRAY_LEDGER_DSN") or spec.dsn
    if dsn is None or spec.schema is None:
        raise BadInput(
            "the database of the ledger is not named",
            hint='add dsn = "postgresql://USER@HOST/DATABASE" to [ledger], or set DEFRAY_LEDGER_DSN',
        )
    return Address(dsn, spec.schema)


def ledger_name(contract: Contract) -> str:
    """Where the ledger is, for people: its file, or its address without user and password."""
    if contract.ledger.kind == "postgresql":
        return str(ledger_address(contract))
    return str(ledger_path(contract))


def ledger_exists(contract: Contract, *, witnessed: bool = True) -> bool:
    """Whether the ledger was made already.  Raises LedgerMismatch where it was and is gone, as its witness
    says, unless that is not asked (``witnessed``)."""
    if contract.ledger.kind == "postgresql":
        address = ledger_address(contract)
        from defray.ledger.postgresql.ledger import PostgresLedger

        there = PostgresLedger.exists(address)
    else:
        there = ledger_path(contract).exists()
    witness = Witness(witness_path(contract))
    seen = witness.seen() if witnessed and not there else None
    if seen is not None:
        raise older(ledger_name(contract), witness.path, seen, None)
    return there


def open_source(contract: Contract, ledger: Ledger) -> Source:
    """The contract's data, to be read only; the ledger keys its fingerprint and may remember it."""
    source = _uncubed(contract, ledger)
    if contract.source.cube is None:
        return source
    from defray.data.cube import CubedSource

    file = cube_path(contract) if contract.source.cube == "disk" else None
    return CubedSource(source, contract.domain, ledger.secret, file)


def cube_path(contract: Contract) -> Path:
    """Where a cube on the disk lies: beside the contract, with the suffix .cube."""
    stem = contract.path.stem if contract.path is not None else "contract"
    return contract.directory / f"{stem}.cube"


def _uncubed(contract: Contract, ledger: Ledger) -> Source:
    if contract.source.kind == "postgresql":
        return _on_server(contract, ledger.secret, ledger.remembered, ledger.remember)
    if contract.source.kind == "spark":
        from defray.data.spark.source import SparkSource

        return SparkSource(
            contract, ledger.secret, remember=ledger.remembered, memo=ledger.remember
        )
    from defray.data.duckdb.source import DuckDBSource

    return DuckDBSource(contract, ledger.secret, remember=ledger.remembered, memo=ledger.remember)


def _on_server(
    contract: Contract,
    secret: bytes,
    remember: Callable[[str], str | None] = lambda key: None,
    memo: Callable[[str, str], None] = lambda key, text: None,
) -> PostgresSource:
    """Data in PostgreSQL: by ``DEFRAY_SOURCE_DSN`` where that is set, else as declared."""
    try:
        from defray.data.postgresql.source import PostgresSource
    except ImportError:
        raise missing() from None
    dsn = os.environ.get("DEFRAY_SOURCE_DSN") or contract.source.dsn
    if dsn is None:
        raise BadInput(
            "the database of the data is not named",
            hint='add dsn = "postgresql://USER@HOST/DATABASE" to [source], or set DEFRAY_SOURCE_DSN',
        )
    return PostgresSource(contract, dsn, secret, remember=remember, memo=memo)


def source_name(contract: Contract) -> str:
    """Where the data is, for people: its file, or its address without user and password; and the table."""
    spec = contract.source
    if spec.kind == "postgresql":
        with closing(_on_server(contract, b"")) as source:
            return source.name
    if spec.path and "://" in spec.path:
        return spec.path
    place = str(contract.directory / spec.path) if spec.path else spec.table or ""
    return f"{place} table {spec.table}" if spec.path and spec.table else place


def probe_source(contract: Contract) -> None:
    """Ask a database whether its table can be read as declared, and whether Spark can begin; files are read
    with the first question.  Raises SourceUnavailable, BadInput or MissingExtra."""
    if contract.source.kind == "postgresql":
        with closing(_on_server(contract, b"")) as source:
            source.probe()
    if contract.source.kind == "spark":
        from defray.data.spark.source import check

        check(contract)


def _sampler() -> Sampler:
    from defray.noise.opendp_sampler import OpenDPSampler

    return OpenDPSampler()
