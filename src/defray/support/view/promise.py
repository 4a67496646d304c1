"""Promised classes: questions that are never refused, whatever else is asked before them.

A promise keeps a *reserve* R >= 0 beside the precision P of its view, so that ``P + R >= X``, the class's
plan at its variance V0, and ``charge + R_cc <= cap`` in every cell.  **Theorem** (design, 2b' with ``Y = P
+ R``): for a question of the class ``q' (P + R)^-1 q <= V``, so a price lambda <= 1 exists in the metric R;
its release adds ``bb'/v <= lambda R``, which comes out of R: what a cell has paid and what is held back of
it stay the same in all.  Hence no question of the class is refused and no cell exceeds its cap, in any
number and order, adaptive analysts included.

What releases in the view say, ``S = B' V^-1 B`` in precision, comes out of R, in one of two ways.  Both keep
the promise: ``R' >= R - S`` and ``R' >= 0``.

* *offered*: the positive part of ``R - S``, which has the least trace of all that keep the promise, and is
  ``R - S`` within the reserve.  Some cells may hold back a little more than before, so it is for those that
  were held against the promise when they were made: :func:`defray.support.view.offer.offer`.
* *others*: ``R - part * R^1/2 min(M, 1) R^1/2`` with ``M = R^-1/2 S R^-1/2``, which is at most R.  Of one
  release (b, v) and part 1 that is the design's ``R - min(1, v/g) bb'/v`` with ``g = b' R^-1 b``.  It takes
  nothing out of an R that is singular; hence the part.

Releases elsewhere leave R as it is.  All must leave ``charge + R_cc <= cap``, which is all that the rest of a
contract has to know of a promise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cholesky, eigh, solve_triangular

from defray.support.view.plan import Plan
from defray.support.view.state import State

Floats = NDArray[np.float64]

MARGIN: Final = 2e-4
"""R starts above X by this part, so that a price of at most ``1 - MARGIN`` exists and survives rounding."""

SLACK: Final = 1e-3
"""So much of the largest entry of X is held back of every cell beside R, for rounding."""

TINY: Final = 1e-9
"""This part of the largest entry of X counts as 0 of R: releases are priced by R with so much added."""

PART: Final = 0.9
"""So much of what other releases say comes out of R at the most."""

SINGULAR: Final = 1e-6
"""An R with an eigenvalue below this part of the largest entry of X is singular."""


@dataclass(frozen=True, eq=False)
class Promise:
    """The reserve R of one class on one view.  Like a state it is a fold of releases, and never changes.

    ``slack`` is held back of every cell beside R; it pays for what rounding may cost: ``grain`` a release,
    and what is taken out of R beyond 0, up to a few times ``tiny``.
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
        """The promise after one release (b, v) that was held against it."""
        return self.after_offered(b[None, :], np.array([variance]))

    def after_offered(self, rows: Floats, variances: Floats) -> Promise:
        """The promise after releases that were held against it."""
        return self._left(self.reserve - (rows / variances[:, None]).T @ rows, len(rows))

    def after_others(self, rows: Floats, variances: Floats) -> Promise:
        """The promise after other releases in its view: no cell holds back more than before."""
        factor = _factor(self.reserve)
        if factor is None or _factor(_raised(self.reserve, -self.tiny * SINGULAR / TINY)) is None:
            return self._left(self.reserve, len(rows))
        white = solve_triangular(factor, rows.T, lower=True, check_finite=False)
        said, vectors = eigh((white / variances) @ white.T, check_finite=False)
        root = (factor @ vectors) * np.sqrt(PART * np.clip(said, 0.0, 1.0))
        return self._left(self.reserve - root @ root.T, len(rows))

    def _left(self, reserve: Floats, releases: int) -> Promise:
        """What is left of R, where that is not negative."""
        slack = self.slack - releases * self.grain
        if _factor(reserve) is None:
            below, vectors = eigh(reserve, subset_by_value=(-np.inf, 0.0), check_finite=False)
            raised = (vectors * -below) @ vectors.T
            reserve = reserve + raised
            rise = float(np.diag(raised).max())
            if rise <= 8 * self.tiny:
                slack -= rise
        return replace(self, reserve=reserve, slack=max(slack, 0.0))


def _raised(matrix: Floats, by: float) -> Floats:
    raised = matrix.copy()
    at = np.arange(len(raised))
    raised[at, at] += by
    return raised


def _factor(matrix: Floats) -> Floats | None:
    """The lower Cholesky factor; None where the matrix is not positive definite."""
    try:
        return np.asarray(cholesky(matrix, lower=True, check_finite=False))
    except LinAlgError:
        return None
