"""PostgreSQL's spelling.

PostgreSQL raises where others return infinity, zero or NULL: when doubles overflow *or underflow*, and in
every cast that does not fit.  Whether a scan raises must not depend on a row, so what could raise is
spelled in a way that cannot.

>>> POSTGRESQL.text("it's")
"'it''s'"
>>> POSTGRESQL.integer(2**64), POSTGRESQL.double(0.1)
('18446744073709551616', "CAST('0.1' AS float8)")
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from defray.data.dialect import Dialect

BELOW_HALF: Final = 0.49999999999999994
"""The last double before one half.  ``trunc(x + it)`` rounds x >= 0 with halves up, where adding one half
would round some sums up to the next whole number."""
SPLIT: Final = 2**40


@dataclass(frozen=True, slots=True)
class PostgresDialect(Dialect):
    """``standard_conforming_strings`` is on in every session, so that a backslash is one."""

    def integer(self, n: int) -> str:
        return str(n)

    def double(self, value: float) -> str:
        shown = repr(float(value)).replace("inf", "Infinity")
        return f"CAST('{shown}' AS float8)"

    def single(self, value: float) -> str:
        shown = repr(float(value)).replace("inf", "Infinity")
        return f"CAST('{shown}' AS float4)"

    def decimal(self, n: int, places: int, digits: int) -> str:
        text = str(abs(n)).rjust(places + 1, "0")
        cut = len(text) - places
        shown = f"{'-' if n < 0 else ''}{text[:cut]}" + (f".{text[cut:]}" if places else "")
        return f"CAST('{shown}' AS numeric)"

    def far_timestamp(self, micros: int) -> str:
        return f"(TIMESTAMP '1970-01-01' + CAST('{micros} microseconds' AS interval))"

    def wide(self, x: str) -> str:
        return f"CAST({x} AS numeric)"

    def long(self, x: str) -> str:
        return f"CAST({x} AS bigint)"

    def whole(self, x: str) -> str:
        """The cast of a double to numeric keeps 15 digits, the one to bigint keeps all."""
        split = self.double(SPLIT)
        high = f"trunc({x} / {split})"
        return f"(CAST(CAST({high} AS bigint) AS numeric) * {SPLIT} + CAST({x} - {high} * {split} AS bigint))"

    def as_double(self, x: str) -> str:
        return f"CAST({x} AS float8)"

    def divide(self, a: str, b: str, *, narrow: bool) -> str:
        return f"({a} / {b})" if narrow else f"div({a}, {b})"

    def scaled(self, x: str, places: int, digits: int) -> str:
        return f"({x} * {10**places})" if places else x

    def quotient(self, x: str, step: str) -> str:
        """A quotient of a tiny number would underflow; the sum never does."""
        return f"(({x} + {step}) / {step} - 1)"

    def in_units(
        self, x: str, up: float, down: float, low: float | None, high: float | None
    ) -> str:
        """Clipped first, so that nothing overflows: at the doubles that scale to the ends where there are
        such, and a little beyond them and again afterwards elsewhere."""
        ends = [None if end is None else end * down / up for end in (low, high)]
        hits = all(
            e is None or e * up / down == end for e, end in zip(ends, (low, high), strict=True)
        )
        first, last = ends
        if not hits:
            first = None if first is None else _beyond(first, -down / up)
            last = None if last is None else _beyond(last, down / up)
        x = self.clipped(x, first, last)
        times = f"{x} * {self.double(up)}" if up != 1 else x
        if down != 1:  # what is below 1 is 0 in the end; divided, it could underflow
            near = f"{times} > -1 AND {times} < 1"
            times = f"CASE WHEN {near} THEN 0 ELSE {times} / {self.double(down)} END"
        half = self.double(BELOW_HALF)
        if low is None or low < 0:
            half = f"CASE WHEN {x} < 0 THEN -{half} ELSE {half} END"
        nearest = f"trunc({times} + {half})"
        return nearest if hits else self.clipped(nearest, low, high)

    @property
    def adds_decimals(self) -> bool:
        return True

    def total(self, x: str, largest: int) -> str:
        return f"SUM({self.long(x) if largest < 2**62 else self.wide(x)})"

    def days(self, x: str) -> str:
        return f"({x} - DATE '1970-01-01')"

    def micros(self, x: str) -> str:
        """NULL where it is infinite."""
        return f"CASE WHEN isfinite({x}) THEN CAST(extract(epoch FROM {x}) * 1000000 AS bigint) END"

    def truncate(self, level: str, x: str) -> str:
        return f"date_trunc('{level}', CAST({x} AS timestamp))"

    @property
    def regroups(self) -> bool:
        return True

    def derived(self, query: str) -> str:
        return f"({query}) AS t_"

    @property
    def with_twice(self) -> str:
        return "MATERIALIZED"

    def byte_length(self, text: str) -> str:
        return f"octet_length({text})"

    def hmac_sha256(self, outer: bytes, inner: bytes, text: str) -> str:
        """The pads are parameters of the statement ($1 and $2), so that no list of what the server is doing
        shows the key."""
        inside = f"sha256(CAST($2 AS bytea) || convert_to({text}, 'UTF8'))"
        return f"sha256(CAST($1 AS bytea) || {inside})"

    def bytewise(self, text: str) -> str:
        return f'{text} COLLATE "C"'

    def joined(
        self, query: str, other: str, key: str, *, there: bool
    ) -> tuple[str, tuple[str, ...]]:
        found = f"EXISTS (SELECT 1 FROM {other} WHERE {other}.{key} = t_.{key})"
        return self.derived(query), (found if there else f"NOT {found}",)


def _beyond(end: float, unit: float) -> float:
    """A double a little further out than an end of the range, whose scaled value is beyond it."""
    return end + unit * 1e-3 + abs(end) * (1e-9 if unit > 0 else -1e-9)


POSTGRESQL = PostgresDialect()
