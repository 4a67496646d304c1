"""One step of the protocol: from what is wanted and held to what must be measured, and its charge.

Pure and deterministic in (ask, held, funds): a quote and the ask that follows compute the same step, so
where the quote says exact the charge equals it to the last digit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from defray.controller.ask import Ask, Funds, Held
from defray.controller.linear import Count
from defray.controller.rule import NOTHING, Need, Wants
from defray.controller.rules import rules_of
from defray.core.allocate import residual
from defray.core.amounts import dyadic_up, quanta_down, quanta_up, rho_of, support_of
from defray.core.contract import Purse
from defray.core.target import (
    LATTICE_BITS,
    MAX_SCALE,
    Lattice,
    Relative,
    Spend,
    Within,
    sigma_at_least,
    sigma_at_most,
)
from defray.errors import TargetError
from defray.support.exact import Block
from defray.support.known import Known

MAX_SEARCHED: Final = 200
"""The most cells of a data-dependent ask for which the best accuracy that still fits is looked for."""

MAX_STEPS: Final = 64
"""More steps than any ask takes; past it an ask stops with what it has bought."""


@dataclass(frozen=True, slots=True)
class Purchase:
    """A measurement to make: noise of ``sigmas[i]`` units on cell i of a block (None: not measured), on a
    lattice of ``2**-bits`` units, for ``charge`` quanta.  ``given``: the charge was given, not a target."""

    block: int
    bits: int
    sigmas: tuple[float | None, ...]
    precisions: tuple[Fraction | None, ...]
    charges: tuple[int, ...]
    purse: Purse = "answer"
    given: bool = False

    @property
    def charge(self) -> int:
        """The largest cell's: one unit moves the vector by at most k * Delta in all (convexity)."""
        return max(self.charges)


@dataclass(frozen=True)
class Step:
    """What to buy next.  ``final``: this meets every target that can be met; otherwise measure, then plan
    again.  ``needs[j][i]`` is what cell i of aggregate j wanted."""

    purchases: tuple[Purchase, ...]
    final: bool
    purse: Purse
    needs: tuple[tuple[Need, ...], ...]
    settles: tuple[tuple[bytes, Fraction, Fraction], ...] = ()

    @property
    def charge(self) -> int:
        """Quanta of the whole step: different measures of one region add up (composition)."""
        return sum(p.charge for p in self.purchases)

    @property
    def hopeless(self) -> bool:
        """Whether nothing that is asked can be met."""
        found = [n.hopeless for needs in self.needs for n in needs]
        return bool(found) and all(found)


def plan(ask: Ask, held: Held, funds: Funds) -> Step:
    """The next step for an ask."""
    rules = rules_of(ask)
    compiled = ask.compiled
    needs: list[tuple[Need, ...]] = [()] * len(rules)
    # Counts first: what they buy is credit for the sums and averages over the same rows.
    for j in sorted(range(len(rules)), key=lambda j: not isinstance(rules[j], Count)):
        rule = rules[j]
        empty = compiled.blocks[rule.parts["count"]].empty
        row: list[Need] = []
        for i in range(len(compiled.cells)):
            free = empty[i] or ask.promised(held, j, i)
            row.append(NOTHING if free else rule.want(i, held, funds))
        needs[j] = tuple(row)
    stages = [n for row in needs for n in row if not n.final]
    if not stages:
        settles = tuple(
            (ask.mark(j, i), goal.share, ask.miss)
            for j, goal in enumerate(ask.goals)
            if isinstance(goal, Relative)
            for i, need in enumerate(needs[j])
            if need.settles
        )
        bought = _bill(ask, held, funds, needs, lambda n: n.wants)
        return Step(bought, True, "answer", tuple(needs), settles)
    purse: Purse = "diagnostic" if any(n.purse == "diagnostic" for n in stages) else "answer"
    now = _bill(
        ask, held, funds, needs, lambda n: None if n.final or n.purse != purse else n.wants, purse
    )
    if purse == "diagnostic" and sum(p.charge for p in now) > quanta_down(
        funds.diagnostic, funds.total
    ):
        return plan(ask, held, replace(funds, probe=Fraction(0)))  # the purse is as good as empty
    return Step(now, False, purse, tuple(needs))


