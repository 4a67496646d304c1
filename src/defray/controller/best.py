"""The best accuracy that still fits: a question's tolerances stretched until its price is granted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Final

from defray.controller.ask import Ask, Funds, Held
from defray.controller.plan import plan
from defray.core.amounts import rho_of
from defray.core.target import Goal, Relative, Spend, Within

MAX_SEARCHED: Final = 200
"""The most cells of a data-dependent ask for which the best accuracy that still fits is looked for."""

Granted = Callable[[Fraction], bool]
"""Whether so much rho would be granted whole."""


def best_fit(ask: Ask, held: Held, funds: Funds, granted: Granted) -> Ask | None:
    """The same question with all tolerances stretched by the least factor at which its price, in rho, is
    ``granted`` (rounded to three digits); None where none is, or the search would take too long."""
    if ask.depends_on_data:
        many = len(ask.compiled.cells) > MAX_SEARCHED
        return None if many else _best_fit(ask, held, funds, granted)
    few, known = _alike(ask, held)
    found = _best_fit(few, known, funds, granted)
    return None if found is None else replace(ask, goals=found.goals)


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


def _best_fit(ask: Ask, held: Held, funds: Funds, granted: Granted) -> Ask | None:
    def fits(candidate: Ask) -> bool:
        if any(isinstance(g, Relative) and g.share >= 1 for g in candidate.goals):
            return False  # nobody can ask so
        step = plan(candidate, held, replace(funds, weighs=False))
        return step.final and granted(rho_of(step.charge, funds.total))

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


def _three_digits(goal: Goal) -> Goal:
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
