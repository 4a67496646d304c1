"""GROUP BY keys: what a statement groups by, and how a returned key is read back as an atom.

Whole numbers and days are grouped by the clipped raw value (``least(greatest(age, -1), 121)`` costs
nothing, a CASE doubles the time), listed text by its place in the list, everything else by the index of its
cell.  So the number of groups that come back is bounded by the domain.
"""

from __future__ import annotations

import datetime as dt
import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from defray.core import intervals
from defray.core.column import Column
from defray.core.dates import EPOCH, MICROSECOND, truncate
from defray.core.intervals import Atoms
from defray.core.shapes import Anything, Grid, Values, Whole
from defray.data.cells import OUTSIDE, division, ends, finite, index, only_inside, tree
from defray.data.lines import ExactLine, FloatLine
from defray.data.normalise import Normal
from defray.query.descriptor import Axis

MAX_TREE = 4096
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


def size(column: Column, axis: Axis) -> int:
    """How many groups an axis has."""
    return column.group_count(axis.level) if axis.starts is None else len(axis.starts)


def key(normal: Normal, axis: Axis, allowed: Atoms, *, alone: bool, by_atom: bool = True) -> Key:
    """The key of one axis, where only rows with atoms in ``allowed`` come in.  ``alone``: it is the
    only one; ``by_atom``: as many groups as atoms are fine."""
    if axis.starts is not None:
        return _class_key(normal, axis.starts, allowed, alone=alone)
    column, level = normal.column, axis.level
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
        items = [str(i) for i in shape.items]
        placed = d.placed(items)
        text = d.listed(normal.x, items, alone=alone)
        flag = _flag(normal, allowed)
        return Key(
            (text[0], *flag),
            (text[1], *(as_is for _ in flag)),
            lambda keys: _atom(normal, placed(keys[0]), bool(flag and keys[1])),
        )
    if isinstance(shape, Whole) and isinstance(line, ExactLine) and line.places == 0:
        return _whole_key(normal, line, shape, allowed)
    if _too_fine(normal):
        return _raw_key(normal, allowed)
    return Key((index(normal, allowed),), (as_is,), lambda keys: _atom(normal, keys[0]))


def _class_key(normal: Normal, starts: tuple[int, ...], allowed: Atoms, *, alone: bool) -> Key:
    """By runs of atoms that begin at ``starts``; of a long column the database joins them."""
    if isinstance(normal.column.shape, Anything):
        return _anything_key(normal, starts)
    if normal.line is None or normal.column.width <= MAX_TREE or _too_fine(normal):
        atoms = _atom_key(normal, allowed, alone)
        return Key(
            atoms.exprs, atoms.shown, lambda keys: bisect_right(starts, atoms.group(keys)) - 1
        )
    number = index(normal, allowed)
    leaves = [str(start) for start in starts if start < normal.column.proper]
    run = tree(f"({number})", leaves, leaves)
    expr = f"CASE WHEN ({number}) >= 0 THEN {run} ELSE {number} END"

    def group(keys: tuple[Any, ...]) -> int:
        return bisect_right(starts, _atom(normal, keys[0])) - 1

    return Key((expr,), (as_is,), group)


def _anything_key(normal: Normal, starts: tuple[int, ...]) -> Key:
    """A column without a declared domain: NULL or not."""
    null = normal.column.null_atom
    if null is None or len(starts) == 1:
        return Key(("0",), (as_is,), lambda keys: 0)
    value = normal.predicate(normal.column.non_nulls)
    expr = f"CASE WHEN {value} THEN 0 ELSE {null} END"
    return Key((expr,), (as_is,), lambda keys: bisect_right(starts, int(keys[0])) - 1)


def _too_fine(normal: Normal) -> bool:
    """Whether a float grid is too fine for arithmetic and too long for a tree."""
    shape, line = normal.column.shape, normal.line
    if not (isinstance(line, FloatLine) and isinstance(shape, Grid)):
        return False
    return shape.count > MAX_TREE and division(shape, line) is None


def _flag(normal: Normal, allowed: Atoms) -> tuple[str, ...]:
    """The second key that tells NULL from a value outside, where both can occur and differ."""
    column = normal.column
    apart = column.other in ("cell", "clamp") and intervals.intersection(allowed, column.nulls)
    return (normal.is_null,) if apart else ()


def _atom(normal: Normal, index: int | None, is_null: bool | None = None) -> int:
    """The atom of an index; None or OUTSIDE is NULL or OTHER."""
    column = normal.column
    if index is not None and index != OUTSIDE:
        return int(index)
    outside = index == OUTSIDE or is_null is False or column.null_atom is None
    atom = column.other_atom if outside and column.other_atom is not None else column.null_atom
    assert atom is not None, "rows the contract drops are filtered before grouping"
    return atom


def _boolean_atom(normal: Normal, place: dict[Any, int], value: bool | None) -> int:
    return _atom(normal, None if value is None else place.get(value, OUTSIDE))


def _whole_key(normal: Normal, line: ExactLine, shape: Whole, allowed: Atoms) -> Key:
    d, column = normal.dialect, normal.column
    shown = d.days if line.name == "date" else as_is
    low, high = shape.low, shape.high
    if only_inside(normal, allowed):
        return Key((normal.x,), (shown,), lambda keys: int(keys[0]) - low)
    margin = 0 if column.other == "clamp" else 1
    x = normal.x
    if low - margin > line.low:
        x = f"greatest({x}, {line.sql(low - margin, d)})"
    if high + margin < line.high or line.nan:
        x = f"least({x}, {line.sql(high + margin, d)})"
    flag = _flag(normal, allowed)

    def group(keys: tuple[Any, ...]) -> int:
        value, is_null = keys[0], bool(flag and keys[1])
        if value is None or is_null or not low <= value <= high:
            return _atom(normal, None, value is None or is_null)
        return int(value) - low

    return Key((x, *flag), (shown, *(as_is for _ in flag)), group)


def _raw_key(normal: Normal, allowed: Atoms) -> Key:
    """By the value itself, for float grids too fine for arithmetic and too long for a tree."""
    shape, line = normal.column.shape, normal.line
    assert isinstance(shape, Grid) and isinstance(line, FloatLine)
    first, last = ends(normal)
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
    first, last = ends(normal)
    if isinstance(shape, Grid):
        last = last - 1  # the last cell is closed, its end belongs to the level's last moment
    clip = f"least({normal.x}, {line.sql(last, d)})"
    if column.other == "clamp":
        clip = f"greatest({clip}, {line.sql(first, d)})"
    inside = d.truncate(level, clip)
    guard = normal.is_value if column.other == "clamp" else finite(normal)
    expr = inside if only_inside(normal, allowed) else f"CASE WHEN {guard} THEN {inside} END"
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
        return _atom(normal, None, bool(flag and keys[1])) + extra

    return Key((expr, *flag), (d.micros, *(as_is for _ in flag)), group)


def _moment(normal: Normal, atom: int, level: str) -> int:
    shape = normal.column.shape
    if isinstance(shape, Whole):
        moment = EPOCH + dt.timedelta(days=shape.low + atom)
    else:
        assert isinstance(shape, Grid)
        moment = EPOCH + int(shape.edge(atom)) * MICROSECOND
    return (truncate(moment, level) - EPOCH) // MICROSECOND
