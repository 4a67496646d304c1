"""Gates for any order of arrivals: one for shortfall, one for targets met, one that leaves nobody out.

They measure an ask against the even share: what is left over the arrivals still expected, ``avail/N_t``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from defray.policy.demand import Amount, Demand, Pace
from defray.policy.gates import Fluid, Satisfy, Unpriced
from defray.policy.price import at_price, descended

MODEST: Final = 2
"""An ask of up to so many even shares is modest."""

LARGEST: Final = 3
"""No ask takes more than ``LARGEST / sqrt(N)`` of the purse under ``steady``."""

CRUMB: Final = 10
"""Into so many parts an even share is cut for those who cannot be met."""


@dataclass(frozen=True, slots=True)
class Steady:
    """Least weighted squared shortfall, the objective of ``fluid`` and ``dual``, in any order of arrivals.

    A price that learns as ``dual`` does, with half its step at first and twice at the end:
    ``mu' = [mu + eta (granted - avail/N_t)]_+``, ``eta = mean(w) (1 + 3 t/N)/sqrt(N)``, mu = 0 at first.
    What is charged leans from mu towards the fluid price by ``n/(n + N/2) exp(-z^2/2)``: the more the more
    residuals n are known, and the less the stronger they rise or fall as they come (:func:`trend`).
    mu begins at 0, so a single grant is bounded: by ``3/sqrt(N)`` of the purse.
    """

    horizon: int

    name: ClassVar[str] = "steady"
    paced: ClassVar[bool] = True
    partial: ClassVar[bool] = True
    weighted: ClassVar[bool] = True

    def trust(self, demand: Demand, pace: Pace) -> float:
        """How far the fluid price is believed, from 0 to 1."""
        known = len(pace.seen(demand)[0]) - 1
        z = trend([*pace.latest(), float(demand.residual)])
        return known / (known + self.horizon / 2) * math.exp(-z * z / 2)

    def price(self, demand: Demand, pace: Pace) -> float:
        trust = self.trust(demand, pace)
        if not trust:
            return pace.price
        return (1 - trust) * pace.price + trust * Fluid(self.horizon).price(demand, pace)

    def grant(self, demand: Demand, pace: Pace) -> Amount:
        most = LARGEST * float(demand.cap) / math.sqrt(self.horizon)
        return min(at_price(demand, self.price(demand, pace)), most)

    def after(self, demand: Demand, granted: Amount, pace: Pace) -> float:
        late = min(1.0, pace.arrivals / self.horizon)
        eta = pace.mean_weight(demand) * (1 + 3 * late) / math.sqrt(self.horizon)
        return descended(demand, granted, pace, self.horizon, eta)


@dataclass(frozen=True, slots=True)
class Modest(Unpriced):
    """Most targets met: all or nothing, at once for a modest ask of up to two even shares, else from what is
    unlocked as in ``satisfy``.

    Needs no forecast.  With m of N arrivals still to come, at least ``cap m(m-1)/(N(N-1))`` is left for them.
    """

    horizon: int

    name: ClassVar[str] = "modest"
    paced: ClassVar[bool] = True
    partial: ClassVar[bool] = False
    weighted: ClassVar[bool] = False

    def grant(self, demand: Demand, pace: Pace) -> Amount:
        fits = demand.residual <= demand.available
        if fits and demand.residual * pace.left(self.horizon) <= MODEST * demand.available:
            return demand.residual
        return Satisfy(self.horizon).grant(demand, pace)


@dataclass(frozen=True, slots=True)
class Generous(Unpriced):
    """Nobody leaves with nothing: as ``modest``, and whom that refuses gets a tenth of an even share, enough
    for a rough answer and credited like any other."""

    horizon: int

    name: ClassVar[str] = "generous"
    paced: ClassVar[bool] = True
    partial: ClassVar[bool] = True
    weighted: ClassVar[bool] = False

    def grant(self, demand: Demand, pace: Pace) -> Amount:
        whole = Modest(self.horizon).grant(demand, pace)
        if whole:
            return whole
        crumb = demand.available / (CRUMB * pace.left(self.horizon))
        return min(demand.residual, crumb)


def trend(amounts: Sequence[float]) -> float:
    """How strongly amounts rise (> 0) or fall (< 0) as they come: the correlation of their logarithms with
    their places, times ``sqrt(n - 1)``.  Has mean 0 and variance 1 where every order is equally likely.

    >>> [round(trend(seen), 6) for seen in ([1, 2, 4, 8, 16], [16, 8, 4, 2, 1], [3, 3, 3])]
    [2.0, -2.0, 0.0]
    """
    import numpy as np

    logs = np.log(np.maximum(amounts, 1e-300))
    logs -= logs.mean()
    places = np.arange(len(logs)) - (len(logs) - 1) / 2
    spread = math.sqrt(float(logs @ logs) * float(places @ places))
    if spread <= 1e-12 * len(logs):
        return 0.0
    return float(logs @ places) / spread * math.sqrt(len(logs) - 1)
