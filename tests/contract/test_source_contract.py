"""What every source owes: the numbers of the reference, for every region, grouping and treatment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from defray.core import intervals
from defray.core.domain import Domain
from defray.data import statement as statements
from defray.data.duckdb.source import DuckDBSource
from defray.data.source import Exact, Scan
from defray.query.descriptor import Axis, cells
from defray.query.region import EVERYWHERE, Region, Regions
from tests.contract import nasty

SECRET = b"k" * 32
ROWS = nasty.rows()


class Fixture:
    def __init__(self, source: DuckDBSource, domain: Domain) -> None:
        self.source = source
        self.domain = domain
        self.regions = Regions(domain.widths)
        self.reference = nasty.Reference(domain, self.regions, ROWS)

    def agree(self, scan: Scan) -> Exact:
        got, want = self.source.scan(scan), self.reference.scan(scan)
        assert got.rows == want.rows
        assert got.non_null == want.non_null
        assert got.sums == want.sums
        return got


@pytest.fixture(scope="module")
def specs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    made = {}
    for kind in nasty.KINDS:
        folder = tmp_path_factory.mktemp(kind)
        made[kind] = (folder, nasty.write(kind, folder, ROWS))
    return made


@pytest.fixture(scope="module", params=nasty.KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", params=nasty.POLICIES)
def table(request: pytest.FixtureRequest, specs: dict[str, Any], kind: str) -> Iterator[Fixture]:
    folder, spec = specs[kind]
    domain = nasty.domain(request.param)
    source = DuckDBSource(nasty.contract(kind, folder, spec, domain), SECRET)
    yield Fixture(source, domain)
    source.close()


def test_every_column_by_itself(table: Fixture) -> None:
    domain = table.domain
    total = sum(table.agree(Scan(EVERYWHERE)).rows)
    for i, column in enumerate(domain.columns):
        for level in column.levels:
            got = table.agree(Scan(EVERYWHERE, (Axis(i, level),), (column.name,)))
            assert sum(got.rows) == total


def test_every_column_counted_and_summed(table: Fixture) -> None:
    domain = table.domain
    summed = tuple(c.name for c in domain.columns if c.bounds is not None)
    table.agree(Scan(EVERYWHERE, (), domain.names, summed))
    for name in summed:
        at = domain.names.index(name)
        region = table.regions.where(at, domain.columns[at].non_nulls)
        table.agree(Scan(region, (), (name,), (name,)))


def test_a_row_is_in_the_same_cell_under_where_and_group_by(table: Fixture) -> None:
    for i, column in enumerate(table.domain.columns):
        if column.levels:
            grouped = table.source.scan(Scan(EVERYWHERE, (Axis(i),))).rows
            shown = [a for a in range(column.width) if grouped[a]] + [0, column.width - 1]
            for atom in shown[:: max(1, len(shown) // 12)]:
                region = table.regions.where(i, intervals.single(atom))
                assert table.source.scan(Scan(region)).rows == [grouped[atom]]


@st.composite
def atom_sets(draw: st.DrawFn, width: int) -> intervals.Atoms:
    ends = st.integers(0, width)
    parts = draw(st.lists(st.tuples(ends, ends), min_size=1, max_size=3))
    special = draw(st.sets(st.integers(max(0, width - 3), width - 1), max_size=2))
    chosen = intervals.union(intervals.normal(parts), intervals.of(special))
    return chosen if draw(st.booleans()) else intervals.complement(chosen, width)


@st.composite
def random_regions(draw: st.DrawFn, domain: Domain, regions: Regions) -> Region:
    region: Region = draw(st.booleans())
    for _ in range(draw(st.integers(1, 4))):
        columns = draw(st.sets(st.integers(0, len(domain.columns) - 1), min_size=1, max_size=3))
        box = regions.box({c: draw(atom_sets(domain.columns[c].width)) for c in columns})
        join = draw(st.sampled_from([regions.both, regions.either]))
        region = join(region, regions.negate(box) if draw(st.booleans()) else box)
    return region


@st.composite
def scans(draw: st.DrawFn, domain: Domain, regions: Regions) -> Scan:
    groupable = [i for i, c in enumerate(domain.columns) if c.levels]
    axes = tuple(
        Axis(i, draw(st.sampled_from(domain.columns[i].levels)))
        for i in draw(st.lists(st.sampled_from(groupable), max_size=2))
    )
    names = st.sampled_from(domain.names)
    summed = st.sampled_from([c.name for c in domain.columns if c.bounds is not None])
    return Scan(
        draw(random_regions(domain, regions)),
        axes,
        tuple(draw(st.sets(names, max_size=2))),
        tuple(draw(st.sets(summed, max_size=2))),
    )


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_any_scan_agrees_with_the_reference(table: Fixture, data: st.DataObject) -> None:
    scan = data.draw(scans(table.domain, table.regions))
    got = table.agree(scan)
    assert len(got.rows) == len(cells(table.domain, scan.axes))
    assert sum(got.rows) == table.source.scan(Scan(scan.region)).rows[0]


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_regions_and_levels_too_large_for_one_expression(
    table: Fixture, data: st.DataObject
) -> None:
    scan = data.draw(scans(table.domain, table.regions))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statements, "TREE_LIMIT", 1)
        patch.setattr(statements, "ATOM_GROUPS", 0)
        table.agree(scan)


def test_every_single_atom_of_every_column_by_its_own_groups(table: Fixture) -> None:
    """A region that holds OTHER but not NULL, or the reverse, and is grouped by that very column."""
    for i, column in enumerate(table.domain.columns):
        odd = [a for a in (column.null_atom, column.other_atom) if a is not None]
        for atoms in [*odd, 0, column.proper - 1]:
            alone = table.regions.where(i, intervals.single(atoms))
            for region in (alone, table.regions.negate(alone)):
                for level in column.levels:
                    table.agree(Scan(region, (Axis(i, level),)))
