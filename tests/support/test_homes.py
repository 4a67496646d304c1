"""Which views questions are answered from: few cells, and nothing that was held is lost."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from defray.support.cuts import Cuts
from defray.support.homes import FINE, LARGEST, SMALL, Homes

WIDTHS = (40, 40, 200, 5, 3, 100_000)


@st.composite
def boxes(draw: st.DrawFn) -> Cuts:
    """What a box over one or two columns tells apart; sometimes a whole column."""
    columns = draw(st.sets(st.integers(0, len(WIDTHS) - 1), min_size=1, max_size=2))
    found: dict[int, frozenset[int] | None] = {}
    for column in columns:
        ends = st.frozensets(st.integers(1, WIDTHS[column] - 1), min_size=1, max_size=2)
        whole = st.none() if WIDTHS[column] <= 200 else ends
        found[column] = draw(st.one_of(ends, ends, whole))
    return found


@settings(max_examples=60)
@given(st.lists(st.tuples(boxes(), st.booleans()), min_size=2, max_size=24))
def test_what_a_mixture_was_measured_beside_counts_for_its_question_ever_after(asked):
    """What was measured itself is known by its own name as well."""
    homes = Homes(WIDTHS)
    released: list[Cuts] = []
    then: list[set[int]] = []
    for i, (cuts, mixed) in enumerate(asked):
        views = homes.views(cuts) if mixed else []
        own = {i for i, item in enumerate(released) if views and views[0].respects(item)}
        released.append(views[0].cuts if views else cuts)
        homes = homes.after(released[-1])
        then.append(own | {i})
    for (cuts, _), own in zip(asked, then, strict=True):
        views = homes.views(cuts)
        assert all(axes.cells <= LARGEST for axes in views)
        assert all(axes.respects(cuts) for axes in views)
        assert not views or any(all(axes.respects(released[i]) for i in own) for axes in views)


def test_columns_cut_ever_more_finely_begin_new_generations():
    homes = Homes((1000, 1000))
    boxes = [{0: frozenset({i}), 1: frozenset({i + 1})} for i in range(1, 120)]
    for box in boxes:
        homes = homes.after(box)
    assert 2 < len(homes.generations) < 12
    for box in boxes:
        assert max(axes.cells for axes in homes.views(box)) <= LARGEST


def test_small_domains_share_what_has_no_column_in_common():
    homes = Homes((8, 2, 100)).after({1: None})
    (axes,) = homes.views({0: frozenset({5})})
    assert axes.columns == (0, 1)
    assert axes.cells <= SMALL
    (wide,) = homes.views({2: None})
    assert wide.columns == (2,)
    assert wide.cells <= FINE


def test_what_no_view_can_hold_has_none():
    homes = Homes((2000,)).after({0: None})
    assert homes.views({0: None}) == []
    assert homes.generations == ()
