"""Comparisons of a column with a literal, by SQL's three-valued logic.

A comparison is true on some atoms and false on others; NULL is in neither, and so is OTHER for
``< <= > >=``.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, Literal

from defray.core import intervals
from defray.core.brief import brief
from defray.core.column import Column
from defray.core.intervals import EMPTY, Atoms
from defray.core.literals import LiteralRefused, LiteralValue, point_of, show_point
from defray.core.shapes import Anything, Cuts, Grid, Point, Values, Whole

Operator = Literal["=", "<>", "<", "<=", ">", ">="]

Sides = tuple[Atoms, Atoms]
"""Where a comparison is true, and where it is false."""

MAX_SUGGESTED_FROM = 1000
"""How many values of a list are looked at for the nearest ones to a wrong literal."""


def compare(
    column: Column, operator: Operator, literal: LiteralValue, *, snap: bool = False
) -> Sides:
    """The atoms where ``column OP literal`` is true, and those where it is false.

    With ``snap`` a threshold inside a bin is widened outward: the split bin is in both sets.
    Raises LiteralRefused (kinds ``literal-type``, ``outside-domain``, ``off-grid``,
    ``not-comparable``).
    """
    shape = column.shape
    if isinstance(shape, Anything):
        raise LiteralRefused(
            "not-comparable",
            f"column {column.name} has no declared domain, so it cannot be compared",
            f"declare its values or min and max in the contract: [columns.{column.name}]",
        )
    point = point_of(column, literal)
    if isinstance(shape, Values):
        return _compare_values(column, shape, operator, point)
    assert isinstance(point, Fraction)
    if isinstance(shape, Whole):
        return _compare_whole(column, shape, operator, point)
    return _compare_bins(column, shape, operator, point, snap=snap)


def _compare_whole(column: Column, shape: Whole, operator: Operator, x: Fraction) -> Sides:
    if not shape.low <= x <= shape.high:
        nearest = shape.low if x < shape.low else shape.high
        raise _outside(column, x, [nearest])
    if x.denominator != 1 and operator in ("=", "<>"):
        raise _outside(column, x, [math.floor(x), math.ceil(x)])
    n = shape.count
    first, after = math.ceil(x) - shape.low, math.floor(x) - shape.low + 1
    at = ((first, after),) if first < after else EMPTY
    return _sides(
        column, operator, intervals.normal([(0, first)]), at, intervals.normal([(after, n)])
    )


def _compare_values(column: Column, shape: Values, operator: Operator, point: Point) -> Sides:
    items = shape.items
    place = shape.places.get(point)
    at = EMPTY if place is None else intervals.single(place)
    if operator in ("=", "<>"):
        if place is None:
            raise _outside(column, point, _near(shape, point))
        return _sides(column, operator, EMPTY, at, intervals.complement(at, shape.count))
    if place is None:
        numbers = [v for v in items if isinstance(v, Fraction)]
        if not (isinstance(point, Fraction) and min(numbers) <= point <= max(numbers)):
            raise _outside(column, point, _near(shape, point))
    below = intervals.of(i for i, v in enumerate(items) if v < point)  # type: ignore[operator]
    above = intervals.of(i for i, v in enumerate(items) if v > point)  # type: ignore[operator]
    return _sides(column, operator, below, at, above)


def _compare_bins(
    column: Column, shape: Grid | Cuts, operator: Operator, x: Fraction, *, snap: bool
) -> Sides:
    n = shape.count
    low, high = shape.edge(0), shape.edge(n)
    if not low <= x <= high:
        raise _outside(column, x, [low if x < low else high])
    # Cell i is [edge(i), edge(i+1)), the last one closed.  On an edge, "at" is the start of a cell.
    i = shape.edge_at_or_below(x)
    on_edge = i <= n and shape.edge(i) == x
    clean = on_edge and (
        (operator in ("<", ">=") and x != high) or (operator in ("<=", ">") and x == high)
    )
    cell = min(i, n - 1)
    if clean and operator in ("<", ">="):
        return _sides(column, operator, intervals.normal([(0, i)]), EMPTY, ((i, n),))
    if clean:
        return _sides(column, operator, ((0, n),), EMPTY, EMPTY)
    if not snap:
        a, b = (show_point(column, shape.edge(j)) for j in (cell, cell + 1))
        last = cell == n - 1
        forms = f"{a}, or <= {b}" if last else f"{a} or {b}"
        raise LiteralRefused(
            "off-grid",
            f"{column.name} {operator} {show_point(column, x)} splits the cell "
            f"[{a}, {b}{']' if last else ')'} of the declared grid",
            f'use {column.name} >= or < with {forms}, or snap outward (snap="outward")',
        )
    # The part of the cell on either side of x is asked for, so the whole cell is in both sets.
    split = intervals.single(cell)
    up_to = ((0, cell + 1),)
    from_here = ((cell, n),)
    match operator:
        case "<" | "<=":
            return up_to, from_here
        case ">" | ">=":
            return from_here, up_to
        case "=":
            return split, column.non_nulls
        case "<>":
            return column.non_nulls, split


def _sides(column: Column, operator: Operator, below: Atoms, at: Atoms, above: Atoms) -> Sides:
    other = () if column.other_atom is None else intervals.single(column.other_atom)
    join = intervals.union
    match operator:
        case "=":
            return at, join(join(below, above), other)
        case "<>":
            return join(join(below, above), other), at
        case "<":
            return below, join(at, above)
        case "<=":
            return join(below, at), above
        case ">":
            return above, join(below, at)
        case ">=":
            return join(at, above), below


def _outside(column: Column, point: Point, nearest: Iterable[Any]) -> LiteralRefused:
    names = " or ".join(brief(show_point(column, v)) for v in nearest)
    return LiteralRefused(
        "outside-domain",
        f"{brief(show_point(column, point))} is outside the declared domain of {column.name}",
        f"the nearest declared value is {names}" if names else "see the contract's domain",
    )


def _near(shape: Values, point: Point) -> list[Any]:
    if isinstance(point, str):
        names = [v for v in shape.items[:MAX_SUGGESTED_FROM] if isinstance(v, str)]
        folded = [v for v in names if v.casefold() == point.casefold()]
        return folded or difflib.get_close_matches(point, names, 3, 0.5) or names[:3]
    numbers = [v for v in shape.items if isinstance(v, Fraction)]
    return sorted(numbers, key=lambda v: abs(v - Fraction(point)))[:1]
