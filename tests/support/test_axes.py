"""Classes of atoms: what they are, and what regions are on them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from defray.query.region import Region, Regions
from defray.support.axes import Axes, axes_for
from defray.support.cuts import cuts_of, joined

WIDTHS = (6, 4, 5)
REGIONS = Regions(WIDTHS)


@st.composite
def regions(draw: st.DrawFn) -> Region:
    def box() -> Region:
        region: Region = True
        for column, width in enumerate(WIDTHS):
            low = draw(st.integers(0, width - 1))
            side = ((low, draw(st.integers(low + 1, width))),)
            region = REGIONS.both(region, REGIONS.where(column, side))
        return region

    found = box()
    for _ in range(draw(st.integers(0, 2))):
        found = REGIONS.either(found, box()) if draw(st.booleans()) else REGIONS.negate(found)
    return found


def cell_by_cell(region: Region, axes: Axes) -> list[bool]:
    places = {c: i for i, c in enumerate(axes.columns)}
    return [
        REGIONS.contains(region, lambda c, at=at: int(axes.firsts[places[c]][at[places[c]]]))
        for at in np.ndindex(*axes.shape)
    ]


@given(regions())
def test_a_mask_tells_cell_by_cell_where_a_region_is(region: Region) -> None:
    whole = Axes((0, 1, 2), (None,) * 3, WIDTHS)
    assert whole.mask(region).tolist() == cell_by_cell(region, whole)


@given(regions(), regions())
def test_classes_are_as_few_as_the_regions_need(one: Region, other: Region) -> None:
    cuts = joined(*(cuts_of(r, REGIONS.nodes(r), WIDTHS) for r in (one, other)))
    axes = axes_for(cuts, WIDTHS, 0, 10**6)
    assert axes is not None
    for region in (one, other):
        assert axes.respects(cuts_of(region, REGIONS.nodes(region), WIDTHS))
        assert axes.mask(region).tolist() == cell_by_cell(region, axes)
        whole = Axes(axes.columns, (None,) * len(axes.columns), axes.widths)
        assert (whole.carry(axes.mask(region).astype(float), axes) == whole.mask(region)).all()


def test_short_columns_have_all_their_atoms_apart_while_the_cells_are_few() -> None:
    cuts = {0: frozenset({3}), 1: frozenset({2}), 2: frozenset()}
    assert axes_for(cuts, WIDTHS, 8, 100).shape == (2, 4, 1)
    assert axes_for({0: None}, (5000,), 512, 4096) is None
    assert axes_for({0: frozenset({7})}, (5000,), 512, 4096).shape == (2,)


def test_what_does_not_respect_the_classes_is_told() -> None:
    axes = Axes((0, 2), ((0, 3), None), (6, 5))
    assert axes.respects({0: frozenset({3}), 2: None})
    assert not axes.respects({0: frozenset({2})})
    assert not axes.respects({0: None})
    assert not axes.respects({1: frozenset()})


def test_the_least_of_each_class() -> None:
    axes = Axes((0,), ((0, 2, 5),), (6,))
    assert axes.at_most(np.array([4, 3, 9, 8, 7, 1])).tolist() == [3, 7, 1]


@pytest.mark.parametrize("columns", [(), (1,)])
def test_weights_are_carried_to_more_columns(columns: tuple[int, ...]) -> None:
    own = Axes(columns, (None,) * len(columns), tuple(WIDTHS[c] for c in columns))
    weights = np.arange(own.cells) + 1.0
    more = Axes((0, 1), (None, None), (6, 4))
    spread = more.carry(weights, own).reshape(6, 4)
    assert (spread == (weights if columns else weights[0])).all()
