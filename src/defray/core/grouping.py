"""The groups of a column: its levels, and how dates and times fall into ``date_trunc`` buckets."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass

from defray.core.dates import (
    DATE_LEVELS,
    EPOCH,
    LEVEL_MICROSECONDS,
    MICROSECOND,
    bucket,
    truncate,
)
from defray.core.intervals import Atoms
from defray.core.shapes import Anything, Grid, Kind, Shape, Whole

Label = int | float | str | bool | None
"""How an atom or a group is shown in answers."""


@dataclass(frozen=True, slots=True)
class Group:
    """One group of a GROUP BY column: how it is shown, and its atoms."""

    label: Label
    atoms: Atoms


def levels_of(kind: Kind, shape: Shape) -> tuple[str, ...]:
    """The levels a GROUP BY may use: ``value``, and date_trunc units for dates and times."""
    if isinstance(shape, Anything):
        return ()
    if kind == "date" and isinstance(shape, Whole):
        return ("value", *DATE_LEVELS)
    if kind == "timestamp" and isinstance(shape, Grid):
        fits = [
            level
            for level, size in LEVEL_MICROSECONDS.items()
            if size % shape.step == 0 and shape.start % size % shape.step == 0
        ]
        return ("value", *fits, *(DATE_LEVELS[1:] if "day" in fits else ()))
    return ("value",)


def bucket_count(shape: Shape, level: str) -> int:
    """How many buckets of ``level`` the proper atoms of dates or times fall into."""
    first, last = (bucket(_moment(shape, atom), level) for atom in (0, shape.count - 1))
    return last - first + 1


def buckets(shape: Shape, level: str) -> Iterator[Group]:
    """The buckets of ``level`` in ascending order; they partition the proper atoms."""
    # Atoms ascend in time and no atom straddles two buckets, so each bucket is one run of atoms.
    lo = 0
    while lo < shape.count:
        start = truncate(_moment(shape, lo), level)
        hi = _first_from_bucket(shape, bucket(start, level) + 1, level, lo)
        yield Group(str(start.date() if isinstance(shape, Whole) else start), ((lo, hi),))
        lo = hi


def _first_from_bucket(shape: Shape, number: int, level: str, lo: int) -> int:
    """The first atom after ``lo`` that lies in the bucket of that number or a later one."""
    hi = shape.count
    while lo < hi:
        middle = (lo + hi) // 2
        if bucket(_moment(shape, middle), level) < number:
            lo = middle + 1
        else:
            hi = middle
    return lo


def _moment(shape: Shape, atom: int) -> dt.datetime:
    """When an atom of dates or times begins."""
    if isinstance(shape, Whole):
        return EPOCH + dt.timedelta(days=shape.low + atom)
    assert isinstance(shape, Grid)
    return EPOCH + int(shape.edge(atom)) * MICROSECOND
