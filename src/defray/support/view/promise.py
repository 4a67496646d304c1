"""Promised classes: questions that are never refused, whatever else is asked before them.

A promise keeps a *reserve* R >= 0 beside the precision P of its view, so that ``P + R >= X``, the class's
plan at its variance V0, and ``charge + R_cc <= cap`` in every cell.  **Theorem** (design, 2b' with ``Y = P
+ R``): for a question of the class ``q' (P + R)^-1 q <= V``, so a price lambda <= 1 exists in the metric R;
its release adds ``bb'/v <= lambda R``, which comes out of R: what a cell has paid and what is held back of
it stay the same in all.  Hence no question of the class is refused and no cell exceeds its cap, in any
number and order, adaptive analysts included.

After any releases in the view, ``S = B' V^-1 B`` in precision, R becomes the positive part of ``R - S``: of
all that keep the promise (``R' >= R - S`` and ``R' >= 0``) the one of least trace.  Within the reserve, ``S <=
R``, that is ``R - S``.  (The design's ``R - min(1, v/g) bb'/v`` keeps the promise too, but takes next to
nothing out of an R that is singular.)  Releases elsewhere leave R as it is.  All must leave ``charge + R_cc <=
cap``, which is all that the rest of a contract has to know of a promise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cholesky, eigh

from defray.support.view.plan import Plan
from defray.support.view.state import State

Floats = NDArray[np.float64]

MARGIN: Final = 2e-4
"""R starts above X by this part, so that a price of at most ``1 - MARGIN`` exists and survives rounding."""

SLACK: Final = 1e-3
"""So much of the largest entry of X is held back of every cell beside R, for rounding."""

TINY: Final = 1e-9
"""This part of the largest entry of X counts as 0 of R: releases are priced by R with so much added."""


@dataclass(frozen=True, eq=False)
class Promise:
    """The reserve R of one class on one view.  Like a state it is a fold of releases, and never changes.

    ``slack`` is held back of every cell beside R; it pays for what rounding may cost: ``grain`` a release, and
    what is taken out of R beyond 0, up to a few times ``tiny``.
    """

    reserve: Floats
    slack: float
    tiny: float
    grain: float = 0.0

    @classmethod
    def of(cls, plan: Plan, variance: float, grain: float = 0.0, slack: float = 0.0) -> Promise:
        """The promise to answer every question of the plan's class with this variance, holding back
        ``slack`` at the least for rounding."""
        reserve = plan.precision * ((1 + MARGIN) / variance)
        most = float(np.diag(reserve).max())
        return cls(reserve, max(SLACK * most, slack), TINY * most, grain)

    @property
    def held(self) -> Floats:
        """What the filter must count for each cell beside what it has paid, in precision."""
        return np.maximum(np.diag(self.reserve), 0.0) + self.slack

    def least(self, state: State, q: Floats) -> float:
        """The variance that is always within reach for q, whatever else is asked: ``q' (P + R)^-1 q``."""
        shadow = state.precision + self.reserve
        return float(q @ cho_solve(cho_factor(shadow, check_finite=False), q))

    @property
    def metric(self) -> Floats:
        """R, a little above 0: a release with ``bb'/v`` below it moves what is held back to what is paid."""
        return _raised(self.reserve, self.tiny)

    def after(self, b: Floats, variance: float) -> Promise:
        """The promise after one release (b, v) in its view."""
        return self.after_all(b[None, :], np.array([variance]))

    def after_all(self, rows: Floats, variances: Floats) -> Promise:
        """The promise after several releases at once: a table of them."""
        left = self.reserve - (rows / variances[:, None]).T @ rows
        slack = self.slack - len(rows) * self.grain
        if not _definite(left):
            below, vectors = eigh(left, subset_by_value=(-np.inf, 0.0), check_finite=False)
            raised = (vectors * -below) @ vectors.T
            left = left + raised
            rise = float(np.diag(raised).max())
            if rise <= 4 * self.tiny:
                slack -= rise
        return replace(self, reserve=left, slack=max(slack, 0.0))


def _raised(matrix: Floats, by: float) -> Floats:
    raised = matrix.copy()
    at = np.arange(len(raised))
    raised[at, at] += by
    return raised


def _definite(matrix: Floats) -> bool:
    try:
        cholesky(matrix, lower=True, check_finite=False)
    except LinAlgError:
        return False
    return True
