"""Offline optima against brute force and independent solvers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, linprog, milp, minimize

from defray.simulate import optimum
from defray.simulate.optimum import Bound, feasible_cost, least_shortfall, most_satisfied
from defray.simulate.workload import Workload


def workload(keys: list[int], demands: list[float]) -> Workload:
    n = len(keys)
    return Workload(
        "test", np.array(keys, np.int64), np.array(demands), np.ones(n), np.zeros(n, np.int64)
    )


small = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([0.1, 0.25, 0.4, 0.7, 1.0]) | st.floats(0.01, 2)),
    min_size=1,
    max_size=9,
)


def brute(asked: Workload, rho: float) -> int:
    """All ways to buy each question at one of its levels, or not at all."""
    menus = [[0.0, *set(asked.demands[asked.keys == k])] for k in np.unique(asked.keys)]
    best = 0
    for levels in itertools.product(*menus):
        if sum(levels) <= rho * (1 + 1e-9):
            support = dict(zip(np.unique(asked.keys).tolist(), levels, strict=True))
            met = [d <= support[k] for k, d in zip(asked.keys.tolist(), asked.demands, strict=True)]
            best = max(best, sum(met))
    return best


@settings(max_examples=300)
@given(small, st.floats(0.05, 1.3))
def test_the_most_satisfied_is_what_brute_force_finds(
    asks: list[tuple[int, float]], factor: float
) -> None:
    asked = workload([k for k, _ in asks], [d for _, d in asks])
    rho = factor * feasible_cost(asked)
    found = most_satisfied(asked, rho)
    assert found.exact and found.value == brute(asked, rho)


@settings(max_examples=200)
@given(small, st.floats(0.05, 1.3))
def test_the_bounds_without_the_exact_search_enclose_the_optimum(
    asks: list[tuple[int, float]], factor: float
) -> None:
    asked = workload([k for k, _ in asks], [d for _, d in asks])
    rho = factor * feasible_cost(asked)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(optimum, "DP_CELLS", 0)
        found = most_satisfied(asked, rho)
    assert found.value <= brute(asked, rho) <= found.upper


def options(asked: Workload) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counts, costs and the question (one row each) of all levels."""
    distinct = np.unique(asked.keys)
    counts, costs, owner = [], [], []
    for i, key in enumerate(distinct):
        own = asked.demands[asked.keys == key]
        for level in np.unique(own):
            counts.append((own <= level).sum())
            costs.append(level)
            owner.append(np.arange(len(distinct)) == i)
    return np.array(counts, float), np.array(costs), np.array(owner, float).T


@pytest.mark.parametrize("seed", range(12))
def test_larger_cases_agree_with_an_integer_programme(seed: int) -> None:
    chance = np.random.default_rng(seed)
    keys = chance.integers(0, 25, 120)
    asked = workload(keys.tolist(), np.exp(chance.normal(-2, 1, 120)).tolist())
    rho = chance.uniform(0.1, 0.9) * feasible_cost(asked)
    counts, costs, owner = options(asked)
    one_level = LinearConstraint(owner, -np.inf, 1)
    fits = LinearConstraint(costs / rho, -np.inf, 1)
    solved = milp(
        -counts, constraints=[one_level, fits], integrality=np.ones(len(counts)), bounds=(0, 1)
    )
    found = most_satisfied(asked, rho)
    assert found == Bound(round(-solved.fun), round(-solved.fun))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(optimum, "DP_CELLS", 0)
        relaxed = most_satisfied(asked, rho)
    line = linprog(-counts, np.vstack([owner, costs / rho]), np.ones(len(owner) + 1), bounds=(0, 1))
    assert relaxed.upper == int(-line.fun + 1e-6)
    assert relaxed.value <= found.value <= relaxed.upper


