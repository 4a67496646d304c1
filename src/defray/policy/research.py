"""Policies for comparison in simulations.  No contract can choose them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from defray.policy.demand import Amount, Demand, Pace
from defray.policy.gates import Unpriced


@dataclass(frozen=True, slots=True)
class Proportional(Unpriced):
    """Everyone the same share: what is left over what is forecast to be needed."""

    horizon: int

    name: ClassVar[str] = "proportional"
    paced: ClassVar[bool] = True
    partial: ClassVar[bool] = True
    weighted: ClassVar[bool] = False

    def grant(self, demand: Demand, pace: Pace) -> Amount:
        residuals, _ = pace.seen(demand)
        ahead = pace.left(self.horizon) - 1
        need = float(demand.residual) + ahead * sum(residuals) / len(residuals)
        available = float(demand.available)
        return min(available, float(demand.residual) * min(1.0, available / need))


@dataclass(frozen=True, slots=True)
class Zcl(Unpriced):
    """The online-knapsack threshold of Zhou, Chakrabarty and Lukose (WINE 2008) for demands between
    ``least`` and ``most`` rho, each worth 1: all or nothing."""

    least: float
    most: float

    name: ClassVar[str] = "zcl"
    paced: ClassVar[bool] = False
    partial: ClassVar[bool] = False
    weighted: ClassVar[bool] = False

    def grant(self, demand: Demand, pace: Pace) -> Amount:
        low, high = 1 / self.most, 1 / self.least
        used = 1 - float(demand.available) / float(demand.cap)
        threshold = (high * math.e / low) ** used * (low / math.e)
        worth = 1 / float(demand.residual) >= threshold
        return demand.residual if worth and demand.residual <= demand.available else Fraction(0)


@dataclass(frozen=True, slots=True)
class AllOrNothingFluid(Unpriced):
    """All or nothing, served if no dearer than what the forecast can afford when the cheapest come first."""

    horizon: int

    name: ClassVar[str] = "aon_fluid"
    paced: ClassVar[bool] = True
    partial: ClassVar[bool] = False
    weighted: ClassVar[bool] = False

    def grant(self, demand: Demand, pace: Pace) -> Amount:
        residuals, _ = pace.seen(demand)
        left = pace.left(self.horizon)
        load, cutoff = 0.0, 0.0
        for residual in sorted(residuals):
            load += residual * left / len(residuals)
            if load > float(demand.available):
                break
            cutoff = residual
        room = min(cutoff, float(demand.available))
        return demand.residual if float(demand.residual) <= room else Fraction(0)


@dataclass(frozen=True, slots=True)
class Hedge(Unpriced):
    """Answers the first contested ask (one that leaves nothing for others) with probability n/(2n-1), the
    rest while they fit: the randomised escape from the paper's Theorem 8.  ``coin`` is uniform on [0, 1)."""

    n: int
    coin: float

    name: ClassVar[str] = "hedge"
    paced: ClassVar[bool] = True
    partial: ClassVar[bool] = False
    weighted: ClassVar[bool] = False

    def grant(self, demand: Demand, pace: Pace) -> Amount:
        contested = pace.arrivals == 0 and 2 * demand.residual > demand.available
        if contested and self.coin >= self.n / (2 * self.n - 1):
            return Fraction(0)
        return demand.residual if demand.residual <= demand.available else Fraction(0)
