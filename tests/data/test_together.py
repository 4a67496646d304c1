"""Several scans by one pass: the numbers that each has by itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from defray.core.column import Column
from defray.core.domain import Domain
from defray.core.shapes import Anything, Values, Whole
from defray.data import together
from defray.data.counted import CountedSource
from defray.data.grouping import MAX_TREE
from defray.data.source import Exact, Scan
from defray.data.together import answered
from defray.query.descriptor import Axis
from defray.query.region import EVERYWHERE, NOWHERE, Region, Regions
from tests.contract import nasty
from tests.strategies import atoms

DOMAIN = nasty.domain("cells")
REGIONS = Regions(DOMAIN.widths)
AGE, ANY, DAY, FLAG = (DOMAIN.names.index(name) for name in ("age", "any", "day", "flag"))
TEENS = REGIONS.where(AGE, ((13, 20),))
WIDE = Domain(tuple(Column(name, "integer", Whole(0, 999)) for name in "abc"))
SMALL = Domain(tuple(c for c in DOMAIN.columns if c.name in ("age", "any", "day", "flag", "grade")))


class Recorded:
    """A table of random atoms, and the scans that were made of it."""

    def __init__(self, domain: Domain, entries: int = 200) -> None:
        draw = np.random.default_rng(11)
        self.table = CountedSource(
            domain,
            {c.name: draw.integers(0, c.width, entries) for c in domain.columns},
            draw.integers(0, 5, entries),
        )
        self.scans: list[Scan] = []

    def run(self, scan: Scan) -> Exact:
        self.scans.append(scan)
        return self.table.scan(scan)


def same(found: Exact, by_itself: Exact, scan: Scan) -> None:
    assert found.rows == by_itself.rows
    assert found.non_null == by_itself.non_null
    assert found.sums == by_itself.sums
    assert (tuple(found.non_null), tuple(found.sums)) == (scan.columns, scan.sums)


def agree(domain: Domain, scans: list[Scan]) -> list[Scan]:
    """Every scan has the numbers it has by itself; returns what was scanned for them."""
    recorded = Recorded(domain)
    for scan, found in zip(scans, answered(domain, scans, recorded.run), strict=True):
        same(found, recorded.table.scan(scan), scan)
    return recorded.scans


@st.composite
def some_scans(draw: st.DrawFn, domain: Domain) -> Scan:
    regions = Regions(domain.widths)
    region: Region = draw(st.booleans())
    for _ in range(draw(st.integers(0, 2))):
        columns = draw(st.sets(st.integers(0, len(domain.columns) - 1), min_size=1, max_size=2))
        box = regions.box({c: draw(atoms(domain.columns[c].width)) for c in sorted(columns)})
        region = draw(st.sampled_from([regions.both, regions.either]))(region, box)
    axes = []
    for at in draw(st.lists(st.integers(0, len(domain.columns) - 1), max_size=2, unique=True)):
        column = domain.columns[at]
        starts = sorted({0, *draw(st.sets(st.integers(1, column.width - 1), max_size=3))})
        levels = [Axis(at, level) for level in column.levels]
        axes.append(draw(st.sampled_from([*levels, Axis(at, starts=tuple(starts))])))
    names = st.lists(st.sampled_from(domain.names), max_size=2, unique=True)
    summed = st.lists(
        st.sampled_from([c.name for c in domain.columns if c.bounds is not None]),
        max_size=2,
        unique=True,
    )
    return Scan(region, tuple(axes), tuple(draw(names)), tuple(draw(summed)))


@given(st.lists(some_scans(SMALL), min_size=1, max_size=4))
def test_any_scans_together_say_what_each_says(scans: list[Scan]) -> None:
    assert len(agree(SMALL, scans)) <= len(set(scans))


def test_a_question_and_its_view_are_one_pass_over_the_cells_of_the_view() -> None:
    own = Scan(TEENS, (Axis(FLAG),), ("grade",), ("grade",))
    view = Scan(EVERYWHERE, (Axis(AGE, starts=(0, 13, 20, 65)), Axis(FLAG)), ("grade",), ("grade",))
    (made,) = agree(DOMAIN, [view, own])
    assert made == view


def test_a_view_that_does_not_tell_the_question_apart_is_cut_further() -> None:
    own = Scan(TEENS, (Axis(DAY, "month"),))
    (made,) = agree(DOMAIN, [Scan(EVERYWHERE, (Axis(AGE, starts=(0, 18)),)), own])
    proper = DOMAIN.columns[DAY].proper
    assert made == Scan(
        EVERYWHERE,
        (Axis(AGE, starts=(0, 13, 18, 20)), Axis(DAY, starts=(0, 31, 60, proper, proper + 1))),
    )


def test_a_condition_that_all_share_stays_one() -> None:
    made = agree(
        DOMAIN, [Scan(TEENS), Scan(TEENS, (Axis(FLAG),)), Scan(TEENS, (), ("any",), ("any",))]
    )
    assert made == [Scan(TEENS, (Axis(FLAG),), ("any",), ("any",))]


def test_equal_scans_are_one_and_a_lonely_one_is_left_as_it_is() -> None:
    odd = Scan(TEENS, (Axis(DAY, "month"), Axis(FLAG)))
    assert agree(DOMAIN, [odd]) == [odd]
    assert agree(DOMAIN, [odd, odd, odd]) == [odd]
    assert agree(DOMAIN, []) == []


def test_nothing_is_somewhere_too() -> None:
    (made,) = agree(DOMAIN, [Scan(NOWHERE), Scan(EVERYWHERE), Scan(NOWHERE, (Axis(FLAG),))])
    assert made.region is EVERYWHERE


def test_a_column_without_a_domain_of_its_own() -> None:
    """It is NULL or not, and no question can group by it."""
    null = REGIONS.where(ANY, DOMAIN.columns[ANY].nulls)
    (made,) = agree(DOMAIN, [Scan(null), Scan(EVERYWHERE, (), ("any",))])
    assert made.axes == (Axis(ANY, starts=(0, 1)),)


def test_what_would_make_too_many_groups_is_scanned_apart() -> None:
    by = [Scan(EVERYWHERE, (Axis(i, starts=(0, 500)),)) for i in range(3)]
    inside = Scan(Regions(WIDE.widths).where(0, ((3, 7),)))
    assert agree(WIDE, [*by, inside]) == [
        Scan(EVERYWHERE, (Axis(0, starts=(0, 3, 7, 500)),)),
        by[1],
        by[2],
    ]


def test_a_scan_that_makes_many_groups_by_itself_takes_in_what_adds_none() -> None:
    many = Scan(EVERYWHERE, (Axis(0), Axis(1)))
    inside = Scan(Regions(WIDE.widths).where(0, ((3, 7),)), (Axis(1),))
    assert agree(WIDE, [many, inside, Scan(EVERYWHERE, (Axis(2),))]) == [
        many,
        Scan(EVERYWHERE, (Axis(2),)),
    ]


def test_a_long_column_of_numbers_makes_as_many_groups_as_it_has_classes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    long = Domain(
        (
            Column("n", "integer", Whole(0, 2 * MAX_TREE)),
            Column("t", "string", Values(tuple(f"t{i}" for i in range(2 * MAX_TREE)))),
        )
    )
    number, text = (Regions(long.widths).where(at, ((5, 9),)) for at in (0, 1))
    for region, limit in ((number, 3), (text, long.widths[1])):
        monkeypatch.setattr(together, "MOST_GROUPS", limit)
        assert len(agree(long, [Scan(region), Scan(EVERYWHERE)])) == 1
        monkeypatch.setattr(together, "MOST_GROUPS", limit - 1)
        assert len(agree(long, [Scan(region), Scan(EVERYWHERE)])) == 2


def test_sums_beyond_64_bits_add_up() -> None:
    domain = Domain((Column("n", "integer", Anything(), bounds=(-(10**30), 10**30), unit_step=1),))  # type: ignore[arg-type]
    fine = Exact([1, 2], {}, {"n": [10**30, -(2**63)]})
    scans = [
        Scan(EVERYWHERE, (), (), ("n",)),
        Scan(EVERYWHERE, (Axis(0, starts=(0, 1)),), (), ("n",)),
    ]
    whole, cells = answered(domain, scans, lambda scan: fine)
    assert whole.sums == {"n": [10**30 - 2**63]}
    assert cells.sums == fine.sums


def test_a_column_of_more_atoms_than_memory_holds_is_divided_by_its_classes() -> None:
    domain = Domain((Column("id", "integer", Whole(0, 10**15)),))
    inside = Scan(Regions(domain.widths).where(0, ((7, 10**14),)))
    view = Scan(EVERYWHERE, (Axis(0, starts=(0, 10**9)),))
    cells, whole = answered(domain, [view, inside], lambda scan: Exact([1, 2, 4, 8], {}, {}))
    assert (cells.rows, whole.rows) == ([3, 12], [6])
