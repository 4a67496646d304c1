"""DuckDB's spelling.

>>> DUCKDB.text("it's")
"'it''s'"
>>> DUCKDB.name('a"b')
'"a""b"'
>>> DUCKDB.integer(2**64), DUCKDB.double(0.1)
("CAST('18446744073709551616' AS HUGEINT)", '0.1e0')
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from defray.data.dialect import Dialect

FEW = 8
"""Longer lists of text are looked up by hash: comparing one by one is 10x slower."""


@dataclass(frozen=True, slots=True)
class DuckDBDialect(Dialect):
    def integer(self, n: int) -> str:
        if -(2**63) < n < 2**63:
            return str(n)
        wide = "HUGEINT" if -(2**127) <= n < 2**127 else "UHUGEINT"
        return f"CAST('{n}' AS {wide})"

    def double(self, value: float) -> str:
        if value in (float("inf"), float("-inf")):
            return f"CAST('{'-' if value < 0 else ''}Infinity' AS DOUBLE)"
        shown = repr(float(value))
        return shown if "e" in shown else f"{shown}e0"

    def far_timestamp(self, micros: int) -> str:
        return f"make_timestamp(CAST({micros} AS BIGINT))"

    def wide(self, x: str) -> str:
        return f"CAST({x} AS HUGEINT)"

    def long(self, x: str) -> str:
        return f"CAST({x} AS BIGINT)"

    def divide(self, a: str, b: str, *, narrow: bool) -> str:
        return f"({a} // {b})"

    def scaled(self, x: str, places: int, digits: int) -> str:
        """Free of the overflow that multiplying a long DECIMAL can meet."""
        if places == 0:
            return self.wide(x)
        if digits + places < 38:
            return self.wide(f"{x} * CAST({10**places} AS DECIMAL({places + 1},0))")
        return self.wide(f"replace(CAST({x} AS VARCHAR), '.', '')")

    def days(self, x: str) -> str:
        return f"({x} - DATE '1970-01-01')"

    def micros(self, x: str) -> str:
        return f"epoch_us({x})"

    def member(self, x: str, items: Sequence[str]) -> str:
        if len(items) <= FEW:
            return Dialect.member(self, x, items)
        return f"{self.position(x, items)} IS NOT NULL"

    def position(self, x: str, items: Sequence[str]) -> str:
        return f"TRY_CAST({x} AS ENUM({', '.join(map(self.text, items))}))"

    def place(self, position: str) -> str:
        return f"CAST(enum_code({position}) AS BIGINT)"

    def placed(self, items: Sequence[str]) -> Callable[[Any], int | None]:
        return lambda place: place

    def byte_length(self, text: str) -> str:
        return f"strlen({text})"

    def hmac_sha256(self, outer: bytes, inner: bytes, text: str) -> str:
        inside = f"unhex(sha256(unhex('{inner.hex()}') || encode({text})))"
        return f"sha256(unhex('{outer.hex()}') || {inside})"


DUCKDB = DuckDBDialect()
