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
from defray.ledger.records import Release, account_of, is_analysts
from defray.ledger.store import Ledger
from defray.logbook import releases


def spending(contract: Contract, ledger: Ledger, analyst: str | None) -> list[dict[str, Any]]:
    """By ask, oldest first: its ``id``, when it bought first (``at``), and what the dearest cell had paid for
    answers once it had ended (``spent_rho``), from the contract or from an analyst's account: there with what
    was given to others for reuse, and less what came back by then.  Asks about different cells do not add up
    in it."""
    found: list[dict[str, Any]] = []
    name = "answer" if analyst is None else account_of("answer", analyst)
    for version, release, spent in _spent(contract, ledger, name):
        if not found or (found[-1]["data_version"], found[-1]["id"]) != (version, release.ask):
            at = release.note.get("at", "")
            found.append({"id": release.ask, "at": at, "data_version": version})
        found[-1]["spent_rho"] = float(rho_of(spent, contract.rho))
    return found


def _spent(contract: Contract, ledger: Ledger, name: str) -> Iterator[tuple[int, Release, int]]:
    """Every release (also of a shadow) by which an account of that name paid: its data version, and what the
    dearest cell has paid from the account since the first."""
    from defray.support.charges import Charges

    account, version = Account(), 0
    domain = contract.domain
    for epoch, seq, body in releases(ledger, shadows=is_analysts(name)):
        if epoch.counter != version:
            account, version = account.anew(), epoch.counter
            domain = Domain.from_json(epoch.domain)
        release = Release.from_json(body)
        if release.by is not None and release.back:
            own = account_of(release.purse, release.by)
            back = {account_of(release.purse, who): -q for who, q in release.back.items()}
            account = account.moved(back.get(name, release.reuse if name == own else 0))
            if name == own:
                yield version, release, account.spent
        if name in release.accounts:
            paid = paid_by(release, domain, contract.rho)
            account = account.after(paid, seq, partial(Charges.of, domain))
            yield version, release, account.spent
