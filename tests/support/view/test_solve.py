"""The release found is the cheapest of all, by every way of finding it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from defray.support.view import lanczos, solve
from defray.support.view.certificate import certify, known
from defray.support.view.metric import Scaled, barrier, metric
from defray.support.view.solve import Trial, on_cells, on_rows, search
from defray.support.view.state import Row, State
from tests.support.view.workloads import N_MAX, Floats, line, play, ranges, subsets


def price(state: State, q: Floats, variance: float, g: Scaled, trial: Trial | None) -> float:
    """The priced cost of a trial's release, from its weights alone."""
    assert trial is not None
    said = certify(state, q, trial.weights)
    return float(np.square(g.whiten(said.residue)).sum() / (variance - said.variance))


def unknown(cells: int, count: int, seed: int, kind=ranges) -> tuple[State, Floats, Scaled]:
    """A history of questions at variance 1, one it does not answer at .5, and a metric."""
    rng = np.random.default_rng(seed)
    *_, last = play(kind(cells, count, rng), np.full(count, 1.0))
    g = Scaled(line(cells), barrier(last.after.charges, np.full(cells, np.inf), 1.0))
    return last.after, kind(cells, 1, rng)[0], g


@settings(max_examples=40)
@given(st.integers(2, 40), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_cells_rows_and_krylov_agree(cells: int, count: int, seed: int) -> None:
    state, q, g = unknown(cells, count, seed)
    if not state.count or not q.any():
        return
    top = float(np.square(g.whiten(q)).sum()) / 0.5
    if known(state, q).variance <= 0.5 and known(state, q).deviation < 1e-9:
        return
    costs = [
        price(state, q, 0.5, g, search(on_cells(state, q, g.dense), top, 0.5)),
        price(state, q, 0.5, g, search(on_rows(state, q, g), top, 0.5)),
        price(state, q, 0.5, g, lanczos.krylov(state, q, g, 0.5)),
    ]
    assert max(costs) <= min(costs) * (1 + solve.GAP + lanczos.STOP)
    assert max(costs) <= top * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_it_is_the_optimum_over_all_measurements(seed: int) -> None:
    """A semidefinite programme over every precision that could be added."""
    cp = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(seed)
    n, kind, v = 7, (ranges, subsets)[seed % 2], (0.3, 0.8)[seed % 2]
    *_, last = play(kind(n, 4, rng), 10.0 ** rng.uniform(-0.5, 0.5, 4))
    state, q = last.after, kind(n, 1, rng)[0]
    g = Scaled(metric((n,), (True,)), rng.uniform(0.3, 1, n))
    if not q.any() or (known(state, q).variance <= v and known(state, q).deviation < 1e-9):
        pytest.skip("nothing to buy")
    more = cp.Variable((n, n), PSD=True)
    answered = cp.bmat([[state.precision + more, q[:, None]], [q[None], np.array([[v]])]]) >> 0
    problem = cp.Problem(cp.Minimize(cp.trace(np.linalg.inv(g.dense) @ more)), [answered])
    problem.solve(solver="CLARABEL")
    top = float(np.square(g.whiten(q)).sum()) / v
    found = price(state, q, v, g, search(on_cells(state, q, g.dense), top, v))
    assert found == pytest.approx(problem.value, rel=1e-4)
    assert found <= top * (1 + 1e-9)


def test_one_release_of_the_question_itself_is_the_first() -> None:
    """From nothing: b = q at the price 1/V of every metric."""
    q, state = np.array([0.0, 1, 1]), State.empty(3, N_MAX)
    g = Scaled(line(3), np.ones(3))
    top = float(np.square(g.whiten(q)).sum()) / 4
    trial = search(on_cells(state, q, g.dense), top, 4.0)
    assert trial is not None and trial.weights.size == 0
    assert price(state, q, 4.0, g, trial) == pytest.approx(top)


def test_a_repeat_at_a_tighter_target_costs_the_papers_residual() -> None:
    q = np.array([1.0, 1, 0, 0])
    state = State.empty(4, N_MAX).add(Row(0, q, 10.0))
    g = Scaled(line(4), barrier(state.charges, np.full(4, np.inf), 4.0))
    for trial in (
        search(on_cells(state, q, g.dense), 10.0, 4.0),
        search(on_rows(state, q, g), 10.0, 4.0),
        lanczos.krylov(state, q, g, 4.0),
    ):
        assert trial is not None
        said = certify(state, q, trial.weights)
        charge = said.residue**2 / (4.0 - said.variance)
        assert charge == pytest.approx(q * (1 / 4 - 1 / 10), rel=1e-4)


def test_nearly_all_of_it_known_is_nearly_free() -> None:
    """A residual of one part in 10^6 of the price is bought as such."""
    q = np.ones(5)
    state = State.empty(5, N_MAX).add(Row(0, q, 1 + 1e-6))
    g = Scaled(line(5), np.ones(5))
    top = float(np.square(g.whiten(q)).sum())
    for at in (on_cells(state, q, g.dense), on_rows(state, q, g)):
        cost = price(state, q, 1.0, g, search(at, top, 1.0))
        assert cost == pytest.approx(top * 1e-6, rel=1e-2)
