"""How one SQL dialect spells names, literals and functions.  Everything that is rendered goes through here,
so no text of an analyst or a contract can end a literal.

What every database spells alike stands here; each database's own dialect says the rest.  Expressions
must not raise because of what a row holds, and equal values must come out of all of them: a function
that rounds, overflows or collates in another way is spelled so that it does not.
"""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

EPOCH = dt.datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Dialect(ABC):
    # -- names and literals -----------------------------------------------------------------------

    def name(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    def text(self, value: str) -> str:
        return "'" + value.replace("'", "''") + "'"

    @abstractmethod
    def integer(self, n: int) -> str: ...

    @abstractmethod
    def double(self, value: float) -> str: ...

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
            return self.far_timestamp(micros)

    @abstractmethod
    def far_timestamp(self, micros: int) -> str:
        """A timestamp beyond the years 1 to 9999."""

    def boolean(self, value: bool) -> str:
        return "TRUE" if value else "FALSE"

    # -- numbers ----------------------------------------------------------------------------------

    @abstractmethod
    def wide(self, x: str) -> str:
        """The exact number ``x`` as an integer in which whatever is added up fits (128 bits or more)."""

    @abstractmethod
    def long(self, x: str) -> str:
        """``x`` as an integer of 64 bits."""

    def whole(self, x: str) -> str:
        """The double ``x``, a whole number, as :meth:`wide`."""
        return self.wide(x)

    def as_double(self, x: str) -> str:
        return f"CAST({x} AS DOUBLE)"

    @abstractmethod
    def divide(self, a: str, b: str, *, narrow: bool) -> str:
        """Whole division of integers, toward zero; ``narrow``: both are of at most 64 bits."""

    @abstractmethod
    def scaled(self, x: str, places: int, digits: int) -> str:
        """The whole number ``x * 10**places`` of a DECIMAL(digits, places), exactly."""

    def quotient(self, x: str, step: str) -> str:
        """About ``x / step`` for a double ``x`` from 0 on, off by less than one."""
        return f"{x} / {step}"

    def in_units(
        self, x: str, up: float, down: float, low: float | None, high: float | None
    ) -> str:
        """The double ``x * up / down`` (``up`` and ``down`` are whole) to the nearest whole one, halves
        away from zero; not below ``low`` and not above ``high``, where these are given."""
        times = f"{x} * {self.double(up)}" if up != 1 else x
        nearest = f"round({times} / {self.double(down)})" if down != 1 else f"round({times})"
        return self.clipped(nearest, low, high)

    def clipped(self, x: str, low: float | None, high: float | None) -> str:
        """The double ``x``, not below ``low`` and not above ``high``."""
        inner = x if low is None else f"greatest({x}, {self.double(low)})"
        return inner if high is None else f"least({inner}, {self.double(high)})"

    @property
    def adds_decimals(self) -> bool:
        """Whether sums of decimals are exact and never overflow, so that they can be scaled afterwards."""
        return False

    def nearest(self, x: str) -> str:
        """The double ``x`` to the nearest whole one, halves down."""
        return f"CASE WHEN {x} > floor({x}) + 0.5e0 THEN floor({x}) + 1 ELSE floor({x}) END"

    def is_whole(self, x: str) -> str:
        """Whether a number of any type has no fraction; any answer for an infinite one."""
        return f"{x} = trunc({x})"

    def total(self, x: str, largest: int) -> str:
        """The sum of integers of at most ``largest`` in size, which never overflows."""
        return f"SUM({x})"

    # -- time -------------------------------------------------------------------------------------

    @abstractmethod
    def days(self, x: str) -> str:
        """Days since 1970-01-01 of a date."""

    @abstractmethod
    def micros(self, x: str) -> str:
        """Microseconds since 1970-01-01 of a timestamp."""

    def truncate(self, level: str, x: str) -> str:
        """``date_trunc`` as a timestamp."""
        return f"CAST(date_trunc('{level}', {x}) AS TIMESTAMP)"

    # -- lists of text ----------------------------------------------------------------------------

    def member(self, x: str, items: Sequence[str]) -> str:
        """Whether the text ``x`` is one of the distinct ``items``; NULL or FALSE where it is not."""
        if len(items) == 1:
            return f"{x} = {self.text(items[0])}"
        return f"{x} IN ({', '.join(map(self.text, items))})"

    def position(self, x: str, items: Sequence[str]) -> str:
        """What tells the distinct ``items`` apart, to be grouped by; NULL where the text ``x`` is none."""
        return f"CASE WHEN {self.member(x, items)} THEN {x} END"

    def place(self, position: str) -> str:
        """A :meth:`position` as it is fetched."""
        return position

    def placed(self, items: Sequence[str]) -> Callable[[Any], int | None]:
        """Reads a fetched :meth:`place` as the item's index, None where there is none."""
        return {item: i for i, item in enumerate(items)}.get

    def listed(
        self, x: str, items: Sequence[str], *, alone: bool
    ) -> tuple[str, Callable[[str], str]]:
        """What the text ``x`` is grouped by, and how a group's key is made what :meth:`placed` reads;
        ``alone``: nothing else is grouped by.  What :attr:`regroups` is grouped by the text itself, which is
        looked up once for each group rather than for each row."""
        if self.regroups:
            return x, lambda g: self.position(g, items)
        position = self.position(x, items)
        return (self.place(position), lambda g: g) if alone else (position, self.place)

    # -- queries ----------------------------------------------------------------------------------

    @property
    def regroups(self) -> bool:
        """Whether the groups of a statement may be more than the domain has, and are joined by a second
        GROUP BY over what is fetched of their keys."""
        return False

    def derived(self, query: str) -> str:
        """A query as an item of FROM."""
        return f"({query})"

    # -- kept rows (see defray.data.truncation) ----------------------------------------------------

    @property
    def with_twice(self) -> str:
        """How a query behind WITH is best kept that two others read."""
        return "NOT MATERIALIZED"

    @abstractmethod
    def byte_length(self, text: str) -> str: ...

    @abstractmethod
    def hmac_sha256(self, outer: bytes, inner: bytes, text: str) -> str:
        """``sha256(outer || sha256(inner || text))`` of a text's UTF-8, in a form that is ordered as its
        bytes are."""

    def bytewise(self, text: str) -> str:
        """A text to be ordered by its bytes."""
        return text

    def joined(
        self, query: str, other: str, key: str, *, there: bool
    ) -> tuple[str, tuple[str, ...]]:
        """The rows of a query whose ``key`` is (not) ``there`` among those of ``other``: an item of FROM,
        and the conditions that go with it."""
        kind = "SEMI" if there else "ANTI"
        return f"({query}) {kind} JOIN {other} USING ({key})", ()
