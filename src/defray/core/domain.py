"""The declared public domain: which cells the table's rows can lie in.

Each column's domain is a finite list of *atoms*.  Proper atoms come first (values, integers, days, bins);
then, where the contract declares them, one atom OTHER for values outside the domain and one atom NULL.
Every row the contract counts lies in exactly one atom of every column (design condition L11), so COUNT(*)
and its groups always agree.

Treatment of odd values, once per table and the same in every question:

* NULL and NaN are NULL.  ``null = "cell"`` makes NULL an atom (default); ``"drop"`` leaves the row out of
  every question.
* +inf and -inf are first clamped to the column's ``bounds`` where it has any.
* A value outside the domain counts as NULL (``other = "null"``, default), gets the atom OTHER
  (``"cell"``), is moved to the nearest value (``"clamp"``, ordered domains only), or its row is left out
  (``"drop"``).

Comparisons follow SQL's three-valued logic: :meth:`Column.compare` returns the atoms where a comparison is
true and those where it is false; NULL is in neither, and so is OTHER for ``< <= > >=``.
"""

from __future__ import annotations

import datetime as dt
import difflib
import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

from defray.core import intervals
from defray.core.intervals import EMPTY, Atoms

Kind = Literal["integer", "float", "decimal", "string", "boolean", "date", "timestamp"]
Operator = Literal["=", "<>", "<", "<=", ">", ">="]
Literal_ = Fraction | str | bool
"""A literal as SQL text spells it: a number, a string (dates too) or TRUE/FALSE."""

Label = int | float | str | bool | None

MAX_LISTED = 4096
"""The most cells an explicit list (values, edges) may have."""

MAX_SUGGESTED_FROM = 1000
"""How many values of a list are looked at for the nearest ones to a wrong literal."""

EPOCH_DAY = dt.date(1970, 1, 1)
EPOCH = dt.datetime(1970, 1, 1)
MICROSECOND = dt.timedelta(microseconds=1)

DATE_LEVELS = ("day", "week", "month", "quarter", "year")
TIME_LEVELS = ("second", "minute", "hour", *DATE_LEVELS)
_FINER_THAN_MICROSECONDS = re.compile(r"[.,]\d{7}")
_LEVEL_MICROSECONDS = {
    "second": 10**6,
    "minute": 60 * 10**6,
    "hour": 3600 * 10**6,
    "day": 86400 * 10**6,
}


