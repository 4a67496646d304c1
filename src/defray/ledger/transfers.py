"""What an analyst pays to those who paid for what is reused, between accounts: the ``back`` of a shadow.

Nothing of it is charged to the contract.  An analyst's account (:func:`~defray.ledger.records.account_of`) is
what its releases cost, plus what it gave for reuse, less what came back; both are also kept as tallies, which
only rise (:func:`~defray.ledger.records.tally_of`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

from defray.core.principals import Principals
from defray.ledger.accounts import Account
from defray.ledger.records import Release, account_of, tally_of
from defray.policy.stakes import Measured, price_of
from defray.support.weights import whole


def measured(release: Release, keys: Sequence[bytes], rho: Fraction) -> Measured:
    """A release of these functionals, under a contract of ``rho``, as those see it who share it.  Not shared
    are diagnostics, confirmations, and what is charged by cell."""
    return Measured(
        added={
            key: precision
            for key, precision in zip(keys, release.precisions, strict=False)
            if precision is not None
        },
        price=price_of(release.reach, rho),
        charge=release.charge,
        shared=release.purse == "answer" and release.tag is None and not release.by_cell,
    )


def transfer_fault(
    release: Release, account: Callable[[str], Account], principals: Principals
) -> str | None:
    """What is wrong with what a release gives back, whatever the rule says; None if nothing is."""
    return next(_faults(release, account, principals), None)


def _faults(
    release: Release, account: Callable[[str], Account], principals: Principals
) -> Iterator[str]:
    if release.back is None:
        return
    if not release.alone or release.by is None:
        yield "only what an analyst would have bought alone gives something back"
        return
    if release.by_cell and release.back:
        yield "nothing comes back of what is charged by cell"
    for name, quanta in release.back.items():
        principal = principals.get(name)
        if not whole(quanta) or quanta <= 0:
            yield f"{quanta!r:.40} cannot come back to {name!r:.80}"
            return
        if name == release.by or principal is None or principal.share is None:
            yield f"{name!r:.80} is no other analyst with a share"
            return
        if account(account_of(release.purse, name)).everywhere < quanta:
            yield f"more comes back to {name} than was paid"
    if release.reuse > release.charge:
        yield f"{release.by} gives back {release.reuse} quanta, more than the share alone would pay"


def moved(release: Release, account: Callable[[str], Account]) -> dict[str, Account]:
    """The accounts and tallies that a sound transfer changes, after it."""
    if not release.back or release.by is None:
        return {}
    purse, by = release.purse, release.by
    changes = {account_of(purse, by): release.reuse, tally_of(purse, by, "reuse"): release.reuse}
    for name, quanta in release.back.items():
        changes |= {account_of(purse, name): -quanta, tally_of(purse, name, "back"): quanta}
    return {name: account(name).moved(quanta) for name, quanta in changes.items()}