def _bill(
    ask: Ask,
    held: Held,
    funds: Funds,
    needs: Sequence[Sequence[Need]],
    pick: Callable[[Need], Wants | None],
    purse: Purse = "answer",
) -> tuple[Purchase, ...]:
    """What brings every block to the largest precision that is picked for it, cell by cell."""
    blocks = ask.compiled.blocks
    wanted: list[dict[int, Fraction]] = [{} for _ in blocks]
    for row in needs:
        for i, need in enumerate(row):
            for b, precision in (pick(need) or {}).items():
                wanted[b][i] = max(precision, wanted[b].get(i, Fraction(0)))
    given = any(isinstance(g, Spend) for g in ask.goals)
    made = (
        _purchase(b, blocks[b], cells, held.known[b], funds, purse, given=given)
        for b, cells in enumerate(wanted)
    )
    return tuple(p for p in made if p is not None)


def _purchase(
    at: int,
    block: Block,
    wanted: dict[int, Fraction],
    known: Sequence[Known],
    funds: Funds,
    purse: Purse,
    *,
    given: bool,
) -> Purchase | None:
    """The residual of each cell of a block as noise to draw; None where nothing is missing."""
    missing = {
        i: a
        for i, p in wanted.items()
        if (a := residual(p, known[i].precision)) and not block.empty[i]
    }
    if not missing:
        return None
    finest = float(1 / max(missing.values())) ** 0.5
    # Steps of at most 2**-28 of the smallest sigma: wide noise in the same release still fits the sampler.
    lattice = Lattice.fine_enough(Fraction(finest) * 2 ** (LATTICE_BITS - 28), block.halves)
    sigmas: list[float | None] = [None] * len(block.keys)
    precisions: list[Fraction | None] = [None] * len(block.keys)
    charges = [0] * len(block.keys)
    noise: dict[Fraction, tuple[float, Fraction, int]] = {}
    for i, a in missing.items():
        if a not in noise:
            noise[a] = _noise(a, block.reach, lattice, funds.total, given=given)
        sigmas[i], precisions[i], charges[i] = noise[a]
    return Purchase(
        at, lattice.bits, tuple(sigmas), tuple(precisions), tuple(charges), purse, given
    )


def _noise(
    missing: Fraction, reach: Fraction, lattice: Lattice, total: Fraction, *, given: bool
) -> tuple[float, Fraction, int]:
    """(sigma, precision, quanta) that add ``missing`` precision: a target is met and its charge rounded
    up; a spend that was given is rounded down and its noise fitted to it."""
    if given:
        quanta = quanta_down(support_of(missing, reach), total)
        sigma, precision = sigma_at_least(rho_of(quanta, total), reach)
        if math.ldexp(sigma, lattice.bits) > MAX_SCALE:
            raise TargetError("this rho is too small to be drawn", hint="spend more")
        return sigma, precision, quanta
    sigma, precision = sigma_at_most(dyadic_up(missing), lattice)
    return sigma, precision, quanta_up(reach**2 / (2 * Fraction(sigma) ** 2), total)


@dataclass(frozen=True, slots=True)
class Price:
    """What an ask will cost, in quanta: ``low == high`` where ``exact``.  ``step`` is what is bought first.
    An ask whose price is a range stops at ``high``."""

    step: Step
    low: int
    high: int
    exact: bool = True


