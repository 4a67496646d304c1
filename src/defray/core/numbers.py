"""Exact numbers as text."""

from __future__ import annotations

from fractions import Fraction
from typing import Any


def show_number(x: Any) -> str:
    """A number as short exact decimal text where it has one, else as a fraction.

    >>> show_number(Fraction(5, 2)), show_number(Fraction(-3)), show_number(Fraction(1, 3))
    ('2.5', '-3', '1/3')
    """
    if isinstance(x, bool):
        return "TRUE" if x else "FALSE"
    f = Fraction(x)
    if f.denominator == 1:
        return str(f.numerator)
    d, twos, fives = f.denominator, 0, 0
    while d % 2 == 0:
        d, twos = d // 2, twos + 1
    while d % 5 == 0:
        d, fives = d // 5, fives + 1
    if d != 1 or max(twos, fives) > 60:
        return str(f)
    places = max(twos, fives)
    scaled = abs(f.numerator) * 10**places // f.denominator
    text = str(scaled).rjust(places + 1, "0")
    return f"{'-' if f < 0 else ''}{text[:-places]}.{text[-places:]}"
