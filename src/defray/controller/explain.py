"""Answers explained: which releases each row rests on, with which weights, and what of it was paid before.

Pure: from a question, what is held of it, and the releases of each functional.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from defray.controller.ask import Ask, Held
from defray.controller.linear import Linear, Sum
from defray.controller.rule import Estimate, Rule
from defray.controller.rules import rules_of
from defray.core.amounts import support_of
from defray.core.grouping import Label

if TYPE_CHECKING:
    from defray.support.axes import Axes
    from defray.support.explained import Explained, Own


@dataclass(frozen=True)
class Part:
    """A functional that a row rests on.  The row's estimate is the sum of ``factor`` times each; None where
    it is a ratio."""

    role: str
    block: int
    factor: Fraction | None
    explained: Explained


@dataclass(frozen=True)
class ExplainedRow:
    """One aggregate of one group.  ``scratch`` is what its accuracy costs where nothing is known, in rho;
    ``variance`` (the aggregate's own units, squared) is None where it is a ratio or nothing is known."""

    group: Mapping[str, Label]
    aggregate: int
    cell: int
    estimate: Estimate
    parts: tuple[Part, ...]
    scratch: Fraction
    variance: Fraction | None

    @property
    def releases(self) -> tuple[int, ...]:
        return tuple(sorted({s for part in self.parts for s in part.explained.releases}))

    @property
    def shares(self) -> Mapping[int, Fraction]:
        """By release, its part of the variance; of a ratio, of the support of its parts."""
        if len(self.parts) == 1:
            return self.parts[0].explained.shares
        found: dict[int, Fraction] = {}
        for part in self.parts:
            whole = part.explained.variance if self.variance is None else Fraction(1)
            factor = Fraction(1) if part.factor is None else part.factor
            scale = factor**2 * part.explained.variance / whole
            for seq, share in part.explained.shares.items():
                found[seq] = found.get(seq, Fraction(0)) + scale * share
        total = sum(found.values(), Fraction(0))
        return {seq: share / total for seq, share in sorted(found.items())}

    def used(self, seq: int) -> set[int] | None:
        """The places of a release that the row rests on; None: all of its table."""
        found = [p.explained.places[seq] for p in self.parts if seq in p.explained.places]
        if None in found:
            return None
        return set().union(*(places for places in found if places is not None))


def explain_rows(
    ask: Ask,
    held: Held,
    own: Callable[[bytes], Sequence[Own]],
    exact: int = 2**18,
    views: Sequence[Axes] = (),
) -> list[ExplainedRow]:
    """Every row of an answer, by group and aggregate, in the order of the declared domain; also those that
    HAVING or LIMIT left out.  Certificates of up to ``exact`` products are worked out in fractions; also
    these ``views`` count."""
    rules = rules_of(ask)
    memo: dict[int, Explained | None] = {}

    def part(block: int, cell: int) -> Explained | None:
        from defray.support.explained import explained

        known, asked = held.known[block][cell], ask.compiled.blocks[block]
        wide = held.by_overlap(block, cell)
        mine = own(asked.keys[cell])
        if block in memo and not mine:
            return memo[block]
        made = explained(
            asked, cell, known, mine, held.overlap, wide=wide, exact=exact, views=views
        )
        if made is not None and made.way == "residuals":
            memo[block] = made  # the same in all cells
        return made

    labels = ask.compiled.question.labels
    return [
        _row(rule, j, i, dict(zip(labels, cell.labels, strict=True)), held, part)
        for i, cell in enumerate(ask.compiled.cells)
        for j, rule in enumerate(rules)
    ]


def _row(
    rule: Rule,
    aggregate: int,
    cell: int,
    group: Mapping[str, Label],
    held: Held,
    part: Callable[[int, int], Explained | None],
) -> ExplainedRow:
    if rule.block("count").empty[cell]:
        nothing = Estimate(0.0, 0.0, 0.0) if isinstance(rule, Linear) else rule.estimate(cell, held)
        return ExplainedRow(group, aggregate, cell, nothing, (), Fraction(0), Fraction(0))
    parts = []
    for role, factor in _factors(rule, cell, held).items():
        made = part(rule.parts[role], cell)
        if made is not None:
            parts.append(Part(role, rule.parts[role], factor, made))
    linear = isinstance(rule, Linear)
    variance = None
    if parts and linear:
        unit = rule.block(parts[0].role).unit
        terms = ((p.factor or Fraction(1)) ** 2 * p.explained.variance for p in parts)
        variance = unit**2 * sum(terms, Fraction(0))
    estimate = rule.estimate(cell, held)
    return ExplainedRow(
        group, aggregate, cell, estimate, tuple(parts), _scratch(rule, cell, held), variance
    )


def _factors(rule: Rule, cell: int, held: Held) -> dict[str, Fraction | None]:
    """The roles that a row's estimate rests on, each with its factor."""
    if isinstance(rule, Sum):
        direct, whole = rule.own(cell, held).precision, rule.precision(cell, held)
        if not whole:
            return {}
        around = 1 - direct / whole
        found: dict[str, Fraction | None] = {"sum": direct / whole} if direct else {}
        if around:
            found |= {"centred": around, "count": around * rule.middle}
        return found
    if isinstance(rule, Linear):
        return {rule.role: Fraction(1)}
    return dict.fromkeys(("centred", "count"))


def _scratch(rule: Rule, cell: int, held: Held) -> Fraction:
    """What the accuracy that a row has would cost where nothing is known, in rho."""
    if isinstance(rule, Linear):
        return support_of(rule.precision(cell, held), rule.reach)
    blocks = {rule.parts["centred"], rule.parts["count"]}
    return sum(
        (support_of(held.known[b][cell].precision, rule.blocks[b].reach) for b in blocks),
        Fraction(0),
    )
