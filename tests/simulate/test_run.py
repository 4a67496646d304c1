"""What every simulated run must keep to, and what the paper says of single cases."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from defray.errors import BadInput
from defray.policy.demand import Pace
from defray.policy.weights import Weights
from defray.simulate.diagnosis import Diagnostics
from defray.simulate.optimum import feasible_cost, most_satisfied
from defray.simulate.run import Budget, run
from defray.simulate.schemes import SCHEMES
from defray.simulate.workload import Workload

RESIDUAL = ["refuse", "greedy", "paper", "reuse-only"]
FROM_SCRATCH = ["SA", "AC", "BP"]


def workload(
    keys: list[int],
    demands: list[float],
    truths: list[float] | None = None,
    analysts: list[int] | None = None,
    ceilings: list[float] | None = None,
) -> Workload:
    n = len(keys)
    return Workload(
        "test",
        np.array(keys, np.int64),
        np.array(demands, float),
        np.array(truths or [1000.0] * n, float),
        np.array(analysts or [0] * n, np.int64),
        ceilings=None if ceilings is None else np.array(ceilings, float),
    )


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    n = draw(st.integers(1, 30))
    # Few levels, so that repeats ask for less, the same and more.
    level = st.sampled_from([0.001, 0.01, 0.1, 0.3, 1.0, 2.5]) | st.floats(1e-4, 5)
    return workload(
        draw(st.lists(st.integers(0, 7), min_size=n, max_size=n)),
        draw(st.lists(level, min_size=n, max_size=n)),
        draw(st.lists(st.floats(0, 1e5), min_size=n, max_size=n)),
        draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)),
    )


budgets = st.builds(
    Budget,
    st.just(1.0),
    xi=st.sampled_from([0.0, 0.05, 0.5]),
    horizon=st.integers(1, 40),
    forecast=st.lists(st.floats(1e-3, 1), max_size=3).map(tuple),
)


@pytest.mark.long
@settings(max_examples=100)
@given(workloads(), budgets, st.floats(0.05, 2), st.integers(0, 9))
def test_no_scheme_spends_more_than_there_is_or_does_better_than_the_optimum(
    asked: Workload, budget: Budget, factor: float, seed: int
) -> None:
    budget = replace(budget, rho=factor * feasible_cost(asked))
    most = most_satisfied(asked, budget.rho)
    assert most.value <= most.upper
    for scheme in SCHEMES.values():
        found = run(asked, scheme, budget, seed)
        assert found.spent <= budget.rho * (1 + 1e-12), scheme.name
        assert (found.granted >= 0).all() and (found.granted <= asked.demands).all()
        assert found.diagnostic.sum() <= budget.xi * budget.rho * (1 + 1e-12), scheme.name
        assert found.diagnostic.sum() == 0 or scheme.diagnoses
        assert found.met.sum() <= most.upper, scheme.name
        if scheme.credits:
            ends = dict(zip(asked.keys, found.support, strict=True))
            assert sum(ends.values()) == pytest.approx(found.spent, rel=1e-9, abs=1e-12)
            # Nobody is sold more than the target needs.
            assert (found.support <= np.maximum(asked.demands, _before(asked, found.support))).all()
        if scheme.analysts:
            crowd = len(np.unique(asked.analysts))
            for who in range(4):
                own = found.granted[asked.analysts == who].sum()
                assert own <= budget.rho / crowd * (1 + 1e-12)


def _before(asked: Workload, support: np.ndarray) -> np.ndarray:
    """The support of each arrival's question before it."""
    held: dict[int, float] = {}
    before = []
    for key, after in zip(asked.keys.tolist(), support.tolist(), strict=True):
        before.append(held.get(key, 0.0))
        held[key] = after
    return np.array(before)


