"""Ordered physical types as lines of points, so that a threshold means the same in every expression.

An exact line (integers, decimals, dates, timestamps) has a point for every whole number of its smallest
part; a float line has a point for every double (or single).  The edge of a bin is the first point at or
after the declared number on an exact line, and the *nearest* float on a float line: with bins of 0.1 from
0, the double 0.3 lies in [0.3, 0.4).  Cells are then closed ranges of points, which is what makes WHERE and
GROUP BY agree to the last bit.

>>> ExactLine("integer").edge(Fraction(5, 2)), ExactLine("decimal", places=2).edge(Fraction(1, 3))
(3, 34)
>>> FloatLine().edge(Fraction(3, 10)) == 0.3
True
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal

import numpy as np

from defray.data.dialect import Dialect

Point = int | float

ENDLESS = 2**200
"""Beyond every point of a type whose ends never show in a statement."""


@dataclass(frozen=True, slots=True)
class ExactLine:
    """Points are whole numbers n, the value is ``n / 10**places`` (days for dates, µs for timestamps).
    ``low`` and ``high`` are the ends of the physical type; ``nan``: it also knows NaN, above ``high``, which
    is as NULL."""

    name: Literal["integer", "decimal", "date", "timestamp"]
    places: int = 0
    digits: int = 38
    low: int = -ENDLESS
    high: int = ENDLESS
    nan: bool = False

    @property
    def scale(self) -> int:
        return int(10**self.places)

    def floor(self, p: Fraction) -> int:
        """The last point at or before ``p``."""
        return math.floor(p * self.scale)

    def ceil(self, p: Fraction) -> int:
        """The first point at or after ``p``."""
        return math.ceil(p * self.scale)

    def edge(self, p: Fraction) -> int:
        """The first point of the cell that starts at ``p``."""
        return self.ceil(p)

    def end(self, p: Fraction) -> int:
        """The last point of the closed cell that ends at ``p``."""
        return self.floor(p)

    def at(self, p: Fraction) -> int | None:
        """The point of a listed value, if there is one."""
        n = p * self.scale
        return n.numerator if n.denominator == 1 else None

    def next(self, n: Point) -> Point:
        return n + 1

    def previous(self, n: Point) -> Point:
        return n - 1

    def sql(self, n: Point, dialect: Dialect) -> str:
        whole = int(n)
        match self.name:
            case "integer":
                return dialect.integer(whole)
            case "decimal":
                return dialect.decimal(whole, self.places, self.digits)
            case "date":
                return dialect.date(whole)
            case "timestamp":
                return dialect.timestamp(whole)

    def number(self, x: str, dialect: Dialect) -> str:
        """The point of the value ``x`` as an SQL integer."""
        match self.name:
            case "integer":
                return x
            case "decimal":
                return dialect.scaled(x, self.places, self.digits)
            case "date":
                return dialect.days(x)
            case "timestamp":
                return dialect.micros(x)


@dataclass(frozen=True, slots=True)
class FloatLine:
    """Points are floats, ±inf included, NaN not.  ``single`` for 32-bit columns."""

    single: bool = False
    nan: ClassVar[bool] = True

    @property
    def low(self) -> float:
        return -self.high

    @property
    def high(self) -> float:
        return float(np.finfo(np.float32).max) if self.single else sys.float_info.max

    def edge(self, p: Fraction) -> float:
        """The nearest double of ``p`` (for singles: the nearest single of that)."""
        try:
            value = float(p)
        except OverflowError:
            value = math.inf if p > 0 else -math.inf
        if self.single:
            with np.errstate(over="ignore"):
                value = float(np.float32(value))
        return min(max(value, self.low), self.high)

    end = edge

    def at(self, p: Fraction) -> float | None:
        return self.edge(p)

    def floor(self, p: Fraction) -> float:
        value = self.edge(p)
        return value if value <= p else self.previous(value)

    def ceil(self, p: Fraction) -> float:
        value = self.edge(p)
        return value if value >= p else self.next(value)

    def next(self, x: Point) -> float:
        return self._step(x, math.inf)

    def previous(self, x: Point) -> float:
        return self._step(x, -math.inf)

    def _step(self, x: Point, toward: float) -> float:
        if self.single:
            with np.errstate(all="ignore"):
                return float(np.nextafter(np.float32(x), np.float32(toward)))
        return math.nextafter(x, toward)

    def sql(self, x: Point, dialect: Dialect) -> str:
        return dialect.single(x) if self.single else dialect.double(x)


Line = ExactLine | FloatLine
