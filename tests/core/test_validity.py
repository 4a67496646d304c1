"""Validities as users write them, and the width and price of an anytime interval."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from defray.core.validity import (
    DEFAULT,
    MAX_LOOKS,
    MIXTURE,
    Validity,
    anytime_precision,
    anytime_width,
    parse_validity,
)
from defray.errors import TargetError
from tests.strategies import validities

sizes = st.fractions(Fraction(1, 10**12), Fraction(10**12))
gammas = st.sampled_from([0.05, 0.01, 0.5, 0.99, 1e-12])


@given(validities())
def test_what_is_written_is_read(validity: Validity):
    assert parse_validity(str(validity)) == validity
    assert parse_validity(f" {str(validity).upper().replace('=', ' = ')} ") == validity


@pytest.mark.parametrize(
    "bad",
    [
        *(
            "",
            "always",
            "looks",
            "looks=",
            "looks=0",
            "looks=-1",
            "looks=2.5",
            "looks=1e3",
            "looks=٣",
        ),
        *(
            f"looks={MAX_LOOKS + 1}",
            "looks=" + "9" * 5000,
            "anytime=3",
            "looks 5",
            "fixed,anytime",
            5,
        ),
    ],
)
def test_what_is_no_validity_is_refused(bad: object):
    with pytest.raises(TargetError, match=r"looks must be a whole|validity must be") as caught:
        parse_validity(bad)
    assert caught.value.hint
    assert len(caught.value.message) < 120


def test_every_label_says_when_the_interval_holds_and_of_what():
    labels = [Validity(k, 5).label for k in ("fixed", "anytime", "looks", "confirm")]  # type: ignore[arg-type]
    assert labels[0] == DEFAULT.label
    assert "before seeing any answer" in labels[0]
    assert len(set(labels)) == 4
    assert all("error against the table as the contract declares it" in label for label in labels)
    assert "whenever you stop" in labels[1]
    assert "at most 5 looks" in labels[2]
    assert "at most 1 look " in Validity("looks", 1).label
    assert "whatever was asked before" in labels[3]


def formula(precision: float, first: float, gamma: float) -> float:
    eta = 0.12 * first
    grown = precision + eta
    return math.sqrt(grown * math.log(grown / (eta * gamma**2))) / precision


@given(precision=sizes, first=sizes, gamma=gammas)
def test_the_width_is_the_formula_rounded_up(precision: Fraction, first: Fraction, gamma: float):
    first = min(first, precision)
    exact = formula(float(precision), float(first), gamma)
    assert anytime_width(precision, first, gamma) == pytest.approx(exact, rel=1e-12)
    assert anytime_width(precision, first, gamma) >= exact * (1 - 1e-15)


@given(first=sizes, gamma=gammas, steps=st.lists(st.fractions(1, 50), min_size=1, max_size=6))
def test_the_width_falls_as_precision_grows(first: Fraction, gamma: float, steps: list[Fraction]):
    precision = first
    for step in steps:
        more = precision * (step + Fraction(1, 1000))
        assert anytime_width(more, first, gamma) < anytime_width(precision, first, gamma)
        precision = more


@given(amount=sizes, first=sizes, gamma=gammas)
def test_the_price_is_the_least_precision_that_is_wide_enough(
    amount: Fraction, first: Fraction, gamma: float
):
    wanted = anytime_precision(amount, first, gamma)
    assert anytime_width(wanted, first, gamma) <= amount
    assert anytime_width(wanted * (1 - Fraction(1, 2**36)), first, gamma) > amount


@given(amount=sizes, gamma=gammas)
def test_the_first_price_is_closed_and_stays_enough(amount: Fraction, gamma: float):
    wanted = anytime_precision(amount, Fraction(0), gamma)
    part = float(MIXTURE)
    closed = (1 + part) * (math.log((1 + part) / part) - 2 * math.log(gamma)) / float(amount) ** 2
    assert float(wanted) == pytest.approx(closed, rel=1e-11)
    for really in (wanted, wanted * (1 + Fraction(1, 2**30)), wanted * 3):
        assert anytime_width(really, really, gamma) <= amount


@pytest.mark.parametrize("gamma", [0.05, 1e-12])
@pytest.mark.parametrize("amount", [Fraction(1, 10**60), Fraction(10**60)])
@pytest.mark.parametrize("first", [Fraction(1, 10**120), Fraction(10**120)])
def test_the_extremes_of_targets_have_a_price(amount: Fraction, first: Fraction, gamma: float):
    assert anytime_width(anytime_precision(amount, first, gamma), first, gamma) <= amount
