"""Promised classes: questions that are never refused, whatever else is asked before them.

A promise keeps a *shadow* Y with ``Y >= X`` (the class's plan at its variance V0), ``Y >= P`` and ``diag Y <=
cap``.  **Theorem** (design, 2b'): for a question of the class ``q' Y^-1 q <= V``, and ``P + lambda (Y -
P)`` is Y at lambda = 1, so a price lambda <= 1 exists in the metric ``Y - P``; its release adds ``bb'/v
<= lambda (Y - P)`` and P stays below Y.  Hence no question of the class is refused and no cell exceeds
its cap, in any number and order, adaptive analysts included.  Everything else in the contract must see Y
in place of P.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from defray.support.view.plan import Plan
from defray.support.view.state import State

Floats = NDArray[np.float64]

MARGIN: Final = 2e-4
"""Y starts above X by this part, so that a price of at most ``1 - MARGIN`` exists and survives rounding."""

RESERVE: Final = 1e-3
"""Y is raised for a release of choice up to this part below the cap; the rest takes numerical lifts."""

LIFT: Final = 1e-8
"""``Y - P`` counts as positive semidefinite down to this part of Y's largest diagonal entry."""

TIGHT: Final = 1 - 1e-5


@dataclass(frozen=True, eq=False)
class Promise:
    """The shadow Y of one class on one view.  Like a state it is a fold of releases, and never changes.

    ``held`` is diag Y: what the filter must count for each cell of this view, in precision.
    """

    shadow: Floats

    @classmethod
    def of(cls, plan: Plan, variance: float) -> Promise:
        """The promise to answer every question of the plan's class with this variance."""
        return cls(plan.precision * ((1 + MARGIN) / variance))

    @property
    def held(self) -> Floats:
        return np.diag(self.shadow).copy()

    def least(self, q: Floats) -> float:
        """The variance that is always within reach for q, whatever is asked before: ``q' Y^-1 q``."""
        return float(q @ cho_solve(cho_factor(self.shadow, check_finite=False), q))

    def room(self, state: State) -> Floats:
        """``Y - P``: a release with ``bb'/v`` below it leaves the promise and the cap intact."""
        return np.asarray(self.shadow - state.precision)

    def after(self, state: State, b: Floats, variance: float) -> Promise:
        """The promise after a release (b, v) on top of ``state``.

        Y becomes ``Y + (1 - v/g)_+ bb'/v`` with ``g = b'(Y-P)^-1 b``.

        A release within the room leaves Y as it is.  Y is lifted by a multiple of the identity where rounding
        has made ``Y - P`` indefinite.
        """
        shadow = self.shadow
        tiny = LIFT * float(np.diag(shadow).max())
        room = shadow - state.precision
        diagonal = np.arange(len(room))
        room[diagonal, diagonal] += tiny
        lift = 0.0
        while True:
            try:
                factor = cho_factor(room, lower=True, check_finite=False)
                break
            except LinAlgError:
                lift += 2 * tiny
                room[diagonal, diagonal] += 2 * tiny
        g = float(b @ cho_solve(factor, b, check_finite=False))
        rise = max(0.0, 1 - variance * TIGHT / g) if g > 0 else 0.0
        if not rise and not lift:
            return self
        raised = shadow + np.outer(b * (rise / variance), b)
        raised[diagonal, diagonal] += lift
        return Promise(raised)
