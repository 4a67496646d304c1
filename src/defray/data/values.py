"""What the atoms of a declared column stand for in a made table: one value each, and what it adds to sums."""

from __future__ import annotations

import math
from fractions import Fraction

from defray.core.column import Column
from defray.core.shapes import Anything, Cuts, Grid, Point, Values, Whole


def representative(column: Column, atom: int) -> Point | None:
    """A value that lies in the atom: the value itself, the middle of a bin (of whole numbers, or of times, a
    whole one), one beyond the domain for OTHER; None for NULL."""
    shape = column.shape
    if atom == column.null_atom:
        return None
    if atom == column.other_atom:
        return _outside(column)
    match shape:
        case Whole(low, _):
            return Fraction(low + atom)
        case Values(items):
            return items[atom]
        case Grid() | Cuts():
            low_end, high_end = shape.edge(atom), shape.edge(atom + 1)
            middle = (low_end + high_end) / 2
            if column.kind not in ("integer", "timestamp"):
                return middle
            return Fraction(max(math.floor(middle), math.ceil(low_end)))
        case Anything():
            return Fraction(0) if column.bounds is None else column.bounds[0]


def _outside(column: Column) -> Point:
    match column.shape:
        case Whole(_, high):
            return Fraction(high + 1)
        case Grid() | Cuts() as bins:
            return bins.edge(bins.count) + 1
        case Values(items) if column.kind == "boolean":
            return not items[0]
        case Values(items) if column.kind == "string":
            return "?" + max((str(item) for item in items), key=len)
        case Values(items):
            return max(item for item in items if isinstance(item, Fraction)) + 1
        case Anything():
            raise ValueError(f"nothing is outside of {column.name}")


def units_of(column: Column, value: Point | None) -> int:
    """What a value adds to SUM(column): clamped to the bounds, in whole ``unit_step``, halves away from zero
    (as :mod:`defray.data.measure` has it for doubles where the column is of floats, else exactly)."""
    if value is None:
        return 0
    assert column.unit_step is not None and isinstance(value, Fraction)
    up, down = column.unit_step.denominator, column.unit_step.numerator
    scaled = Fraction(float(value) * up / down) if column.kind == "float" else value * up / down
    nearest = math.floor(abs(scaled) + Fraction(1, 2))
    return min(max(nearest if scaled >= 0 else -nearest, column.low_units), column.high_units)
