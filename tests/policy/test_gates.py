"""What every policy must do, whatever arrives."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from defray.policy.choices import GATES
from defray.policy.demand import WINDOW, Demand, Pace
from defray.policy.gates import Dual, Fluid, Greedy, Paper, Refuse, Satisfy
from defray.policy.price import at_price, fluid_price
from defray.policy.research import AllOrNothingFluid, Hedge, Proportional, Zcl
from defray.policy.weights import Diagnosis, Weights

amounts = st.floats(1e-6, 10.0)
weights = st.floats(1 / 16, 16)
demands = st.builds(
    lambda a, left, used, w: Demand(a, left, left + used, w),
    amounts,
    st.floats(0, 10),
    st.floats(1e-3, 10),
    weights,
)
arrivals = st.lists(st.tuples(amounts, weights), max_size=30)


def paced(seen: list[tuple[float, float]], price: float = 0.0) -> Pace:
    pace = Pace()
    for residual, weight in seen:
        pace.advance(residual, weight, price)
    return pace


def policies(horizon: int) -> list:  # type: ignore[type-arg]
    return [
        *(make(horizon) for make in GATES.values()),
        Paper(None),
        Proportional(horizon),
        Zcl(1e-6, 10.0),
        AllOrNothingFluid(horizon),
        Hedge(horizon, 0.9),
    ]


@given(demands, arrivals, st.integers(1, 60), st.floats(0, 5))
def test_a_grant_lies_between_nothing_and_what_is_needed_and_left(
    demand: Demand, seen: list[tuple[float, float]], horizon: int, price: float
) -> None:
    pace = paced(seen, price)
    for policy in policies(horizon):
        granted = policy.grant(demand, pace)
        assert 0 <= granted <= min(demand.residual, demand.available), policy
        assert policy.partial or granted in (0, demand.residual), policy
        after = policy.after(demand, granted, pace)
        assert math.isfinite(after) and after >= 0, policy


@given(amounts, st.floats(0, 10), weights)
def test_one_expected_ask_gets_its_residual_or_all_there_is(
    a: float, left: float, w: float
) -> None:
    demand = Demand(a, left, 10.0, w)
    for policy in (Fluid(1), Dual(1), Paper(1)):
        assert float(policy.grant(demand, Pace())) == pytest.approx(
            min(a, left), rel=1e-9, abs=1e-12
        )


@given(demands, arrivals, st.integers(1, 60))
def test_a_feasible_forecast_has_no_price(
    demand: Demand, seen: list[tuple[float, float]], horizon: int
) -> None:
    pace = paced(seen)
    residuals, _ = pace.seen(demand)
    ahead = max(0, horizon - pace.arrivals - 1)
    need = float(demand.residual) + ahead * sum(residuals) / len(residuals)
    plenty = Demand(demand.residual, need * 1.001, need * 2, demand.weight)
    assert Fluid(horizon).price(plenty, pace) == 0
    assert Fluid(horizon).grant(plenty, pace) == demand.residual


@given(demands, arrivals, st.integers(1, 60), st.floats(0.01, 100))
def test_scaling_all_weights_changes_nothing_in_fluid(
    demand: Demand, seen: list[tuple[float, float]], horizon: int, c: float
) -> None:
    scaled = Demand(demand.residual, demand.available, demand.cap, demand.weight * c)
    a = Fluid(horizon).grant(demand, paced(seen))
    b = Fluid(horizon).grant(scaled, paced([(r, w * c) for r, w in seen]))
    assert float(a) == pytest.approx(float(b), rel=1e-6, abs=1e-9)


@given(demands, arrivals, st.integers(1, 60), st.floats(1.0, 16), st.floats(0, 5))
def test_more_weight_never_gets_less(
    demand: Demand, seen: list[tuple[float, float]], horizon: int, more: float, price: float
) -> None:
    heavier = Demand(demand.residual, demand.available, demand.cap, demand.weight * more)
    pace = paced(seen, price)
    for policy in (Fluid(horizon), Dual(horizon), Paper(horizon)):
        low, high = policy.grant(demand, pace), policy.grant(heavier, pace)
        assert float(high) >= float(low) - 1e-9 * (1 + float(low)), policy


@given(demands, st.integers(0, 40), arrivals)
def test_the_fluid_price_is_the_least_that_fits(
    demand: Demand, ahead: int, seen: list[tuple[float, float]]
) -> None:
    residuals, ws = paced(seen).seen(demand)

    def load(mu: float) -> float:
        own = max(0.0, demand.residual - mu / (2 * demand.weight))
        rest = sum(max(0.0, a - mu / (2 * w)) for a, w in zip(residuals, ws, strict=True))
        return own + ahead * rest / len(residuals)

    mu = fluid_price(demand, ahead, residuals, ws)
    scale = 1e-9 * (1 + load(0.0))
    assert load(mu) <= demand.available + scale
    if mu > 1e-6:
        assert load(mu * (1 - 1e-4)) >= demand.available - scale


@given(demands, st.floats(0, 5))
def test_the_closed_form_minimises_shortfall_and_price(demand: Demand, price: float) -> None:
    def cost(r: float) -> float:
        return demand.weight * max(0.0, demand.residual - r) ** 2 + price * r

    best = float(at_price(demand, price))
    top = float(min(demand.residual, demand.available))
    for k in range(41):
        assert cost(best) <= cost(top * k / 40) + 1e-9 * (1 + cost(0.0))


@given(st.lists(amounts, min_size=1, max_size=40), st.integers(1, 40), st.floats(0.1, 20))
def test_satisfy_never_passes_what_is_unlocked(
    asked: list[float], horizon: int, cap: float
) -> None:
    policy, pace = Satisfy(horizon), Pace()
    budget = Fraction(cap)
    spent = Fraction(0)
    for t, a in enumerate(asked, 1):
        demand = Demand(Fraction(a), budget - spent, budget)
        spent += Fraction(policy.grant(demand, pace))
        assert spent <= budget * min(Fraction(1), Fraction(t, horizon))
        pace.advance(a, 1.0, policy.after(demand, 0, pace))


def test_all_or_nothing_is_exact() -> None:
    """Seven equal parts of a budget are all granted."""
    part, budget, pace = Fraction(1, 7), Fraction(1), Pace()
    for k in range(7):
        assert Refuse().grant(Demand(part, budget - k * part, budget), pace) == part
        assert Greedy().grant(Demand(part, budget - k * part, budget), pace) == part
        assert Satisfy(7).grant(Demand(part, budget - k * part, budget), pace) == part
        pace.advance(1 / 7, 1.0, 0.0)
    assert Refuse().grant(Demand(part, Fraction(0), budget), pace) == 0


def test_a_pace_rests_on_its_window() -> None:
    pace = Pace([5.0])
    for k in range(WINDOW + 10):
        pace.advance(float(k), 1.0, 0.0, influence=float(k))
    residuals, ws = pace.seen(Demand(0.5, 1, 1))
    assert len(residuals) == len(ws) == WINDOW + 2
    assert residuals[0] == 5.0 and min(residuals[1:-1]) == 10.0
    assert pace.typical_influence(0.0) == 10 + WINDOW / 2 - 1


@given(
    st.floats(-100, 1e5),
    st.floats(0.1, 1e3),
    st.floats(0, 1e3),
    st.floats(0.5, 50),
    st.floats(0, 3),
)
def test_the_influence_rises_with_instability_and_falls_with_the_magnitude(
    value: float, sd: float, more: float, floor: float, beta: float
) -> None:
    w = Weights(beta=beta, floor=floor)
    steady = Diagnosis(value, sd, moved=0.0, moved_sd=sd)
    shaken = Diagnosis(value, sd, moved=10 * sd + more, moved_sd=sd)
    assert w.influence(shaken) >= w.influence(steady) > 0
    # At the same variability, a larger lower bound means an easier question.
    lower = Weights(beta=beta, floor=floor + more)
    assert lower.influence(steady) <= w.influence(steady)


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=30), st.floats(0, 3))
def test_weights_are_bounded_and_free_of_scale(influences: list[float], alpha: float) -> None:
    w = Weights(alpha=alpha)
    for scale in (1.0, 1024.0):
        pace = Pace()
        for q in influences[:-1]:
            pace.advance(1.0, 1.0, 0.0, influence=q * scale)
        found = w.weight(influences[-1] * scale, pace)
        assert w.least * (1 - 1e-12) <= found <= w.most * (1 + 1e-12)
        if scale == 1.0:
            first = found
    assert found == pytest.approx(first, rel=1e-9)
    assert w.weight(influences[-1], Pace()) == 1.0
