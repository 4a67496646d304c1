"""What makes one release true to itself, exactly, and what it adds to the folds.

Asked before an append, and again by the audit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Final, cast

from defray.core.amounts import QUANTA
from defray.core.principals import Enrolment, Principals
from defray.core.principals import enrolled as principals_after
from defray.errors import BadInput, ContractClosed, LedgerCorrupt, LedgerError
from defray.ledger.accounts import Account, dearest
from defray.ledger.records import (
    PURSES,
    UNKNOWN,
    Arrival,
    Known,
    Paid,
    Purse,
    Release,
    Settled,
    Terms,
    is_analysts,
)
from defray.ledger.transfers import moved, transfer_fault
from defray.support.known import alone, credited
from defray.support.weights import charge_for, squared_gain, squared_weight, unsound, whole

if TYPE_CHECKING:
    from defray.support.charges import Charges

_TAG: Final = re.compile("[0-9a-f]{32}")


def ended() -> ContractClosed:
    """Nothing can be appended to a contract that was closed."""
    return ContractClosed(
        "the contract was closed; it answers no more questions",
        hint="its certificate and history can still be read",
    )


def append_refused(what: str, **context: str) -> LedgerCorrupt:
    """A caller's fault: it has to decide before it appends."""
    return LedgerCorrupt(
        f"The ledger refused an append: {what}.",
        hint="This is a fault of the caller; nothing was kept.",
        **context,
    )


def enrolled(principals: Principals, change: Enrolment) -> Principals | str:
    """The principals once a change is appended, or why it may not be."""
    try:
        return principals_after(principals, change)
    except BadInput as error:
        return error.message


def check_terms(terms: Terms) -> None:
    """LedgerError unless a ledger can be made under these terms."""
    if terms.rho <= 0 or any(c < 0 for c in terms.caps.values()):
        raise LedgerError(
            "The terms of a ledger need a positive rho and caps that are not negative."
        )
    if sum(terms.caps.values()) > QUANTA:
        raise LedgerError("The purses' caps together exceed the contract.")


def admitted(
    release: Release,
    terms: Terms,
    version: int,
    account: Callable[[str], Account],
    seq: int,
    unpaid: Callable[[], Charges],
    principals: Principals,
) -> dict[str, Account] | str:
    """The accounts that pay, once a release is appended as ``seq``, or why it may not be appended now: at
    data version ``version``, whose domain was ``unpaid`` at first."""
    wrong = (
        next(obstacles(release, terms, version), None)
        or unowned(release, principals)
        or transfer_fault(release, account, principals)
    )
    if wrong is not None:
        return wrong
    found: dict[str, Account] = {}
    for name in release.accounts:
        cap = cap_of(name, terms, principals)
        total = account(name).spent + release.charge
        if release.charge <= cap:
            try:
                wrong = misfit(release, release.paid)
                if wrong is not None:
                    return wrong
                after = account(name).after(release.pays, seq, unpaid)
            except (ValueError, TypeError, OverflowError) as error:
                return f"what its cells pay does not fit the domain: {error}"
            total = after.spent
            found[name] = after
        if total > cap:
            return f"the {name} purse would reach {total} of {cap} quanta"
    transferred = moved(release, account)
    for name in transferred:
        if is_analysts(name) and transferred[name].spent > cap_of(name, terms, principals):
            return f"the {name} purse would reach {transferred[name].spent} quanta by reuse"
    return {**found, **transferred}


def unowned(release: Release, principals: Principals) -> str | None:
    """What is wrong with the analyst whom a release was bought for; None if nothing is."""
    if release.by is None:
        return "nobody is named whose shadow it is" if release.alone else None
    principal = principals.get(release.by)
    if principal is None or principal.share is None:
        return f"{release.by!r:.80} is no analyst with a share"
    return None


def cap_of(account: str, terms: Terms, principals: Principals) -> int:
    """What the cells of an account may pay, in quanta: of an analyst's, the share."""
    purse, _, owner = account.partition("/")
    cap = terms.caps.get(cast(Purse, purse), 0)
    if not owner:
        return cap
    principal = principals.get(owner.removesuffix("/alone"))
    return math.floor(cap * (principal.share or 0)) if principal is not None else 0


