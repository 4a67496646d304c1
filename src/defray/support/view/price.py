"""Candidates: weights over history, what they leave of a question, and at which variance to measure that."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from defray.support.view.certificate import Certificate, certify
from defray.support.view.lanczos import krylov
from defray.support.view.limit import Limit
from defray.support.view.metric import Scaled
from defray.support.view.solve import Trial, on_cells, on_rows, search
from defray.support.view.state import State

Floats = NDArray[np.float64]

ROWS_PAY: Final = 128
CELLS_PAY: Final = 200
"""Up to so many rows, or cells, a few Cholesky factors beat a Krylov space."""

ROUNDING: Final = 1e-12
"""What the arithmetic of a fused variance may lose."""


class Candidate(NamedTuple):
    """Measure b with ``variance``: ``weights . history + own * new`` has the variance that was aimed at."""

    b: Floats
    variance: float
    weights: Floats
    own: float
    why: str


def top_up(
    state: State, q: Floats, variance: float, geometry: Scaled, why: str
) -> Candidate | None:
    """The release of least price ``b' G^-1 b / v``; None where q from scratch is no dearer."""
    top = float(np.square(geometry.whiten(q)).sum()) / variance
    trial: Trial | None
    if state.cells <= CELLS_PAY and state.cells <= 2 * state.count:
        trial = search(on_cells(state, q, geometry.dense), top, variance)
    elif state.count <= ROWS_PAY:
        trial = search(on_rows(state, q, geometry), top, variance)
    else:
        trial = krylov(state, q, geometry, variance)
    found = None if trial is None else beside(state, q, variance, trial.weights, why)
    if found is None:
        return None
    price = float(np.square(geometry.whiten(found.b)).sum()) / found.variance
    return found if price < top else None


def within(state: State, q: Floats, variance: float, room: Floats, why: str) -> Candidate | None:
    """The release of least price in the metric ``room`` (a matrix), where that price is at most 1, so that
    ``bb'/v <= room``; else None."""
    if on_cells(state, q, room)(1.0).value > variance:
        return None
    trial = search(on_cells(state, q, room), 1.0, variance)
    return None if trial is None else beside(state, q, variance, trial.weights, why)


def beside(state: State, q: Floats, variance: float, weights: Floats, why: str) -> Candidate | None:
    """Measure what these weights over history leave of q, as precisely as the target asks."""
    part = certify(state, q, weights)
    left = variance - part.variance
    return Candidate(part.residue, left, weights, 1.0, why) if left > 0 else None


def itself(q: Floats, variance: float, held: Certificate, allowed: float, why: str) -> Candidate:
    """Measure q itself, exactly as well as asked.  Where history says something of q, only the precision that
    is missing: the paper's residual."""
    if held.deviation <= allowed and held.variance > 0:
        variance *= 1 - ROUNDING
        share = variance / held.variance  # of history in the fused estimate
        return Candidate(q, variance / (1 - share), share * held.weights, 1 - share, why)
    return Candidate(q, variance, np.zeros(len(held.weights)), 1.0, why)


def fitting(
    state: State, q: Floats, variance: float, limit: Limit | None, cap: Floats, why: str
) -> Candidate | None:
    """The release that reaches least under a cap, measured only as well as the target asks."""
    if limit is None or limit.reached > variance:
        return None
    weights, blocked = limit.weights, cap <= 0
    if state.count and (limit.b[blocked] != 0).any():
        # What is left on cells without any cap was made small; history, if anything, explains it.
        weights = weights + state.fit.weights(np.where(blocked, limit.b, 0.0))
    found = beside(state, q, variance, weights, why)
    return None if found is None else found._replace(b=np.where(blocked, 0.0, found.b))