@settings(max_examples=100)
@given(workloads(), st.floats(1 + 1e-9, 3))
def test_a_feasible_workload_costs_what_the_offline_planner_pays(
    asked: Workload, factor: float
) -> None:
    """Theorem 7: with credit, all is met at the sum of the largest rho_min of each question."""
    cost = feasible_cost(asked)
    for name in RESIDUAL:
        found = run(asked, SCHEMES[name], Budget(factor * cost, horizon=len(asked)))
        assert found.met.all()
        assert found.spent == pytest.approx(cost, rel=1e-12)


@settings(max_examples=100)
@given(workloads(), st.floats(1 + 1e-9, 3))
def test_pricing_from_scratch_pays_every_satisfied_repeat_again(
    asked: Workload, factor: float
) -> None:
    """Section 6.1: the saving is at least the rho_min of all repeats that were already satisfied."""
    crowd = len(np.unique(asked.analysts))
    ample = Budget(factor * crowd * float(asked.demands.sum()))
    credited = run(asked, SCHEMES["refuse"], ample)
    repeats = asked.demands[credited.granted == 0].sum()
    for name in FROM_SCRATCH:
        found = run(asked, SCHEMES[name], ample)
        assert (found.granted == asked.demands).all() and found.met.all()
        assert found.spent - credited.spent >= repeats * (1 - 1e-9) - 1e-12
        held = _before(asked, credited.support)
        most = np.maximum(0, 1 - held / asked.demands)
        assert (credited.granted / found.granted <= most + 1e-9).all()


def test_the_two_query_illustration() -> None:
    """Section 6.3: support 0.7, then a target of 1.0."""
    asked = workload([0, 0], [0.7, 1.0], analysts=[0, 1])
    assert run(asked, SCHEMES["refuse"], Budget(2)).granted == pytest.approx([0.7, 0.3])
    for name in FROM_SCRATCH:
        assert run(asked, SCHEMES[name], Budget(2)).granted == pytest.approx([0.7, 1.0])
    assert feasible_cost(asked) == 1.0


def test_a_second_analyst_repeats_free_here_and_pays_in_a_partition() -> None:
    asked = workload([0, 0], [1.0, 1.0], analysts=[0, 1])
    assert run(asked, SCHEMES["refuse"], Budget(2)).granted.tolist() == [1, 0]
    assert run(asked, SCHEMES["BP"], Budget(2)).granted.tolist() == [1, 1]
    assert run(asked, SCHEMES["BP"], Budget(1.9)).granted.tolist() == [0, 0]  # 0.95 each


def test_the_worst_case_denies_what_would_fit() -> None:
    asked = workload([0, 1], [0.2, 0.2], ceilings=[0.2, 0.9])
    assert run(asked, SCHEMES["SA"], Budget(1)).granted.tolist() == [0.2, 0.2]
    assert run(asked, SCHEMES["AC"], Budget(1)).granted.tolist() == [0.2, 0]


def test_what_was_answered_once_may_be_looked_at_again_without_credit() -> None:
    found = run(workload([0, 0], [1.0, 0.8]), SCHEMES["SA"], Budget(1.5))
    assert found.granted.tolist() == [1, 0]  # the second no longer fits
    assert found.support.tolist() == [1, 1] and found.met.tolist() == [True, True]


@settings(max_examples=100)
@given(workloads(), st.integers(1, 40), st.floats(0.1, 1.5))
def test_a_free_repeat_is_no_arrival(asked: Workload, horizon: int, factor: float) -> None:
    """Asking again at once for what was just met changes nothing for others."""
    budget = Budget(factor * feasible_cost(asked), horizon=horizon)
    for name in ("dual", "fluid", "satisfy", "aon_fluid", "proportional"):
        once = run(asked, SCHEMES[name], budget)
        keys, demands, whose = [], [], []
        for t in range(len(asked)):
            times = 2 if once.support[t] >= asked.demands[t] else 1
            keys += [int(asked.keys[t])] * times
            demands += [float(asked.demands[t])] * times
            whose += [t, None][:times]
        twice = run(workload(keys, demands), SCHEMES[name], budget)
        original = [i for i, t in enumerate(whose) if t is not None]
        assert twice.granted[original].tolist() == once.granted.tolist(), name
        assert twice.spent == pytest.approx(once.spent, rel=1e-12)


