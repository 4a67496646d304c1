"""What is added up: non-null counts and sums of clamped values in whole units, as SQL aggregates.

The value summed is the one the domain's rules leave: NULL adds nothing, clamped values count as what
they were moved to, OTHER and in-domain values as they are; then it is clamped to the bounds and rounded
to a whole number of ``unit_step``, halves away from zero.  On float columns the division by ``unit_step``
is the double one, ``x * q / p`` for a step of ``p/q``; on all others it is exact.  Each row's units fit in
64 or 128 bits after clamping and the total is a 128-bit integer, so nothing overflows.
"""

from __future__ import annotations

import math
from fractions import Fraction

from defray.core import intervals
from defray.core.intervals import Atoms
from defray.core.shapes import Cuts, Grid, Whole
from defray.data.dialect import Dialect
from defray.data.lines import ExactLine, FloatLine, Point
from defray.data.normalise import HALF, Normal

MAX_UNITS = 2**90
"""Bounds may span this many units: 2**36 rows of them still fit in 127 bits."""


def count_non_null(normal: Normal, allowed: Atoms) -> str:
    """COUNT(column) where only rows with atoms in ``allowed`` come in."""
    guard = _guard(normal, allowed)
    if guard is None:
        return "COUNT(*)"
    if guard == f"{normal.x} IS NOT NULL":
        return f"COUNT({normal.x})"
    return f"COUNT(CASE WHEN {guard} THEN 1 END)"


def sum_units(normal: Normal, allowed: Atoms) -> str:
    """SUM(column) in units, where only rows with atoms in ``allowed`` come in; NULL over no rows."""
    guard = _guard(normal, allowed)
    units, factor = _units(normal, intervals.intersection(allowed, normal.column.non_nulls))
    column = normal.column
    largest = max(abs(column.low_units), abs(column.high_units))
    counted = units if guard is None else f"CASE WHEN {guard} THEN {units} END"
    if factor is not None:
        return f"SUM({counted}) * {factor}"
    return normal.dialect.total(counted, largest)


def _guard(normal: Normal, allowed: Atoms) -> str | None:
    column = normal.column
    if not intervals.intersection(allowed, column.nulls):
        return None
    guard = normal.predicate(column.non_nulls)
    return guard if isinstance(guard, str) else None


def _units(normal: Normal, allowed: Atoms) -> tuple[str, int | None]:
    """What a row adds; with a factor: decimals, to be added up exactly and multiplied by it then."""
    column, line = normal.column, normal.line
    step = column.unit_step
    if (
        line is None
        or step is None
        or (isinstance(line, ExactLine) and line.name in ("date", "timestamp"))
    ):
        raise ValueError(f"column {column.name} cannot be summed")
    low, high = column.low_units, column.high_units
    if column.other == "clamp":
        low, high = (min(max(_round(p / step), low), high) for p in _ends(normal))
    if isinstance(line, FloatLine):
        return _float_units(normal, line, step, low, high, allowed), None
    return _exact_units(normal, line, step, low, high, allowed)


def _ends(normal: Normal) -> tuple[Fraction, Fraction]:
    shape = normal.column.shape
    if isinstance(shape, Whole):
        return Fraction(shape.low), Fraction(shape.high)
    assert isinstance(shape, Grid | Cuts)
    return shape.edge(0), shape.edge(shape.count)


def _round(x: Fraction) -> int:
    """To the nearest integer, halves away from zero."""
    whole = math.floor(abs(x) + HALF)
    return whole if x >= 0 else -whole


def _hull(normal: Normal, allowed: Atoms) -> tuple[Point, Point] | None:
    """The least and greatest point a value can be here; None where OTHER values come in too."""
    column = normal.column
    if column.other_atom is not None and intervals.contains(allowed, column.other_atom):
        return None
    spans = normal.spans(intervals.intersection(allowed, normal.propers))
    return (spans[0][0], spans[-1][1]) if spans else None


