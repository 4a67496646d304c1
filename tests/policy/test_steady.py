"""Gates for any order of arrivals: what they promise, and what they are for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from defray.policy.demand import WINDOW, Demand, Pace
from defray.policy.gates import Dual, Fluid, Greedy, Policy, Satisfy
from defray.policy.steady import CRUMB, MODEST, Generous, Modest, Steady, trend

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
GATES: Sequence[Callable[[int], Policy]] = (Steady, Modest, Generous)


def paced(
    seen: Sequence[tuple[float, float]], price: float = 0.0, forecast: Sequence[float] = ()
) -> Pace:
    pace = Pace(forecast)
    for residual, weight in seen:
        pace.advance(residual, weight, price)
    return pace


def played(
    policy: Policy,
    asked: Sequence[float],
    cap: float,
    ws: Sequence[float] = (),
    forecast: Sequence[float] = (),
) -> list[float]:
    """What each of these asks is granted from a purse of ``cap``."""
    pace, left, granted = Pace(forecast), cap, []
    for a, w in zip(asked, ws or [1.0] * len(asked), strict=True):
        demand = Demand(a, left, cap, w)
        given = float(policy.grant(demand, pace))
        pace.advance(a, w, policy.after(demand, given, pace))
        granted.append(given)
        left = max(0.0, left - given)
    return granted


@given(demands, arrivals, st.integers(1, 60), st.floats(0, 5), st.lists(amounts, max_size=5))
def test_a_grant_lies_between_nothing_and_what_is_needed_and_left(
    demand: Demand,
    seen: list[tuple[float, float]],
    horizon: int,
    price: float,
    forecast: list[float],
) -> None:
    pace = paced(seen, price, forecast)
    for make in GATES:
        policy = make(horizon)
        granted = policy.grant(demand, pace)
        assert 0 <= granted <= min(demand.residual, demand.available), policy
        assert policy.partial or granted in (0, demand.residual), policy
        after = policy.after(demand, granted, pace)
        assert math.isfinite(after) and after >= 0, policy


# -- steady ------------------------------------------------------------------------------------------


@given(demands, arrivals, st.integers(1, 60), st.floats(0, 5), st.lists(amounts, max_size=5))
def test_the_price_lies_between_the_learned_and_the_fluid_one(
    demand: Demand,
    seen: list[tuple[float, float]],
    horizon: int,
    mu: float,
    forecast: list[float],
) -> None:
    policy, pace = Steady(horizon), paced(seen, mu, forecast)
    fluid = Fluid(horizon).price(demand, pace)
    assert 0 <= policy.trust(demand, pace) < 1
    ends = sorted((pace.price, fluid))
    assert ends[0] * (1 - 1e-9) <= policy.price(demand, pace) <= ends[1] * (1 + 1e-9)


@given(demands, st.integers(1, 60), st.floats(0, 5))
def test_nothing_known_means_the_learned_price(demand: Demand, horizon: int, mu: float) -> None:
    pace = Pace()
    pace.price = mu
    assert Steady(horizon).trust(demand, pace) == 0
    bound = 3 * demand.cap / math.sqrt(horizon)
    assert Steady(horizon).grant(demand, pace) == min(Dual(horizon).grant(demand, pace), bound)


def test_trust_grows_with_what_is_known_and_ends_where_arrivals_rise_or_fall() -> None:
    mixed = [0.01 * (1 + k * 7 % 10) for k in range(60)]
    policy, here = Steady(60), Demand(0.05, 1.0, 2.0)
    known = [policy.trust(here, paced([(a, 1.0) for a in mixed[:n]])) for n in (0, 10, 30, 59)]
    assert known == sorted(known) and known[0] == 0 and known[-1] > 0.5
    assert policy.trust(here, paced([], forecast=mixed)) == pytest.approx(60 / 90)
    for order in (sorted(mixed), sorted(mixed, reverse=True)):
        last = Demand(order[30], 1.0, 2.0)
        assert policy.trust(last, paced([(a, 1.0) for a in order[:30]])) < 0.01


@given(demands, arrivals, st.integers(1, 60), st.floats(1.0, 16), st.floats(0, 5))
def test_more_weight_never_gets_less(
    demand: Demand, seen: list[tuple[float, float]], horizon: int, more: float, price: float
) -> None:
    heavier = Demand(demand.residual, demand.available, demand.cap, demand.weight * more)
    policy, pace = Steady(horizon), paced(seen, price)
    low, high = (float(policy.grant(d, pace)) for d in (demand, heavier))
    assert high >= low - 1e-9 * (1 + low)


@given(
    st.lists(st.tuples(amounts, weights), min_size=1, max_size=20),
    st.floats(0.1, 20),
    st.integers(1, 30),
    st.sampled_from([0.25, 8.0]),
    st.sampled_from([0.5, 16.0]),
)
def test_a_run_is_free_of_the_scales_of_rho_and_of_weight(
    asked: list[tuple[float, float]], cap: float, horizon: int, rho: float, weight: float
) -> None:
    residuals, ws = [a for a, _ in asked], [w for _, w in asked]
    plain = played(Steady(horizon), residuals, cap, ws)
    scaled = played(
        Steady(horizon), [a * rho for a in residuals], cap * rho, [w * weight for w in ws]
    )
    assert [g / rho for g in scaled] == pytest.approx(plain, rel=1e-6, abs=1e-7)


def test_a_price_of_zero_grants_exactly() -> None:
    part = Fraction(1, 7)
    assert Steady(3).grant(Demand(part, Fraction(1), Fraction(1)), Pace()) == part


# -- the trend ---------------------------------------------------------------------------------------


@given(st.lists(amounts, min_size=1, max_size=40), st.floats(0.01, 100))
def test_a_trend_turns_with_the_order_and_has_no_scale(seen: list[float], scale: float) -> None:
    z = trend(seen)
    assert abs(z) <= math.sqrt(max(0, len(seen) - 1)) * (1 + 1e-9)
    if max(seen) > min(seen) * 1.01:
        assert trend(seen[::-1]) == pytest.approx(-z, abs=1e-6)
        assert trend([a * scale for a in seen]) == pytest.approx(z, abs=1e-6)


def spread(orders: Sequence[Sequence[float]]) -> tuple[float, float]:
    found = [trend(order) for order in orders]
    return float(np.mean(found)), float(np.var(found))


def test_a_trend_has_mean_0_and_variance_1_where_order_means_nothing() -> None:
    chance = np.random.default_rng(5)
    shuffled = [chance.lognormal(sigma=2, size=25).tolist() for _ in range(4000)]
    mean, variance = spread(shuffled)
    assert abs(mean) < 4 / math.sqrt(4000) and abs(variance - 1) < 0.1
    # Its twin: the same amounts, sorted only loosely.
    drifting = [
        [a for _, a in sorted((math.log(a) + chance.normal(0, 4), a) for a in order)]
        for order in shuffled
    ]
    assert spread(drifting)[0] > 1


def test_a_trend_rests_on_the_window_in_the_order_of_arrival() -> None:
    pace = Pace([7.0] * 5)
    for k in range(WINDOW + 100):
        pace.advance(1.0 + k, 1.0, 0.0)
    rising = Demand(1.0 + WINDOW + 100, 1.0, 2.0)
    assert Steady(10).trust(rising, pace) < 1e-30  # a forecast has no place, the window no seam


# -- modest and generous -----------------------------------------------------------------------------


@given(demands, st.integers(0, 70), st.integers(1, 60))
def test_modest_grants_all_that_satisfy_does_and_every_modest_ask(
    demand: Demand, before: int, horizon: int
) -> None:
    pace = Pace(arrivals=before)
    granted = Modest(horizon).grant(demand, pace)
    if Satisfy(horizon).grant(demand, pace):
        assert granted == demand.residual
    share = demand.available / max(1, horizon - before)
    if demand.residual <= min(MODEST * share * (1 - 1e-9), demand.available):
        assert granted == demand.residual
    generous = Generous(horizon).grant(demand, pace)
    assert generous >= granted
    if demand.available:
        assert generous >= min(demand.residual, share / CRUMB) * (1 - 1e-9)


@given(st.lists(amounts, min_size=1, max_size=40), st.integers(2, 40), st.floats(0.1, 20))
def test_a_reserve_is_left_for_those_who_still_come(
    asked: list[float], horizon: int, cap: float
) -> None:
    budget = Fraction(cap)
    for policy in (Modest(horizon), Generous(horizon)):
        pace, left = Pace(), budget
        for t, a in enumerate(asked, 1):
            demand = Demand(Fraction(a), left, budget)
            left -= Fraction(policy.grant(demand, pace))
            pace.advance(a, 1.0, 0.0)
            more = max(0, horizon - t)
            assert left >= budget * Fraction(more * (more - 1), horizon * (horizon - 1))


def test_all_or_nothing_is_exact() -> None:
    part, budget, pace = Fraction(1, 7), Fraction(1), Pace()
    for k in range(7):
        demand = Demand(part, budget - k * part, budget)
        assert Modest(7).grant(demand, pace) == part
        assert Generous(7).grant(demand, pace) == part
        pace.advance(1 / 7, 1.0, 0.0)
    assert Modest(7).grant(Demand(part, Fraction(0), budget), pace) == 0
    assert Generous(7).grant(Demand(part, Fraction(0), budget), pace) == 0


# -- what they are for -------------------------------------------------------------------------------

N, SEEDS = 60, 25
ORDERS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "any": lambda a: a,
    "heavy first": lambda a: np.sort(a)[::-1],
    "heavy last": np.sort,
    "burst": lambda a: a * np.where(np.arange(len(a)) < 2 * len(a) // 3, 1, 4),
}


def asks(order: str, seed: int) -> list[float]:
    """Half-widths log-uniform in [3, 60] at 95 %."""
    wide = np.exp(np.random.default_rng(seed).uniform(math.log(3), math.log(60), N))
    return list(ORDERS[order](1.959964**2 / (2 * wide**2)).tolist())


def shortfall(policy: Policy, order: str, share: float) -> float:
    """The mean squared shortfall over seeds, each in units of its mean squared demand."""
    out = []
    for seed in range(SEEDS):
        asked = asks(order, seed)
        granted = played(policy, asked, share * sum(asked))
        lost = sum((a - g) ** 2 for a, g in zip(asked, granted, strict=True))
        out.append(lost / sum(a * a for a in asked))
    return float(np.mean(out))


def met(policy: Policy, order: str, share: float) -> float:
    """The mean number of targets met."""
    out = []
    for seed in range(SEEDS):
        asked = asks(order, seed)
        granted = played(policy, asked, share * sum(asked))
        out.append(sum(g >= a for a, g in zip(asked, granted, strict=True)))
    return float(np.mean(out))


SCARCE = [*((order, 0.5) for order in ORDERS), ("any", 0.2)]


def lose_least(policy: Policy) -> bool:
    """Never 15 % behind the best of greedy, satisfy and dual in squared shortfall."""
    rivals = (Greedy(), Satisfy(N), Dual(N))
    return all(
        shortfall(policy, *where) <= 1.15 * min(shortfall(r, *where) for r in rivals)
        for where in SCARCE
    )


def test_steady_is_never_far_behind_in_shortfall_and_fluid_is() -> None:
    assert lose_least(Steady(N))
    assert not lose_least(Fluid(N))


def test_modest_meets_as_many_targets_as_satisfy_in_any_order_and_more_where_the_heavy_come_first() -> (
    None
):
    for where in SCARCE:
        assert met(Modest(N), *where) >= met(Satisfy(N), *where)
    assert met(Modest(N), "heavy first", 0.5) >= met(Satisfy(N), "heavy first", 0.5) + 1
    assert met(Greedy(), "heavy first", 0.5) < met(Satisfy(N), "heavy first", 0.5)


def test_generous_leaves_nobody_with_nothing_and_modest_does() -> None:
    asked = asks("any", 0)
    cap = 0.5 * sum(asked)
    assert min(played(Generous(N), asked, cap)) > 0
    assert min(played(Modest(N), asked, cap)) == 0


@pytest.mark.parametrize("huge", [2.0, 25.0, 1e100])
@pytest.mark.parametrize("make", [Fluid, Steady])
def test_one_huge_ask_takes_little_from_the_others(make: Any, huge: float) -> None:
    """Three usual ones of a hundred, then one that asks for much more, then usual ones again: all of these
    are granted something, and in all at least half of what they would have got without it."""

    def play(asks: list[float]) -> list[float]:
        policy, pace, left, granted = make(100), Pace(), 20.0, []
        for a in asks:
            demand = Demand(a, left, 20.0)
            got = float(policy.grant(demand, pace))
            pace.advance(a, 1.0, policy.after(demand, got, pace))
            left -= got
            granted.append(got)
        return granted

    usual = [0.48] * 3
    clean = play([*usual, *[0.48] * 40])
    found = play([*usual, huge, *[0.48] * 40])
    assert found[3] <= 0.3 * 20
    assert all(got > 0 for got in found)
    assert sum(found[4:]) > 0.5 * sum(clean[3:])
