"""Numbers as text."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from defray.core.numbers import show_number


@given(value=st.fractions(max_denominator=1).flatmap(lambda n: st.integers(0, 12).map(
    lambda places: n / 10**places)))  # fmt: skip
def test_numbers_are_shown_exactly(value: Fraction) -> None:
    assert Fraction(show_number(value)) == value
    assert "/" not in show_number(value)
