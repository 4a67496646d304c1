"""One nasty table in every kind of file, and a slow evaluation of what a scan of it means.

The reference follows the documented semantics row by row in exact Python arithmetic and shares nothing
with the source but the domain's types.
"""

from __future__ import annotations

import csv
import datetime as dt
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from defray.core.column import Column
from defray.core.contract import Contract, SourceSpec, Unit
from defray.core.dates import EPOCH, EPOCH_DAY, MICROSECOND, truncate
from defray.core.domain import Domain
from defray.core.shapes import Anything, Cuts, Grid, Values, Whole
from defray.data.source import Exact, Scan
from defray.query.descriptor import cells
from defray.query.region import Regions

INF, NAN = math.inf, math.nan
HUGE = 2**70
NEW_YEAR = (dt.date(2020, 1, 1) - EPOCH_DAY).days
NOON = int((dt.datetime(2020, 1, 1, 12) - EPOCH) / MICROSECOND)
HOUR = 3600 * 10**6
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
    Column("grade", "integer", Values((F("1"), F("7"), F("3"))), other="cell",
           bounds=(F("0"), F("10")), unit_step=F("1")),
    Column("huge", "integer", Whole(HUGE, HUGE + 10), other="cell",
           bounds=(Fraction(-HUGE), Fraction(2 * HUGE)), unit_step=F("1")),
    Column("price", "decimal", Grid(F("0"), F("0.25"), 40), bounds=(F("0"), F("9.9")),
           unit_step=F("0.3")),
    Column("text", "string", Values(NASTY_TEXT)),
    Column("text_more", "string", Values(MORE_TEXT), other="cell"),
    Column("thirds", "float", Grid(F("-1"), F("1/3"), 7), other="cell"),
    Column("whole", "integer", Whole(0, 10), other="cell", bounds=(F("-5"), F("20")),
           unit_step=F("1/2")),
)  # fmt: skip

_EDGES = [i * 0.1 for i in range(12)] + [i / 10 for i in range(12)] + [i / 3 - 1 for i in range(9)]
_FLOATS = [
    NAN, INF, -INF, None, 0.0, -0.0, 0.5, 1.0, 2.5, -2.5, 3.5, 7.0, 10.0, 10.5, -1e300, 1e300, 5e-324, 100.0,
    99.75, 0.125, -0.375, 0.005, 0.015,
    *_EDGES, *(math.nextafter(e, INF) for e in _EDGES), *(math.nextafter(e, -INF) for e in _EDGES),
]  # fmt: skip
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
POOLS: Mapping[str, Sequence[Any]] = {
    "age": [None, -(2**31), -1, 0, 1, 39, 40, 41, 100, 101, 120, 121, 2**31 - 1],
    "any": _FLOATS,
    "at": [None, *_MOMENTS],
    "bins": _FLOATS,
    "cuts": _FLOATS,
    "day": [None, *_DAYS],
    "flag": [None, True, False],
    "flag_true": [None, True, False],
    "gone": [None, 0, 1, 2, 3, 4, 5, 5, 4, 3, 2, 1, 0, 6, -1],
    "grade": [None, 0, 1, 2, 3, 4, 5, 6, 7, 8, 255],
    "huge": [None, HUGE - 1, HUGE, HUGE + 10, HUGE + 11, -(10**30), 10**19, 0, 2**62, 2**63],
    "price": [None, *(Decimal(t) for t in ("-0.01", "0", "0.24", "0.25", "0.45", "0.15", "9.99", "10",
                                           "10.01", "12345678.90", "-99999999.99", "0.10"))],
    "text": [None, *NASTY_TEXT, "b", "É", "it''s", "日", "a\u0301", "NULL", "aa"],
    "text_more": [None, *MORE_TEXT, "value", "", "x'y", "value 12"],
    "thirds": _FLOATS,
    "whole": _FLOATS,
}  # fmt: skip
PHYSICAL: Mapping[str, pa.DataType] = {
    "age": pa.int32(), "any": pa.float64(), "at": pa.timestamp("us", tz="Europe/Paris"),
    "bins": pa.float64(), "cuts": pa.float64(), "day": pa.date32(), "flag": pa.bool_(),
    "flag_true": pa.int8(), "gone": pa.int64(), "grade": pa.uint8(), "huge": pa.decimal128(38, 0),
    "price": pa.decimal128(10, 2), "text": pa.string(),
    "text_more": pa.dictionary(pa.int32(), pa.string()), "thirds": pa.float64(), "whole": pa.float64(),
}  # fmt: skip


