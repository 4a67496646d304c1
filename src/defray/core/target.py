"""Accuracy targets: what ``within U at confidence 1 - gamma`` asks of a Gaussian release.

A target says: ``|answer - truth| <= U`` with probability ``1 - gamma``, where "truth" is the value on the
table as the contract declares it (rows of a unit truncated, values clamped, out-of-domain treated).

The noise lives on a lattice of ``step = 2**-g`` (in whole units of the measure), with ``step <= U / 2**30``;
``U' = step * floor(U / step)`` and ``sigma = U' / z`` rounded down, so that the miss probability is at most
gamma and the price ``rho = (k*Delta)**2 / (2*sigma**2)`` equals ``(k*Delta*z)**2 / (2*U**2)`` to nine digits
(design: controller, "Noise").
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import Any, Final

from defray.core.amounts import dyadic_down, dyadic_up, exact, float_down, root
from defray.core.numbers import show_number
from defray.errors import TargetError

LATTICE_BITS: Final = 30
MAX_SCALE: Final = 2.0**49
"""The largest sigma in lattice steps that is ever drawn (the sampler's i64 lattice needs < 2**50)."""

SMALLEST, LARGEST = Fraction(1, 10**60), Fraction(10**60)
_NORMAL = NormalDist()


@lru_cache(maxsize=4096)
def two_sided(gamma: float) -> float:
    """z with ``P(|N(0,1)| > z) <= gamma``.

    >>> round(two_sided(0.05), 6)
    1.959964
    """
    return one_sided(gamma / 2)


@lru_cache(maxsize=4096)
def two_stage(gamma: float) -> float:
    """z for a precision that was reached in two steps, the size of the second chosen freely after the first.

    With x, y the standardised errors of both the fused one is ``sqrt(r) x + sqrt(1 - r) y``, r in [0, 1].
    Over all r it is at most ``hypot(x, y)`` where both are positive, else the larger of them: it exceeds
    z for any r at all with probability ``exp(-z**2/2)/4 + P(N(0,1) > z)`` at most.  So, two-sided,
    ``P(|N(0,1)| > z) + exp(-z**2/2)/2 = gamma`` is safe (Proschan and Hunsberger 1995 bound one side so).

    >>> round(two_stage(0.05), 4)
    2.3531
    """
    low, high = two_sided(gamma), two_sided(gamma) + 4
    while low < (middle := (low + high) / 2) < high:
        miss = math.erfc(middle / math.sqrt(2)) + math.exp(-middle * middle / 2) / 2
        low, high = (middle, high) if miss > gamma else (low, middle)
    return high + 4 * math.ulp(high)


@lru_cache(maxsize=4096)
def one_sided(gamma: float) -> float:
    """z with ``P(N(0,1) > z) <= gamma``; rounded up by a few ulps."""
    if not 0 < gamma < 1:
        raise ValueError(f"gamma must lie in (0, 1), not {gamma}")
    z = -_NORMAL.inv_cdf(gamma)
    return z + 4 * math.ulp(z)


@dataclass(frozen=True, slots=True)
class Within:
    """Within ``amount`` of the truth, in the aggregate's own units."""

    amount: Fraction

    def scaled(self, factor: Fraction) -> Within:
        return Within(self.amount * factor)

    def __str__(self) -> str:
        return show_number(self.amount)


@dataclass(frozen=True, slots=True)
class Relative:
    """Within ``share`` of the truth (of ``m_floor`` where the truth is smaller)."""

    share: Fraction

    def scaled(self, factor: Fraction) -> Relative:
        return Relative(self.share * factor)

    def __str__(self) -> str:
        return f"{show_number(self.share * 100)}%"


@dataclass(frozen=True, slots=True)
class Spend:
    """As accurate as ``rho`` buys from scratch; what is already known is credited."""

    rho: Fraction

    def scaled(self, factor: Fraction) -> Spend:
        return Spend(self.rho / factor)

    def __str__(self) -> str:
        return f"rho {show_number(self.rho)}"


Goal = Within | Relative | Spend


def parse_goal(value: Any, name: str = "within") -> Within | Relative:
    """A goal as users write it: ``50``, ``0.5``, ``"2%"``.  Raises TargetError."""
    if isinstance(value, Within | Relative):
        return value
    text = _written(value)
    percent = text.endswith("%")
    try:
        amount = exact(text[:-1] if percent else text)
    except ValueError:
        amount = Fraction(0)
    if percent:
        amount /= 100
    if not amount > 0:
        raise TargetError(
            f"{name} must be a positive, finite number or percentage, not {text[:60]}",
            hint='for example within=50 or within="2%"',
        )
    if percent and amount >= 1:
        raise TargetError(f"{name} must be below 100%, not {value}", hint='for example "2%"')
    if not SMALLEST <= amount <= LARGEST:
        raise TargetError(f"{name} is out of range: {text[:60]}", hint="use 1e-60 to 1e60")
    return Relative(amount) if percent else Within(amount)


def _written(value: Any) -> str:
    """The text of a number; of one with thousands of digits only that it is none."""
    try:
        return str(value).strip()
    except ValueError:
        return "a number with thousands of digits"


def parse_confidence(value: Any) -> Fraction:
    """A confidence as users write it: ``0.95``, ``"95%"``, ``95``.  Raises TargetError."""
    text = _written(value)
    percent = text.endswith("%")
    try:
        number = exact(text[:-1] if percent else text)
    except ValueError:
        number = Fraction(0)
    if percent or number >= 50:
        number /= 100
    if not Fraction(1, 100) <= number < 1 or 1 - number < Fraction(1, 10**15):
        raise TargetError(
            f"confidence must lie between 1% and 100%, not {text[:40]}",
            hint='for example confidence=0.95 or "95%"',
        )
    return number


@dataclass(frozen=True, slots=True)
class Lattice:
    """The grid of a release, ``2**-bits`` units: at least as fine as the measure's own values."""

    bits: int

    @classmethod
    def fine_enough(cls, amount: Fraction, least: int = 0) -> Lattice:
        """The coarsest lattice with ``step <= amount / 2**30`` that still holds every true value
        (multiples of ``2**-least``), so that neighbouring tables have the same support."""
        ratio = 2**LATTICE_BITS / amount
        bits = max(0, math.ceil(ratio).bit_length() - 1)
        while Fraction(2) ** bits < ratio:
            bits += 1
        return cls(max(least, bits))

    @property
    def step(self) -> Fraction:
        return Fraction(1, 2**self.bits)


@lru_cache(maxsize=4096)
def precision_for(amount: Fraction, z: float) -> Fraction:
    """The dyadic precision that meets ``amount`` (in units) at normal quantile z."""
    step = Lattice.fine_enough(amount).step
    inside = step * math.floor(amount / step)
    sigma = Fraction(float_down(inside / Fraction(z)))
    return dyadic_up(1 / (sigma * sigma))


@lru_cache(maxsize=4096)
def sigma_at_most(precision: Fraction, lattice: Lattice) -> tuple[float, Fraction]:
    """The sigma (units) that reaches a precision, rounded down, and the dyadic precision it really has.

    Capped at MAX_SCALE lattice steps: a minute residual buys slightly more than it needs.
    """
    sigma = root(1 / precision)
    cap = math.ldexp(MAX_SCALE, -lattice.bits)
    sigma = min(sigma * (1 + 2**-52), cap)
    while Fraction(sigma) ** 2 * precision > 1:
        sigma = math.nextafter(sigma, 0.0)
    return sigma, dyadic_down(1 / Fraction(sigma) ** 2)


@lru_cache(maxsize=4096)
def sigma_at_least(rho: Fraction, reach: Fraction) -> tuple[float, Fraction]:
    """The sigma (units) whose charge is at most ``rho``, rounded up, and its dyadic precision."""
    sigma = root(reach * reach / (2 * rho)) * (1 - 2**-52)
    while reach * reach > 2 * rho * Fraction(sigma) ** 2:
        sigma = math.nextafter(sigma, math.inf)
    return sigma, dyadic_down(1 / Fraction(sigma) ** 2)
