"""What a policy is, and the plain ones: how much of a residual is granted.

A policy is a value.  ``grant`` answers for one demand, between 0 and what is available; ``after`` gives the
price it goes on with.  Neither can spend: the ledger's filter stands behind every one of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Protocol

from defray.policy.demand import Amount, Demand, Pace
from defray.policy.price import at_price, descended, fluid_price


class Policy(Protocol):
    """``paced`` policies look at earlier arrivals, which are then remembered; ``partial`` ones may grant less
    than the whole residual; ``weighted`` ones give difficult questions more.  A ``horizon`` is how many
    arrivals are expected."""

    name: ClassVar[str]
    paced: ClassVar[bool]
    partial: ClassVar[bool]
    weighted: ClassVar[bool]

    def grant(self, demand: Demand, pace: Pace) -> Amount:
        """How much rho, from 0 to ``min(residual, available)``."""

    def after(self, demand: Demand, granted: Amount, pace: Pace) -> float:
        """The price mu for the next arrival, once this one was granted so much."""


class Unpriced:
    """A policy that keeps no price from one arrival to the next."""

    __slots__ = ()

    def after(self, demand: Demand, granted: Amount, pace: Pace) -> float:
        return 0.0


@dataclass(frozen=True, slots=True)
class Refuse(Unpriced):
    """The whole residual while it fits, else nothing: the feasible regime (paper, section 4)."""

    name: ClassVar[str] = "refuse"
    paced: ClassVar[bool] = False
    partial: ClassVar[bool] = False
    weighted: ClassVar[bool] = False

    def grant(self, demand: Demand, pace: Pace) -> Amount:
        return demand.residual if demand.residual <= demand.available else Fraction(0)


@dataclass(frozen=True, slots=True)
class Greedy(Unpriced):
    """The whole residual, or all that is left."""

    name: ClassVar[str] = "greedy"
    paced: ClassVar[bool] = False
    partial: ClassVar[bool] = True
    weighted: ClassVar[bool] = False

    def grant(self, demand: Demand, pace: Pace) -> Amount:
        return min(demand.residual, demand.available)


@dataclass(frozen=True, slots=True)
class Fluid(Unpriced):
    """At the price that lets the expected arrivals fit, if they are like those seen.  What one asks beyond
    what an ask counts for (:meth:`Pace.usual`) is granted last: from what the others are not expected to
    need."""

    horizon: int

    name: ClassVar[str] = "fluid"
    paced: ClassVar[bool] = True
    partial: ClassVar[bool] = True
    weighted: ClassVar[bool] = True

    def price(self, demand: Demand, pace: Pace) -> float:
        most, *seen = pace.usual(demand, self.horizon)
        return fluid_price(demand.upto(most), pace.left(self.horizon) - 1, *seen)

    def grant(self, demand: Demand, pace: Pace) -> Amount:
        most, residuals, weights = pace.usual(demand, self.horizon)
        ahead = pace.left(self.horizon) - 1
        price = fluid_price(demand.upto(most), ahead, residuals, weights)
        if price or demand.residual <= most:
            return at_price(demand.upto(most), price)
        spare = float(demand.available) - ahead * sum(residuals) / len(residuals)
        return min(demand.residual, demand.available, max(spare, most))


@dataclass(frozen=True, slots=True)
class Paper(Unpriced):
    """The literal gate: scarce only once the residual does not fit; then the fluid price, or all that is left
    without a horizon.  The price acts when the budget is as good as gone."""

    horizon: int | None = None

    name: ClassVar[str] = "paper"
    paced: ClassVar[bool] = True
    partial: ClassVar[bool] = True
    weighted: ClassVar[bool] = True

    def grant(self, demand: Demand, pace: Pace) -> Amount:
        if demand.residual <= demand.available:
            return demand.residual
        if self.horizon is None:
            return demand.available
        return Fluid(self.horizon).grant(demand, pace)


@dataclass(frozen=True, slots=True)
class Dual:
    """Dual descent: the price rises with every grant above the even share of what is left and falls with
    every one below.  Needs no forecast and survives a wrong horizon.

    ``mu' = [mu + eta (granted - avail/N_t)]_+`` with ``eta = 2 mean(w)/sqrt(N)`` and mu = 0 at first.
    """

    horizon: int

    name: ClassVar[str] = "dual"
    paced: ClassVar[bool] = True
    partial: ClassVar[bool] = True
    weighted: ClassVar[bool] = True

    def grant(self, demand: Demand, pace: Pace) -> Amount:
        return at_price(demand, pace.price)

    def after(self, demand: Demand, granted: Amount, pace: Pace) -> float:
        eta = 2 * pace.mean_weight(demand) / math.sqrt(self.horizon)
        return descended(demand, granted, pace, self.horizon, eta)


@dataclass(frozen=True, slots=True)
class Satisfy(Unpriced):
    """All or nothing from what is unlocked: each arrival unlocks an N-th of the purse (PrivateKube's DPF-N
    without its queue), so many thresholds are met rather than all half met."""

    horizon: int

    name: ClassVar[str] = "satisfy"
    paced: ClassVar[bool] = True
    partial: ClassVar[bool] = False
    weighted: ClassVar[bool] = False

    def unlocked(self, demand: Demand, pace: Pace) -> Amount:
        """What may be spent now: ``cap * min(1, t/N) - spent``, t counting this arrival."""
        part = min(Fraction(1), Fraction(pace.arrivals + 1, self.horizon))
        share = part if isinstance(demand.cap, Fraction) else float(part)
        return demand.cap * share - (demand.cap - demand.available)

    def grant(self, demand: Demand, pace: Pace) -> Amount:
        room = min(self.unlocked(demand, pace), demand.available)
        return demand.residual if demand.residual <= room else Fraction(0)