def obstacles(release: Release, terms: Terms, version: int) -> Iterator[str]:
    """Why a release may not be appended at data version ``version``, whatever was spent."""
    if release.version != version:
        yield f"a release of data version {release.version} came at version {version}"
    yield from faults(release, terms.rho)
    if len(release.keys) != (len(release.values) if _keyed(release) else 0):
        yield "keys and values differ in number"


def misfit(release: Release, paid: Paid) -> str | None:
    """What is wrong with what is said to be paid for a sound release; None if nothing is."""
    if not release.by_cell:
        same = all(not columns and quanta == release.charge for columns, quanta in paid)
        return (
            None if same and len(paid) <= 1 else "every cell pays the charge, but others are named"
        )
    if len(paid) != 1:
        return "it is charged by cell, but what each cell pays is not said once"
    ((columns, quanta),) = paid
    if columns and len(columns) != len(release.attributes):
        return f"{len(columns)} columns pay for {len(release.attributes)} attributes"
    most = dearest(quanta)
    if most != release.charge:
        return f"the charge is {release.charge} quanta, but its dearest cell pays {most}"
    return None


def increments(
    release: Release, keys: Sequence[bytes]
) -> Iterator[tuple[bytes, Fraction, Fraction, int]]:
    """What a release adds: (key, precision, value, place) of every measured cell."""
    grain = Fraction(1, 2**release.step) if release.step >= 0 else Fraction(2**-release.step)
    for i, key in enumerate(keys):
        value, precision = release.values[i], release.precisions[i]
        if value is not None and precision is not None:
            yield key, precision, value * grain, i


def fold(
    known: MutableMapping[bytes, Known], release: Release, keys: Sequence[bytes], seq: int
) -> None:
    """Fold a release into what is known; keys that are not there are UNKNOWN."""
    for functional, precision, value, i in increments(release, keys):
        for key in _kept_under(release, functional):
            known[key] = known.get(key, UNKNOWN).fused(precision, value, seq, i, release.ask)
    fold_settled(known, release.settles, seq)


def fold_settled(
    known: MutableMapping[bytes, Known],
    settles: Sequence[tuple[bytes, Fraction, Fraction]],
    seq: int,
) -> None:
    """Remember targets as met."""
    for key, share, gamma in settles:
        known[key] = known.get(key, UNKNOWN).promised(share, gamma, seq)


def settled_fault(settled: Settled) -> str | None:
    """What is wrong with targets that are to be remembered; None if nothing is."""
    for key, share, gamma in settled.settles:
        if len(key) != 16 or not (0 < share < 1 and 0 < gamma < 1):
            return f"a target of {share} at {gamma} cannot have been met"
    return None if settled.settles else "no target is named that was met"


def _kept_under(release: Release, key: bytes) -> tuple[bytes, ...]:
    """The keys that a release of a functional is folded into."""
    keys = (key,) if release.tag is None else credited(key, release.tag)
    return tuple(alone(k, release.by or "") for k in keys) if release.alone else keys


def folded(release: Release) -> list[bytes]:
    """The keys that a release is folded into."""
    pairs = zip(release.keys, release.values, strict=_keyed(release))
    keys = [k for k, value in pairs if value is not None]
    keys = [k for key in keys for k in _kept_under(release, key)]
    return [*keys, *(key for key, _, _ in release.settles)]


def fold_arrival(known: MutableMapping[bytes, Known], arrival: Arrival, seq: int) -> None:
    """Remember that a question arrived."""
    known[arrival.mark] = replace(known.get(arrival.mark, UNKNOWN), last=seq)


def arrival_fault(arrival: Arrival, before: int) -> str | None:
    """What is wrong with an arrival after ``before`` others; None if it is sound."""
    if arrival.number != before + 1:
        return f"arrival {arrival.number} came after arrival {before}"
    numbers = (arrival.residual, arrival.granted, arrival.weight, arrival.price)
    if not all(math.isfinite(x) and x >= 0 for x in (*numbers, arrival.influence or 0.0)):
        return f"arrival {arrival.number} holds a number that is negative or not finite"
    if arrival.granted > arrival.residual:
        return f"arrival {arrival.number} was granted more than it needed"
    if len(arrival.mark) != 16:
        return f"arrival {arrival.number} has no sound mark"
    return None


