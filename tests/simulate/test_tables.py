"""A made table is scanned to the numbers that DuckDB finds in the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from defray.core.column import Column
from defray.core.contract import Unit
from defray.core.domain import Domain
from defray.core.intervals import single
from defray.core.shapes import Anything, Values, Whole
from defray.data.counted import CountedSource
from defray.data.duckdb.source import DuckDBSource
from defray.data.source import Control, Scan
from defray.data.values import representative
from defray.errors import BadInput, Cancelled
from defray.query.descriptor import Axis
from defray.query.region import EVERYWHERE, NOWHERE, Regions
from defray.simulate.run import Budget
from defray.simulate.tables import from_truths, synthetic
from defray.simulate.workload import Workload
from tests.contract import nasty
from tests.contract.sources import CsvUnderTest
from tests.contract.test_source_contract import scans

RAW = {"integer": int, "float": float, "date": int, "timestamp": int}
"""How the rows of the nasty table hold a number."""


def every_atom(domain: Domain) -> dict[str, list[float]]:
    """All atoms alike, but those that no value lies in."""
    weights = {column.name: [1.0] * column.width for column in domain.columns}
    for column in domain.columns:
        full = column.kind == "boolean" and column.proper == 2
        if column.other_atom is not None and full:
            weights[column.name][column.other_atom] = 0.0
    return weights


def raw_rows(source: CountedSource) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [{} for _ in range(source.entries)]
    for column in source.domain.columns:
        units = source.units(column.name).tolist() if column.bounds is not None else []
        for i, atom in enumerate(source.atoms(column.name).tolist()):
            value = representative(column, atom)
            if isinstance(column.shape, Anything) and value is not None:
                value = units[i] * column.unit_step
            if isinstance(value, Fraction):
                value = (
                    Decimal(value.numerator) / Decimal(value.denominator)
                    if column.kind == "decimal"
                    else RAW[column.kind](value)
                )
            rows[i][column.name] = value
    return rows


@pytest.fixture(scope="module", params=nasty.POLICIES)
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[CountedSource, DuckDBSource]]:
    domain = nasty.domain(request.param)
    made = synthetic(domain, 500, seed=3, weights=every_atom(domain))
    folder = tmp_path_factory.mktemp("made")
    read = CsvUnderTest(folder, raw_rows(made)).open(domain, Unit())
    yield made, read
    read.close()


def agree(one: Any, other: Any, scan: Scan) -> None:
    got, want = one.scan(scan), other.scan(scan)
    assert got.rows == want.rows
    assert got.non_null == want.non_null
    assert got.sums == want.sums


def test_every_column_and_level(both: tuple[CountedSource, DuckDBSource]) -> None:
    domain = both[0].domain
    summed = tuple(c.name for c in domain.columns if c.bounds is not None)
    for i, column in enumerate(domain.columns):
        for level in column.levels:
            scan = Scan(EVERYWHERE, (Axis(i, level),), (column.name,), summed)
            agree(*both, scan)
            assert sum(both[0].scan(scan).rows) == 500
    agree(*both, Scan(NOWHERE, (), domain.names, summed))


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_any_scan(both: tuple[CountedSource, DuckDBSource], data: st.DataObject) -> None:
    domain = both[0].domain
    agree(*both, data.draw(scans(domain, Regions(domain.widths))))


SMALL = Domain(
    (
        Column("a", "integer", Whole(0, 9), bounds=(Fraction(0), Fraction(9)), unit_step=Fraction(1)),
        Column("b", "string", Values(("x", "y")), other="cell"),
    )
)  # fmt: skip
entries = st.lists(
    st.tuples(st.integers(0, 10), st.integers(0, 3), st.integers(0, 5)), min_size=1, max_size=30
)


def table(rows: list[tuple[int, int, int]], repeat: bool) -> CountedSource:
    a, b, counts = np.array(rows, np.int64).T
    if repeat:
        return CountedSource(SMALL, {"a": np.repeat(a, counts), "b": np.repeat(b, counts)})
    return CountedSource(SMALL, {"a": a, "b": b}, counts)


@given(rows=entries, ordered=st.booleans(), data=st.data())
def test_a_count_stands_for_that_many_rows(
    rows: list[tuple[int, int, int]], ordered: bool, data: st.DataObject
) -> None:
    rows = sorted(rows) if ordered else rows
    scan = data.draw(scans(SMALL, Regions(SMALL.widths)))
    agree(table(rows, repeat=False), table(rows, repeat=True), scan)


@pytest.mark.parametrize("bits", [2, 40, 80])
def test_sums_beyond_doubles_are_exact(bits: int) -> None:
    huge = Fraction(2**bits)
    column = Column("x", "integer", Values((huge, Fraction(1))), bounds=(-huge, huge),
                    unit_step=Fraction(1))  # fmt: skip
    made = CountedSource(
        Domain((column,)), {"x": np.array([0, 1, 0, 2])}, np.array([3, 1, 2**52, 7])
    )
    assert made.scan(Scan(EVERYWHERE, (), (), ("x",))).sums == {"x": [2**bits * (2**52 + 3) + 1]}
    by_atom = made.scan(Scan(EVERYWHERE, (Axis(0),), (), ("x",)))
    assert by_atom.sums == {"x": [2**bits * (2**52 + 3), 1, 0]}
    assert by_atom.rows == [2**52 + 3, 1, 7]


def test_a_table_that_cannot_be_is_refused() -> None:
    good = {"a": np.array([0, 1]), "b": np.array([0, 1])}
    for atoms, counts in (
        (good | {"a": np.array([0])}, None),
        (good | {"a": np.array([0, 11])}, None),
        (good | {"b": np.array([-1, 0])}, None),
        (good, np.array([1])),
        (good, np.array([1, -1])),
        (good, np.array([2**52, 2**52 + 1])),
    ):
        with pytest.raises(ValueError):
            CountedSource(SMALL, atoms, counts)


def test_the_fingerprint_is_of_the_content() -> None:
    one = synthetic(SMALL, 100, seed=1)
    assert one.fingerprint() == synthetic(SMALL, 100, seed=1).fingerprint()
    others = [
        synthetic(SMALL, 100, seed=2),
        synthetic(SMALL, 101, seed=1),
        synthetic(Domain((SMALL.columns[0], replace(SMALL.columns[1], other="null"))), 100, seed=1),
        CountedSource(SMALL, {n: one.atoms(n) for n in "ab"}, np.full(100, 2)),
        CountedSource(SMALL, {n: one.atoms(n) for n in "ab"}, units={"a": one.units("a") + 1}),
    ]
    assert len({one.fingerprint(), *(o.fingerprint() for o in others)}) == 1 + len(others)


def test_a_cancelled_scan_stops() -> None:
    made = synthetic(SMALL, 10, seed=1)
    with pytest.raises(Cancelled):
        made.scan(Scan(EVERYWHERE), Control(cancelled=lambda: True))
    assert made.scan(Scan(EVERYWHERE), Control(cancelled=lambda: False)).rows == [10]


@pytest.mark.statistics
@pytest.mark.parametrize(("weights", "fits"), [(None, True), ({"a": [1.0] * 9 + [1.4]}, False)])
def test_rows_are_uniform_over_declared_values(weights: Any, fits: bool) -> None:
    made = synthetic(SMALL, 20_000, seed=5, weights=weights)
    seen = made.scan(Scan(EVERYWHERE, (Axis(0),))).rows
    assert seen[-1] == 0  # NULL is no declared value
    assert bool(chisquare(seen[:-1]).pvalue > 1e-3) == fits


def test_weights_are_of_values_or_of_all_atoms() -> None:
    made = synthetic(SMALL, 1000, seed=5, weights={"a": [0, 1] + [0] * 8, "b": [0, 0, 1, 1]})
    assert set(made.atoms("a").tolist()) == {1}
    assert set(made.atoms("b").tolist()) == {2, 3}
    for wrong in ([1.0] * 3, [0.0] * 4):
        with pytest.raises(BadInput):
            synthetic(SMALL, 1, seed=5, weights={"b": wrong})


def workload(keys: list[int], truths: list[float]) -> Workload:
    ones = np.ones(len(keys))
    return Workload("w", np.array(keys), ones, np.array(truths), np.zeros(len(keys), np.int64))


def test_the_table_of_a_workload_has_its_truths() -> None:
    contract, made = from_truths(workload([7, 2, 7, 9], [3.4, 1e12, 3.4, 0.0]), Budget(2.5))
    regions = Regions(contract.domain.widths)
    found = [made.scan(Scan(regions.where(0, single(i)))).rows for i in range(3)]
    assert found == [[10**12], [3], [0]]
    assert (contract.rho, made.rows, made.entries) == (Fraction(5, 2), 10**12 + 3, 3)
    with pytest.raises(BadInput, match="negative"):
        from_truths(workload([0], [-4.0]), Budget(1.0))
