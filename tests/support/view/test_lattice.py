"""Weights on a lattice: exact numbers, charges never rounded down, sigma that can be drawn."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from defray.core.target import MAX_SCALE
from defray.support.view.lattice import FINE, SMOOTH, rounded

weights = st.lists(st.floats(-8, 8, allow_subnormal=False), min_size=1, max_size=12).map(np.array)
variances = st.floats(1e-12, 1e12)
allowed = st.floats(1e-13, 1e-2)


@given(weights, variances, allowed)
def test_what_is_drawn_is_close_and_costs_what_it_says(
    b: np.ndarray, variance: float, most: float
) -> None:
    found = rounded(b, variance, most)
    if found is None:
        # too fine for any lattice on which such noise can be drawn
        drawable = math.floor(math.log2(MAX_SCALE / math.sqrt(variance)))
        exact = 52 - math.ceil(math.log2(np.abs(b).max()))
        assert 2.0 ** -min(drawable, exact) > most / 2
        return
    assert np.abs(found.b - b).max() <= most / 2
    assert all(
        Fraction(x) == Fraction(int(i), 2**found.bits)
        for x, i in zip(found.b.tolist(), found.steps, strict=True)
    )
    sigma = Fraction(found.sigma)
    assert sigma**2 <= Fraction(variance) * (1 + Fraction(1, 2**50))
    assert found.precision * sigma**2 <= 1
    assert Fraction(found.variance) * found.precision >= 1
    assert found.variance <= variance * (1 + 1e-15)
    assert found.sigma * 2.0**found.bits <= MAX_SCALE
    for rows in (1, 3):
        for rho, charge, x in zip(found.rho(rows), found.charge, found.b, strict=True):
            assert rho == rows**2 * Fraction(x) ** 2 / (2 * sigma**2)
            assert rho <= rows**2 * Fraction(float(charge)) / 2
            assert float(charge) <= float(2 * rho / rows**2) * (1 + 1e-14)


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=8), variances, allowed)
def test_whole_numbers_stay_whole(b: list[int], variance: float, most: float) -> None:
    found = rounded(np.array(b, dtype=float), variance, most)
    assert found is not None and found.b.tolist() == b


def test_the_noise_is_smooth_and_rounding_takes_little() -> None:
    found = rounded(np.array([1 / 3, -0.7]), 4.0, 1e-6)
    assert found is not None
    assert found.sigma * 2.0**found.bits >= SMOOTH
    assert np.abs(found.b - [1 / 3, -0.7]).max() <= FINE * 1e-6


def test_a_lattice_that_cannot_be_drawn_on_is_refused() -> None:
    """n_max of 10^12 rows beside a standard deviation of 1000: weights of 2^-53 would be needed."""
    assert rounded(np.array([1 / 3]), 1e6, 1e-16) is None
    assert rounded(np.array([1.0]), 1e6, 1e-16) is not None


def test_coarser_than_wished_where_only_that_can_be_drawn() -> None:
    found = rounded(np.array([1 / 3]), 1e6, 1e-9)
    assert found is not None
    assert found.sigma * 2.0**found.bits <= MAX_SCALE < found.sigma * 2.0 ** (found.bits + 1)
    assert FINE * 1e-9 < abs(found.b[0] - 1 / 3) <= 1e-9 / 2


def test_a_minute_residual_buys_slightly_more_than_it_needs() -> None:
    found = rounded(np.array([1.0]), 2.0**104, 1e-3)
    assert found is not None and found.bits == 0
    assert found.sigma == pytest.approx(MAX_SCALE)
