"""A state is a fold: it never changes, and lines of descent do not disturb each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from defray.support.view.state import Row, State
from tests.support.view.workloads import N_MAX


def row(cells: int, seed: int) -> Row:
    rng = np.random.default_rng(seed)
    return Row(seed, rng.normal(size=cells), rng.uniform(0.1, 9), rng.normal(), rng.uniform(1, 9))


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 2**16)), max_size=40))
def test_any_state_may_have_several_successors(steps: list[tuple[int, int]]) -> None:
    """A tree of states: each holds the rows on the way to it, whatever else was added elsewhere."""
    states, paths = [State.empty(3, N_MAX)], [[]]
    for parent, seed in steps:
        parent %= len(states)
        states.append(states[parent].add(row(3, seed)))
        paths.append([*paths[parent], seed])
    for state, path in zip(states, paths, strict=True):
        rows = [row(3, seed) for seed in path]
        assert state.ids.tolist() == path
        assert state.values.tolist() == [r.value for r in rows]
        assert state.variances.tolist() == [r.variance for r in rows]
        assert np.array_equal(state.rows, np.array([r.b for r in rows]).reshape(-1, 3))
        assert np.array_equal(state.peaks, np.abs(state.rows).max(axis=1, initial=0))
        p = sum((np.outer(r.b, r.b) / r.variance for r in rows), np.zeros((3, 3)))
        assert np.allclose(state.precision, p)
        assert np.allclose(state.charges, np.diag(p))


def test_precision_is_the_same_bits_whenever_it_is_made() -> None:
    """A process that folds the log anew decides as one that was there all the time."""
    rows = [row(5, s) for s in range(50)]
    live = State.empty(5, N_MAX)
    seen = []
    for r in rows:
        live = live.add(r)
        seen.append(live.precision)
        live.add(row(5, 999)).precision  # noqa: B018  (another line of descent looks too)
    for count in range(1, 51):
        assert np.array_equal(State.fold(5, N_MAX, rows[:count]).precision, seen[count - 1])
    assert np.allclose(live.precision, (live.rows.T / live.variances) @ live.rows)


def test_the_spread_of_targets() -> None:
    state = State.fold(
        2, N_MAX, [Row(0, np.ones(2), 3.0, 0, 4.0), Row(1, np.ones(2), 1.0, 0, 50.0)]
    )
    assert (state.tightest, state.loosest) == (4, 50)
    assert (State.empty(2, N_MAX).tightest, State.empty(2, N_MAX).loosest) == (np.inf, 0)
    assert State.fold(2, N_MAX, [Row(0, np.ones(2), 3.0)]).tightest == 3


@pytest.mark.parametrize("variance", [0.0, -1.0, np.inf, np.nan])
def test_a_row_without_a_variance_is_refused(variance: float) -> None:
    with pytest.raises(ValueError, match="variance"):
        State.empty(2, N_MAX).add(Row(0, np.ones(2), variance))


def test_a_row_of_another_view_is_refused() -> None:
    with pytest.raises(ValueError, match="weight a cell"):
        State.empty(2, N_MAX).add(Row(0, np.ones(3), 1.0))


def test_adding_a_release_does_not_copy_history() -> None:
    state = State.fold(50, N_MAX, [row(50, s) for s in range(100)])
    assert state.add(row(50, 7))._store is state._store  # room was left
    rows = state.rows
    assert np.shares_memory(rows, state.rows)