def _clip(x: str, low: str | None, high: str | None) -> str:
    inner = x if low is None else f"greatest({x}, {low})"
    return inner if high is None else f"least({inner}, {high})"


def _exact_units(
    normal: Normal, line: ExactLine, step: Fraction, low: int, high: int, allowed: Atoms
) -> tuple[str, int | None]:
    d = normal.dialect
    first, last = math.floor(low * step * line.scale), math.ceil(high * step * line.scale)
    hull = _hull(normal, allowed)
    floor, top = line.low, line.high
    if first > top or last < floor:
        return d.integer(low if first > top else high), None
    at_least, at_most = (floor, top) if hull is None else (int(hull[0]), int(hull[1]))
    clipped = _clip(
        normal.x,
        line.sql(first, d) if at_least < first and first >= floor else None,
        line.sql(last, d) if at_most > last and last <= top else None,
    )
    least, most = max(first, floor), min(last, top)
    scale = line.scale
    exact = (
        Fraction(first) == low * step * line.scale and Fraction(last) == high * step * line.scale
    )
    number = line.number(clipped, d)
    if normal.column.other == "clamp" and isinstance(normal.column.shape, Whole) and scale > 1:
        base = math.floor(Fraction(first, scale)) - 1
        shifted = f"({d.wide(number)} - {d.integer(base * scale)})"
        nearest = d.divide(
            f"({shifted} * 2 + {d.integer(scale - 1)})", d.integer(2 * scale), narrow=False
        )
        number, scale = f"({nearest} + {d.integer(base)})", 1
        least, most = math.floor(Fraction(least, line.scale)), math.ceil(Fraction(most, line.scale))
    ratio = Fraction(step.denominator, step.numerator * scale)
    up, down = ratio.numerator, ratio.denominator
    if d.adds_decimals and line.name == "decimal" and scale == line.scale and exact and down == 1:
        return clipped, up * scale
    span = max(abs(least), abs(most)) * 2 * up + down
    narrow = span < 2**62 and line.name == "integer"
    if up != 1 or down != 1 or top >= 2**63:
        number = d.long(number) if narrow else d.wide(number)
    if down == 1:
        units = number if up == 1 else f"{number} * {d.integer(up)}"
    else:
        units = _divide_half_away(d, number, up, down, signed=least < 0, narrow=narrow)
    return (units if exact else _clip(units, d.integer(low), d.integer(high))), None


def _divide_half_away(d: Dialect, n: str, up: int, down: int, *, signed: bool, narrow: bool) -> str:
    twice, half, whole = d.integer(2 * up), d.integer(down), d.integer(2 * down)
    positive = d.divide(f"({n} * {twice} + {half})", whole, narrow=narrow)
    if not signed:
        return positive
    negative = d.divide(f"({n} * -{twice} + {half})", whole, narrow=narrow)
    return f"CASE WHEN {n} < 0 THEN -{negative} ELSE {positive} END"


def _float_units(
    normal: Normal, line: FloatLine, step: Fraction, low: int, high: int, allowed: Atoms
) -> str:
    d = normal.dialect
    up, down = float(step.denominator), float(step.numerator)

    def units_at(x: Point) -> float:
        scaled = float(x) * up / down
        return scaled if math.isinf(scaled) else float(_round(Fraction(scaled)))

    x = d.as_double(normal.x) if line.single else normal.x
    if normal.column.other == "clamp" and isinstance(normal.column.shape, Whole):
        x = d.nearest(x)
    hull = _hull(normal, allowed)
    ends = (-math.inf, math.inf) if hull is None else (units_at(hull[0]), units_at(hull[1]))
    at_least = float(low) if ends[0] < low else None
    at_most = float(high) if ends[1] > high else None
    clipped = d.in_units(x, up, down, at_least, at_most)
    largest = max(abs(low), abs(high))
    whole = d.long(clipped) if largest < 2**62 else d.whole(clipped)
    return whole if largest <= 2**53 else _clip(whole, d.integer(low), d.integer(high))
