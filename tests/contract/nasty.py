"""One nasty table, and a slow evaluation of what a scan of it means.

The reference follows the documented semantics row by row in exact Python arithmetic and shares nothing
with the source but the domain's types.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import math
import random
import struct
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from math import prod
from typing import Any

from defray.core.column import Column
from defray.core.contract import Unit
from defray.core.dates import EPOCH, EPOCH_DAY, MICROSECOND, truncate
from defray.core.domain import Domain
from defray.core.shapes import Anything, Cuts, Grid, Values, Whole
from defray.data.source import Exact, Scan
from defray.query.region import Regions

SECRET = b"k" * 32
INF, NAN = math.inf, math.nan
HUGE = 2**70
NEW_YEAR = (dt.date(2020, 1, 1) - EPOCH_DAY).days
NOON = int((dt.datetime(2020, 1, 1, 12) - EPOCH) / MICROSECOND)
HOUR = 3600 * 10**6
OLD = (dt.date(1572, 1, 1) - EPOCH_DAY).days
"""Some years before the Gregorian calendar began in some countries."""
SWITCH = int((dt.datetime(1582, 10, 1) - EPOCH) / MICROSECOND)
NASTY_TEXT = (
    "",
    "a",
    "A",
    "it's",
    'say "hi"',
    "näh\u00efv",
    "日本",
    "two\nlines",
    "c,d",
    "--;",
    "\\N?",
    "back\\slash",
    "\u00c5",  # composed; the next is decomposed
    "A\u030a",
    "\U0001f98a",
    "long " * 2000 + "end",
)
MORE_TEXT = tuple(f"value {i}" for i in range(12))


def F(text: str) -> Fraction:
    return Fraction(text)


COLUMNS = (
    Column("age", "integer", Whole(0, 120), bounds=(F("0"), F("100")), unit_step=F("1")),
    Column("any", "float", Anything(), bounds=(F("-3"), F("3")), unit_step=F("1/4")),
    Column("at", "timestamp", Grid(Fraction(NOON), Fraction(HOUR), 60)),
    Column(
        "bins", "float", Grid(F("0"), F("0.1"), 10), bounds=(F("0"), F("1")), unit_step=F("0.01")
    ),
    Column("cuts", "float", Cuts((F("-10"), F("0"), F("0.5"), F("100"))), other="clamp",
           bounds=(F("-50"), F("50")), unit_step=F("0.25")),
    Column("day", "date", Whole(NEW_YEAR, NEW_YEAR + 90), other="cell"),
    Column("flag", "boolean", Values((True, False))),
    Column("flag_true", "boolean", Values((True,)), other="cell"),
    Column("gone", "integer", Whole(0, 5), null="drop", other="drop"),
    Column("First.Third", "float", Grid(F("-1"), F("1/3"), 7), other="cell"),
    Column("grade", "integer", Values((F("1"), F("7"), F("3"))), other="cell",
           bounds=(F("0"), F("10")), unit_step=F("1")),
    Column("huge", "integer", Whole(HUGE, HUGE + 10), other="cell",
           bounds=(Fraction(-HUGE), Fraction(2 * HUGE)), unit_step=F("1")),
    Column("local", "timestamp", Grid(Fraction(SWITCH), Fraction(HOUR), 24 * 40), other="cell"),
    Column("long", "integer", Whole(-(2**62), -(2**62) + 9), other="clamp",
           bounds=(Fraction(-(2**63)), Fraction(2**63)), unit_step=F("1")),
    Column("old", "date", Whole(OLD, OLD + 5000), other="cell"),
    Column("price", "decimal", Grid(F("0"), F("0.25"), 40), bounds=(F("0"), F("9.9")),
           unit_step=F("0.3")),
    Column("single", "float", Grid(F("0"), F("1/8"), 8), other="cell",
           bounds=(F("0"), F("1")), unit_step=F("0.01")),
    Column("text", "string", Values(NASTY_TEXT)),
    Column('Text "More"', "string", Values(MORE_TEXT), other="cell"),
    Column("whole", "integer", Whole(0, 10), other="cell", bounds=(F("-5"), F("20")),
           unit_step=F("1/2")),
)  # fmt: skip

_EDGES = [i * 0.1 for i in range(12)] + [i / 10 for i in range(12)] + [i / 3 - 1 for i in range(9)]
_FLOATS = [
    NAN, INF, -INF, None, 0.0, -0.0, 0.5, 1.0, 2.5, -2.5, 3.5, 7.0, 10.0, 10.5, -1e300, 1e300, 5e-324, 100.0,
    99.75, 0.125, -0.375, 0.005, 0.015,
    *_EDGES, *(math.nextafter(e, INF) for e in _EDGES), *(math.nextafter(e, -INF) for e in _EDGES),
]  # fmt: skip
FAR = 6_000_000
"""A day in the year 18397."""


def _single(x: float | None) -> float | None:
    """Rounded to 32 bits."""
    try:
        return None if x is None else struct.unpack("f", struct.pack("f", x))[0]
    except OverflowError:
        return math.copysign(INF, x or 0.0)


_DAYS = [
    NEW_YEAR - 1,
    NEW_YEAR,
    NEW_YEAR + 30,
    NEW_YEAR + 31,
    NEW_YEAR + 90,
    NEW_YEAR + 91,
    -719162,
    2932896,
]
_MOMENTS = [
    NOON - 1, NOON, NOON + 1, NOON + HOUR, NOON + 12 * HOUR, NOON + 12 * HOUR - 1, NOON + 60 * HOUR,
    NOON + 60 * HOUR + 1, 0, -(10**15),
]  # fmt: skip
_SINGLES = [*map(_single, _FLOATS)]
POOLS: Mapping[str, Sequence[Any]] = {
    "age": [None, -(2**31), -1, 0, 1, 39, 40, 41, 100, 101, 120, 121, 2**31 - 1],
    "any": _FLOATS,
    "at": [None, *_MOMENTS],
    "bins": _FLOATS,
    "cuts": _FLOATS,
    "day": [None, *_DAYS],
    "First.Third": _FLOATS,
    "flag": [None, True, False],
    "flag_true": [None, True, False],
    "gone": [None, 0, 1, 2, 3, 4, 5, 5, 4, 3, 2, 1, 0, 6, -1],
    "grade": [None, 0, 1, 2, 3, 4, 5, 6, 7, 8, 255],
    "huge": [None, HUGE - 1, HUGE, HUGE + 10, HUGE + 11, -(10**30), 10**19, 0, 2**62, 2**63],
    "local": [None, SWITCH - 1, SWITCH, SWITCH + 3 * 24 * HOUR, SWITCH + 10 * 24 * HOUR,
              SWITCH + 14 * 24 * HOUR - 1, SWITCH + 14 * 24 * HOUR, SWITCH + 40 * 24 * HOUR,
              SWITCH + 40 * 24 * HOUR + 1, SWITCH + 31 * 24 * HOUR, 0, FAR * 24 * HOUR],
    "long": [None, -(2**63), -(2**62) - 1, -(2**62), -(2**62) + 4, -(2**62) + 9, -(2**62) + 10, 0, 2**63 - 1],
    "old": [None, OLD - 1, OLD, OLD + 3927, OLD + 3928, OLD + 3938, OLD + 5000, OLD + 5001, 0, -719162, FAR],
    "price": [None, *(Decimal(t) for t in ("-0.01", "0", "0.24", "0.25", "0.45", "0.15", "9.99", "10",
                                           "10.01", "12345678.90", "-99999999.99", "0.10"))],
    "single": _SINGLES,
    "text": [None, *NASTY_TEXT, "b", "É", "it''s", "日", "a\u0301", "NULL", "aa", "LONG", "long", "\\\\"],
    'Text "More"': [None, *MORE_TEXT, "value", "", "x'y", "value 12"],
    "whole": _FLOATS,
}  # fmt: skip
UNITS: Mapping[str, Sequence[Any]] = {
    "person": [None, 0, 1, 2, 3, 4, 5, 6, -7, 2**62, -(2**63)],
    "Name": [None, "", "a", "A", "it's", "日本", "back\\slash", "1:a", "N", "5:Anton"],
}
"""Columns that are no part of the domain but may be the unit; ``visit`` and ``mark`` tell its rows apart."""


def rows(count: int = 400, seed: int = 7) -> list[dict[str, Any]]:
    """Random rows of the pools, some of them twice."""
    draw = random.Random(seed)
    made = [{name: draw.choice(pool) for name, pool in POOLS.items()} for _ in range(count)]
    made += [dict(row) for row in made[: count // 10]]
    for i, row in enumerate(made):
        row |= {name: draw.choice(pool) for name, pool in UNITS.items()}
        row |= {"visit": i, "mark": f"{i % 7}'{i}"}
    return made


POLICIES = ("declared", "nulls", "cells", "clamps", "drops")


def domain(policy: str) -> Domain:
    """The columns with other treatments of odd values."""
    changed = []
    for c in COLUMNS:
        ranged = not isinstance(c.shape, Values | Anything)
        if policy == "nulls":
            c = replace(c, null="cell", other="null")
        elif policy == "cells" and not isinstance(c.shape, Anything):
            c = replace(c, null="cell", other="cell")
        elif policy == "clamps" and ranged:
            c = replace(
                c, null="drop" if c.name in ("age", "any", "whole") else "cell", other="clamp"
            )
        elif policy == "drops":
            drop = c.name in ("bins", "day", "old", "text", "whole")
            c = replace(c, null="cell", other="drop" if drop and c.name != "any" else "null")
            c = replace(c, null="drop" if c.name in ("flag", "any", "age") else "cell")
        changed.append(c)
    return Domain(tuple(sorted(changed, key=lambda c: c.name)))


# -- the reference ----------------------------------------------------------------------------------

OUTSIDE = object()


def nearest_integer(x: Fraction) -> int:
    return math.ceil(x - Fraction(1, 2))


def half_away(x: Fraction) -> int:
    whole = math.floor(abs(x) + Fraction(1, 2))
    return whole if x >= 0 else -whole


def resolve(column: Column, raw: Any) -> Any:
    """None, a finite float or Fraction, ±inf where there are no bounds, text or a boolean."""
    if raw is None or (isinstance(raw, float) and math.isnan(raw)):
        return None
    if isinstance(raw, float):
        if math.isinf(raw) and column.bounds is not None:
            return column.bounds[raw > 0]
        return raw
    return raw if isinstance(raw, bool | str) else Fraction(raw)


@cache
def edges_of(shape: Grid | Cuts, as_floats: bool) -> list[Any]:
    edges = [shape.edge(i) for i in range(shape.count + 1)]
    return [float(e) for e in edges] if as_floats else edges


def place(column: Column, value: Any) -> Any:
    """The proper atom of a resolved value that is not None, or OUTSIDE."""
    shape, clamp = column.shape, column.other == "clamp"
    match shape:
        case Anything():
            return 0
        case Values(items):
            if isinstance(value, float):
                hits = [i for i, p in enumerate(items) if float(p) == value]
            else:
                hits = [i for i, p in enumerate(items) if p == value]
            return hits[0] if hits else OUTSIDE
        case Whole(low, high):
            if isinstance(value, float) and math.isinf(value):
                return (high - low if value > 0 else 0) if clamp else OUTSIDE
            exact = Fraction(value)
            if clamp:
                return min(max(nearest_integer(exact), low), high) - low
            return int(exact) - low if exact.denominator == 1 and low <= exact <= high else OUTSIDE
        case Grid() | Cuts():
            n, edges = shape.count, edges_of(shape, isinstance(value, float))
            if value < edges[0] or value > edges[n]:
                return (0 if value < edges[0] else n - 1) if clamp else OUTSIDE
            return min(bisect_right(edges, value) - 1, n - 1)


def atom(column: Column, raw: Any) -> int | None:
    """None: the row is no row of the table."""
    value = resolve(column, raw)
    found: Any = None
    if value is not None:
        found = place(column, value)
        if found is OUTSIDE and column.other == "drop":
            return None
        if found is OUTSIDE:
            found = column.proper if column.other == "cell" else None
    if found is None:
        return None if column.null == "drop" else column.null_atom
    return int(found)


def units(column: Column, raw: Any) -> int:
    """What a row adds to SUM(column)."""
    value = resolve(column, raw)
    at = atom(column, raw)
    if value is None or at is None or at == column.null_atom:
        return 0
    step, low, high = column.unit_step, column.low_units, column.high_units
    assert step is not None
    if column.other == "clamp":
        shape = column.shape
        if isinstance(shape, Whole):
            ends = Fraction(shape.low), Fraction(shape.high)
            if not (isinstance(value, float) and math.isinf(value)):
                whole = nearest_integer(Fraction(value))
                value = float(whole) if isinstance(value, float) else Fraction(whole)
        else:
            assert isinstance(shape, Grid | Cuts)
            ends = shape.edge(0), shape.edge(shape.count)
        low, high = (min(max(half_away(e / step), low), high) for e in ends)
    if isinstance(value, float):
        scaled = value * step.denominator / step.numerator
        rounded: Any = scaled if math.isinf(scaled) else half_away(Fraction(scaled))
    else:
        rounded = half_away(value / step)
    return int(min(max(rounded, low), high))


@cache
def group(column: Column, level: str, at: int) -> int:
    """The number of the atom's group, from its first moment."""
    if level == "value":
        return at
    groups = column.groups(level)
    if at >= column.proper:
        return len(groups) - (column.width - at)
    if isinstance(column.shape, Whole):
        moment = EPOCH + dt.timedelta(days=column.shape.low + at)
    else:
        assert isinstance(column.shape, Grid)
        moment = EPOCH + int(column.shape.edge(at)) * MICROSECOND
    start = truncate(moment, level)
    label = str(start.date()) if column.kind == "date" else str(start)
    return [g.label for g in groups].index(label)