def test_diagnostics_have_their_own_purse_and_are_credited() -> None:
    n = 5
    asked = workload(list(range(n)), [0.1] * n)
    budget = Budget(1.0, xi=0.1, horizon=4)
    found = run(asked, SCHEMES["w1f_refuse"], budget)
    assert found.diagnostic.tolist() == [0.025] * 4 + [0]  # the purse holds four
    assert found.granted == pytest.approx([0.075] * 4 + [0.1])
    assert found.support.tolist() == [0.1] * n
    assert run(asked, SCHEMES["refuse"], budget).diagnostic.sum() == 0


def test_a_diagnostic_is_free_where_as_much_is_held_and_never_dearer_than_the_rest() -> None:
    budget = Budget(1.0, xi=0.1, horizon=4)
    held = run(workload([0, 0], [0.1, 0.2]), SCHEMES["w1f_refuse"], budget)
    assert held.diagnostic.tolist() == [0.025, 0]
    small = run(workload([0, 1, 2], [0.01, 0.025, 0.026]), SCHEMES["w1f_refuse"], budget)
    assert small.diagnostic.tolist() == [0.01, 0.025, 0.025]
    assert small.granted.tolist() == [0, 0, pytest.approx(0.001)]
    assert small.met.all()


def test_without_a_horizon_a_purse_buys_a_thousand_diagnostics() -> None:
    found = run(workload([0], [0.5]), SCHEMES["w1f_refuse"], Budget(1.0, xi=0.1))
    assert found.diagnostic.tolist() == [1e-4]


