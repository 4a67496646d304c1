"""What a cell pays is exact, rounded up; between the ends of a value nothing costs more."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from defray.core.amounts import QUANTA, quanta_up, rho_of
from defray.core.target import sigma_at_least
from defray.support.cell_charges import LARGEST, charges, charges_at_ends

weights = st.floats(-1e6, 1e6) | st.sampled_from([0.0, 1.0, -1.0, 5e-324, 1e-170])
values = st.floats(-1e6, 1e6) | st.integers(-100, 100).map(float)
sigmas = st.floats(1e-6, 1e12)
rhos = st.fractions(Fraction(1, 1000), 100, max_denominator=10**6)
rows = st.integers(1, 5)


def exactly(b: Fraction, sigma: float, rho: Fraction, k: int) -> int:
    return min(quanta_up(k * k * b * b / (2 * Fraction(sigma) ** 2), rho), LARGEST)


@given(st.lists(st.tuples(weights, sigmas), min_size=1, max_size=6), rhos, rows)
def test_charges_are_exact_and_rounded_up(cells, rho, k):
    b, sigma = (list(x) for x in zip(*cells, strict=True))
    wanted = [exactly(Fraction(w), s, rho, k) for w, s in cells]
    assert charges(b, sigma, rho, k).tolist() == wanted


@given(weights, weights, values, values, sigmas, rhos, rows)
def test_charges_at_ends_are_those_of_the_two_values(n, s, one, other, sigma, rho, k):
    low, high = sorted((one, other))
    wanted = [exactly(Fraction(n) + Fraction(s) * Fraction(u), sigma, rho, k) for u in (low, high)]
    assert charges_at_ends([n], [s], low, high, sigma, rho, k).tolist() == [wanted]


@given(
    st.lists(st.tuples(weights, weights, sigmas), min_size=1, max_size=4),
    values,
    values,
    st.fractions(0, 1),
    rhos,
)
def test_no_value_between_the_ends_costs_more(releases, one, other, share, rho):
    low, high = sorted((one, other))
    u = Fraction(low) + share * (Fraction(high) - Fraction(low))
    ends = sum(charges_at_ends([n], [s], low, high, sigma, rho) for n, s, sigma in releases)
    true = sum(
        (Fraction(n) + Fraction(s) * u) ** 2 / (2 * Fraction(sigma) ** 2)
        for n, s, sigma in releases
    )
    assert true * QUANTA / rho <= int(ends.max()) or ends.max() >= LARGEST


@given(st.integers(1, QUANTA), rhos, rows)
def test_a_charge_that_was_given_is_not_exceeded(quanta, rho, k):
    sigma, _ = sigma_at_least(rho_of(quanta, rho), Fraction(k))
    assert charges([1.0], sigma, rho, k).tolist()[0] <= quanta


@pytest.mark.parametrize(
    ("b", "sigma"), [(math.nan, 1.0), (math.inf, 1.0), (1.0, 0.0), (1.0, -1.0), (1.0, math.inf)]
)
def test_what_cannot_be_charged_is_refused(b, sigma):
    with pytest.raises(ValueError, match="finite"):
        charges([b], sigma, Fraction(1))


def test_cells_that_are_not_touched_pay_nothing():
    found = charges(np.eye(3), 1e9, Fraction(1))
    assert (found > 0).tolist() == np.eye(3, dtype=bool).tolist()
