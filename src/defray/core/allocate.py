"""The paper's allocation formulas, as exact arithmetic on precisions.

Support and precision are proportional (``S = (k*Delta)**2 P / 2``), so the residual of a question is
what its target asks beyond what the transcript holds (paper, section 4; design: controller, steps 2-3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from defray.core.amounts import dyadic_up


def residual(wanted: Fraction, held: Fraction) -> Fraction:
    """``(wanted - held)_+``: the least that has to be bought."""
    return wanted - held if wanted > held else Fraction(0)


@dataclass(frozen=True, slots=True)
class Term:
    """One independent part of an estimate: it adds ``weight / precision`` to the variance, ``held`` of
    its precision is known, and a unit of precision costs ``price``."""

    weight: Fraction
    price: Fraction
    held: Fraction


def split(terms: Sequence[Term], variance: Fraction) -> list[Fraction]:
    """The precisions x_i >= held_i of least cost ``sum price_i (x_i - held_i)`` with
    ``sum weight_i / x_i <= variance`` (> 0).

    By Lagrange ``x_i = max(held_i, theta * sqrt(weight_i / price_i))`` for one theta: water-filling over
    the parts.  Exactly feasible; minimal up to rounding.

    >>> F = Fraction
    >>> split([Term(F(1), F(1), F(0)), Term(F(1), F(1), F(0))], F(1, 2)) == [4, 4]
    True
    >>> split([Term(F(1), F(1), F(0)), Term(F(1), F(1), F(8))], F(1, 4)) == [8, 8]
    True
    """
    if sum((t.weight / t.held for t in terms if t.held), Fraction(0)) <= variance and all(
        t.held or not t.weight for t in terms
    ):
        return [t.held for t in terms]
    scale = [math.sqrt(float(t.weight / t.price)) for t in terms]
    # Terms that stay at what is held are those with the largest held / scale.
    by_level = sorted(
        range(len(terms)), key=lambda i: float(terms[i].held) / scale[i] if scale[i] else math.inf
    )
    fixed = sum((t.weight / t.held for t in terms if t.held), Fraction(0))
    raised: list[int] = []
    theta = 0.0
    for position, i in enumerate(by_level):
        if not scale[i]:
            break
        raised.append(i)
        if terms[i].held:
            fixed -= terms[i].weight / terms[i].held
        room = variance - fixed
        if room <= 0:
            continue
        theta = sum(float(terms[j].weight) / scale[j] for j in raised) / float(room)
        rest = by_level[position + 1 :]
        if not rest or theta * scale[rest[0]] <= float(terms[rest[0]].held):
            break
    wanted = [t.held for t in terms]
    for i in raised:
        wanted[i] = max(terms[i].held, dyadic_up(Fraction(theta * scale[i])))
    # Floats decided the split; exact arithmetic decides that it suffices.
    bump = Fraction(1)
    while sum(
        (t.weight / x for t, x in zip(terms, wanted, strict=True) if t.weight), Fraction(0)
    ) > (variance):
        bump *= 1 + Fraction(1, 2**50)
        for i in raised:
            wanted[i] = max(terms[i].held, dyadic_up(Fraction(theta * scale[i]) * bump))
        bump = bump * bump
    return wanted