def field(value: Any) -> str:
    return "N" if value is None else f"{len(str(value).encode())}:{value}"


def kept_of(rows: Sequence[Mapping[str, Any]], unit: Unit) -> list[Mapping[str, Any]]:
    """The rows with the smallest keyed hashes of every unit (the row key tells all apart)."""
    if unit.column is None:
        return list(rows)
    by_unit: dict[Any, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row[unit.column] is not None:
            by_unit.setdefault(row[unit.column], []).append(row)

    def order(row: Mapping[str, Any]) -> str:
        message = "".join(field(row[name]) for name in (unit.column, *unit.row_key) if name)
        return hmac.new(SECRET, message.encode(), hashlib.sha256).hexdigest()

    return [row for own in by_unit.values() for row in sorted(own, key=order)[: unit.max_rows]]


class Reference:
    def __init__(
        self,
        domain: Domain,
        regions: Regions,
        rows: Sequence[Mapping[str, Any]],
        unit: Unit | None = None,
    ) -> None:
        self.domain = domain
        self.regions = regions
        columns = domain.columns
        summed = [c for c in columns if c.bounds is not None]
        placed = [(row, [atom(c, row[c.name]) for c in columns]) for row in rows]
        own = {id(row): atoms for row, atoms in placed if None not in atoms}
        there = kept_of([row for row in rows if id(row) in own], unit or Unit())
        self.kept = [(row, own[id(row)]) for row in there]
        self.units = [{c.name: units(c, row[c.name]) for c in summed} for row, _ in self.kept]

    def scan(self, scan: Scan) -> Exact:
        size = prod(len(axis.groups(self.domain)) for axis in scan.axes)
        exact = Exact(
            [0] * size, {c: [0] * size for c in scan.columns}, {c: [0] * size for c in scan.sums}
        )
        columns = self.domain.columns
        for (_, atoms), row_units in zip(self.kept, self.units, strict=True):
            if not self.regions.contains(scan.region, lambda i: atoms[i] or 0):  # noqa: B023
                continue
            cell = 0
            for axis in scan.axes:
                column = columns[axis.column]
                at = atoms[axis.column]
                assert at is not None
                if axis.starts is None:
                    number, size = group(column, axis.level, at), len(column.groups(axis.level))
                else:
                    number, size = bisect_right(axis.starts, at) - 1, len(axis.starts)
                cell = cell * size + number
            exact.rows[cell] += 1
            for name in scan.columns:
                i = self.domain.names.index(name)
                exact.non_null[name][cell] += atoms[i] != columns[i].null_atom
            for name in scan.sums:
                exact.sums[name][cell] += row_units[name]
        return exact
