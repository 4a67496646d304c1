"""What had been spent after each ask: the log replayed, as far as charges go."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from defray.charged import paid_by
from defray.core.amounts import rho_of
from defray.core.contract import Contract
from defray.core.domain import Domain
from defray.ledger.accounts import Account
from defray.ledger.records import Release
from defray.ledger.store import Ledger
from defray.logbook import releases


def spending(contract: Contract, ledger: Ledger) -> list[dict[str, Any]]:
    """By ask, oldest first: its ``id``, when it bought first (``at``), and what the dearest cell had paid for
    answers once it had ended (``spent_rho``).  Asks about different cells do not add up in it."""
    found: list[dict[str, Any]] = []
    for version, release, spent in _spent(contract, ledger):
        if not found or (found[-1]["data_version"], found[-1]["id"]) != (version, release.ask):
            at = release.note.get("at", "")
            found.append({"id": release.ask, "at": at, "data_version": version})
        found[-1]["spent_rho"] = float(rho_of(spent, contract.rho))
    return found


def _spent(contract: Contract, ledger: Ledger) -> Iterator[tuple[int, Release, int]]:
    """Every release with its data version, and what the dearest cell has paid for answers since the first."""
    from defray.support.charges import Charges

    account, version = Account(), 0
    domain = contract.domain
    for epoch, seq, body in releases(ledger):
        if epoch.counter != version:
            account, version = account.anew(), epoch.counter
            domain = Domain.from_json(epoch.domain)
        release = Release.from_json(body)
        if release.purse == "answer":
            paid = paid_by(release, domain, contract.rho)
            account = account.after(paid, seq, partial(Charges.of, domain))
        yield version, release, account.spent
