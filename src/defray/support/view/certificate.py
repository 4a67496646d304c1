"""Certificates: estimates as weights over releases, and what follows from the weights alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from defray.support.view.state import State

Floats = NDArray[np.float64]

UNIT: Final = 2.0**-53
"""Unit roundoff: each operation on floats is off by at most this part."""


@dataclass(frozen=True, slots=True, eq=False)
class Certificate:
    """``sum_i w_i y_i + own * y_new`` estimates q, whoever chose the weights.

    ``residue`` is ``q - sum_i w_i b_i - own * b_new`` cell by cell, and ``deviation`` bounds its largest
    absolute value from above, rounding of floats included: on a table of n rows the estimate is off by at
    most ``deviation * n`` besides its noise.  ``variance`` is ``sum_i w_i^2 v_i + own^2 v_new``, rounded
    up.
    """

    weights: Floats
    residue: Floats
    deviation: float
    variance: float
    own: float = 0.0


def certify(
    state: State,
    q: Floats,
    weights: Floats,
    own: float = 0.0,
    b: Floats | None = None,
    v: float = 0.0,
) -> Certificate:
    """What weights over the rows of a state, and over a new release (b, v), say about q."""
    used = np.append(weights[weights != 0], own if own else [])
    residue = q - weights @ state.rows
    scale = float(np.abs(weights) @ state.peaks + np.abs(q).max())
    if b is not None:
        residue = residue - own * b
        scale += abs(own) * float(np.abs(b).max())
    # A sum of k products in any order is off by at most (k + 1) roundoffs of the sum of absolute values; a
    # difference by one of itself.
    part = 0.0 if (used == 1).all() and len(used) <= 1 else (len(used) + 4) * UNIT
    variance = float((weights * weights) @ state.variances) + own * own * v
    return Certificate(
        weights,
        residue,
        float(np.abs(residue).max()) * (1 + 2 * UNIT * bool(len(used))) + part * scale,
        variance * (1 + part),
        own,
    )


def known(state: State, q: Floats) -> Certificate:
    """The best that a state says about q at no cost."""
    return certify(state, q, state.fit.weights(q) if state.count else np.zeros(0))


def exactly(rows: Floats, q: Floats, weights: Sequence[float] | Floats) -> list[Fraction]:
    """``q - sum_i w_i b_i`` in exact arithmetic: every float is a fraction.  For audits: O(k m) fractions.

    >>> exactly(np.array([[0.1], [0.2]]), np.array([0.3]), [1.0, 1.0])[0] == Fraction(0.3) - Fraction(0.1) \
            - Fraction(0.2)
    True
    """
    out = [Fraction(float(x)) for x in q]
    for row, weight in zip(rows, weights, strict=True):
        w = Fraction(float(weight))
        if w:
            out = [
                left - w * Fraction(float(b)) if b else left
                for left, b in zip(out, row, strict=True)
            ]
    return out


def exact_variance(variances: Sequence[Fraction], weights: Sequence[float] | Floats) -> Fraction:
    """``sum_i w_i^2 v_i`` in exact arithmetic."""
    return sum(
        (Fraction(float(w)) ** 2 * v for w, v in zip(weights, variances, strict=True)), Fraction(0)
    )