def price(ask: Ask, held: Held, funds: Funds) -> Price:
    """The price of an ask from what is public now.

    Where a count or magnitude is not yet known, the first step's charge is exact and the rest is a range:
    from what is needed in any case to the price at the floor, or to all that may be spent.
    """
    step = plan(ask, held, funds)
    first = step.charge
    if step.final:
        return Price(step, first, first)
    low = first
    if len(ask.goals) == 1:  # else what one aggregate buys may make another cheaper
        least = _bill(ask, held, funds, step.needs, lambda n: n.wants if n.final else n.least)
        low = max(first, sum(p.charge for p in least))
    left = quanta_down(funds.spendable, funds.total) + (first if step.purse != "answer" else 0)
    high = left
    if all(n.final or n.most is not None for row in step.needs for n in row):
        # Top-ups of one cell add up to its whole price.  Of many cells, each step charges the dearest, which
        # need not be the same one every time.
        most = _bill(ask, held, funds, step.needs, lambda n: n.wants if n.final else n.most)
        whole = sum(p.charge for p in most) + MAX_STEPS
        high = min(left, whole if len(ask.compiled.cells) == 1 else 4 * whole)
    return Price(step, low, max(low, high), exact=False)


def best_fit(ask: Ask, held: Held, funds: Funds) -> Ask | None:
    """The same question with all tolerances stretched by the least factor that fits what may be spent
    (rounded to three digits); None where nothing fits, or the search would take too long."""
    if ask.depends_on_data:
        if len(ask.compiled.cells) > MAX_SEARCHED:
            return None
    else:
        few, known = _alike(ask, held)
        found = _best_fit(few, known, funds)
        return None if found is None else replace(ask, goals=found.goals)
    return _best_fit(ask, held, funds)


def _alike(ask: Ask, held: Held) -> tuple[Ask, Held]:
    """One cell of each kind: those of which the same is known have the same price."""
    kinds: dict[tuple[tuple[tuple[Fraction, Fraction], ...], tuple[bool, ...]], int] = {}
    for i in range(len(ask.compiled.cells)):
        known = tuple((row[i].precision, row[i].first) for row in held.known)
        kinds.setdefault((known, tuple(b.empty[i] for b in ask.compiled.blocks)), i)
    at = sorted(kinds.values())
    few = replace(ask, compiled=ask.compiled.only(at))
    if ask.simultaneous:  # the same miss probability for each of the cells that are left
        few = replace(few, confidence=1 - ask.miss * few.shares)
    return few, Held([[row[i] for i in at] for row in held.known])


def _best_fit(ask: Ask, held: Held, funds: Funds) -> Ask | None:
    def fits(candidate: Ask) -> bool:
        step = plan(candidate, held, funds)
        return step.final and rho_of(step.charge, funds.total) <= funds.spendable

    factor, low = Fraction(2), Fraction(1)
    while not fits(ask.scaled(factor)):
        if factor > 2**60:
            return None
        factor, low = factor * 2, factor
    high = factor
    while high - low > low / 2000:
        middle = (low + high) / 2
        if fits(ask.scaled(middle)):
            high = middle
        else:
            low = middle
    rounded = replace(ask, goals=tuple(_three_digits(g.scaled(high)) for g in ask.goals))
    return rounded if fits(rounded) else ask.scaled(high)


def _three_digits(goal: Within | Relative | Spend) -> Within | Relative | Spend:
    """Rounded to three digits on the cheaper side."""
    if isinstance(goal, Within):
        return Within(_round(goal.amount, up=True))
    if isinstance(goal, Relative):
        return Relative(_round(goal.share, up=True))
    return Spend(_round(goal.rho, up=False))


def _round(x: Fraction, *, up: bool) -> Fraction:
    digits = len(str(int(x))) if x >= 1 else 1 - len(str(int(1 / x)))
    scale = Fraction(10) ** (digits - 3)
    whole = x / scale
    return scale * (-(-whole.numerator // whole.denominator) if up else int(whole))


FREE: Final = Price(Step((), final=True, purse="answer", needs=()), 0, 0)
"""The price of what is already held."""
