"""What every source owes: the numbers of the reference, for every region, grouping and treatment."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from math import prod
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from defray.core import intervals
from defray.core.contract import Unit
from defray.core.domain import Domain
from defray.data import statement as statements
from defray.data import together
from defray.data.source import Exact, OneMoment, Scan, Source
from defray.query.descriptor import Axis, cells
from defray.query.region import EVERYWHERE, Region, Regions
from tests.contract import nasty
from tests.contract.sources import SOURCES, SourceUnderTest

ROWS = nasty.rows()
MOST_CELLS = 20_000
"""A scan with more of them takes long, and shows no more."""


class Fixture:
    def __init__(self, source: Source, domain: Domain, unit: Unit) -> None:
        self.source = source
        self.domain = domain
        self.regions = Regions(domain.widths)
        self.reference = nasty.Reference(domain, self.regions, ROWS, unit)

    def agree(self, scan: Scan) -> Exact:
        got = self.source.scan(scan)
        self.compare(scan, got)
        return got

    def agree_together(self, scans: Sequence[Scan]) -> None:
        assert isinstance(self.source, OneMoment)
        for scan, got in zip(scans, self.source.scan_together(scans), strict=True):
            self.compare(scan, got)

    def compare(self, scan: Scan, got: Exact) -> None:
        want = self.reference.scan(scan)
        assert got.rows == want.rows
        assert got.non_null == want.non_null
        assert got.sums == want.sums

    def question(self, *names: str) -> list[Scan]:
        """A question about some columns, the first of them grouped by, with views of it: one of them tells
        too little apart."""
        domain, places = self.domain, [self.domain.names.index(name) for name in names]
        columns = [domain.columns[at] for at in places]
        summed = tuple(c.name for c in columns if c.bounds is not None)
        runs = {
            at: (c.proper // 3, max(1, c.width - 1)) for at, c in zip(places, columns, strict=True)
        }
        region = self.regions.box({at: (run,) for at, run in runs.items()})
        view = [
            Axis(at, starts=tuple(sorted({0, *run} - {domain.widths[at]})))
            for at, run in runs.items()
        ]
        last = Axis(places[-1], starts=tuple(range(min(2, columns[-1].width))))
        return [
            Scan(EVERYWHERE, tuple(view), names, summed),
            Scan(EVERYWHERE, (last,), names, summed),
            Scan(self.regions.negate(region), (Axis(places[0], columns[0].levels[-1]),), names[:1]),
            Scan(region, (), names, summed),
        ]


KINDS = [
    pytest.param(kind, marks=pytest.mark.long) if kind == "spark" else kind for kind in SOURCES
]


@pytest.fixture(scope="module", params=KINDS)
def made(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> SourceUnderTest:
    return SOURCES[request.param](tmp_path_factory.mktemp(request.param), ROWS)


@pytest.fixture(scope="module", params=nasty.POLICIES)
def table(request: pytest.FixtureRequest, made: SourceUnderTest) -> Iterator[Fixture]:
    domain = nasty.domain(request.param)
    source = made.open(domain, Unit())
    yield Fixture(source, domain, Unit())
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
    if prod(len(axis.groups(domain)) for axis in axes) > MOST_CELLS:
        axes = axes[:1]
    names = st.sampled_from(domain.names)
    summed = st.sampled_from([c.name for c in domain.columns if c.bounds is not None])
    return Scan(
        draw(random_regions(domain, regions)),
        axes,
        tuple(draw(st.sets(names, max_size=2))),
        tuple(draw(st.sets(summed, max_size=2))),
    )


@settings(
    max_examples=25,
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
    max_examples=25,
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


@pytest.mark.long
def test_every_single_atom_of_every_column_by_its_own_groups(table: Fixture) -> None:
    """A region that holds OTHER but not NULL, or the reverse, and is grouped by that very column."""
    for i, column in enumerate(table.domain.columns):
        odd = [a for a in (column.null_atom, column.other_atom) if a is not None]
        for atoms in [*odd, 0, column.proper - 1]:
            alone = table.regions.where(i, intervals.single(atoms))
            for region in (alone, table.regions.negate(alone)):
                for level in {*column.levels[:1], *column.levels[-1:]}:
                    table.agree(Scan(region, (Axis(i, level),)))


def test_runs_of_atoms_and_what_lies_outside_of_them(table: Fixture) -> None:
    """The classes of a view, which begin anywhere."""
    for i, column in enumerate(table.domain.columns):
        n, width = column.proper, column.width
        for starts in ({0}, {0, n // 3, n // 2, n}, {0, 1, n - 1, n, width - 1}):
            runs = tuple(sorted(s for s in starts if s < width))
            table.agree(Scan(EVERYWHERE, (Axis(i, starts=runs),), (column.name,)))


QUESTIONS = (
    ("age", "whole"),
    ("day", "cuts"),
    ("grade", "huge", "text"),
    ("local", "any"),
    ("flag_true", "old"),
    ("price", "flag", "single"),
)


def test_the_scans_of_a_question_together_are_those_of_each(table: Fixture) -> None:
    for names in QUESTIONS:
        table.agree_together(table.question(*names))


def test_one_of_them_by_itself_and_one_that_has_no_room(
    table: Fixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(together, "MOST_GROUPS", 20)
    table.agree_together(table.question("flag", "cuts", "grade"))
    table.agree_together(table.question("text", "bins")[-1:])


def test_the_scans_of_a_question_are_one_statement(
    made: SourceUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    domain = nasty.domain("declared")
    source = made.open(domain, Unit())
    rendered: list[Scan] = []

    def counted(scan: Scan, *args: Any, **named: Any) -> statements.Statement:
        rendered.append(scan)
        return statements.statement(scan, *args, **named)

    monkeypatch.setattr(sys.modules[type(source).__module__], "statement", counted)
    table = Fixture(source, domain, Unit())
    table.agree_together(table.question("age", "whole"))
    assert len(rendered) == 1
    source.close()


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_any_scans_together_agree_with_the_reference(table: Fixture, data: st.DataObject) -> None:
    table.agree_together(data.draw(st.lists(scans(table.domain, table.regions), max_size=3)))


@pytest.mark.parametrize("name", nasty.UNITS)
@pytest.mark.parametrize("max_rows", [1, 3, 40])
def test_the_same_rows_of_a_unit_are_kept_by_all(
    made: SourceUnderTest, name: str, max_rows: int
) -> None:
    domain = nasty.domain("declared")
    unit = Unit(name, max_rows, ("visit",) if name == "person" else ("mark", "visit"))
    source = made.open(domain, unit)
    table = Fixture(source, domain, unit)
    for axes in ((), ("age",), ("text",), ("price",), ("single",), ("local",)):
        by = tuple(Axis(domain.names.index(a)) for a in axes)
        table.agree(Scan(EVERYWHERE, by, ("bins", "flag"), ("bins", "huge", "price")))
    region = table.regions.where(domain.names.index("cuts"), ((0, 2),))
    table.agree(Scan(region, (Axis(domain.names.index("day"), "month"),)))
    table.agree_together(table.question("day", "cuts", "price"))
    source.close()


def test_what_some_cells_hold(made: SourceUnderTest) -> None:
    """Written down by hand, so that not all can be wrong together."""
    domain = nasty.domain("declared")
    source = made.open(domain, Unit())
    regions = Regions(domain.widths)
    there = [r for r in ROWS if r["gone"] is not None and 0 <= r["gone"] <= 5]

    def rows(name: str, first: int, last: int) -> int:
        return source.scan(
            Scan(regions.where(domain.names.index(name), ((first, last + 1),)))
        ).rows[0]

    def count(name: str, test: Callable[[Any], bool]) -> int:
        return sum(r[name] is not None and test(r[name]) for r in there)

    assert source.scan(Scan(EVERYWHERE)).rows == [len(there)]
    assert rows("age", 40, 120) == count("age", lambda v: 40 <= v <= 120)
    assert rows("age", 121, 121) == len(there) - count("age", lambda v: 0 <= v <= 120)
    assert rows("First.Third", 0, 2) == count("First.Third", lambda v: -1.0 <= v < 0.0)
    assert rows("First.Third", 7, 7) == count(
        "First.Third", lambda v: v < -1 or v > float(Fraction(4, 3))
    )
    assert rows("text", 1, 1) == count("text", lambda v: v == "a")
    assert rows("text", 12, 13) == count("text", lambda v: v in ("\u00c5", "A\u030a"))
    assert rows("old", 3927, 3938) == count(
        "old", lambda v: v in {nasty.OLD + 3927, nasty.OLD + 3928, nasty.OLD + 3938}
    )
    total = source.scan(Scan(EVERYWHERE, (), ("price",), ("price", "long", "huge")))
    assert total.non_null["price"] == [count("price", lambda v: 0 <= v <= 10)]
    assert total.sums["long"] == [
        sum(min(max(r["long"], -(2**62)), -(2**62) + 9) for r in there if r["long"] is not None)
    ]
    assert total.sums["huge"] == [
        sum(
            min(max(r["huge"], -nasty.HUGE), 2 * nasty.HUGE) for r in there if r["huge"] is not None
        )
    ]
    source.close()
