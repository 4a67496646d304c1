"""What a policy sees: one ask's demand for new budget, and the pace of the demands before it.

All of it is public: prices follow from targets and the transcript, weights from charged diagnostics.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

Amount = Fraction | float
"""rho: exact in the engine, a float in simulations.  A policy compares amounts as they come."""

FEW: Final = 4
"""So many even shares any ask may count for, however few have arrived."""

PART: Final = 3 / 4
"""Of n asks, one counts for at most so many times n even shares: for that part of what is left."""

WINDOW: Final = 256
"""How many of the latest arrivals a forecast rests on, so that a decision takes the same time for ever."""


@dataclass(frozen=True, slots=True)
class Demand:
    """One ask that needs new budget: ``residual`` rho beyond what the transcript holds (a_t >= 0), with
    ``available`` (rho_avail >= 0) left of a purse of ``cap``, and its difficulty ``weight`` (> 0)."""

    residual: Amount
    available: Amount
    cap: Amount
    weight: float = 1.0

    def upto(self, most: float) -> Demand:
        """The same demand for no more than ``most``."""
        return self if self.residual <= most else replace(self, residual=most)


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

    def __init__(self, forecast: Sequence[float] = (), arrivals: int = 0) -> None:
        """``arrivals``: so many came before those that will be told."""
        self.arrivals = arrivals
        self.price = 0.0
        self._prior = len(forecast)
        self._at = 0
        self._residuals = array("d", forecast)
        self._weights = array("d", [1.0] * len(forecast))
        self._influences: list[float | None] = []
        self._ranked: list[float] = []

    def copy(self) -> Pace:
        """One that can be advanced without changing this one."""
        other = Pace(arrivals=self.arrivals)
        other.price, other._prior, other._at = self.price, self._prior, self._at
        other._residuals, other._weights = self._residuals[:], self._weights[:]
        other._influences, other._ranked = self._influences[:], self._ranked[:]
        return other

    def without_newest(self) -> Pace:
        """As one that has arrived before finds it: it is among the arrivals already."""
        other = self.copy()
        other.arrivals = max(0, self.arrivals - 1)
        return other

    def advance(
        self, residual: float, weight: float, price: float, influence: float | None = None
    ) -> None:
        """One more arrival, after its decision."""
        at = self._at
        if at < len(self._influences):
            self._residuals[self._prior + at] = residual
            self._weights[self._prior + at] = weight
            oldest, self._influences[at] = self._influences[at], influence
            if oldest is not None:
                del self._ranked[bisect_left(self._ranked, oldest)]
        else:
            self._residuals.append(residual)
            self._weights.append(weight)
            self._influences.append(influence)
        if influence is not None:
            insort(self._ranked, influence)
        self._at = (at + 1) % WINDOW
        self.arrivals += 1
        self.price = price

    def left(self, horizon: int) -> int:
        """N_t: the arrivals that are still expected, the one at hand among them; at least 1."""
        return max(1, horizon - self.arrivals)

    def seen(self, demand: Demand) -> tuple[array[float], array[float]]:
        """Residuals and weights of what was forecast and seen, this demand included."""
        residuals, weights = self._residuals[:], self._weights[:]
        residuals.append(float(demand.residual))
        weights.append(demand.weight)
        return residuals, weights

    def usual(self, demand: Demand, horizon: int) -> tuple[float, array[float], array[float]]:
        """The most that one ask counts for, and residuals and weights of what was forecast and seen, this
        demand included, none above it.

        The most is three quarters of an even share for every ask that is told, at least :data:`FEW`: so
        no ask alone makes the expected need what is left (winsorising).  Arrivals that no budget of this
        size could meet do not count: nothing would have been left for the others.
        """
        residuals, weights = self.seen(demand)
        cap, last = float(demand.cap), len(residuals) - 1
        told = [
            (residual, weight)
            for i, (residual, weight) in enumerate(zip(residuals, weights, strict=True))
            if residual <= cap or i < self._prior or i == last
        ]
        most = max(FEW, PART * len(told)) * cap / horizon
        return (
            most,
            array("d", (min(residual, most) for residual, _ in told)),
            array("d", (weight for _, weight in told)),
        )

    def latest(self) -> list[float]:
        """The residuals in the window, in the order of arrival, without the forecast."""
        told = self._residuals[self._prior :].tolist()
        return told[self._at :] + told[: self._at]

    def mean_weight(self, demand: Demand) -> float:
        """The mean weight of what was forecast and seen, this demand included."""
        return (sum(self._weights) + demand.weight) / (len(self._weights) + 1)

    def typical_influence(self, influence: float) -> float:
        """The running median of the influences, this one included."""
        ranked = self._ranked[:]
        insort(ranked, influence)
        middle = len(ranked) // 2
        return ranked[middle] if len(ranked) % 2 else (ranked[middle - 1] + ranked[middle]) / 2
