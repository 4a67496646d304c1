"""``bounds`` and ``unit_step`` of a column: what makes it fit for SUM and AVG."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

from defray.config.fields import Section, shown
from defray.core.numbers import show_number
from defray.core.shapes import Kind

SUMMABLE: Final = ("integer", "float", "decimal")
MAX_UNITS: Final = 2**40
"""No bound is this many units from 0: noise is drawn on a lattice of whole units or finer."""
FARTHEST: Final = Fraction(10**30)
"""No bound is farther from 0, and no unit is smaller than its reciprocal: data engines count no farther."""


def read_bounds(
    section: Section, kind: Kind
) -> tuple[tuple[Fraction, Fraction] | None, Fraction | None]:
    """The bounds and unit step of a column that may be summed; two Nones otherwise."""
    if kind not in SUMMABLE:
        for key in ("bounds", "unit_step"):
            if key in section:
                cure = "remove it; only integer, float and decimal columns are summed"
                section.problem(key, f"{key} does not apply to {kind} columns", cure)
        return None, None
    if "bounds" not in section:
        if "unit_step" in section:
            cure = "add bounds = [0, 120], or remove unit_step"
            section.problem("unit_step", "unit_step needs bounds", cure)
        return None, None
    bounds = _bounds(section)
    step = section.number("unit_step", positive=True)
    if bounds is None or ("unit_step" in section and step is None):
        return None, None
    low, high = bounds
    if step is None:
        step = Fraction(1) if kind == "integer" else default_unit_step(low, high)
    pair = f"bounds ({show_number(low)}, {show_number(high)})"
    if step is None or low % step or high % step:
        unit = "any power of ten near" if step is None else f"unit_step = {show_number(step)}"
        message = f"{pair} are no whole multiples of {unit}"
        divisor = show_number(_common_divisor(low, high))
        cure = f'declare unit_step = "{divisor}" or a part of it, or round the bounds'
        section.problem("unit_step" if "unit_step" in section else "bounds", message, cure)
        return None, None
    if max(abs(low), abs(high)) / step >= MAX_UNITS:
        message = f"{pair} reach 2**40 units of {show_number(step)}"
        section.problem("bounds", message, "choose a larger unit_step or narrower bounds")
    if max(abs(low), abs(high)) > FARTHEST:
        section.problem("bounds", f"{pair} are beyond 1e30", "count in larger units")
    if step * FARTHEST < 1:
        message = f"unit_step = {show_number(step)} is below 1e-30"
        section.problem(
            "unit_step" if "unit_step" in section else "bounds", message, "count in smaller units"
        )
    return bounds, step


def _bounds(section: Section) -> tuple[Fraction, Fraction] | None:
    value = section.data["bounds"]
    if not isinstance(value, list) or len(value) != 2:
        cure = "write the smallest and the largest value: bounds = [0, 120]"
        section.problem("bounds", f"{shown(value)} is not a pair of numbers", cure)
        return None
    pair = f"bounds ({shown(value[0])}, {shown(value[1])})"
    numbers = [section.as_number("bounds", written, f"{pair}: ") for written in value]
    low, high = numbers
    if low is None or high is None:
        return None
    if low == high:
        cure = "write two different numbers, such as bounds = [0, 120]"
        section.problem("bounds", f"{pair} leave no range, so noise would hide nothing", cure)
    elif low > high:
        section.problem("bounds", f"{pair} are the wrong way round", "exchange them")
    else:
        return low, high
    return None


def default_unit_step(low: Fraction, high: Fraction) -> Fraction | None:
    """The largest power of ten that is at most a millionth of the range and divides both bounds.

    >>> default_unit_step(Fraction(0), Fraction(5000)), default_unit_step(Fraction(0), Fraction(1, 3))
    (Fraction(1, 1000), None)
    """
    most = (high - low) / 10**6
    exponent = len(str(most.numerator)) - len(str(most.denominator))  # right, or one too high
    if Fraction(10) ** exponent > most:
        exponent -= 1
    for e in range(exponent, exponent - 13, -1):  # further down, 2**40 units are passed
        step = Fraction(10) ** e
        if low % step == 0 and high % step == 0:
            return step
    return None


def _common_divisor(low: Fraction, high: Fraction) -> Fraction:
    over = math.lcm(low.denominator, high.denominator)
    return Fraction(math.gcd(int(low * over), int(high * over)), over)