def rows(count: int = 400, seed: int = 7) -> list[dict[str, Any]]:
    """Random rows of the pools, some of them twice."""
    draw = random.Random(seed)
    made = [{name: draw.choice(pool) for name, pool in POOLS.items()} for _ in range(count)]
    return [*made, *made[: count // 10]]


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
            drop = c.name in ("bins", "day", "text", "whole")
            c = replace(c, null="cell", other="drop" if drop and c.name != "any" else "null")
            c = replace(c, null="drop" if c.name in ("flag", "any", "age") else "cell")
        changed.append(c)
    return Domain(tuple(changed))


# -- files ------------------------------------------------------------------------------------------

KINDS = ("csv", "parquet", "glob", "duckdb")


def write(kind: str, folder: Path, data: Sequence[Mapping[str, Any]]) -> SourceSpec:
    if kind == "csv":
        _write_csv(folder / "people.csv", data)
        return SourceSpec("csv", "people.csv", options={"null": ["\\N"]})
    if kind == "parquet":
        pq.write_table(_arrow(data), folder / "people.parquet", row_group_size=100)
        return SourceSpec("parquet", "people.parquet")
    if kind == "glob":
        (folder / "part").mkdir()
        pq.write_table(_arrow(data[:100]), folder / "part" / "b.parquet")
        turned = _arrow(data[100:]).select(list(reversed(list(POOLS))))
        pq.write_table(turned, folder / "part" / "a.parquet")
        return SourceSpec("parquet", "part/*.parquet")
    base = _arrow(data).cast(
        pa.schema(
            [(n, pa.string() if pa.types.is_dictionary(t) else t) for n, t in PHYSICAL.items()]
        )
    )
    with duckdb.connect(str(folder / "people.duckdb")) as connection:
        connection.register("base", base)
        listed = ", ".join(
            "'" + v.replace("'", "''") + "'"
            for v in dict.fromkeys(POOLS["text_more"])
            if v is not None
        )
        connection.execute(
            f"CREATE TABLE people AS SELECT * REPLACE (CAST(huge AS HUGEINT) AS huge,"
            f" CAST(text_more AS ENUM({listed})) AS text_more) FROM base"
        )
    return SourceSpec("duckdb", "people.duckdb", "people")


def _arrow(data: Sequence[Mapping[str, Any]]) -> pa.Table:
    columns = {}
    for name, kind in PHYSICAL.items():
        values = [row[name] for row in data]
        if name == "flag_true":
            values = [None if v is None else int(v) for v in values]
        if name == "huge":
            values = [None if v is None else Decimal(v) for v in values]
        if name == "price":
            values = [None if v is None else v.quantize(Decimal("0.01")) for v in values]
        columns[name] = pa.array(values, kind)
    return pa.table(columns)


def _write_csv(path: Path, data: Sequence[Mapping[str, Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(POOLS)
        for i, row in enumerate(data):
            writer.writerow([_csv_text(name, row[name], i) for name in POOLS])


def _csv_text(name: str, value: Any, i: int) -> str:
    """One of the spellings that mean the value."""
    if value is None:
        return "\\N" if i % 2 or name.startswith("text") else ("oops" if i % 4 else "")
    if name == "day":
        return str(EPOCH_DAY + dt.timedelta(days=value))
    if name == "at":
        moment = EPOCH + value * MICROSECOND
        if i % 3 == 0:
            return f"{moment.isoformat(sep=' ')}"
        hours = i % 3
        return f"{(moment + dt.timedelta(hours=hours)).isoformat()}+0{hours}:00"
    if name.startswith("flag"):
        return (("false", "0", "F"), ("true", "1", "T"))[value][i % 3]
    if isinstance(value, float):
        return f" {value!r} " if i % 2 else repr(value)
    return str(value)


def contract(
    kind: str, folder: Path, spec: SourceSpec, columns: Domain, unit: Unit | None = None
) -> Contract:
    return Contract("people", Fraction(1), unit or Unit(), spec, columns, folder)


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
            n = shape.count
            edges: list[Any] = [shape.edge(i) for i in range(n + 1)]
            if isinstance(value, float):
                edges = [float(e) for e in edges]
            if value < edges[0] or value > edges[n]:
                return (0 if value < edges[0] else n - 1) if clamp else OUTSIDE
            return next((i for i in range(n) if edges[i] <= value < edges[i + 1]), n - 1)


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
    groups = column.groups(level)
    if level == "value":
        return at
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


class Reference:
    def __init__(self, domain: Domain, regions: Regions, rows: Sequence[Mapping[str, Any]]) -> None:
        self.domain = domain
        self.regions = regions
        columns = domain.columns
        summed = [c for c in columns if c.bounds is not None]
        placed = [(row, [atom(c, row[c.name]) for c in columns]) for row in rows]
        self.kept = [(row, atoms) for row, atoms in placed if None not in atoms]
        self.units = [{c.name: units(c, row[c.name]) for c in summed} for row, _ in self.kept]

    def scan(self, scan: Scan) -> Exact:
        size = len(cells(self.domain, scan.axes))
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
                number = group(column, axis.level, at)
                cell = cell * len(column.groups(axis.level)) + number
            exact.rows[cell] += 1
            for name in scan.columns:
                i = self.domain.names.index(name)
                exact.non_null[name][cell] += atoms[i] != columns[i].null_atom
            for name in scan.sums:
                exact.sums[name][cell] += row_units[name]
        return exact
