"""What a policy sees: one ask's demand for new budget, and the pace of the demands before it.

All of it is public: prices follow from targets and the transcript, weights from charged diagnostics.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

Amount = Fraction | float
"""rho: exact in the engine, a float in simulations.  A policy compares amounts as they come."""

WINDOW: Final = 256
"""How many of the latest arrivals a forecast rests on, so that a decision takes the same time for ever."""


@dataclass(frozen=True, slots=True)
class Demand:
    """One ask that needs new budget: ``residual`` rho beyond what the transcript holds (a_t > 0), with
    ``available`` (rho_avail >= 0) left of a purse of ``cap``, and its difficulty ``weight`` (> 0)."""

    residual: Amount
    available: Amount
    cap: Amount
    weight: float = 1.0


class Pace:
    """The arrivals so far: asks that needed new budget, whether it was granted or not.

    ``arrivals`` counts them; ``price`` is the shadow price mu that a policy keeps from one to the next.
    Of the latest :data:`WINDOW` it keeps residuals, weights and influences (QIF), after a ``forecast``:
    residuals expected before the first arrival, of weight 1 (a public prior).
    """

    __slots__ = (
        "_at",
        "_influences",
        "_prior",
        "_ranked",
        "_residuals",
        "_weights",
        "arrivals",
        "price",
    )

    def __init__(self, forecast: Sequence[float] = ()) -> None:
        self.arrivals = 0
        self.price = 0.0
        self._prior = len(forecast)
        self._at = 0
        self._residuals = array("d", forecast)
        self._weights = array("d", [1.0] * len(forecast))
        self._influences: list[float] = []
        self._ranked: list[float] = []

    def advance(
        self, residual: float, weight: float, price: float, influence: float | None = None
    ) -> None:
        """One more arrival, after its decision."""
        place = self._prior + self._at
        self._at = (self._at + 1) % WINDOW
        if place < len(self._residuals):
            self._residuals[place], self._weights[place] = residual, weight
        else:
            self._residuals.append(residual)
            self._weights.append(weight)
        self.arrivals += 1
        self.price = price
        if influence is not None:
            if len(self._influences) == WINDOW:
                oldest = self._influences.pop(0)
                del self._ranked[bisect_left(self._ranked, oldest)]
            self._influences.append(influence)
            insort(self._ranked, influence)

    def seen(self, demand: Demand) -> tuple[array[float], array[float]]:
        """Residuals and weights of what was forecast and seen, this demand included."""
        residuals, weights = self._residuals[:], self._weights[:]
        residuals.append(float(demand.residual))
        weights.append(demand.weight)
        return residuals, weights

    def mean_weight(self, demand: Demand) -> float:
        """The mean weight of what was forecast and seen, this demand included."""
        return (sum(self._weights) + demand.weight) / (len(self._weights) + 1)

    def typical_influence(self, influence: float) -> float:
        """The running median of the influences, this one included."""
        ranked = self._ranked[:]
        insort(ranked, influence)
        middle = len(ranked) // 2
        return ranked[middle] if len(ranked) % 2 else (ranked[middle - 1] + ranked[middle]) / 2
