"""Charges, derived in integers, are those of the exact formula."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from defray.core.amounts import quanta_up
from defray.ledger.checks import faults
from defray.support.weights import charge_for
from tests.ledger.makers import release, spend

positive = st.fractions(min_value=Fraction(1, 10**6), max_value=10**6, max_denominator=10**6)


@given(reach=positive, sigma=st.floats(1e-9, 1e300), rho=positive)
def test_the_charge_is_the_formula(reach: Fraction, sigma: float, rho: Fraction) -> None:
    assert charge_for(reach**2, sigma, rho) == quanta_up(reach**2 / (2 * Fraction(sigma) ** 2), rho)


@given(sigmas=st.lists(st.floats(1e-3, 1e12), min_size=1, max_size=5), rho=positive)
def test_a_release_made_from_its_sigmas_is_sound(sigmas: list[float], rho: Fraction) -> None:
    assert list(faults(release(sigmas=sigmas, rho=rho), rho)) == []


@given(charge=st.integers(1, 2**50), rho=positive)
def test_a_release_made_for_a_charge_is_sound(charge: int, rho: Fraction) -> None:
    assert list(faults(spend(charge, rho=rho), rho)) == []


def test_the_paper_s_price() -> None:
    """Within 10 at 95 %: sigma = 10 / 1.959964 costs 0.019207."""
    assert (
        abs(charge_for(Fraction(1), 10 / 1.959963984540054, Fraction(1)) / 2**50 - 0.019207) < 1e-6
    )
