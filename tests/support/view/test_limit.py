"""The least variance that fits a cap per cell: reached by a release, and no release does better."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from defray.support.view.certificate import certify
from defray.support.view.limit import GAP, best_variance
from defray.support.view.state import State
from tests.support.view.workloads import N_MAX, play, ranges, subsets


@settings(max_examples=60)
@given(st.integers(1, 15), st.integers(0, 12), st.integers(0, 2**32 - 1))
def test_what_is_reached_fits_and_is_within_a_part_of_the_bound(
    cells: int, count: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    state = State.empty(cells, N_MAX)
    if count:
        *_, last = play(ranges(cells, count, rng), np.ones(count))
        state = last.after
    q = subsets(cells, 1, rng)[0]
    if not q.any():
        return
    cap = 10.0 ** rng.uniform(-3, 1, cells)
    found = best_variance(state, q, cap)
    assert found is not None
    assert (found.b**2 / found.own <= cap * (1 + 1e-9)).all()
    said = certify(state, q, found.weights, 1.0, found.b, found.own)
    assert said.variance == pytest.approx(found.reached)
    assert said.deviation < 1e-9
    assert found.least <= found.reached * (1 + 1e-9)
    assert found.reached <= 1.01 * found.least


def test_from_nothing_it_is_the_tightest_cell_of_the_question() -> None:
    """b = q, or anything larger elsewhere: ``max_c q_c^2 / R_c`` over the question's cells."""
    cap = np.array([0.5, 2.0, 0.1])
    found = best_variance(State.empty(3, N_MAX), np.array([1.0, 1, 0]), cap)
    assert found is not None and found.reached == pytest.approx(2, rel=2 * GAP)


@pytest.mark.parametrize("seed", range(4))
def test_it_is_the_optimum_over_all_measurements(seed: int) -> None:
    cp = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(seed)
    n = 6
    *_, last = play(ranges(n, 4, rng), np.ones(4))
    q, cap = ranges(n, 1, rng)[0], rng.uniform(0.1, 1, n)
    more, reached = cp.Variable((n, n), PSD=True), cp.Variable()
    problem = cp.Problem(
        cp.Minimize(reached),
        [
            cp.bmat(
                [
                    [last.after.precision + more, q[:, None]],
                    [q[None], cp.reshape(reached, (1, 1), order="C")],
                ]
            )
            >> 0,
            cp.diag(more) <= cap,
        ],
    )
    problem.solve(solver="CLARABEL")
    found = best_variance(last.after, q, cap)
    assert found is not None
    assert found.least * (1 - 1e-5) <= problem.value <= found.reached * (1 + 1e-5)


def test_it_ends_early_where_it_is_good_enough_or_out_of_reach() -> None:
    state, q, cap = State.empty(4, N_MAX), np.ones(4), np.array([1.0, 0.5, 0.5, 0.2])
    enough = best_variance(state, q, cap, 6.0)
    assert enough is not None and 5 <= enough.reached <= 6
    never = best_variance(state, q, cap, 1.0)
    assert never is not None and never.least > 1


def test_without_any_cap_there_is_none() -> None:
    assert best_variance(State.empty(2, N_MAX), np.ones(2), np.zeros(2)) is None
