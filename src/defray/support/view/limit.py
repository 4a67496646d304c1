"""The least variance that one release can reach when every cell has a cap of its own.

``min over dP >= 0, diag dP <= R of q' (P + dP)^-1 q`` is attained by one release, and equals
``min_z  z' P z + max_c (q - P z)_c^2 / R_c = max_eta  q' (P + diag(R / eta))^-1 q``, eta >= 0 of sum 1: each
eta gives a release that fits the caps (a bound from above) and a proof that none does better (from below).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from defray.support.view.state import State

Floats = NDArray[np.float64]

GAP: Final = 1e-3
STEPS: Final = 400
RUSH: Final = 0.7
"""Exponent of the multiplicative updates."""


@dataclass(frozen=True, slots=True, eq=False)
class Limit:
    """``weights`` over history leave ``b``; at ``own`` variance that fits the caps, and q has ``reached``.
    No release that fits them reaches less than ``least``."""

    weights: Floats
    b: Floats
    own: float
    reached: float
    least: float


def best_variance(state: State, q: Floats, cap: Floats, enough: float = 0.0) -> Limit | None:
    """The release of least variance for q whose charge ``b_c^2 / v`` is at most ``cap`` on every cell.

    Ends early where one reaches ``enough``, or none can.  A cell without any cap counts as one with a
    billionth of the largest.  None where no cell has any.
    """
    largest = float(cap.max())
    if largest <= 0:
        return None
    room = np.maximum(cap, 1e-9 * largest)
    eta = room / room.sum()
    best: Limit | None = None
    least = 0.0
    for _ in range(STEPS):
        weights, b = _split(state, q, eta / room)
        spent = float((weights * weights) @ state.variances)
        load = b * b / room
        least = max(least, spent + float(eta @ load))
        own = float(load.max())
        if best is None or spent + own < best.reached:
            best = Limit(weights, b, own, spent + own, least)
        if best.reached <= max((1 + GAP) * least, enough) or (enough and least > enough):
            break
        eta = eta * (load + 1e-12 * own) ** RUSH
        eta /= eta.sum()
    assert best is not None
    return Limit(best.weights, best.b, best.own, best.reached, least)


def _split(state: State, q: Floats, prices: Floats) -> tuple[Floats, Floats]:
    """Weights w over history and ``b = q - B' w`` of least ``sum w^2 v + sum prices b^2``."""
    if not state.count:
        return np.zeros(0), q
    roots = np.sqrt(prices)
    rows, v = state.rows, state.variances
    if state.count >= state.cells:
        matrix = state.precision * roots[:, None] * roots
        matrix.flat[:: state.cells + 1] += 1
        z = roots * cho_solve(cho_factor(matrix, overwrite_a=True, check_finite=False), roots * q)
        weights = (rows @ z) / v
    else:
        scaled = rows * roots
        matrix = scaled @ scaled.T
        matrix.flat[:: state.count + 1] += v
        weights = cho_solve(
            cho_factor(matrix, overwrite_a=True, check_finite=False), scaled @ (roots * q)
        )
    return np.asarray(weights), q - weights @ rows
