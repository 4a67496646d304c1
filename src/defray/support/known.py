"""The fold of a functional's releases: the exact state that credit and answers are computed from."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final


@dataclass(frozen=True, slots=True)
class Known:
    """All releases of one functional in one epoch, fused.

    ``precision`` P = sum p_i and ``weighted`` R = sum p_i y_i (whole units); the inverse-variance fused
    value is R / P, unbiased, with variance at most 1 / P since every ``p_i <= 1 / sigma_i**2``.  Both are
    dyadic, so later top-ups stay exact.  ``releases`` counts them, ``last`` is the seq of the newest (0:
    none) and ``index`` the functional's position in it.
    """

    precision: Fraction = Fraction(0)
    weighted: Fraction = Fraction(0)
    releases: int = 0
    last: int = 0
    index: int = 0

    @property
    def value(self) -> Fraction:
        return self.weighted / self.precision

    def fused(self, precision: Fraction, value: Fraction, seq: int, index: int) -> Known:
        """This state after one more release of the functional (paper: inverse-variance fusion)."""
        return Known(
            self.precision + precision,
            self.weighted + precision * value,
            self.releases + 1,
            seq,
            index,
        )


UNKNOWN: Final = Known()
