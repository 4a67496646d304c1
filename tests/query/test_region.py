"""Regions are sets of cells: every law is checked against sets of tuples."""

from __future__ import annotations

import gc
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from defray.core import intervals
from defray.query.region import EVERYWHERE, NOWHERE, Node, Region, Regions, TooComplex
from tests.strategies import regions

WIDTHS = (3, 2, 4, 2)
R = Regions(WIDTHS)
CELLS = frozenset(product(*map(range, WIDTHS)))
region = regions(R)


def cells(found: Region) -> frozenset[tuple[int, ...]]:
    return frozenset(cell for cell in CELLS if R.contains(found, cell.__getitem__))


@settings(deadline=None)
@given(a=region, b=region)
def test_the_operations_are_those_of_sets(a: Region, b: Region) -> None:
    assert cells(R.both(a, b)) == cells(a) & cells(b)
    assert cells(R.either(a, b)) == cells(a) | cells(b)
    assert cells(R.negate(a)) == CELLS - cells(a)


@settings(deadline=None)
@given(a=region, b=region)
def test_regions_are_equal_exactly_if_their_cells_are(a: Region, b: Region) -> None:
    assert (a == b) == (cells(a) == cells(b))


@settings(deadline=None)
@given(a=region, b=region, c=region)
def test_the_laws_hold_as_equality_of_values(a: Region, b: Region, c: Region) -> None:
    assert R.both(a, R.either(b, c)) == R.either(R.both(a, b), R.both(a, c))
    assert R.negate(R.both(a, b)) == R.either(R.negate(a), R.negate(b))
    assert R.both(a, R.both(b, c)) == R.both(R.both(a, b), c)
    assert R.both(a, b) == R.both(b, a)
    assert R.either(a, R.both(a, b)) == a
    assert R.negate(R.negate(a)) == a
    assert R.both(a, R.negate(a)) is NOWHERE
    assert R.either(a, R.negate(a)) is EVERYWHERE


@settings(deadline=None)
@given(found=st.sets(st.sampled_from(sorted(CELLS)), max_size=12), order=st.permutations(range(12)))
def test_the_form_does_not_depend_on_the_order_of_building(
    found: set[tuple[int, ...]], order: list[int]
) -> None:
    listed = sorted(found)
    one: Region = NOWHERE
    two: Region = NOWHERE
    for cell in listed:
        one = R.either(one, R.box({i: intervals.single(v) for i, v in enumerate(cell)}))
    for at in (i for i in order if i < len(listed)):
        box = R.box({i: intervals.single(v) for i, v in enumerate(listed[at])})
        two = R.either(box, two)
    assert one == two
    assert cells(one) == found


@settings(deadline=None)
@given(a=region)
def test_json_gives_the_region_back_also_in_another_algebra(a: Region) -> None:
    data = R.to_json(a)
    assert R.from_json(data) == a
    elsewhere = Regions(WIDTHS).from_json(data)
    assert elsewhere == a
    assert hash(elsewhere) == hash(a)


@settings(deadline=None)
@given(a=region, column=st.integers(0, 3), data=st.data())
def test_restrict_keeps_the_cells_with_that_atom(
    a: Region, column: int, data: st.DataObject
) -> None:
    atom = data.draw(st.integers(0, WIDTHS[column] - 1))
    found = cells(R.restrict(a, column, atom))
    assert found == {c for c in CELLS if (*c[:column], atom, *c[column + 1 :]) in cells(a)}


@settings(deadline=None)
@given(a=region, column=st.integers(0, 3))
def test_atoms_share_a_block_exactly_if_the_region_cannot_tell_them_apart(
    a: Region, column: int
) -> None:
    blocks = R.partition(a, column)
    assert sorted(x for b in blocks for x in intervals.members(b)) == list(range(WIDTHS[column]))
    block_of = {x: i for i, b in enumerate(blocks) for x in intervals.members(b)}
    slices = [R.restrict(a, column, x) for x in range(WIDTHS[column])]
    for x, y in product(range(WIDTHS[column]), repeat=2):
        assert (block_of[x] == block_of[y]) == (slices[x] == slices[y])
    assert (column in R.columns(a)) == (len(blocks) > 1)


def test_nodes_nobody_holds_are_forgotten() -> None:
    algebra = Regions((1000, 1000))
    kept = algebra.where(0, ((0, 1),))
    for i in range(500):
        algebra.box({0: intervals.single(i), 1: intervals.single(i)})
    gc.collect()
    assert isinstance(kept, Node)
    assert len(algebra._interned) == 1


def test_equal_nodes_are_one_object_while_somebody_holds_them() -> None:
    assert R.where(0, ((0, 1),)) is R.where(0, ((0, 1),))


def diagonal(algebra: Regions, count: int) -> Region:
    found: Region = NOWHERE
    for i in range(count):
        box = algebra.box({0: intervals.single(i), 1: intervals.single(i)})
        found = algebra.either(found, box)
    return found


def test_a_region_beyond_the_limits_is_refused() -> None:
    algebra = Regions((100, 100), max_nodes=10)
    assert algebra.columns(diagonal(algebra, 5)) == (0, 1)
    shifted = algebra.negate(algebra.where(1, ((60, 61),)))
    wide = diagonal(Regions((100, 100)), 50)
    with pytest.raises(TooComplex):
        algebra.both(wide, shifted)


def test_a_limited_algebra_counts_its_steps_and_shares_its_nodes() -> None:
    few = R.limited(1)
    a, b = few.where(0, ((0, 1),)), few.where(1, ((0, 1),))
    assert a is R.where(0, ((0, 1),))
    with pytest.raises(TooComplex):
        few.both(a, b)
