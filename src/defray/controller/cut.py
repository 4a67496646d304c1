"""A step cut down to what is granted of it: the least variance that so much budget buys."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Final

from defray.controller.ask import Ask, Funds, Held
from defray.controller.plan import Step, fitted
from defray.controller.purchase import Purchase, cheapest, lattice_for
from defray.core.amounts import rho_of
from defray.core.target import MAX_SCALE, sigma_at_least

CLOSE: Final = 1 + 2**-10
"""How closely the precision is found that a mixture reaches for what is granted, relatively."""


def within(step: Step, ask: Ask, held: Held, funds: Funds, limit: int) -> Step:
    """The step if it costs no more than ``limit`` quanta, else cut down to it."""
    return step if step.charge <= limit else cut(step, ask, held, funds, limit)


def cut(step: Step, ask: Ask, held: Held, funds: Funds, limit: int) -> Step:
    """A step cut down to ``limit`` quanta, less than its charge: different measures in proportion.  Measures
    whose part cannot be drawn drop."""
    kept: list[Purchase] = []
    left = limit
    for purchase in step.purchases:
        last = purchase is step.purchases[-1]
        part = min(left if last else limit * purchase.charge // step.charge, purchase.charge)
        left -= part
        whole = purchase.itself or purchase
        itself = _itself(whole, ask, part, funds.total)
        if itself is not None:
            kept.append(_mixture(whole, itself, ask, held, funds, part) or itself)
    smaller = replace(step, purchases=tuple(kept), final=False, settles=(), fits=False)
    return fitted(smaller, ask, held)


def _itself(whole: Purchase, ask: Ask, part: int, total: Fraction) -> Purchase | None:
    """A measurement of the question itself for ``part`` quanta: of its cells those that need more get that
    much, the others all they need.  For a vector that is best: its charge is its dearest cell's."""
    if part < 1:
        return None
    block = ask.compiled.blocks[whole.block]
    sigma, precision = sigma_at_least(rho_of(part, total), block.reach)
    over = [c > part for c in whole.charges]
    sigmas = tuple(sigma if o else s for o, s in zip(over, whole.sigmas, strict=True))
    # The target may be so tight that its lattice is too fine for what is granted.
    lattice = lattice_for(min(s for s in sigmas if s is not None), block)
    if any(s is not None and math.ldexp(s, lattice.bits) > MAX_SCALE for s in sigmas):
        return None
    return replace(
        whole,
        bits=lattice.bits,
        sigmas=sigmas,
        precisions=tuple(
            precision if o else p for o, p in zip(over, whole.precisions, strict=True)
        ),
        charges=tuple(part if o else c for o, c in zip(over, whole.charges, strict=True)),
        given=True,
        smaller=True,
    )


def _mixture(
    whole: Purchase, itself: Purchase, ask: Ask, held: Held, funds: Funds, part: int
) -> Purchase | None:
    """What to draw in place of the question itself for ``part`` quanta, where that brings every cell at least
    as far: all cells reach the same share of what they wanted."""
    if held.overlap is None or whole.given or ask.weighed:
        return (
            None  # where a diagnostic comes first, it is quoted what the question itself would get
        )
    block, known = ask.compiled.blocks[whole.block], held.known[whole.block]
    wanted = {i: p for i, p in enumerate(whole.precisions) if p is not None}

    def reaching(share: float) -> Purchase | None:
        aims = {i: known[i].precision + Fraction(share) * p for i, p in wanted.items()}
        found = cheapest(whole.block, block, aims, held, funds, whole.purse, given=False)
        return found if found is not None and found.draws and found.charge <= part else None

    low = max(float((itself.precisions[i] or 0) / p) for i, p in wanted.items())
    best, high = reaching(low), 1.0
    while best is not None and high > low * CLOSE:
        middle = math.sqrt(low * high)
        more = reaching(middle)
        best, low, high = (more, middle, high) if more is not None else (best, low, middle)
    return None if best is None else replace(best, itself=itself, smaller=True)
