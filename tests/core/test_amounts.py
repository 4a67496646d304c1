"""Exact amounts: dyadic rounding, quanta, and what counts as a number."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from defray.core.amounts import (
    QUANTA,
    dyadic_down,
    dyadic_up,
    exact,
    float_down,
    precision_of,
    quanta_down,
    quanta_up,
    rho_of,
    support_of,
)

positive = st.fractions(min_value=Fraction(1, 10**30), max_value=10**30).filter(lambda x: x > 0)


@given(positive)
def test_dyadic_rounding_brackets_and_is_short(x):
    down, up = dyadic_down(x), dyadic_up(x)
    assert down <= x <= up
    assert up - down <= x * Fraction(1, 2**52)
    for y in (down, up):
        assert y.numerator.bit_length() <= 54 or y.denominator == 1
        assert y.denominator & (y.denominator - 1) == 0


@given(positive)
def test_grid_points_stay_put_however_they_are_reached(x):
    point = dyadic_up(x)
    assert dyadic_down(point) == dyadic_up(point) == point
    just_above = point * (1 + Fraction(1, 3**60))
    assert dyadic_down(just_above) == point


@given(positive, positive)
def test_dyadic_rounding_is_monotone(x, y):
    x, y = sorted((x, y))
    assert dyadic_up(x) <= dyadic_up(y)
    assert dyadic_down(x) <= dyadic_down(y)


@given(positive)
def test_floats_round_the_way_they_say(x):
    assert Fraction(float_down(x)) <= x < Fraction(math.nextafter(float_down(x), math.inf))


@given(st.integers(0, QUANTA), positive)
def test_quanta_round_trip(quanta, total):
    assert quanta_up(rho_of(quanta, total), total) == quanta
    assert quanta_down(rho_of(quanta, total), total) == quanta


@given(positive, positive)
def test_support_and_precision_are_inverse(rho, reach):
    assert support_of(precision_of(rho, reach), reach) == rho


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (0.1, Fraction(1, 10)),
        ("1/7", Fraction(1, 7)),
        (Decimal("0.30"), Fraction(3, 10)),
        (5, Fraction(5)),
        (" 2.5 ", Fraction(5, 2)),
    ],
)
def test_numbers_mean_what_was_written(written, meant):
    assert exact(written) == meant


@pytest.mark.parametrize(
    "bad", ["nan", float("nan"), float("inf"), "1/0", "", "x", True, "1e999999", None]
)
def test_what_is_no_number_is_refused(bad):
    with pytest.raises(ValueError):
        exact(bad)