def faults(release: Release, rho: Fraction) -> Iterator[str]:
    """Everything that is wrong with a release of a contract of ``rho``; nothing if it is sound.

    The charge is exactly what follows from the smallest sigma; where the note says ``given``, the charge
    came first and may exceed it.
    """
    if release.purse not in PURSES:
        yield f"unknown purse {release.purse!r}"
    if not whole(release.charge) or release.charge <= 0:
        yield f"the charge {release.charge!r} is not a positive whole number of quanta"
        return
    if not whole(release.step) or abs(release.step) > 2**16:
        yield f"the step {release.step!r} is not a small whole number"
        return
    if release.reach <= 0 or release.unit <= 0:
        yield "unit and reach must be positive"
        return
    unfit = list(_unfit(release))
    yield from unfit
    if unfit:
        return
    if release.settles and (wrong := settled_fault(Settled(release.ask, release.settles))):
        yield wrong
    if not isinstance(release.ask, str) or len(release.ask.split()) != 1:
        yield f"the ask {release.ask!r:.40} is not one word"
        return
    tag = release.tag
    if tag is not None and not (isinstance(tag, str) and _TAG.fullmatch(tag)):
        yield f"{tag!r:.40} cannot be the tag of a confirmation"
        return
    noisy = list(_unsound_noise(release))
    yield from noisy
    if noisy:
        return
    least = min((s for s in release.sigmas if s is not None), default=None)
    if least is None:
        yield "nothing is measured"
        return
    cost = charge_for(release.reach * release.reach * squared_weight(release.weights), least, rho)
    given = release.note.get("given") is True
    if release.charge < cost or (release.charge > cost and not given):
        yield f"the charge is {release.charge} quanta, but its noise costs {cost}"


def _unfit(release: Release) -> Iterator[str]:
    """What is wrong with the kind of a release and the numbers of its parts."""
    values = len(release.values)
    yield from unsound(release.weights, len(release.attributes), values)
    noises = values if _keyed(release) else 1
    if not noises == len(release.sigmas) == len(release.precisions):
        yield "values, sigmas and precisions differ in number"


def _unsound_noise(release: Release) -> Iterator[str]:
    """What is wrong with values, sigmas and precisions: one of each for every functional, or one noise for
    all of a table."""
    if not _keyed(release):
        (sigma,), (precision,) = release.sigmas, release.precisions
        if sigma is None or precision is None or not all(map(whole, release.values)):
            yield "values are whole numbers of steps, of one sigma and one precision"
        else:
            yield from _unsound_cell(0, sigma, precision, squared_gain(release.weights))
        return
    for i, (value, sigma, precision) in enumerate(
        zip(release.values, release.sigmas, release.precisions, strict=True)
    ):
        if value is None or sigma is None or precision is None:
            if not (value is None and sigma is None and precision is None):
                yield f"cell {i} is measured by halves"
            continue
        if not whole(value):
            yield f"cell {i}: the value is not a whole number of steps"
        yield from _unsound_cell(i, sigma, precision, 1)


def _unsound_cell(i: int, sigma: float, precision: Fraction, gain: int) -> Iterator[str]:
    """``precision`` is at most ``gain / sigma^2``."""
    if not (math.isfinite(sigma) and sigma > 0):
        yield f"cell {i}: sigma {sigma!r} is not positive and finite"
        return
    if precision <= 0 or precision.denominator & (precision.denominator - 1):
        yield f"cell {i}: the precision is not a positive dyadic number"
        return
    top, bottom = sigma.as_integer_ratio()
    if precision.numerator * top * top > gain * precision.denominator * bottom * bottom:
        yield f"cell {i}: the precision claims more than 1/sigma^2"


def _keyed(release: Release) -> bool:
    """Whether every value is a functional with a key and noise of its own."""
    return bool(release.weights.get("kind") == "region")
