"""The groups of a column: a partition of its atoms, and the buckets of date_trunc."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction

from hypothesis import example, given, settings
from hypothesis import strategies as st

from defray.core import intervals
from defray.core.column import Column
from defray.core.dates import DATE_LEVELS, EPOCH, EPOCH_DAY, MICROSECOND, truncate
from defray.core.shapes import Grid, Whole
from tests.strategies import columns


@settings(deadline=None)
@given(column=columns())
def test_the_groups_of_a_column_partition_its_atoms(column: Column) -> None:
    for level in column.levels:
        groups = column.groups(level)
        assert len(groups) == column.group_count(level)
        assert [a for g in groups for a in intervals.members(g.atoms)] == list(range(column.width))


@settings(max_examples=60, deadline=None)
@given(
    first=st.integers(-700_000, 2_000_000),
    days=st.integers(0, 900),
    level=st.sampled_from(DATE_LEVELS),
)
@example(first=0, days=0, level="week")
def test_dates_are_grouped_as_date_trunc_does(first: int, days: int, level: str) -> None:
    column = Column("d", "date", Whole(first, first + days), other="cell")
    groups = column.groups(level)
    assert len(groups) == column.group_count(level)
    expected: dict[str, list[int]] = {}
    for atom in range(days + 1):
        day = EPOCH_DAY + dt.timedelta(days=first + atom)
        moment = truncate(dt.datetime(day.year, day.month, day.day), level)
        expected.setdefault(str(moment.date()), []).append(atom)
    assert [(g.label, list(intervals.members(g.atoms))) for g in groups[:-2]] == list(
        expected.items()
    )
    assert [g.label for g in groups[-2:]] == ["(other)", None]


@settings(max_examples=60, deadline=None)
@given(
    start=st.integers(-700_000, 10**6),  # no day before the year 1
    step=st.sampled_from([1, 5, 15, 30, 60, 360, 1440]),
    count=st.integers(1, 3000),
    data=st.data(),
)
def test_times_are_grouped_as_date_trunc_does(
    start: int, step: int, count: int, data: st.DataObject
) -> None:
    minute = 60 * 10**6
    grid = Grid(Fraction(start * step * minute), Fraction(step * minute), count)
    column = Column("t", "timestamp", grid, null="drop")
    level = data.draw(st.sampled_from(column.levels[1:]))
    groups = column.groups(level)
    assert len(groups) == column.group_count(level)
    expected: dict[str, list[int]] = {}
    for atom in range(count):
        moment = EPOCH + (start + atom) * step * minute * MICROSECOND
        expected.setdefault(str(truncate(moment, level)), []).append(atom)
    assert [(g.label, list(intervals.members(g.atoms))) for g in groups] == list(expected.items())


def test_coarse_groups_of_a_long_fine_column_are_made_at_once() -> None:
    seconds = Grid(Fraction(0), Fraction(10**6), 10 * 366 * 86400)
    column = Column("t", "timestamp", seconds)
    assert column.group_count("month") == len(column.groups("month")) == 121 + 1
