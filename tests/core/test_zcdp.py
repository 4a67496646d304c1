"""The conversion is tight, safe, monotone, total over its extremes, and agrees with two oracles."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import opendp.prelude as dp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from defray.core.zcdp import delta_for, epsilon_for, rho_for

RHOS = [0.0, 1e-30, 1e-20, 1e-10, 1e-6, 1e-3, 0.01, 0.1, 0.5, 1.0, 3.0, 10.0, 100.0, 1e4, 1e6]
DELTAS = [0.0, 5e-324, 1e-300, 1e-100, 1e-20, 1e-9, 1e-6, 1e-3, 0.1, 0.5, 0.9, 1 - 2**-53, 1.0]
EPSILONS = [0.0, 1e-30, 1e-10, 1e-3, 0.1, 0.5, 1.0, 3.0, 10.0, 100.0, 1e4, 1e6]

rhos = st.floats(1e-12, 1e4)
deltas = st.floats(1e-300, 0.999)
epsilons = st.floats(0, 1e4)


def log_delta_at_order(a: float, rho: float, epsilon: float) -> float:
    """Proposition 12 as printed: delta = exp((a-1)(a rho - epsilon))/(a-1) * (1 - 1/a)^a."""
    return (a - 1) * (a * rho - epsilon) - math.log(a - 1) + a * math.log1p(-1 / a)


def epsilon_at_order(a: float, rho: float, delta: float) -> float:
    """The same equation solved for epsilon at a fixed order."""
    return a * rho + (-math.log(delta) + a * math.log1p(-1 / a) - math.log(a - 1)) / (a - 1)


def brute_minimum(value, low: float = -12.0, high: float = 12.0) -> float:
    """The least value(1 + 10^x), by grids over x, each finer around the best point so far."""
    for _ in range(9):
        grid = [low + (high - low) * i / 60 for i in range(61)]
        best = min(grid, key=lambda x: value(1 + 10**x))
        low, high = best - (high - low) / 30, best + (high - low) / 30
    return value(1 + 10**best)


def opendp_epsilon(rho: float, delta: float) -> tuple[float, float]:
    """(rho of an OpenDP mechanism near the one asked for, its epsilon at delta by OpenDP)."""
    dp.enable_features("contrib")
    space = dp.atom_domain(T=int), dp.absolute_distance(T=float)
    gaussian = dp.m.make_gaussian(*space, scale=math.sqrt(1 / (2 * rho)))
    return gaussian.map(1.0), dp.c.make_zCDP_to_approxDP(gaussian).map(1.0).epsilon(delta)


# Figures computed apart from this code: a bisection over epsilon around one over the order.
@pytest.mark.parametrize(
    ("rho", "delta", "epsilon"),
    [
        (0.01, 1e-9, 0.8101744678675),
        (0.1, 1e-6, 2.1419389283855),
        (0.5, 1e-6, 5.2215344445302),
        (1.0, 1e-6, 7.7662166253117),
        (1.0, 0.01, 4.3403798868213),
        (5.0, 1e-9, 24.4059875575594),
    ],
)
def test_known_figures(rho: float, delta: float, epsilon: float) -> None:
    assert epsilon_for(rho, delta) == pytest.approx(epsilon, rel=1e-12)


@pytest.mark.parametrize("rho", [1e-3, 0.01, 0.1, 0.5, 1.0, 10.0, 100.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-3, 0.1, 0.5])
def test_epsilon_is_the_brute_force_minimum(rho: float, delta: float) -> None:
    brute = max(0.0, brute_minimum(lambda a: epsilon_at_order(a, rho, delta)))
    assert epsilon_for(rho, delta) == pytest.approx(brute, rel=1e-9, abs=1e-11)


@pytest.mark.parametrize("rho", [1e-3, 0.01, 0.1, 0.5, 1.0, 10.0])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 3.0, 10.0])
def test_delta_is_the_brute_force_minimum(rho: float, epsilon: float) -> None:
    brute = min(0.0, brute_minimum(lambda a: log_delta_at_order(a, rho, epsilon)))
    if brute > -700:
        assert math.log(delta_for(rho, epsilon)) == pytest.approx(brute, rel=1e-8, abs=1e-10)


@pytest.mark.parametrize("rho", [0.01, 0.5, 5.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-6, 0.01])
def test_epsilon_agrees_with_opendp(rho: float, delta: float) -> None:
    rho, theirs = opendp_epsilon(rho, delta)
    assert epsilon_for(rho, delta) == pytest.approx(theirs, rel=1e-12)


@given(rhos, deltas, st.floats(-6, 6))
def test_no_order_gives_a_smaller_epsilon(rho: float, delta: float, x: float) -> None:
    a = 1 + 10**x
    terms = a * rho, math.log(delta) / (a - 1), math.log(a - 1) / (a - 1)
    rounding = 1e-13 * max(1.0, *map(abs, terms)) + 1e-9 / (a - 1)
    assert epsilon_for(rho, delta) <= max(0.0, epsilon_at_order(a, rho, delta)) + rounding


@given(rhos, deltas)
def test_epsilon_is_never_dearer_than_the_simple_bound(rho: float, delta: float) -> None:
    simple = rho + 2 * math.sqrt(rho * -math.log(delta))
    assert epsilon_for(rho, delta) <= simple * (1 + 1e-15)


@given(rhos, deltas)
def test_epsilon_and_delta_undo_each_other(rho: float, delta: float) -> None:
    epsilon = epsilon_for(rho, delta)
    assert delta_for(rho, epsilon) <= math.nextafter(delta, 1)
    if epsilon > 0:
        slack = 1e-9 * max(1.0, epsilon)
        assert delta_for(rho, epsilon - min(slack, epsilon)) >= delta


@given(epsilons, deltas)
@settings(deadline=None)
def test_rho_is_the_largest_safe_float(epsilon: float, delta: float) -> None:
    rho = rho_for(epsilon, delta)
    assert rho == Fraction(float(rho))
    assert epsilon_for(rho, delta) <= epsilon
    assert epsilon_for(math.nextafter(float(rho), math.inf), delta) > epsilon


@given(rhos, deltas)
@settings(deadline=None)
def test_rho_of_epsilon_of_rho_never_loses_ground(rho: float, delta: float) -> None:
    assert rho_for(epsilon_for(rho, delta), delta) >= rho


@given(rhos, st.integers(1, 50), deltas)
def test_neighbouring_floats_are_in_order(rho: float, steps: int, delta: float) -> None:
    further, smaller = rho, delta
    for _ in range(steps):
        further, smaller = math.nextafter(further, math.inf), math.nextafter(smaller, 0)
    assert epsilon_for(rho, delta) <= epsilon_for(further, delta)
    assert epsilon_for(rho, delta) <= epsilon_for(rho, smaller)


def test_a_fraction_is_taken_exactly() -> None:
    third = Fraction(1, 3)
    below, above = 1 / 3, math.nextafter(1 / 3, 1)
    assert below < third < above
    assert epsilon_for(below, 1e-6) <= epsilon_for(third, 1e-6) <= epsilon_for(above, 1e-6)
    assert 0 < epsilon_for(Fraction(1, 10**400), 1e-300) < 1e-190
    assert epsilon_for(Fraction(10**400), 1e-6) == math.inf


def test_extremes_are_total_and_monotone() -> None:
    table = [[epsilon_for(rho, delta) for delta in DELTAS] for rho in RHOS]
    for row in table:
        assert not any(map(math.isnan, row))
        assert all(left >= right for left, right in pairwise(row))
    for column in zip(*table, strict=True):
        assert all(upper <= lower for upper, lower in pairwise(column))
    assert table[0] == [0.0] * len(DELTAS)
    assert all(row[0] == math.inf for row in table[1:])
    assert all(row[-1] == 0.0 for row in table)


def test_delta_extremes_are_total_and_monotone() -> None:
    table = [[delta_for(rho, epsilon) for epsilon in EPSILONS] for rho in RHOS]
    assert table[0] == [0.0] * len(EPSILONS)
    for row in table[1:]:
        assert all(0 < delta <= 1 for delta in row)
        assert all(left >= right for left, right in pairwise(row))
    for column in zip(*table, strict=True):
        assert all(upper <= lower for upper, lower in pairwise(column))


def test_rho_extremes_are_total_and_monotone() -> None:
    table = [[rho_for(epsilon, delta) for delta in DELTAS[:-1]] for epsilon in EPSILONS]
    for row in table:
        assert row[0] == 0
        assert all(left <= right for left, right in pairwise(row))
    for column in zip(*table, strict=True):
        assert all(upper <= lower for upper, lower in pairwise(column))


@pytest.mark.parametrize("bad", [-1.0, -1e-300, math.nan, math.inf, -math.inf, Fraction(-1, 3)])
def test_bad_arguments_are_named(bad: float | Fraction) -> None:
    for call, name in [
        (lambda: epsilon_for(bad, 1e-6), "rho"),
        (lambda: epsilon_for(1, bad), "delta"),
        (lambda: delta_for(bad, 1), "rho"),
        (lambda: delta_for(1, bad), "epsilon"),
        (lambda: rho_for(bad, 1e-6), "epsilon"),
        (lambda: rho_for(1, bad), "delta"),
    ]:
        with pytest.raises(ValueError, match=rf"^{name} must"):
            call()


def test_a_delta_that_limits_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="delta must be below 1"):
        rho_for(1, 1)
