"""Spark's spelling.

ANSI mode is on (see :mod:`defray.data.spark.session`), so whatever would overflow must be spelled so that it
cannot: whole numbers that may become large are DECIMAL(38,0), and doubles are rounded as doubles.

>>> SPARK.text("Jane Doe"), SPARK.text("it's")
("'Jane Doe'", "CAST(X'69742773' AS STRING)")
>>> SPARK.name("a`b")
'`a``b`'
>>> SPARK.integer(2**64), SPARK.double(0.1)
("CAST('18446744073709551616' AS DECIMAL(38,0))", '0.1e0')
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from defray.data.dialect import Dialect

_PLAIN = re.compile(r"[A-Za-z0-9 _.,:/+-]*")
"""Texts that mean the same whatever a session says of escapes, substitution and quotes."""

_SPLIT = 2**53
_ROWS = 2**38
"""How many rows a sum of 64-bit integers may have before a wider one is used for it."""

KEY = "defray_key"
"""The view of one row whose columns ``outer_`` and ``inner_`` are the pads keys of the HMAC."""


@dataclass(frozen=True, slots=True)
class SparkDialect(Dialect):
    def name(self, name: str) -> str:
        return "`" + name.replace("`", "``") + "`"

    def text(self, value: str) -> str:
        if _PLAIN.fullmatch(value):
            return f"'{value}'"
        return f"CAST(X'{value.encode('utf-8', 'surrogatepass').hex()}' AS STRING)"

    def integer(self, n: int) -> str:
        if -(2**63) < n < 2**63:
            return str(n)
        return f"CAST('{n}' AS DECIMAL(38,0))"

    def double(self, value: float) -> str:
        if value in (float("inf"), float("-inf")):
            return f"CAST('{'-' if value < 0 else ''}Infinity' AS DOUBLE)"
        shown = repr(float(value))
        return shown if "e" in shown else f"{shown}e0"

    def date(self, days: int) -> str:
        near = Dialect.date(self, days)
        return near if near.startswith("DATE") else f"date_from_unix_date({days})"

    def timestamp(self, micros: int) -> str:
        """Without a zone: compared with a column that has one, Spark widens the literal to it, in UTC."""
        near = Dialect.timestamp(self, micros)
        return near.replace("TIMESTAMP '", "TIMESTAMP_NTZ '", 1)

    def far_timestamp(self, micros: int) -> str:
        return f"CAST(timestamp_micros({micros}) AS TIMESTAMP_NTZ)"

    def wide(self, x: str) -> str:
        return f"CAST({x} AS DECIMAL(38,0))"

    def long(self, x: str) -> str:
        return f"CAST({x} AS BIGINT)"

    def whole(self, x: str) -> str:
        """In two parts: a cast of the whole goes by way of its shortest text, which is another number."""
        high, low = self.long(f"{x} / {_SPLIT}e0"), self.long(f"{x} % {_SPLIT}e0")
        return f"({self.wide(high)} * {_SPLIT} + {low})"

    def divide(self, a: str, b: str, *, narrow: bool) -> str:
        """``div`` is of 64 bits, and wraps around beyond."""
        return f"({a} div {b})" if narrow else self.wide(f"({a} - {a} % {b}) / {b}")

    def scaled(self, x: str, places: int, digits: int) -> str:
        if places == 0:
            return self.wide(x)
        if digits + places <= 36:
            return self.wide(f"{x} * CAST({10**places} AS DECIMAL({places + 1},0))")
        return self.wide(f"replace(CAST({x} AS STRING), '.', '')")

    def in_units(
        self, x: str, up: float, down: float, low: float | None, high: float | None
    ) -> str:
        """``round`` of a double makes a decimal of it, and takes ten times as long."""
        n = f"{x} * {self.double(up)}" if up != 1 else x
        n = f"{n} / {self.double(down)}" if down != 1 else n
        away = f"WHEN {n} - rint({n}) = 0.5e0 AND {n} > 0e0 THEN 1e0"
        back = f"WHEN {n} - rint({n}) = -0.5e0 AND {n} < 0e0 THEN -1e0"
        return self.clipped(f"(rint({n}) + CASE {away} {back} ELSE 0e0 END)", low, high)

    def nearest(self, x: str) -> str:
        """``floor`` of a double is of 64 bits, and raises beyond."""
        return f"(rint({x}) - CASE WHEN rint({x}) - {x} = 0.5e0 THEN 1e0 ELSE 0e0 END)"

    def is_whole(self, x: str) -> str:
        return f"{x} % 1 = 0"

    def total(self, x: str, largest: int) -> str:
        return f"SUM({self.long(x) if largest * _ROWS < 2**63 else self.wide(x)})"

    def days(self, x: str) -> str:
        return f"CAST(unix_date({x}) AS BIGINT)"

    def micros(self, x: str) -> str:
        return f"unix_micros(CAST({x} AS TIMESTAMP))"

    def truncate(self, level: str, x: str) -> str:
        return f"date_trunc('{level}', {x})"

    @property
    def regroups(self) -> bool:
        return True

    def derived(self, query: str) -> str:
        """With an alias: without one, ``WHERE (FALSE)`` behind it is an alias with a name of a column."""
        return f"({query}) AS derived_"

    @property
    def with_twice(self) -> str:
        return ""

    def byte_length(self, text: str) -> str:
        return f"octet_length({text})"

    def hmac_sha256(self, outer: bytes, inner: bytes, text: str) -> str:
        """The keys are in the view :data:`KEY`, and so in no text that Spark shows or logs."""
        inside = f"unhex(sha2(concat((SELECT inner_ FROM {KEY}), CAST({text} AS BINARY)), 256))"
        return f"sha2(concat((SELECT outer_ FROM {KEY}), {inside}), 256)"

    def hash(self, x: str) -> str:
        return f"(xxhash64({x}) & {2**63 - 1})"


SPARK = SparkDialect()