def test_distinct_questions_are_taken_cheapest_first() -> None:
    chance = np.random.default_rng(0)
    demands = chance.uniform(0.1, 2, 2000)
    rho = demands.sum() / 3
    best = int(np.searchsorted(np.cumsum(np.sort(demands)), rho, side="right"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(optimum, "DP_CELLS", 0)  # sorting alone is exact here
        assert most_satisfied(workload(list(range(2000)), demands.tolist()), rho) == Bound(
            best, best
        )


@settings(max_examples=200)
@given(small, st.floats(0.05, 1.3), st.data())
def test_the_least_shortfall_is_where_no_other_plan_is_better(
    asks: list[tuple[int, float]], factor: float, data: st.DataObject
) -> None:
    """Every plan that is drawn is worse, and rho is used up unless nothing is lacking."""
    asked = workload([k for k, _ in asks], [d for _, d in asks])
    n, rho = len(asked), factor * feasible_cost(asked)
    weights = np.array(data.draw(st.lists(st.floats(0.1, 10), min_size=n, max_size=n)))
    value, supports = least_shortfall(asked.demands, weights, rho, asked.keys)
    plan = dict(zip(asked.keys.tolist(), supports.tolist(), strict=True))
    assert all(plan[k] == s for k, s in zip(asked.keys.tolist(), supports.tolist(), strict=True))
    assert sum(plan.values()) <= rho * (1 + 1e-9)
    assert sum(plan.values()) == pytest.approx(min(rho, feasible_cost(asked)), rel=1e-9)
    shares = data.draw(st.lists(st.floats(0, 1), min_size=len(plan), max_size=len(plan)))
    for mix in (1.0, 0.1, 0.001):
        total = sum(shares) or 1.0
        other = {
            k: (1 - mix) * x + mix * rho * (share / total)
            for (k, x), share in zip(plan.items(), shares, strict=True)
        }
        lacking = np.maximum(0, asked.demands - np.array([other[k] for k in asked.keys.tolist()]))
        assert (weights * lacking**2).sum() >= value * (1 - 1e-9) - 1e-15


@pytest.mark.parametrize("seed", range(8))
def test_the_least_shortfall_agrees_with_a_general_solver(seed: int) -> None:
    chance = np.random.default_rng(seed)
    keys, demands = chance.integers(0, 6, 25), chance.uniform(0.05, 1, 25)
    weights = np.exp(chance.normal(0, 1, 25))
    asked = workload(keys.tolist(), demands.tolist())
    dense = np.unique(keys, return_inverse=True)[1]
    questions = dense.max() + 1
    rho = 0.4 * feasible_cost(asked)

    def lost(x: np.ndarray) -> float:
        return float((weights * np.maximum(0, demands - x[dense]) ** 2).sum())

    solved = minimize(
        lost,
        np.full(questions, rho / questions),
        method="SLSQP",
        bounds=[(0, None)] * questions,
        constraints={"type": "ineq", "fun": lambda x: rho - x.sum()},
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    value, _ = least_shortfall(demands, weights, rho, keys)
    assert value == pytest.approx(solved.fun, rel=1e-5)
    assert value <= solved.fun * (1 + 1e-9)


def test_distinct_questions_lack_in_inverse_proportion_to_their_weights() -> None:
    """``x = (a - mu/2w)_+`` (paper, section 4)."""
    demands, weights = np.array([1.0, 1.0, 0.01]), np.array([1.0, 4.0, 1.0])
    value, supports = least_shortfall(demands, weights, 1.0)
    assert supports == pytest.approx([0.2, 0.8, 0.0])
    assert value == pytest.approx(0.64 + 4 * 0.04 + 1e-4)


def test_enough_leaves_nothing_lacking() -> None:
    demands = np.array([0.1, 0.7, 0.3])
    value, supports = least_shortfall(demands, np.ones(3), 2.0, np.array([5, 5, 6]))
    assert value == 0 and supports.tolist() == [0.7, 0.7, 0.3]
    assert least_shortfall(np.zeros(0), np.zeros(0), 1.0)[0] == 0


def test_nothing_asked_needs_nothing() -> None:
    empty = workload([], [])
    assert feasible_cost(empty) == 0 and most_satisfied(empty, 1.0) == Bound(0, 0)


def test_theorem_8s_workloads() -> None:
    n = 20
    both = workload(list(range(n + 1)), [1.0] + [1 / n] * n)
    assert most_satisfied(both, 1.0) == Bound(n, n)
    assert most_satisfied(workload([0], [1.0]), 1.0) == Bound(1, 1)
