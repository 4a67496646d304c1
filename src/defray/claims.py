"""Whether the releases of a data version bear what its answers claimed.

A release that ends an ask as it was planned notes that its absolute targets of counts and sums are ``met``
from then on, and the contract's numbers that this was claimed under.  Here all of it is derived again from
the releases alone: the question from its text, its certificate from the releases so far, the accuracy from
the certificate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from defray.controller.ask import Ask, Held
from defray.controller.explain import explain_rows
from defray.controller.linear import Linear
from defray.controller.rules import rules_of
from defray.core.contract import Contract
from defray.core.target import Within
from defray.errors import QueryError, TargetError
from defray.ledger.audit import Finding
from defray.ledger.records import Release
from defray.logbook import TOO_LONG, Logbook, Logged, asked, claimed_under

EXACTLY: Final = 32
"""Up to so many (rows of an answer) x (releases so far) certificates are worked out in fractions as well;
what is known rests on proved bounds of the same."""

SLACK: Final = 1e-9
"""The part of a half-width that other machines may differ by."""

_UNREADABLE: Final = (KeyError, TypeError, ValueError, ArithmeticError, AttributeError, IndexError)


def unfounded(contract: Contract, newest: Sequence[Logged]) -> Iterator[Finding]:
    """What was claimed, but does not follow from the releases of the newest data version.  ``contract`` is
    one with its declared domain."""
    book = Logbook(contract, valued=False)
    asks: dict[str, Ask | str | None] = {}
    for i, one in enumerate(newest):
        release = one.release
        try:
            yield from (Finding(one.seq, wrong) for wrong in _misplaced(release))
            book.add(one)
            last = i + 1 == len(newest) or newest[i + 1].release.ask != release.ask
            if last and (release.note.get("met") is True or release.settles):
                book = book.under(claimed_under(release, contract).n_max)
                yield from (Finding(one.seq, wrong) for wrong in _wrong(book, release, asks))
        except _UNREADABLE as error:
            yield Finding(one.seq, f"what was claimed cannot be followed: {error}")


def _misplaced(release: Release) -> Iterator[str]:
    """A mixture of cells that was bought for a question is drawn on the lattice of its weights, or of half
    of it where values are halves."""
    if release.weights["kind"] == "cells" and "aim" in release.note:
        halves = release.step - release.weights["bits"]
        if halves not in (0, 1) or (halves and not release.measure.startswith("centred")):
            yield f"its step is {release.step}, but its weights have {release.weights['bits']} bits"


def _wrong(book: Logbook, release: Release, asks: dict[str, Ask | str | None]) -> Iterator[str]:
    ask = _asked(book, release, asks)
    if isinstance(ask, str):
        yield ask
    if not isinstance(ask, Ask):
        return
    yield from _settled(ask, release)
    if release.note.get("met") is not True:
        return
    linear, views = release.by_cell, list[Any]()
    held = book.held(ask, linear=linear)
    if linear and any(_unmet(ask, held)):
        views = book.views_of(
            release.ask
        )  # a promise that is declared no more, or a view that outgrew
        held = book.held(ask, linear=linear, views=views)
    yield from _unmet(ask, held)
    if len(book.logged) * len(ask.compiled.cells) <= EXACTLY:
        for row in explain_rows(ask, held, book.own, views=views):
            if not all(part.explained.stands for part in row.parts):
                alias = ask.compiled.question.aggregates[row.aggregate].alias
                yield f"the log does not bear the certificate of {alias}{_of(ask, row.cell)}"


def _unmet(ask: Ask, held: Held) -> Iterator[str]:
    """Absolute targets of counts and sums that are not met."""
    for j, rule in enumerate(rules_of(ask)):
        if not isinstance(rule, Linear) or not isinstance(rule.goal, Within):
            continue
        alias, amount = ask.compiled.question.aggregates[j].alias, float(rule.goal.amount)
        for i, empty in enumerate(rule.block("count").empty):
            if not empty and not rule.estimate(i, held).half_width <= amount * (1 + SLACK):
                yield f"the log does not bear {alias} within {rule.goal}{_of(ask, i)}"


def _settled(ask: Ask, release: Release) -> Iterator[str]:
    """Targets that are remembered as met are those of the question, as far as they can be told: a mark
    hides what it was scaled by."""
    possible = {
        (ask.mark(j, i), share, ask.miss)
        for j in range(len(ask.goals))
        if (share := ask.share(j)) is not None
        for i in range(len(ask.compiled.cells))
    }
    if "met" in release.note and not possible.issuperset(release.settles):
        yield "it settles targets that were not asked for"


def _asked(book: Logbook, release: Release, asks: dict[str, Ask | str | None]) -> Ask | str | None:
    """The ask of a release, or what is wrong with its text; None where that is too long to be written out."""
    contract = claimed_under(release, book.contract)
    text = f"{release.question} {contract.m_floor}"
    if text not in asks:
        try:
            asks[text] = asked(release, contract, book.regions)
        except (QueryError, TargetError) as error:
            cut = TOO_LONG in release.question
            asks[text] = None if cut else f"its question cannot be read: {error.message}"
    return asks[text]


def _of(ask: Ask, cell: int) -> str:
    labels: Mapping[str, object] = dict(
        zip(ask.compiled.question.labels, ask.compiled.cells[cell].labels, strict=True)
    )
    return f" for {', '.join(f'{k} = {v}' for k, v in labels.items())}" if labels else ""