def test_weights_say_which_question_is_difficult() -> None:
    """Small counts weigh more; 1 for the first one, and for one that is not diagnosed."""
    n = 60
    asked = workload(list(range(n)), [0.1] * n, [100.0, 10_000.0] * (n // 2))
    found = run(asked, SCHEMES["qif_dual"], Budget(4, xi=0.05, horizon=n))
    assert found.weights[0] == 1
    assert found.weights[2::2].min() > found.weights[1::2].max() * 2
    flat = run(asked, SCHEMES["w1f_dual"], Budget(4, xi=0.05, horizon=n))
    assert (flat.weights == 1).all() and flat.diagnostic.tolist() == found.diagnostic.tolist()


def test_equal_demands_differ_as_their_weights_say() -> None:
    """Theorem E.1: the shortfall is mu/2w, so what two asks lack at one price is as 1/w_t to 1/w_s."""
    n = 40
    asked = workload(list(range(n)), [0.1] * n, [100.0, 3000.0] * (n // 2))
    found = run(asked, SCHEMES["qif_dual"], Budget(2, xi=0.05, horizon=n))
    some = (found.granted > 0) & (found.shortfall > 0)
    assert some.sum() > 5
    price = found.prices[some]
    assert found.shortfall[some] == pytest.approx(price / (2 * found.weights[some]))


def diagnostics(truths: list[float], beta: float = 1.0) -> Diagnostics:
    """Four diagnostics of 0.1 rho each."""
    weights = Weights(beta=beta)
    return Diagnostics(0.4, 4, weights, np.array(truths), len(truths), 7)


def test_a_diagnostic_is_free_from_exactly_its_price_on() -> None:
    desk = diagnostics([1000.0])
    desk.learn(0, 0, 0.0, 0.1)
    assert desk.look(0, 0, 0.1, 1.0, Pace())[0] == 0
    assert desk.look(0, 0, math.nextafter(0.1, 0), 1.0, Pace())[0] == 0.1


def test_what_is_released_is_fused_by_its_precision() -> None:
    desk = diagnostics([50.0])
    first, second = desk.learn(0, 0, 0.0, 0.3), desk.learn(0, 0, 0.3, 0.1)
    assert desk.fused == [pytest.approx((3 * first + second) / 4)]


@pytest.mark.statistics
@pytest.mark.parametrize(("rho", "right"), [(0.5, True), (2.0, True), (1.0, False)])
def test_a_release_has_variance_one_over_two_rho(rho: float, right: bool) -> None:
    """The twin is judged by the variance 1/rho."""
    n = 4000
    desk = diagnostics([10.0] * n)
    errors = np.array([desk.learn(t, t, 0.0, rho) - 10 for t in range(n)])
    share = (errors**2).mean() * rho * (2 if right else 1)
    assert bool(abs(share - 1) < 5 * math.sqrt(2 / n)) is right


def test_instability_is_how_far_a_diagnostic_lies_from_what_was_held() -> None:
    """``QIF = (v + beta b)/m_LB``: b is sd for what is new or unmoved, else the excess over 1.96 sd."""
    held, rho_d = 0.05, 0.1
    desk = diagnostics([400.0, 900.0])
    _, weight, fresh = desk.look(1, 1, 0.0, 1.0, Pace())
    sd = 1 / math.sqrt(2 * rho_d)
    value = desk.fused[1]
    assert weight == 1
    assert fresh == pytest.approx((math.sqrt(value) + sd) / (value - 1.645 * sd))

    before = desk.learn(0, 0, 0.0, held)
    desk._truths[0] = 9000.0  # as if the question had moved
    _, _, moved = desk.look(0, 0, held, 1.0, Pace())
    value, sd = desk.fused[0], 1 / math.sqrt(2 * (held + rho_d))
    new = (value * (held + rho_d) - before * held) / rho_d
    excess = abs(new - before) - 1.959964 * math.sqrt(1 / (2 * rho_d) + 1 / (2 * held))
    assert excess > 8000
    assert moved == pytest.approx((math.sqrt(value) + excess) / (value - 1.645 * sd))


@given(workloads(), budgets, st.integers(0, 99))
@settings(max_examples=50)
def test_equal_seeds_give_equal_runs(asked: Workload, budget: Budget, seed: int) -> None:
    for scheme in SCHEMES.values():
        one, other = run(asked, scheme, budget, seed), run(asked, scheme, budget, seed)
        assert one.granted.tolist() == other.granted.tolist()
        assert one.weights.tolist() == other.weights.tolist()


@pytest.mark.parametrize("name", ["fluid", "dual", "satisfy", "proportional", "aon_fluid", "hedge"])
def test_a_gate_that_needs_a_horizon_says_so(name: str) -> None:
    with pytest.raises(BadInput, match="horizon"):
        run(workload([0], [1.0]), SCHEMES[name], Budget(1.0))


@pytest.mark.parametrize(
    "wrong",
    [
        {"rho": 0.0},
        {"rho": math.nan},
        {"rho": 1.0, "xi": 1.0},
        {"rho": 1.0, "horizon": 0},
        {"rho": 1.0, "m_floor": 0.0},
        {"rho": 1.0, "forecast": (0.1, math.inf)},
    ],
)
def test_a_budget_is_checked(wrong: dict) -> None:  # type: ignore[type-arg]
    with pytest.raises(BadInput):
        Budget(**wrong)


@pytest.mark.parametrize(
    ("keys", "demands", "ceilings"),
    [
        ([0, 1], [1.0], None),
        ([0], [0.0], None),
        ([0], [math.inf], None),
        ([-1], [1.0], None),
        ([0], [1.0], [0.5]),
    ],
)
def test_a_workload_is_checked(
    keys: list[int], demands: list[float], ceilings: list[float] | None
) -> None:
    with pytest.raises(BadInput):
        workload(keys, demands, ceilings=ceilings)


def test_an_empty_workload_costs_nothing() -> None:
    for scheme in ("refuse", "BP", "qif_dual"):
        assert run(workload([], []), SCHEMES[scheme], Budget(1, xi=0.1, horizon=1)).spent == 0
