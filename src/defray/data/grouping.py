"""GROUP BY keys: what a statement groups by, and how a returned key is read back as an atom.

Whole numbers and days are grouped by the clipped raw value (``least(greatest(age, -1), 121)`` costs
nothing, a CASE doubles the time), listed text by its place in the list, everything else by the index of its
cell.  Indices are found by comparing with the very thresholds that WHERE uses: on a regular grid of
doubles the division only proposes a cell, and the two neighbouring edges decide.  So the number of groups
that come back is bounded by the domain, and a row's cell is the same under WHERE and GROUP BY.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from defray.core import intervals
from defray.core.domain import EPOCH, MICROSECOND, Cuts, Grid, Values, Whole, truncate
from defray.core.intervals import Atoms
from defray.data.lines import ExactLine, FloatLine, Point
from defray.data.measure import nearest_whole
from defray.data.normalise import Normal

MAX_TREE = 4096
OUTSIDE = -1
"""The index of a value outside the domain."""

ATOM_GROUPS = 200_000
"""Up to this many groups, date_trunc levels are grouped by atom and joined afterwards: it is faster."""


@dataclass(frozen=True, slots=True)
class Key:
    """``exprs`` are grouped by; ``shown`` turns each group's key into what is fetched; ``group`` reads
    the fetched keys as the number of a group of the level."""

    exprs: tuple[str, ...]
    shown: tuple[Callable[[str], str], ...]
    group: Callable[[tuple[Any, ...]], int]


def as_is(x: str) -> str:
    return x


def key(normal: Normal, level: str, allowed: Atoms, *, alone: bool, by_atom: bool = True) -> Key:
    """The key of one axis, where only rows with atoms in ``allowed`` come in.  ``alone``: it is the
    only one; ``by_atom``: as many groups as atoms are fine."""
    column = normal.column
    groups = column.groups(level)
    if len(groups) != column.width and not by_atom:
        return _truncated(normal, level, allowed)
    atoms = _atom_key(normal, allowed, alone)
    if len(groups) == column.width:
        return atoms
    group_of = [0] * column.width
    for number, group in enumerate(groups):
        for atom in intervals.members(group.atoms):
            group_of[atom] = number
    return Key(atoms.exprs, atoms.shown, lambda keys: group_of[atoms.group(keys)])


def _atom_key(normal: Normal, allowed: Atoms, alone: bool) -> Key:
    column, line, d = normal.column, normal.line, normal.dialect
    shape = column.shape
    if line is None:
        assert isinstance(shape, Values)
        if column.kind == "boolean":
            place = {item: i for i, item in enumerate(shape.items)}
            return Key((normal.x,), (as_is,), lambda keys: _boolean_atom(normal, place, keys[0]))
        position = d.position(normal.x, [str(i) for i in shape.items])
        text = (d.place(position), as_is) if alone else (position, d.place)
        flag = _flag(normal, allowed)
        return Key(
            (text[0], *flag), (text[1], *(as_is for _ in flag)), lambda keys: _atom(normal, *keys)
        )
    if isinstance(shape, Whole) and isinstance(line, ExactLine) and line.places == 0:
        return _whole_key(normal, line, shape, allowed)
    if isinstance(line, FloatLine) and isinstance(shape, Grid) and _division(shape, line) is None:
        if shape.count > MAX_TREE:
            return _raw_key(normal, allowed)
    return Key((_index(normal, allowed),), (as_is,), lambda keys: _atom(normal, keys[0]))


def _flag(normal: Normal, allowed: Atoms) -> tuple[str, ...]:
    """The second key that tells NULL from a value outside, where both can occur and differ."""
    column = normal.column
    apart = column.other in ("cell", "clamp") and intervals.intersection(allowed, column.nulls)
    return (normal.is_null,) if apart else ()


def _atom(normal: Normal, index: int | None, is_null: bool | None = None) -> int:
    """The atom of an index; None or OUTSIDE is NULL or OTHER."""
    column = normal.column
    if index is not None and index != OUTSIDE:
        return index
    outside = index == OUTSIDE or is_null is False or column.null_atom is None
    atom = column.other_atom if outside and column.other_atom is not None else column.null_atom
    assert atom is not None, "rows the contract drops are filtered before grouping"
    return atom


def _boolean_atom(normal: Normal, place: dict[Any, int], value: bool | None) -> int:
    return _atom(normal, None if value is None else place.get(value, OUTSIDE))


def _inside(normal: Normal, allowed: Atoms) -> bool:
    """Whether only values of the domain come in."""
    return normal.column.other != "clamp" and not intervals.intersection(
        allowed, intervals.complement(normal.propers, normal.column.width)
    )


def _whole_key(normal: Normal, line: ExactLine, shape: Whole, allowed: Atoms) -> Key:
    d, column = normal.dialect, normal.column
    shown = d.days if line.name == "date" else as_is
    low, high = shape.low, shape.high
    if _inside(normal, allowed):
        return Key((normal.x,), (shown,), lambda keys: int(keys[0]) - low)
    margin = 0 if column.other == "clamp" else 1
    x = normal.x
    if line.low is None or low - margin > line.low:
        x = f"greatest({x}, {line.sql(low - margin, d)})"
    if line.high is None or high + margin < line.high:
        x = f"least({x}, {line.sql(high + margin, d)})"
    flag = _flag(normal, allowed)

    def group(keys: tuple[Any, ...]) -> int:
        value, is_null = keys[0], bool(keys[1]) if flag else None
        if value is None or is_null or not low <= value <= high:
            return _atom(normal, None, True if value is None else is_null)
        return int(value) - low

    return Key((x, *flag), (shown, *(as_is for _ in flag)), group)


# -- by the index of the cell -----------------------------------------------------------------------


def _index(normal: Normal, allowed: Atoms) -> str:
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
    index = _listed_tree(normal) if listed else _cell(normal)
    guard = normal.is_value if clamped or listed else _finite(normal)
    if not branches and _inside(normal, allowed):
        return index
    branches.append(f"WHEN {guard} THEN {index}")
    if column.other_atom is not None and not listed:
        branches.append(f"WHEN {normal.is_value} THEN {OUTSIDE}")
    return f"CASE {' '.join(branches)} END"


def _finite(normal: Normal) -> str:
    """In the domain and finite."""
    line = normal.line
    assert line is not None
    first, last = _ends(normal)
    guard = f"{normal.x} BETWEEN {line.sql(first, normal.dialect)} AND {line.sql(last, normal.dialect)}"
    return f"{guard} AND {normal.x} = floor({normal.x})" if normal.integral_guard else guard


def _ends(normal: Normal) -> tuple[Point, Point]:
    shape, line = normal.column.shape, normal.line
    assert line is not None
    if isinstance(shape, Whole):
        low, high = line.ceil(Fraction(shape.low)), line.floor(Fraction(shape.high))
    else:
        assert isinstance(shape, Grid | Cuts)
        low, high = line.edge(shape.edge(0)), line.end(shape.edge(shape.count))
    floor, top = line.low, line.high
    return (low if floor is None else max(low, floor)), (high if top is None else min(high, top))


def _cell(normal: Normal) -> str:
    """The cell of a value in the domain, clamped first where the contract says so."""
    shape, line, d = normal.column.shape, normal.line, normal.dialect
    assert line is not None
    x = normal.x
    if normal.column.other == "clamp":
        first, last = _ends(normal)
        x = f"least(greatest({x}, {line.sql(first, d)}), {line.sql(last, d)})"
    if isinstance(shape, Whole):
        if normal.column.other == "clamp":
            x = _nearest(normal, x)
        return f"{d.wide(x)} - {d.integer(shape.low)}"
    if isinstance(shape, Grid):
        if isinstance(line, ExactLine):
            return _exact_cell(normal, line, shape, x)
        division = _division(shape, line)
        if division is not None:
            return _double_cell(normal, shape, division, x)
    assert isinstance(shape, Grid | Cuts)
    edges = [line.edge(shape.edge(i)) for i in range(shape.count)]
    return _tree(x, [line.sql(e, d) for e in edges], [str(i) for i in range(shape.count)])


def _nearest(normal: Normal, x: str) -> str:
    if isinstance(normal.line, FloatLine):
        return nearest_whole(f"CAST({x} AS DOUBLE)" if normal.line.single else x)
    return f"CASE WHEN {x} > floor({x}) + 0.5 THEN floor({x}) + 1 ELSE floor({x}) END"


def _exact_cell(normal: Normal, line: ExactLine, shape: Grid, x: str) -> str:
    d = normal.dialect
    common = math.lcm(line.scale, shape.start.denominator, shape.step.denominator)
    up, shift, down = (
        common // line.scale,
        int(shape.start * common),
        int(shape.step * common),
    )
    first, last = _ends(normal)
    narrow = max(abs(first), abs(last)) * up + abs(shift) < 2**62
    n = line.number(x, d)
    n = d.long(n) if narrow and line.name == "integer" else n if narrow else d.wide(n)
    n = f"{n} * {d.integer(up)}" if up != 1 else n
    n = f"{n} - {d.integer(shift)}" if shift else n
    index = d.divide(f"({n})", d.integer(down)) if down != 1 else f"({n})"
    closed = last * common // line.scale >= shift + shape.count * down
    return f"least({index}, {shape.count - 1})" if closed else index


def _division(shape: Grid, line: FloatLine) -> tuple[int, int, int] | None:
    """``(A, B, d)`` with edge(i) = (A + i B)/d where doubles compute that correctly rounded."""
    if line.single:
        return None
    d = math.lcm(shape.start.denominator, shape.step.denominator)
    a, b = int(shape.start * d), int(shape.step * d)
    return (a, b, d) if max(abs(a), abs(a + (shape.count + 1) * b), b, d) < 2**49 else None


def _double_cell(normal: Normal, shape: Grid, division: tuple[int, int, int], x: str) -> str:
    d = normal.dialect
    a, b, den = division
    start, step = d.double(float(shape.start)), d.double(float(shape.step))
    guess = f"floor({x} / {step})" if a == 0 else f"floor(({x} - {start}) / {step})"

    def edge(index: str) -> str:
        times = f"({index}) * {d.double(float(b))}" if b != 1 else f"({index})"
        plus = f"({times} + {d.double(float(a))})" if a else times
        return f"{plus} / {d.double(float(den))}" if den != 1 else plus

    low, high = edge(guess), edge(f"{guess} + 1")
    cell = f"{guess} + CASE WHEN {x} < {low} THEN -1 WHEN {x} >= {high} THEN 1 ELSE 0 END"
    return f"CAST(least({cell}, {d.double(shape.count - 1)}) AS INTEGER)"


def _tree(x: str, firsts: list[str], leaves: list[str]) -> str:
    """A balanced tree of comparisons: leaf k holds the values from ``firsts[k]`` up to the next."""
    if len(leaves) == 1:
        return leaves[0]
    mid = len(leaves) // 2
    below, above = _tree(x, firsts[:mid], leaves[:mid]), _tree(x, firsts[mid:], leaves[mid:])
    return f"CASE WHEN {x} < {firsts[mid]} THEN {below} ELSE {above} END"


def _listed_tree(normal: Normal) -> str:
    line, d = normal.line, normal.dialect
    assert line is not None
    firsts, leaves = [], []
    for atom in normal.by_value:
        for first, last in normal.spans(intervals.single(atom)):
            if not math.isinf(first) or first < 0 and not math.isinf(last):
                firsts.append(line.sql(first, d))
                equal = f"CASE WHEN {normal.x} = {firsts[-1]} THEN {atom} ELSE {OUTSIDE} END"
                leaves.append(str(atom) if normal.column.other == "clamp" else equal)
    return _tree(normal.x, firsts, leaves) if leaves else str(OUTSIDE)


def _raw_key(normal: Normal, allowed: Atoms) -> Key:
    """By the value itself, for float grids too fine for arithmetic and too long for a tree."""
    shape, line = normal.column.shape, normal.line
    assert isinstance(shape, Grid) and isinstance(line, FloatLine)
    first, last = _ends(normal)
    n = shape.count

    def group(keys: tuple[Any, ...]) -> int:
        value = keys[0]
        if value is None or math.isnan(value):
            return _atom(normal, None, True)
        if math.isinf(value):
            atom = normal.infinity(1 if value > 0 else -1)
            return _atom(normal, OUTSIDE if atom is None else atom)
        if not first <= value <= last and normal.column.other != "clamp":
            return _atom(normal, OUTSIDE)
        low, high = 0, n
        while high - low > 1:
            mid = (low + high) // 2
            low, high = (mid, high) if line.edge(shape.edge(mid)) <= value else (low, mid)
        return low

    return Key((normal.x,), (as_is,), group)


# -- by a level of time ---------------------------------------------------------------------------


def _truncated(normal: Normal, level: str, allowed: Atoms) -> Key:
    column, line, d = normal.column, normal.line, normal.dialect
    assert isinstance(line, ExactLine)
    shape = column.shape
    first, last = _ends(normal)
    if isinstance(shape, Grid):
        last = last - 1  # the last cell is closed, its end belongs to the level's last moment
    clip = f"least({normal.x}, {line.sql(last, d)})"
    if column.other == "clamp":
        clip = f"greatest({clip}, {line.sql(first, d)})"
    inside = d.truncate(level, clip)
    guard = normal.is_value if column.other == "clamp" else _finite(normal)
    expr = inside if _inside(normal, allowed) else f"CASE WHEN {guard} THEN {inside} END"
    flag = _flag(normal, allowed) if column.other == "cell" else ()
    moments = {
        _moment(normal, next(intervals.members(g.atoms)), level): number
        for number, g in enumerate(column.groups(level))
        if intervals.size(intervals.intersection(g.atoms, normal.propers))
    }
    extra = len(moments) - column.proper

    def group(keys: tuple[Any, ...]) -> int:
        found = keys[0]
        if found is not None:
            return moments[found]
        return _atom(normal, None, bool(keys[1]) if flag else None) + extra

    return Key((expr, *flag), (d.micros, *(as_is for _ in flag)), group)


def _moment(normal: Normal, atom: int, level: str) -> int:
    shape = normal.column.shape
    if isinstance(shape, Whole):
        moment = EPOCH + dt.timedelta(days=shape.low + atom)
    else:
        assert isinstance(shape, Grid)
        moment = EPOCH + int(shape.edge(atom)) * MICROSECOND
    return (truncate(moment, level) - EPOCH) // MICROSECOND