class LiteralRefused(ValueError):
    """A literal or comparison that the declared domain cannot answer; ``kind`` is a stable code."""

    def __init__(self, kind: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.hint = hint


# -- the shapes a column's proper atoms can have -----------------------------------------------------


@dataclass(frozen=True, slots=True)
class Whole:
    """Every integer from ``low`` to ``high``, both included (days since 1970-01-01 for dates)."""

    low: int
    high: int

    @property
    def count(self) -> int:
        return self.high - self.low + 1

    def to_json(self) -> Any:
        return {"whole": [self.low, self.high]}


@dataclass(frozen=True, slots=True)
class Values:
    """An explicit list of distinct values, in declared order."""

    items: tuple[Fraction | str | bool, ...]

    @property
    def count(self) -> int:
        return len(self.items)

    def to_json(self) -> Any:
        return {"values": [str(v) if isinstance(v, Fraction) else v for v in self.items]}


@dataclass(frozen=True, slots=True)
class Grid:
    """Bins ``[start + i*step, start + (i+1)*step)``, i < count; the last one includes its upper end.
    For timestamps in microseconds since 1970-01-01 UTC."""

    start: Fraction
    step: Fraction
    count: int

    def edge(self, i: int) -> Fraction:
        return self.start + i * self.step

    def edge_at_or_below(self, x: Fraction) -> int:
        """The largest i with ``edge(i) <= x`` (may be -1 or beyond count)."""
        return math.floor((x - self.start) / self.step)

    def to_json(self) -> Any:
        return {"grid": [str(self.start), str(self.step), self.count]}


@dataclass(frozen=True, slots=True)
class Cuts:
    """Bins between explicit ascending edges, ``[e0, e1), ..., [e_{n-1}, e_n]``."""

    edges: tuple[Fraction, ...]

    @property
    def count(self) -> int:
        return len(self.edges) - 1

    def edge(self, i: int) -> Fraction:
        return self.edges[i]

    def edge_at_or_below(self, x: Fraction) -> int:
        return bisect_right(self.edges, x) - 1

    def to_json(self) -> Any:
        return {"cuts": [str(e) for e in self.edges]}


@dataclass(frozen=True, slots=True)
class Anything:
    """One atom for every non-null value: a column that is summed but not asked about."""

    count: int = 1

    def to_json(self) -> Any:
        return {"anything": True}


Shape = Whole | Values | Grid | Cuts | Anything


@dataclass(frozen=True, slots=True)
class Group:
    """One group of a GROUP BY column: how it is shown, and its atoms."""

    label: Label
    atoms: Atoms


@dataclass(frozen=True)
class Column:
    """A declared column.  ``bounds`` and ``unit_step`` are set iff it may be summed; bounds are whole
    multiples of ``unit_step``."""

    name: str
    kind: Kind
    shape: Shape
    null: Literal["cell", "drop"] = "cell"
    other: Literal["null", "cell", "clamp", "drop"] = "null"
    bounds: tuple[Fraction, Fraction] | None = None
    unit_step: Fraction | None = None

    # -- atoms ----------------------------------------------------------------------------------

    @property
    def proper(self) -> int:
        """How many atoms are values of the domain (they are numbered from 0)."""
        return self.shape.count

    @property
    def other_atom(self) -> int | None:
        return self.proper if self.other == "cell" else None

    @property
    def null_atom(self) -> int | None:
        if self.null == "drop":
            return None
        return self.proper + (1 if self.other == "cell" else 0)

    @property
    def width(self) -> int:
        """All atoms: proper ones, OTHER, NULL."""
        return self.proper + (self.other == "cell") + (self.null == "cell")

    @property
    def nulls(self) -> Atoms:
        atom = self.null_atom
        return EMPTY if atom is None else intervals.single(atom)

    @property
    def non_nulls(self) -> Atoms:
        return intervals.complement(self.nulls, self.width)

    # -- sums -----------------------------------------------------------------------------------

    @property
    def low_units(self) -> int:
        """The lower bound in whole units of ``unit_step``; ValueError if the column has no bounds."""
        return self._in_units(0)

    @property
    def high_units(self) -> int:
        return self._in_units(1)

    def _in_units(self, end: int) -> int:
        if self.bounds is None or self.unit_step is None:
            raise ValueError(f"column {self.name} has no bounds")
        units = self.bounds[end] / self.unit_step
        if units.denominator != 1:
            raise ValueError(f"bounds of {self.name} are no multiples of unit_step")
        return units.numerator

    # -- comparisons ------------------------------------------------------------------------------

    def compare(
        self, operator: Operator, literal: Literal_, *, snap: bool = False
    ) -> tuple[Atoms, Atoms]:
        """The atoms where ``column OP literal`` is true, and those where it is false.

        With ``snap`` a threshold inside a bin is widened outward: the split bin is in both sets.
        Raises LiteralRefused (kinds ``literal-type``, ``outside-domain``, ``off-grid``,
        ``not-comparable``).
        """
        shape = self.shape
        if isinstance(shape, Anything):
            raise LiteralRefused(
                "not-comparable",
                f"column {self.name} has no declared domain, so it cannot be compared",
                f"declare its values or min and max in the contract: [columns.{self.name}]",
            )
        point = self.point(literal)
        if isinstance(shape, Values):
            return self._compare_values(shape, operator, point)
        assert isinstance(point, Fraction)
        if isinstance(shape, Whole):
            return self._compare_whole(shape, operator, point)
        return self._compare_bins(shape, operator, point, snap=snap)

    def point(self, literal: Literal_) -> Fraction | str | bool:
        """The literal as a point of this column's type: numbers, dates in days, times in µs."""
        kind = self.kind
        if kind == "string":
            if isinstance(literal, str):
                return literal
            raise self._wrong_type(literal, "a quoted string")
        if kind == "boolean":
            if isinstance(literal, bool):
                return literal
            raise self._wrong_type(literal, "TRUE or FALSE")
        if kind == "date":
            return self._date_point(literal)
        if kind == "timestamp":
            return self._time_point(literal)
        if isinstance(literal, Fraction):
            return literal
        raise self._wrong_type(literal, "a number")

    def _date_point(self, literal: Literal_) -> Fraction:
        if isinstance(literal, str):
            try:
                return Fraction((dt.date.fromisoformat(literal) - EPOCH_DAY).days)
            except ValueError:
                pass  # not a date: refused below, like every other wrong literal
        raise self._wrong_type(literal, "a date such as DATE '2020-01-31'")

    def _time_point(self, literal: Literal_) -> Fraction:
        if isinstance(literal, str):
            try:
                moment = dt.datetime.fromisoformat(literal)
                if moment.tzinfo is not None:
                    moment = moment.astimezone(dt.UTC).replace(tzinfo=None)
                if not _FINER_THAN_MICROSECONDS.search(literal):
                    return Fraction((moment - EPOCH) // MICROSECOND)
            except (ValueError, OverflowError):
                pass  # not a time of the years 1 to 9999: refused below, like every wrong literal
        raise self._wrong_type(literal, "a time such as TIMESTAMP '2020-01-31 12:00:00'")

    def _wrong_type(self, literal: Literal_, wanted: str) -> LiteralRefused:
        shown = _brief(repr(literal) if isinstance(literal, str) else show_number(literal))
        return LiteralRefused(
            "literal-type",
            f"column {self.name} is of type {self.kind}; {shown} is not",
            f"write {wanted}",
        )

    def _sides(
        self, operator: Operator, below: Atoms, at: Atoms, above: Atoms
    ) -> tuple[Atoms, Atoms]:
        other = () if self.other_atom is None else intervals.single(self.other_atom)
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

    def _compare_whole(self, shape: Whole, operator: Operator, x: Fraction) -> tuple[Atoms, Atoms]:
        if not shape.low <= x <= shape.high:
            nearest = shape.low if x < shape.low else shape.high
            raise self._outside(x, [nearest])
        if x.denominator != 1 and operator in ("=", "<>"):
            raise self._outside(x, [math.floor(x), math.ceil(x)])
        n = shape.count
        first, after = math.ceil(x) - shape.low, math.floor(x) - shape.low + 1
        at = ((first, after),) if first < after else EMPTY
        return self._sides(
            operator, intervals.normal([(0, first)]), at, intervals.normal([(after, n)])
        )

    def _compare_values(
        self, shape: Values, operator: Operator, point: Fraction | str | bool
    ) -> tuple[Atoms, Atoms]:
        items = shape.items
        place = self._places.get(point)
        at = EMPTY if place is None else intervals.single(place)
        if operator in ("=", "<>"):
            if place is None:
                raise self._outside(point, self._near(shape, point))
            return self._sides(operator, EMPTY, at, intervals.complement(at, shape.count))
        if place is None:
            numbers = [v for v in items if isinstance(v, Fraction)]
            if not (isinstance(point, Fraction) and min(numbers) <= point <= max(numbers)):
                raise self._outside(point, self._near(shape, point))
        below = intervals.of(i for i, v in enumerate(items) if v < point)  # type: ignore[operator]
        above = intervals.of(i for i, v in enumerate(items) if v > point)  # type: ignore[operator]
        return self._sides(operator, below, at, above)

    @cached_property
    def _places(self) -> dict[Any, int]:
        return (
            {v: i for i, v in enumerate(self.shape.items)} if isinstance(self.shape, Values) else {}
        )

    def _near(self, shape: Values, point: Fraction | str | bool) -> list[Any]:
        if isinstance(point, str):
            names = [v for v in shape.items[:MAX_SUGGESTED_FROM] if isinstance(v, str)]
            folded = [v for v in names if v.casefold() == point.casefold()]
            return folded or difflib.get_close_matches(point, names, 3, 0.5) or names[:3]
        numbers = [v for v in shape.items if isinstance(v, Fraction)]
        return sorted(numbers, key=lambda v: abs(v - Fraction(point)))[:1]

    def _compare_bins(
        self, shape: Grid | Cuts, operator: Operator, x: Fraction, *, snap: bool
    ) -> tuple[Atoms, Atoms]:
        n = shape.count
        low, high = shape.edge(0), shape.edge(n)
        if not low <= x <= high:
            raise self._outside(x, [low if x < low else high])
        # Cell i is [edge(i), edge(i+1)), the last one closed.  On an edge, "at" is the start of a cell.
        i = shape.edge_at_or_below(x)
        on_edge = i <= n and shape.edge(i) == x
        clean = on_edge and (
            (operator in ("<", ">=") and x != high) or (operator in ("<=", ">") and x == high)
        )
        cell = min(i, n - 1)
        if clean and operator in ("<", ">="):
            return self._sides(operator, intervals.normal([(0, i)]), EMPTY, ((i, n),))
        if clean:
            return self._sides(operator, ((0, n),), EMPTY, EMPTY)
        if not snap:
            a, b = (self.show_point(shape.edge(j)) for j in (cell, cell + 1))
            last = cell == n - 1
            forms = f"{a}, or <= {b}" if last else f"{a} or {b}"
            raise LiteralRefused(
                "off-grid",
                f"{self.name} {operator} {self.show_point(x)} splits the cell "
                f"[{a}, {b}{']' if last else ')'} of the declared grid",
                f'use {self.name} >= or < with {forms}, or snap outward (snap="outward")',
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
                return split, self.non_nulls
            case "<>":
                return self.non_nulls, split

    def _outside(self, point: Fraction | str | bool, nearest: Iterable[Any]) -> LiteralRefused:
        names = " or ".join(_brief(self.show_point(v)) for v in nearest)
        return LiteralRefused(
            "outside-domain",
            f"{_brief(self.show_point(point))} is outside the declared domain of {self.name}",
            f"the nearest declared value is {names}" if names else "see the contract's domain",
        )

    # -- showing --------------------------------------------------------------------------------

    def show_point(self, point: Any) -> str:
        """A point of this column as SQL text (numbers bare, the rest quoted)."""
        if isinstance(point, bool):
            return "TRUE" if point else "FALSE"
        if isinstance(point, str):
            return "'" + point.replace("'", "''") + "'"
        if self.kind == "date":
            return f"DATE '{EPOCH_DAY + dt.timedelta(days=int(point))}'"
        if self.kind == "timestamp":
            return f"TIMESTAMP '{EPOCH + int(point) * MICROSECOND}'"
        return show_number(point)

    def label(self, atom: int) -> Label:
        """How an atom is shown in answers: its value, ``[a, b)`` for a bin, None for NULL."""
        shape = self.shape
        if atom == self.null_atom:
            return None
        if atom == self.other_atom:
            return "(other)"
        if isinstance(shape, Whole):
            value = shape.low + atom
            return str(EPOCH_DAY + dt.timedelta(days=value)) if self.kind == "date" else value
        if isinstance(shape, Values):
            item = shape.items[atom]
            if isinstance(item, Fraction):
                return item.numerator if item.denominator == 1 else float(item)
            return item
        if isinstance(shape, Anything):
            return "(any)"
        if self.kind == "timestamp":
            return str(EPOCH + int(shape.edge(atom)) * MICROSECOND)
        end = "]" if atom == shape.count - 1 else ")"
        return f"[{show_number(shape.edge(atom))}, {show_number(shape.edge(atom + 1))}{end}"

    # -- grouping -------------------------------------------------------------------------------

    @cached_property
    def levels(self) -> tuple[str, ...]:
        """The levels a GROUP BY may use: ``value``, and date_trunc units for dates and times."""
        if isinstance(self.shape, Anything):
            return ()
        if self.kind == "date" and isinstance(self.shape, Whole):
            return ("value", *DATE_LEVELS)
        if self.kind == "timestamp" and isinstance(self.shape, Grid):
            shape = self.shape
            fits = [
                level
                for level, size in _LEVEL_MICROSECONDS.items()
                if size % shape.step == 0 and shape.start % size % shape.step == 0
            ]
            return ("value", *fits, *(DATE_LEVELS[1:] if "day" in fits else ()))
        return ("value",)

    def group_count(self, level: str) -> int:
        """How many groups the level has, without making them."""
        if level == "value":
            return self.width
        first, last = (_bucket(self._moment(atom), level) for atom in (0, self.proper - 1))
        return last - first + 1 + self.width - self.proper

    def groups(self, level: str = "value") -> tuple[Group, ...]:
        """The groups of a level in ascending order, OTHER and NULL last; they partition the atoms."""
        if level not in self.levels:
            raise ValueError(f"{self.name} has no level {level}")
        cache = self._groups
        if level not in cache:
            cache[level] = tuple(self._make_groups(level))
        return cache[level]

    @cached_property
    def _groups(self) -> dict[str, tuple[Group, ...]]:
        return {}

    def _make_groups(self, level: str) -> list[Group]:
        if level == "value" or (level == "day" and self.kind == "date"):
            return [Group(self.label(a), intervals.single(a)) for a in range(self.width)]
        # Atoms ascend in time and no atom straddles two buckets, so each bucket is one run of atoms.
        out: list[Group] = []
        lo = 0
        while lo < self.proper:
            start = truncate(self._moment(lo), level)
            hi = self._first_from_bucket(_bucket(start, level) + 1, level, lo)
            shown = str(start.date()) if self.kind == "date" else str(start)
            out.append(Group(shown, ((lo, hi),)))
            lo = hi
        return out + [
            Group(self.label(a), intervals.single(a)) for a in range(self.proper, self.width)
        ]

    def _first_from_bucket(self, bucket: int, level: str, lo: int) -> int:
        """The first atom after ``lo`` that lies in ``bucket`` or a later one."""
        hi = self.proper
        while lo < hi:
            middle = (lo + hi) // 2
            if _bucket(self._moment(middle), level) < bucket:
                lo = middle + 1
            else:
                hi = middle
        return lo

    def _moment(self, atom: int) -> dt.datetime:
        if isinstance(self.shape, Whole):
            return EPOCH + dt.timedelta(days=self.shape.low + atom)
        assert isinstance(self.shape, Grid)
        return EPOCH + int(self.shape.edge(atom)) * MICROSECOND

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": self.kind,
            "shape": self.shape.to_json(),
            "null": self.null,
            "other": self.other,
            "bounds": None if self.bounds is None else [str(b) for b in self.bounds],
            "unit_step": None if self.unit_step is None else str(self.unit_step),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Column:
        bounds = data["bounds"]
        return cls(
            name=data["name"],
            kind=data["kind"],
            shape=_shape_from_json(data["shape"], data["kind"]),
            null=data["null"],
            other=data["other"],
            bounds=None if bounds is None else (Fraction(bounds[0]), Fraction(bounds[1])),
            unit_step=None if data["unit_step"] is None else Fraction(data["unit_step"]),
        )


def _shape_from_json(data: Mapping[str, Any], kind: Kind) -> Shape:
    ((name, value),) = data.items()
    match name:
        case "whole":
            return Whole(value[0], value[1])
        case "values":
            listed = kind in ("string", "boolean")
            return Values(tuple(v if listed else Fraction(v) for v in value))
        case "grid":
            return Grid(Fraction(value[0]), Fraction(value[1]), value[2])
        case "cuts":
            return Cuts(tuple(Fraction(e) for e in value))
        case _:
            return Anything()


def truncate(moment: dt.datetime, level: str) -> dt.datetime:
    """``date_trunc`` of the usual SQL dialects (weeks start on Monday)."""
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    match level:
        case "second":
            return moment.replace(microsecond=0)
        case "minute":
            return moment.replace(second=0, microsecond=0)
        case "hour":
            return moment.replace(minute=0, second=0, microsecond=0)
        case "day":
            return day
        case "week":
            return day - dt.timedelta(days=day.weekday())
        case "month":
            return day.replace(day=1)
        case "quarter":
            return day.replace(month=day.month - (day.month - 1) % 3, day=1)
        case "year":
            return day.replace(month=1, day=1)
    raise ValueError(f"unknown level {level}")


def _bucket(moment: dt.datetime, level: str) -> int:
    """Which ``date_trunc`` bucket a moment lies in, counted so that neighbours differ by one."""
    match level:
        case "week":
            return (moment.toordinal() - 1) // 7  # 0001-01-01 was a Monday
        case "month":
            return moment.year * 12 + moment.month - 1
        case "quarter":
            return moment.year * 4 + (moment.month - 1) // 3
        case "year":
            return moment.year
    return (moment - EPOCH) // MICROSECOND // _LEVEL_MICROSECONDS[level]


def _brief(text: str) -> str:
    return text if len(text) <= 80 else text[:79] + "…"


def show_number(x: Any) -> str:
    """A number as short exact decimal text where it has one, else as a fraction.

    >>> show_number(Fraction(5, 2)), show_number(Fraction(-3)), show_number(Fraction(1, 3))
    ('2.5', '-3', '1/3')
    """
    if isinstance(x, bool):
        return "TRUE" if x else "FALSE"
    f = Fraction(x)
    if f.denominator == 1:
        return str(f.numerator)
    d, twos, fives = f.denominator, 0, 0
    while d % 2 == 0:
        d, twos = d // 2, twos + 1
    while d % 5 == 0:
        d, fives = d // 5, fives + 1
    if d != 1 or max(twos, fives) > 60:
        return str(f)
    places = max(twos, fives)
    scaled = abs(f.numerator) * 10**places // f.denominator
    text = str(scaled).rjust(places + 1, "0")
    return f"{'-' if f < 0 else ''}{text[:-places]}.{text[-places:]}"


@dataclass(frozen=True)
class Domain:
    """All declared columns, in ascending order of name (so that the order of a contract file does
    not matter).  Column numbers in regions are positions in this order."""

    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        names = [c.name for c in self.columns]
        if names != sorted(set(names)):
            raise ValueError("columns must be distinct and sorted by name")

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.columns)

    @cached_property
    def widths(self) -> tuple[int, ...]:
        return tuple(c.width for c in self.columns)

    def find(self, name: str, *, quoted: bool = False) -> int | None:
        """The position of a column by its name in SQL: exact, else (unquoted) whatever the case."""
        at = bisect_left(self.names, name)
        if at < len(self.names) and self.names[at] == name:
            return at
        if quoted:
            return None
        folded = [i for i, n in enumerate(self.names) if n.casefold() == name.casefold()]
        return folded[0] if len(folded) == 1 else None

    def __getitem__(self, name: str) -> Column:
        return self.columns[self.names.index(name)]

    def to_json(self) -> list[dict[str, Any]]:
        return [c.to_json() for c in self.columns]

    @classmethod
    def from_json(cls, data: Iterable[Mapping[str, Any]]) -> Domain:
        return cls(tuple(Column.from_json(c) for c in data))
