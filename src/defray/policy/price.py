"""The paper's scarcity rule: shortfall against conservation, and the price that makes a budget last.

``min over 0 <= r <= avail of w (a - r)^2 + mu r`` is solved by ``clip(a - mu/(2w), 0, avail)`` (paper,
section 4); the unprojected shortfall is ``mu/(2w)``.
"""

from __future__ import annotations

from collections.abc import Sequence

from defray.policy.demand import Amount, Demand, Pace


def at_price(demand: Demand, price: float) -> Amount:
    """``clip(a - mu/(2w), 0, avail)``; exact where the price is 0.

    >>> at_price(Demand(1.0, 0.75, 2.0), 0.0), at_price(Demand(1.0, 0.75, 2.0, weight=2.0), 2.0)
    (0.75, 0.5)
    """
    if price <= 0:
        return min(demand.residual, demand.available)
    wanted = float(demand.residual) - price / (2 * demand.weight)
    if wanted <= 0:
        return 0.0
    return demand.available if demand.available <= wanted else wanted


def fluid_price(
    demand: Demand, ahead: int, residuals: Sequence[float], weights: Sequence[float]
) -> float:
    """The least mu >= 0 at which this demand and ``ahead`` more like those seen fit what is available:
    ``[a - mu/2w]_+ + ahead * mean_s [a_s - mu/2w_s]_+ <= avail``.

    The left side is convex, piecewise linear and falling in mu: Newton's steps from 0 never pass the root.
    """
    import numpy as np

    a, half = float(demand.residual), 1 / (2 * demand.weight)
    others, halves = np.asarray(residuals), 1 / (2 * np.asarray(weights))
    share, available = ahead / len(others), float(demand.available)
    price = 0.0
    while True:
        left = others - price * halves
        active = left > 0
        own = a - price * half
        load = max(own, 0.0) + share * float(left.dot(active))
        slope = (half if own > 0 else 0.0) + share * float(halves.dot(active))
        excess = load - available
        if excess <= 1e-12 * available or not slope:
            return price
        step = excess / slope
        if price + step <= price:
            return price
        price += step


def descended(demand: Demand, granted: Amount, pace: Pace, horizon: int, eta: float) -> float:
    """The next price by dual descent: it rises with a grant above the even share of what is left and falls
    with one below, ``mu' = [mu + eta (granted - avail/N_t)]_+``."""
    even = float(demand.available) / pace.left(horizon)
    return max(0.0, pace.price + eta * (float(granted) - even))
