"""Promised classes: questions that are never refused, whatever else is asked before them.

A promise keeps a *reserve* R >= 0 beside the precision P of its view, so that ``P + R >= X``, the class's
plan at its variance V0, and ``charge + R_cc <= cap`` in every cell.  **Theorem** (design, 2b' with ``Y = P
+ R``): for a question of the class ``q' (P + R)^-1 q <= V``, so a price lambda <= 1 exists in the metric R;
its release adds ``bb'/v <= lambda R``, which comes out of R: what a cell has paid and what is held back of
it stay the same in all.  Hence no question of the class is refused and no cell exceeds its cap, in any
number and order, adaptive analysts included.

After any other releases in the view, ``B' V^-1 B`` in precision, R becomes ``R^1/2 (I - M)_+ R^1/2`` with
``M = R^-1/2 B' V^-1 B R^-1/2``: at least ``R - B' V^-1 B`` and at most R.  Of one release (b, v) that is
``R - min(1, v/g) bb'/v`` with ``g = b' R^-1 b``.  Releases elsewhere leave R as it is.  Both must leave
``charge + R_cc <= cap``, which is all that the rest of a contract has to know of a promise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
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
"""This part of the largest entry of X counts as 0 of R: it is added where R is divided by, and R is kept
above minus half of it."""

TIGHT: Final = 1 - 1e-5
"""No more than this part of R is taken out in any direction."""


@dataclass(frozen=True, eq=False)
class Promise:
    """The reserve R of one class on one view.  Like a state it is a fold of releases, and never changes.

    ``slack`` is held back of every cell beside R; it pays for what rounding may cost: ``grain`` a release,
    and lifts of R by a multiple of the identity where it has become indefinite.  ``tiny`` is what counts as
    0 of R.
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
        white = solve_triangular(self._factor, b, lower=True, check_finite=False)
        g = float(white @ white)
        if not g:
            return self
        part = min(1.0, variance * TIGHT / g) / variance
        return self._with(self.reserve - np.outer(b * part, b), 1)

    def after_all(self, rows: Floats, variances: Floats) -> Promise:
        """The promise after several releases at once: a table of them."""
        if len(rows) == 1:
            return self.after(rows[0], float(variances[0]))
        factor = self._factor
        white = solve_triangular(factor, rows.T, lower=True, check_finite=False)
        spectrum, vectors = eigh((white / variances) @ white.T, check_finite=False)
        root = (factor @ vectors) * np.sqrt(1 - np.minimum(spectrum, TIGHT))
        return self._with(_raised(root @ root.T, -self.tiny), len(rows))

    @cached_property
    def _factor(self) -> Floats:
        """The lower Cholesky factor of the metric."""
        return np.asarray(cholesky(self.metric, lower=True, check_finite=False))

    def _with(self, reserve: Floats, releases: int) -> Promise:
        """This promise with another reserve, lifted to where its metric can be divided by."""
        slack = self.slack - releases * self.grain
        while not _definite(_raised(reserve, self.tiny / 2)):
            reserve, slack = _raised(reserve, self.tiny / 2), slack - self.tiny / 2
        return replace(self, reserve=reserve, slack=max(slack, 0.0))


def _raised(matrix: Floats, by: float) -> Floats:
    raised = matrix.copy()
    at = np.arange(len(raised))
    raised[at, at] += by
    return raised


def _definite(matrix: Floats) -> bool:
    try:
        cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return False
    return True
