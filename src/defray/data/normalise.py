"""One declared column over one physical column: which rows lie in which atoms, as SQL.

The rules are those of :mod:`defray.core.domain`; ties of ``other = "clamp"`` go to the lower value (2.5 in
an integer column is 2).  Guards that the physical type cannot trigger are not rendered, so that
``age BETWEEN 40 AND 120`` over an INTEGER column is exactly that, and reaches Parquet's statistics.

A predicate is TRUE on the rows it means and FALSE *or NULL* on the others; it is never negated without
``IS NOT TRUE`` unless the value is known not to be NULL.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from defray.core import intervals
from defray.core.column import Column
from defray.core.intervals import Atoms
from defray.core.shapes import Anything, Cuts, Grid, Values, Whole
from defray.data.dialect import Dialect
from defray.data.lines import FloatLine, Line, Point

HALF = Fraction(1, 2)
Span = tuple[Point, Point]


@dataclass(frozen=True)
class Normal:
    """``x`` is the SQL of the value, on ``line`` (None for text and booleans)."""

    column: Column
    x: str
    line: Line | None
    dialect: Dialect

    def __post_init__(self) -> None:
        column = self.column
        if column.other == "clamp" and isinstance(column.shape, Values | Anything):
            raise ValueError(f"column {column.name} has no range to be clamped to")

    # -- predicates -----------------------------------------------------------------------------

    def predicate(self, atoms: Atoms) -> str | bool:
        """TRUE on the kept rows whose atom is in ``atoms``."""
        column = self.column
        rest = intervals.complement(atoms, column.width)
        if not rest:
            return True
        if not atoms:
            return False
        if column.null_atom is not None and intervals.contains(atoms, column.null_atom):
            if column.other != "null" and rest == column.non_nulls:
                return self.is_null
            return f"({self.predicate(rest)}) IS NOT TRUE"
        if column.other_atom is not None and intervals.contains(atoms, column.other_atom):
            missing = intervals.intersection(rest, self.propers)
            if not missing:
                return self.is_value
            return f"(NOT ({self._proper(missing)}) AND {self.is_value})"
        return self._proper(atoms)

    @cached_property
    def keep(self) -> str | None:
        """TRUE on the rows this column leaves in the table; None where it leaves all."""
        column = self.column
        if column.null == "drop":
            inside = column.other in ("null", "drop")
            return self._proper(self.propers) if inside else self.is_value
        if column.other == "drop":
            return f"({self._proper(self.propers)} OR {self.is_null})"
        return None

    @property
    def propers(self) -> Atoms:
        return ((0, self.column.proper),)

    @property
    def is_value(self) -> str:
        """Not NULL and not NaN (which sorts above infinity)."""
        line = self.line
        if isinstance(line, FloatLine):
            return f"{self.x} <= {line.sql(math.inf, self.dialect)}"
        if line is not None and line.nan:
            return f"{self.x} < 'NaN'"
        return f"{self.x} IS NOT NULL"

    @property
    def is_null(self) -> str:
        if self.line is not None and self.line.nan:
            return f"({self.is_value}) IS NOT TRUE"
        return f"{self.x} IS NULL"

    def _proper(self, atoms: Atoms) -> str:
        shape, line = self.column.shape, self.line
        if isinstance(shape, Anything):
            return self.is_value
        if line is not None:
            return self._ranges(self.spans(atoms))
        assert isinstance(shape, Values)
        items = [shape.items[i] for i in intervals.members(atoms)]
        if self.column.kind == "boolean":
            both = len(items) == 2
            return self.is_value if both else f"{self.x} = {self.dialect.boolean(bool(items[0]))}"
        return self.dialect.member(self.x, [str(i) for i in items])

    def _ranges(self, spans: list[Span]) -> str:
        line, x = self.line, self.x
        assert line is not None
        singles = [line.sql(a, self.dialect) for a, b in spans if a == b]
        parts = []
        for a, b in spans:
            if a == b:
                continue
            low, high = line.sql(a, self.dialect), line.sql(b, self.dialect)
            at_low = a == (-math.inf if isinstance(line, FloatLine) else line.low)
            at_high = not line.nan and b == line.high
            if at_low and at_high:
                part = self.is_value
            elif at_low:
                part = f"{x} <= {high}"
            elif at_high:
                part = f"{x} >= {low}"
            else:
                part = f"{x} BETWEEN {low} AND {high}"
            parts.append(f"{part} AND {self.dialect.is_whole(x)}" if self.integral_guard else part)
        if len(singles) == 1:
            parts.append(f"{x} = {singles[0]}")
        elif singles:
            parts.append(f"{x} IN ({', '.join(singles)})")
        if not parts:
            return "FALSE"
        return parts[0] if len(parts) == 1 else f"({' OR '.join(parts)})"

    @property
    def integral_guard(self) -> bool:
        """Whether a whole number is declared where the physical type has fractions, which are outside."""
        if not isinstance(self.column.shape, Whole) or self.column.other == "clamp":
            return False
        return isinstance(self.line, FloatLine) or (self.line is not None and self.line.places > 0)

    # -- ranges of points ---------------------------------------------------------------------------

    def spans(self, atoms: Atoms) -> list[Span]:
        """The closed ranges of points that make up the given proper atoms, ascending; ±inf lie where
        clamping them to the bounds puts them."""
        line = self.line
        assert line is not None
        found: list[Span] = []
        unbounded: list[tuple[Point | None, Point | None]] = list(self._open_spans(atoms))
        if isinstance(line, FloatLine):
            below, above = (
                intervals.contains(atoms, at) if at is not None else False
                for at in (self.infinity(-1), self.infinity(+1))
            )
            first, last = -math.inf if below else line.low, math.inf if above else line.high
            for a, b in unbounded:
                found.append((first if a is None else a, last if b is None else b))
            if below and all(a is not None for a, _ in unbounded):
                found.append((-math.inf, -math.inf))
            if above and all(b is not None for _, b in unbounded):
                found.append((math.inf, math.inf))
        else:
            low, high = line.low, line.high
            for a, b in unbounded:
                found.append(
                    (low if a is None else max(a, low), high if b is None else min(b, high))
                )
        return self._joined(span for span in found if span[0] <= span[1])

    def _joined(self, spans: Iterable[Span]) -> list[Span]:
        assert self.line is not None
        out: list[Span] = []
        for a, b in sorted(spans):
            if out and not self.integral_guard and a <= self.line.next(out[-1][1]):
                out[-1] = (out[-1][0], max(b, out[-1][1]))
            else:
                out.append((a, b))
        return out

    def _open_spans(self, atoms: Atoms) -> Iterable[tuple[Point | None, Point | None]]:
        """As :meth:`spans` for finite values, None for an open end."""
        shape, line = self.column.shape, self.line
        assert line is not None
        clamped = self.column.other == "clamp"
        if isinstance(shape, Values):
            ranges = self._listed
            for atom in intervals.members(atoms):
                if ranges[atom] is not None:
                    yield ranges[atom]  # type: ignore[misc]  # just checked
            return
        n = shape.count
        for lo, hi in atoms:
            a: Point | None
            b: Point | None
            if isinstance(shape, Whole):
                start, stop = Fraction(shape.low + lo), Fraction(shape.low + hi - 1)
                a = line.next(line.floor(start - HALF)) if clamped else line.ceil(start)
                b = line.floor(stop + HALF) if clamped else line.floor(stop)
            elif isinstance(shape, Grid | Cuts):
                a = line.edge(shape.edge(lo))
                last = hi == n
                b = line.end(shape.edge(n)) if last else line.previous(line.edge(shape.edge(hi)))
            else:
                a = b = None
            if clamped:
                a, b = (None if lo == 0 else a), (None if hi == n else b)
            yield a, b

    @cached_property
    def _listed(self) -> list[tuple[Point, Point] | None]:
        """The point of each listed number as a range; None where the type has no such number."""
        shape, line = self.column.shape, self.line
        assert isinstance(shape, Values) and line is not None
        points = [line.at(Fraction(item)) for item in shape.items]
        first = {at: i for i, at in reversed(list(enumerate(points)))}
        return [
            (at, at) if at is not None and first[at] == i else None for i, at in enumerate(points)
        ]

    @cached_property
    def by_value(self) -> list[int]:
        """The atoms of a list of numbers, ascending by value."""
        assert isinstance(self.column.shape, Values)
        items = self.column.shape.items
        return sorted(range(len(items)), key=lambda i: Fraction(items[i]))

    def infinity(self, sign: int) -> int | None:
        """The proper atom +inf or -inf lies in (after clamping to the bounds), if any."""
        column = self.column
        if column.bounds is None:
            if isinstance(column.shape, Anything):
                return 0
            if column.other != "clamp":
                return None
            return 0 if sign < 0 else column.proper - 1
        return self.locate(column.bounds[0 if sign < 0 else 1])

    def locate(self, point: Fraction) -> int | None:
        """The proper atom of an exact number, None where it is outside the domain."""
        shape = self.column.shape
        clamped = self.column.other == "clamp"
        match shape:
            case Anything():
                return 0
            case Values(items):
                return items.index(point) if point in items else None
            case Whole(low, high):
                whole = math.ceil(point - HALF)
                if clamped:
                    return min(max(whole, low), high) - low
                inside = point.denominator == 1 and low <= point <= high
                return whole - low if inside else None
            case Grid() | Cuts():
                n = shape.count
                if not clamped and not shape.edge(0) <= point <= shape.edge(n):
                    return None
                return min(max(shape.edge_at_or_below(point), 0), n - 1)
