"""Real weights on a lattice: what is drawn is ``step * (integers . x + X)``; claims are about these."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from defray.core.amounts import dyadic_up, float_down
from defray.core.target import MAX_SCALE, Lattice, sigma_at_most

Floats = NDArray[np.float64]

FINE: Final = 2.0**-20
"""Rounding to the lattice takes at most this part of the deviation that is allowed, where that can be drawn:
later answers of the same question remove it, and pay for that in variance."""

DIGITS: Final = 36
"""Binary digits of the largest weight, where they can be drawn on."""

SMOOTH: Final = 2.0**20
"""Steps of the lattice in a standard deviation, at least."""

EXACT_BITS: Final = 52
"""Weights on the lattice are exact as floats below 2 to this."""


@dataclass(frozen=True, slots=True, eq=False)
class Rounded:
    """The functional ``b~ = steps * 2^-bits``; its noise, a discrete Gaussian of ``sigma`` on that lattice.

    ``precision`` is dyadic and at most ``1/sigma^2``: what the release adds.  The charge follows from sigma.
    """

    bits: int
    steps: NDArray[np.int64]
    sigma: float
    precision: Fraction

    @property
    def b(self) -> Floats:
        """b~, exactly."""
        return np.ldexp(self.steps.astype(np.float64), -self.bits)

    @property
    def variance(self) -> float:
        """``1/precision``, rounded up: what a row of the fold carries."""
        return -float_down(-1 / self.precision)

    @property
    def charge(self) -> Floats:
        """``b~^2 / sigma^2`` a cell, in precision, rounded up."""
        return np.square(self.b) / self.sigma**2 * (1 + 2.0**-50)

    def rho(self, rows: int) -> list[Fraction]:
        """The exact charge of every cell for units of at most ``rows`` rows: ``k^2 b~^2 / (2 sigma^2)``.

        >>> [str(rho) for rho in Rounded(1, np.array([0, 2, 3]), 2.0, Fraction(1, 4)).rho(1)]
        ['0', '1/8', '9/32']
        """
        unit = rows * rows / (2 * Fraction(self.sigma) ** 2 * 4**self.bits)
        return [int(step) ** 2 * unit for step in self.steps]


def rounded(b: Floats, variance: float, allowed: float) -> Rounded | None:
    """b on the coarsest lattice on which rounding takes a small part of ``allowed`` (the largest deviation of
    a cell) and the noise is smooth; None where no lattice that can be drawn on is fine enough.

    A functional of whole numbers is never rounded.
    """
    sigma = math.sqrt(variance)
    bits = max(0, math.ceil(math.log2(SMOOTH / sigma)))
    size = math.frexp(float(np.abs(b).max()))[1]
    finest = min(math.floor(math.log2(MAX_SCALE / sigma)), EXACT_BITS - size)
    if (b != np.rint(b)).any():
        bits = max(bits, math.ceil(-math.log2(2 * FINE * allowed)), DIGITS - size)
        bits = min(bits, finest)
        if bits < 0 or 2.0 ** -(bits + 1) > allowed / 2:
            return None
    steps = np.rint(np.ldexp(b, bits)).astype(np.int64)
    drawn, precision = sigma_at_most(dyadic_up(1 / Fraction(variance)), Lattice(bits))
    return Rounded(bits, steps, drawn, precision)
