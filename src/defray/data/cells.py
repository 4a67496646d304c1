"""The number of a value's cell, as SQL.

It is found by comparing with the very thresholds that WHERE uses: on a regular grid of doubles a division
only proposes a cell, and the edges beside it decide.
"""

from __future__ import annotations

import math
from fractions import Fraction

from defray.core import intervals
from defray.core.intervals import Atoms
from defray.core.shapes import Cuts, Grid, Values, Whole
from defray.data.lines import ExactLine, FloatLine, Point
from defray.data.normalise import Normal

OUTSIDE = -1
"""The index of a value outside the domain."""


def only_inside(normal: Normal, allowed: Atoms) -> bool:
    """Whether only values of the domain come in."""
    return normal.column.other != "clamp" and not intervals.intersection(
        allowed, intervals.complement(normal.propers, normal.column.width)
    )


def index(normal: Normal, allowed: Atoms) -> str:
    """The atom's number as SQL; NULL where the value is NULL, OUTSIDE or NULL where it is outside."""
    column, line, shape = normal.column, normal.line, normal.column.shape
    clamped = column.other == "clamp"
    branches: list[str] = []
    listed = isinstance(shape, Values)
    if isinstance(line, FloatLine):
        for sign in (-1, 1):
            atom = normal.infinity(sign)
            if atom is not None:
                infinite = line.sql(sign * math.inf, normal.dialect)
                branches.append(f"WHEN {normal.x} = {infinite} THEN {atom}")
    number = _listed_tree(normal) if listed else _cell(normal)
    guard = normal.is_value if clamped or listed else finite(normal)
    if not branches and only_inside(normal, allowed):
        return number
    branches.append(f"WHEN {guard} THEN {number}")
    if column.other_atom is not None and not listed:
        branches.append(f"WHEN {normal.is_value} THEN {OUTSIDE}")
    return f"CASE {' '.join(branches)} END"


def finite(normal: Normal) -> str:
    """In the domain and finite."""
    line = normal.line
    assert line is not None
    first, last = ends(normal)
    guard = (
        f"{normal.x} BETWEEN {line.sql(first, normal.dialect)} AND {line.sql(last, normal.dialect)}"
    )
    return f"{guard} AND {normal.dialect.is_whole(normal.x)}" if normal.integral_guard else guard


def ends(normal: Normal) -> tuple[Point, Point]:
    shape, line = normal.column.shape, normal.line
    assert line is not None
    if isinstance(shape, Whole):
        low, high = line.ceil(Fraction(shape.low)), line.floor(Fraction(shape.high))
    else:
        assert isinstance(shape, Grid | Cuts)
        low, high = line.edge(shape.edge(0)), line.end(shape.edge(shape.count))
    return max(low, line.low), min(high, line.high)


def _cell(normal: Normal) -> str:
    """The cell of a value in the domain, clamped first where the contract says so."""
    shape, line, d = normal.column.shape, normal.line, normal.dialect
    assert line is not None
    x = normal.x
    if normal.column.other == "clamp":
        first, last = ends(normal)
        x = f"least(greatest({x}, {line.sql(first, d)}), {line.sql(last, d)})"
    if isinstance(shape, Whole):
        low = d.integer(shape.low)
        if isinstance(line, ExactLine) and line.name == "date":
            return f"{d.wide(d.days(x))} - {low}"
        if normal.column.other == "clamp":
            x = _nearest(normal, x)
        return f"{d.whole(x) if isinstance(line, FloatLine) else d.wide(x)} - {low}"
    if isinstance(shape, Grid):
        if isinstance(line, ExactLine):
            return _exact_cell(normal, line, shape, x)
        parts = division(shape, line)
        if parts is not None:
            return _double_cell(normal, shape, parts, x)
    assert isinstance(shape, Grid | Cuts)
    edges = [line.edge(shape.edge(i)) for i in range(shape.count)]
    return tree(x, [line.sql(e, d) for e in edges], [str(i) for i in range(shape.count)])


def _nearest(normal: Normal, x: str) -> str:
    if isinstance(normal.line, FloatLine):
        d = normal.dialect
        return d.nearest(d.as_double(x) if normal.line.single else x)
    return f"CASE WHEN {x} > floor({x}) + 0.5 THEN floor({x}) + 1 ELSE floor({x}) END"


def _exact_cell(normal: Normal, line: ExactLine, shape: Grid, x: str) -> str:
    d = normal.dialect
    common = math.lcm(line.scale, shape.start.denominator, shape.step.denominator)
    up, shift, down = (
        common // line.scale,
        int(shape.start * common),
        int(shape.step * common),
    )
    first, last = ends(normal)
    narrow = max(abs(first), abs(last)) * up + abs(shift) < 2**62
    n = line.number(x, d)
    n = d.long(n) if narrow and line.name == "integer" else n if narrow else d.wide(n)
    n = f"{n} * {d.integer(up)}" if up != 1 else n
    n = f"{n} - {d.integer(shift)}" if shift else n
    index = f"({n})"
    if down != 1:
        index = d.divide(index, d.integer(down), narrow=narrow and line.name != "decimal")
    closed = last * common // line.scale >= shift + shape.count * down
    return f"least({index}, {shape.count - 1})" if closed else index


def division(shape: Grid, line: FloatLine) -> tuple[int, int, int] | None:
    """``(A, B, d)`` with edge(i) = (A + i B)/d where doubles compute that correctly rounded."""
    if line.single:
        return None
    d = math.lcm(shape.start.denominator, shape.step.denominator)
    a, b = int(shape.start * d), int(shape.step * d)
    return (a, b, d) if max(abs(a), abs(a + (shape.count + 1) * b), b, d) < 2**49 else None


def _double_cell(normal: Normal, shape: Grid, parts: tuple[int, int, int], x: str) -> str:
    d = normal.dialect
    a, b, den = parts
    start, step = d.double(float(shape.start)), d.double(float(shape.step))
    guess = f"floor({d.quotient(x, step)})" if a == 0 else f"floor(({x} - {start}) / {step})"

    def edge(index: str) -> str:
        times = f"({index}) * {d.double(float(b))}" if b != 1 else f"({index})"
        plus = f"({times} + {d.double(float(a))})" if a else times
        return f"{plus} / {d.double(float(den))}" if den != 1 else plus

    low, high = edge(guess), edge(f"{guess} + 1")
    cell = f"{guess} + CASE WHEN {x} < {low} THEN -1 WHEN {x} >= {high} THEN 1 ELSE 0 END"
    return f"CAST(least({cell}, {d.double(shape.count - 1)}) AS INTEGER)"


def tree(x: str, firsts: list[str], leaves: list[str]) -> str:
    """A balanced tree of comparisons: leaf k holds the values from ``firsts[k]`` up to the next."""
    if len(leaves) == 1:
        return leaves[0]
    mid = len(leaves) // 2
    below, above = tree(x, firsts[:mid], leaves[:mid]), tree(x, firsts[mid:], leaves[mid:])
    return f"CASE WHEN {x} < {firsts[mid]} THEN {below} ELSE {above} END"


def _listed_tree(normal: Normal) -> str:
    line, d = normal.line, normal.dialect
    assert line is not None
    firsts, leaves = [], []
    for atom in normal.by_value:
        for first, _ in normal.spans(intervals.single(atom)):
            if not math.isinf(first):  # ±inf have branches of their own
                firsts.append(line.sql(first, d))
                equal = f"CASE WHEN {normal.x} = {firsts[-1]} THEN {atom} ELSE {OUTSIDE} END"
                leaves.append(equal)
    return tree(normal.x, firsts, leaves) if leaves else str(OUTSIDE)
