"""How one SQL dialect spells names and literals.  Everything rendered by this package goes through here,
so no text of an analyst or a contract can end a literal.

>>> DUCKDB.text("it's")
"'it''s'"
>>> DUCKDB.name('a"b')
'"a""b"'
>>> DUCKDB.integer(2**64), DUCKDB.double(0.1)
("CAST('18446744073709551616' AS HUGEINT)", '0.1e0')
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

EPOCH = dt.datetime(1970, 1, 1)
FEW = 8
"""Longer lists of text are looked up by hash: comparing one by one is 10x slower."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """DuckDB's spelling; another database's source overrides what it spells differently."""

    def name(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    def text(self, value: str) -> str:
        return "'" + value.replace("'", "''") + "'"

    def integer(self, n: int) -> str:
        if -(2**63) < n < 2**63:
            return str(n)
        wide = "HUGEINT" if -(2**127) <= n < 2**127 else "UHUGEINT"
        return f"CAST('{n}' AS {wide})"

    def wide(self, x: str) -> str:
        """``x`` as an integer of 128 bits."""
        return f"CAST({x} AS HUGEINT)"

    def long(self, x: str) -> str:
        """``x`` as an integer of 64 bits."""
        return f"CAST({x} AS BIGINT)"

    def double(self, value: float) -> str:
        if value in (float("inf"), float("-inf")):
            return f"CAST('{'-' if value < 0 else ''}Infinity' AS DOUBLE)"
        shown = repr(float(value))
        return shown if "e" in shown else f"{shown}e0"

    def single(self, value: float) -> str:
        return f"CAST({self.double(value)} AS FLOAT)"

    def decimal(self, n: int, places: int, digits: int) -> str:
        """The number ``n / 10**places`` as a DECIMAL of ``digits`` digits."""
        text = str(abs(n)).rjust(places + 1, "0")
        cut = len(text) - places
        shown = f"{'-' if n < 0 else ''}{text[:cut]}" + (f".{text[cut:]}" if places else "")
        return f"CAST('{shown}' AS DECIMAL({digits},{places}))"

    def date(self, days: int) -> str:
        try:
            return f"DATE '{(EPOCH + dt.timedelta(days=days)).date()}'"
        except OverflowError:
            return f"(DATE '1970-01-01' + ({days}))"

    def timestamp(self, micros: int) -> str:
        try:
            return f"TIMESTAMP '{EPOCH + dt.timedelta(microseconds=micros)}'"
        except OverflowError:
            return f"make_timestamp(CAST({micros} AS BIGINT))"

    def boolean(self, value: bool) -> str:
        return "TRUE" if value else "FALSE"

    def divide(self, a: str, b: str) -> str:
        """Whole division of integers, toward zero."""
        return f"({a} // {b})"

    def days(self, x: str) -> str:
        """Days since 1970-01-01 of a date."""
        return f"({x} - DATE '1970-01-01')"

    def micros(self, x: str) -> str:
        """Microseconds since 1970-01-01 of a timestamp."""
        return f"epoch_us({x})"

    def truncate(self, level: str, x: str) -> str:
        """``date_trunc`` as a timestamp."""
        return f"CAST(date_trunc('{level}', {x}) AS TIMESTAMP)"

    def scaled(self, x: str, places: int, digits: int) -> str:
        """The whole number ``x * 10**places`` of a DECIMAL(digits, places): exact, and free of the
        overflow that multiplying a long DECIMAL can meet."""
        if places == 0:
            return self.wide(x)
        if digits + places < 38:
            return self.wide(f"{x} * CAST({10**places} AS DECIMAL({places + 1},0))")
        return self.wide(f"replace(CAST({x} AS VARCHAR), '.', '')")

    def member(self, x: str, items: Sequence[str]) -> str:
        """Whether the text ``x`` is one of the distinct ``items``; NULL or FALSE where it is not."""
        if len(items) == 1:
            return f"{x} = {self.text(items[0])}"
        if len(items) <= FEW:
            return f"{x} IN ({', '.join(map(self.text, items))})"
        return f"{self.position(x, items)} IS NOT NULL"

    def position(self, x: str, items: Sequence[str]) -> str:
        """The place of the text ``x`` among the distinct ``items``, NULL where it is none of them."""
        return f"TRY_CAST({x} AS ENUM({', '.join(map(self.text, items))}))"

    def place(self, position: str) -> str:
        """A :meth:`position` as an integer."""
        return f"CAST(enum_code({position}) AS BIGINT)"


DUCKDB = Dialect()
