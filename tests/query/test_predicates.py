"""Conditions mean what DuckDB takes them to mean, on a table that holds every cell."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from functools import cache
from itertools import product

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from defray.core.dates import EPOCH_DAY
from defray.query.region import Region, Regions
from defray.query.sql import parse
from tests.strategies import FIRST_DAY, SMALL, conditions, leaves, split_conditions

REGIONS = Regions(SMALL.widths)

VALUES: dict[str, list[list[object]]] = {
    "a": [[0], [1], [2], [3], [4], [None]],
    "b": [[False], [True], [None]],
    "c": [["x"], ["o'y"], ["z"], ["elsewhere"], [None]],
    "d": [[EPOCH_DAY + dt.timedelta(days=FIRST_DAY + i)] for i in range(3)],
    "e": [[0.0, 0.25], [0.5, 0.875], [1.0, 1.5], [None]],
}
"""For each atom of a column, values that lie in it."""


def rows() -> Iterator[tuple[tuple[int, ...], tuple[object, ...]]]:
    """Every cell, with a row for each choice of values that lie in it."""
    numbered = ([(at, v) for at, found in enumerate(VALUES[n]) for v in found] for n in SMALL.names)
    for choice in product(*numbered):
        yield tuple(at for at, _ in choice), tuple(v for _, v in choice)


CELLS = [cell for cell, _ in rows()]


@cache
def table() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("CREATE TABLE t (id INT, a INT, b BOOLEAN, c TEXT, d DATE, e DOUBLE)")
    for start in range(0, len(CELLS), 500):
        found = [(i, *row) for i, (_, row) in enumerate(rows()) if start <= i < start + 500]
        marks = ", ".join(["(?, ?, ?, ?, ?, ?)"] * len(found))
        connection.execute(f"INSERT INTO t VALUES {marks}", [v for row in found for v in row])
    return connection


def by_duckdb(condition: str) -> set[int]:
    found = table().execute(f"SELECT id FROM t WHERE {condition}").fetchall()
    return {row[0] for row in found}


def region_of(condition: str) -> Region:
    text = f"SELECT COUNT(*) FROM t WHERE {condition}"
    return parse(text, SMALL, REGIONS, table="t").region


def by_region(region: Region) -> set[int]:
    return {i for i, cell in enumerate(CELLS) if REGIONS.contains(region, cell.__getitem__)}


def test_the_table_holds_every_cell() -> None:
    assert set(CELLS) == set(product(*(range(w) for w in SMALL.widths)))
    assert by_duckdb("TRUE") == set(range(len(CELLS)))


@settings(max_examples=200, deadline=None)
@given(condition=conditions)
def test_a_condition_holds_where_duckdb_says(condition: str) -> None:
    assert by_region(region_of(condition)) == by_duckdb(condition)


@settings(max_examples=200, deadline=None)
@given(one=conditions, two=conditions)
def test_regions_are_equal_exactly_where_duckdb_finds_no_difference(one: str, two: str) -> None:
    assert (region_of(one) == region_of(two)) == (by_duckdb(one) == by_duckdb(two))


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(condition=split_conditions)
def test_snapping_only_ever_widens(condition: str) -> None:
    text = f"SELECT COUNT(*) FROM t WHERE {condition}"
    question = parse(text, SMALL, REGIONS, table="t", snap=True)
    true = by_duckdb(condition)
    assert by_region(question.region) >= true
    if not question.snapped:
        assert by_region(question.region) == true


@settings(max_examples=100, deadline=None)
@given(parts=st.lists(leaves, min_size=2, max_size=6))
def test_the_order_of_operands_does_not_matter(parts: list[str]) -> None:
    turned = parts[::-1]
    for word in (" AND ", " OR "):
        assert region_of(word.join(parts)) == region_of(word.join(turned))


@settings(max_examples=100, deadline=None)
@given(one=conditions, two=conditions)
def test_de_morgan_holds_under_three_valued_logic(one: str, two: str) -> None:
    assert region_of(f"NOT (({one}) AND ({two}))") == region_of(f"NOT ({one}) OR NOT ({two})")
    assert region_of(f"NOT (({one}) OR ({two}))") == region_of(f"NOT ({one}) AND NOT ({two})")


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("a = 1 AND c = 'x'", "c = 'x' AND a = 1"),
        ("a > 2", "a >= 3"),
        ("c IN ('x')", "c = 'x'"),
        ("a BETWEEN 0 AND 1 OR a BETWEEN 2 AND 3", "a BETWEEN 0 AND 3"),
        ("a >= 1 AND a < 3", "a BETWEEN 1 AND 2"),
        ("NOT (a = 1 OR b)", "a <> 1 AND NOT b"),
        ("  A=1", "(a) = /* one */ 1"),
    ],
)
def test_different_spellings_are_one_question(one: str, two: str) -> None:
    assert region_of(one) == region_of(two)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("a = 1", "a = 1 OR a IS NULL"),
        ("NOT a = 1", "(a = 1) IS NOT TRUE"),
        ("c <> 'x'", "c IN ('o''y', 'z')"),
        ("a < 3", "a <= 3"),
        ("b", "b IS NOT FALSE"),
    ],
)
def test_different_questions_are_never_merged(one: str, two: str) -> None:
    assert region_of(one) != region_of(two)
