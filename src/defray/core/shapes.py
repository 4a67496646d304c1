"""What the values of a column are, and how its domain is cut into proper atoms."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

Kind = Literal["integer", "float", "decimal", "string", "boolean", "date", "timestamp"]
"""The type of a column's values."""

Point = Fraction | str | bool
"""A value of a column: dates as days since 1970-01-01, times as microseconds since 1970-01-01 UTC."""

MAX_LISTED = 4096
"""The most cells an explicit list (values, edges) may have."""


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


@dataclass(frozen=True)
class Values:
    """An explicit list of distinct values, in declared order."""

    items: tuple[Point, ...]

    @property
    def count(self) -> int:
        return len(self.items)

    @cached_property
    def places(self) -> Mapping[Point, int]:
        """The position of every item."""
        return {item: i for i, item in enumerate(self.items)}

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


def shape_from_json(data: Mapping[str, Any], kind: Kind) -> Shape:
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
