"""Diagnostics of one simulated run: their purse, and what noisy answers say of a question's magnitude.

A diagnostic is a release of the question itself at ``rho_d = xi rho / N`` (design: controller, step 4), or at
what the question needs where that is less: it is credited, and free where as much is held already.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from defray.policy.demand import Pace
from defray.policy.weights import Diagnosis, Weights
from defray.simulate.chance import generator

UNDECLARED: Final = 1000
"""How many diagnostics the purse is divided into where no horizon is declared."""


class Diagnostics:
    """``price`` is rho_d, and ``purse`` what is left for such.  With ``weights``, ``fused`` holds the
    inverse-variance mean of all that was released of each question, with fresh noise for every release."""

    __slots__ = ("_draw", "_truths", "fused", "price", "purse", "weights")

    def __init__(
        self,
        purse: float,
        horizon: int | None,
        weights: Weights | None,
        truths: NDArray[np.float64],
        questions: int,
        seed: int,
    ) -> None:
        self.purse = purse
        self.price = purse / max(1, UNDECLARED if horizon is None else horizon)
        self.weights = weights
        self.fused = [] if weights is None else [0.0] * questions
        self._truths: list[float] = [] if weights is None else truths.tolist()
        self._draw: Callable[[], float] = generator(seed, 1).standard_normal

    def look(
        self, t: int, key: int, held: float, residual: float, pace: Pace
    ) -> tuple[float, float, float | None]:
        """What a diagnostic of arrival ``t`` costs (0: nothing is bought), the weight that follows, and the
        influence behind it (None: unknown, or no weights are wanted)."""
        cost, moved, moved_sd = 0.0, None, 0.0
        if held < self.price:
            cost = min(self.price, residual)
            if cost > self.purse * (1 + 1e-9):
                return 0.0, 1.0, None
            self.purse = max(0.0, self.purse - cost)
        weights = self.weights
        if weights is None:
            return cost, 1.0, None
        if held + cost < self.price * (1 - 1e-9):  # an easy question, answered by this alone
            self.learn(t, key, held, cost)
            return cost, 1.0, None
        if cost:
            before = self.fused[key]
            new = self.learn(t, key, held, cost)
            if held:
                moved, moved_sd = new - before, math.sqrt(1 / (2 * cost) + 1 / (2 * held))
        sd = 1 / math.sqrt(2 * (held + cost))
        influence = weights.influence(Diagnosis(self.fused[key], sd, moved, moved_sd))
        return cost, weights.weight(influence, pace), influence

    def learn(self, t: int, key: int, held: float, granted: float) -> float:
        """Releases the question with variance ``1/(2 granted)`` and fuses it with what was held of it."""
        new = self._truths[t] + self._draw() / math.sqrt(2 * granted)
        self.fused[key] = (held * self.fused[key] + granted * new) / (held + granted)
        return new
