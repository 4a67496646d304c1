"""Literals: what one means as a point of a column, and how a point is written."""

from __future__ import annotations

import datetime as dt
import re
from fractions import Fraction
from typing import Any

from defray.core.brief import brief
from defray.core.column import Column
from defray.core.dates import EPOCH, EPOCH_DAY, MICROSECOND
from defray.core.numbers import show_number
from defray.core.shapes import Point

LiteralValue = Fraction | str | bool
"""A literal as SQL text spells it: a number, a string (dates too) or TRUE/FALSE."""

_FINER_THAN_MICROSECONDS = re.compile(r"[.,]\d{7}")


class LiteralRefused(ValueError):
    """A literal or comparison that the declared domain cannot answer; ``kind`` is a stable code."""

    def __init__(self, kind: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.hint = hint


def point_of(column: Column, literal: LiteralValue) -> Point:
    """The literal as a point of the column's type: numbers, dates in days, times in µs."""
    kind = column.kind
    if kind == "string":
        if isinstance(literal, str):
            return literal
        raise _wrong_type(column, literal, "a quoted string")
    if kind == "boolean":
        if isinstance(literal, bool):
            return literal
        raise _wrong_type(column, literal, "TRUE or FALSE")
    if kind == "date":
        return _date_point(column, literal)
    if kind == "timestamp":
        return _time_point(column, literal)
    if isinstance(literal, Fraction):
        return literal
    raise _wrong_type(column, literal, "a number")


def _date_point(column: Column, literal: LiteralValue) -> Fraction:
    if isinstance(literal, str):
        try:
            return Fraction((dt.date.fromisoformat(literal) - EPOCH_DAY).days)
        except ValueError:
            pass  # not a date: refused below, like every other wrong literal
    raise _wrong_type(column, literal, "a date such as DATE '2020-01-31'")


def _time_point(column: Column, literal: LiteralValue) -> Fraction:
    if isinstance(literal, str):
        try:
            moment = dt.datetime.fromisoformat(literal)
            if moment.tzinfo is not None:
                moment = moment.astimezone(dt.UTC).replace(tzinfo=None)
            if not _FINER_THAN_MICROSECONDS.search(literal):
                return Fraction((moment - EPOCH) // MICROSECOND)
        except (ValueError, OverflowError):
            pass  # not a time of the years 1 to 9999: refused below, like every wrong literal
    raise _wrong_type(column, literal, "a time such as TIMESTAMP '2020-01-31 12:00:00'")


def _wrong_type(column: Column, literal: LiteralValue, wanted: str) -> LiteralRefused:
    shown = brief(repr(literal) if isinstance(literal, str) else show_number(literal))
    return LiteralRefused(
        "literal-type",
        f"column {column.name} is of type {column.kind}; {shown} is not",
        f"write {wanted}",
    )


def show_point(column: Column, point: Any) -> str:
    """A point of a column as SQL text (numbers bare, the rest quoted)."""
    if isinstance(point, bool):
        return "TRUE" if point else "FALSE"
    if isinstance(point, str):
        return "'" + point.replace("'", "''") + "'"
    if column.kind == "date":
        return f"DATE '{EPOCH_DAY + dt.timedelta(days=int(point))}'"
    if column.kind == "timestamp":
        return f"TIMESTAMP '{EPOCH + int(point) * MICROSECOND}'"
    return show_number(point)
