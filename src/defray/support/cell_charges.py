"""What each cell pays for one release, in quanta, rounded up.

A release of ``b . x + N(0, sigma^2)`` costs a row in cell c ``b_c^2 / (2 sigma^2)``, a unit of k rows at
most k^2 times the dearest of its cells.  A row that also adds ``b_s u``, for a value u in [low, high], is
charged at both ends: ``(b_n + b_s u)^2`` is convex in u, so no value between costs more, for this release
or for any number of releases together.

Charges are those of the very floats that are drawn with, rounded up and nothing more: floats decide where
that is certain, exact arithmetic where it is not.  So a charge that was given is not exceeded.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from defray.core.amounts import QUANTA

Quanta = NDArray[np.int64]
Floats = NDArray[np.float64]

LARGEST: Final = 2**52
"""More than any cap: what would be charged more is charged this."""

_ERROR: Final = 2.0**-49
"""More than floats are wrong by here, relative to the sum of the absolute terms."""


def charges(weights: Any, sigma: Any, rho: Fraction, rows: int = 1) -> Quanta:
    """The charge of each cell, under a contract of ``rho`` for units of ``rows`` rows.  ``weights`` and
    ``sigma`` (one, or one a cell) are the floats really used, in the same units.

    >>> charges([0.0, 1.0, -2.0], 8.0, Fraction(1)).tolist() == [0, 2**43, 2**45]
    True
    """
    b = np.asarray(weights, np.float64)
    return _quanta(b, np.zeros_like(b), np.zeros_like(b), sigma, rho, rows)


def charges_at_ends(
    counts: Any, sums: Any, low: Any, high: Any, sigma: Any, rho: Fraction, rows: int = 1
) -> Quanta:
    """The charge of each cell for a row at the low and at the high end of its values, on one more, last axis:
    that of the ends.

    Several releases may share that axis where a cell has the same ends in all of them; a release that
    does not tell apart what others do takes the larger of its two (``.max(-1)``, always safe).

    >>> charges_at_ends([1.0], [-1.0], 0.0, 2.0, 8.0, Fraction(1)).tolist() == [[2**43, 2**43]]
    True
    """
    return np.stack([_quanta(counts, sums, u, sigma, rho, rows) for u in (low, high)], axis=-1)


def _quanta(counts: Any, sums: Any, value: Any, sigma: Any, rho: Fraction, rows: int) -> Quanta:
    """``ceil(rows^2 (n + s u)^2 / (2 sigma^2) * 2^50 / rho)``."""
    read = [np.asarray(x, np.float64) for x in (counts, sums, value, sigma)]
    if not all(np.isfinite(x).all() for x in read) or not (read[3] > 0).all():
        raise ValueError("weights are finite, and sigmas positive and finite")
    n, s, u, spread = np.broadcast_arrays(*read)
    factor = rows * rows * QUANTA / (2 * rho)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        reach, wrong = np.abs(n + s * u), (np.abs(n) + np.abs(s * u)) * _ERROR
        low = np.ceil((np.maximum(reach - wrong, 0) / spread) ** 2 * float(factor))
        high = np.ceil(((reach + wrong) / spread) ** 2 * float(factor))
    paid: Quanta = np.minimum(np.nan_to_num(high, nan=np.inf), LARGEST).astype(np.int64)
    unsure = ((low != high) & (low < LARGEST)) | (high == 0)
    found: dict[tuple[float, ...], int] = {}  # mostly few different weights
    for at in zip(*np.nonzero(unsure & ((n != 0) | (s != 0))), strict=True):
        case = float(n[at]), float(s[at]), float(u[at]), float(spread[at])
        if case not in found:
            b = Fraction(case[0]) + Fraction(case[1]) * Fraction(case[2])
            found[case] = min(math.ceil(b * b * factor / Fraction(case[3]) ** 2), LARGEST)
        paid[at] = found[case]
    return paid
