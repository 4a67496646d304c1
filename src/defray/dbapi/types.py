"""Types of columns, and constructors of parameters, as PEP 249 names them."""

from __future__ import annotations

import datetime as dt
from typing import Any


class TypeObject:
    """Equal to every type of values that it stands for."""

    def __init__(self, *types: type) -> None:
        self.types = types

    def __eq__(self, other: object) -> bool:
        return other is self or other in self.types

    def __hash__(self) -> int:
        return hash(self.types)


STRING = TypeObject(str)
BINARY = TypeObject(bytes)
NUMBER = TypeObject(int, float, bool)
DATETIME = TypeObject(dt.date, dt.datetime, dt.time)
ROWID = TypeObject()

Date, Time, Timestamp, Binary = dt.date, dt.time, dt.datetime, bytes


def DateFromTicks(ticks: float) -> dt.date:
    return dt.date.fromtimestamp(ticks)


def TimeFromTicks(ticks: float) -> dt.time:
    return dt.datetime.fromtimestamp(ticks).time()


def TimestampFromTicks(ticks: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(ticks)


def type_of(values: list[Any]) -> type:
    """The one type of all values that are not None; ``str`` where they have none in common."""
    found = {type(value) for value in values if value is not None}
    if found == {int, float}:
        return float
    return found.pop() if len(found) == 1 else str
