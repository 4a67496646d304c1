"""How a scarce budget is shared out: gate, horizon, forecast and weights."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, cast

from defray.config.fields import Section, shown
from defray.core.contract import Weighing
from defray.policy.choices import GATES, NEED_HORIZON
from defray.policy.weights import GROWTH

MOST_FORECAST: Final = 1000
"""The most prices a forecast may hold; more tell nothing new."""

WEIGHTED: Final = frozenset(name for name, make in GATES.items() if make(1).weighted)
"""The gates that give difficult questions more."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """The keys of a contract that say how its budget is shared out."""

    gate: str
    horizon: int | None
    forecast: tuple[Fraction, ...]
    weights: Weighing


def read_sharing(top: Section, xi: Fraction | None) -> Sharing:
    """Gate, horizon, forecast and weights, each mistake noted."""
    horizon = top.whole("horizon", low=1, high=10**12)
    gate = top.choice("gate", tuple(GATES)) or "refuse"
    if gate in NEED_HORIZON and "horizon" not in top:
        cure = "add horizon = 1000: how many paid questions are expected"
        top.problem("gate", f'gate = "{gate}" needs a horizon', cure)
    forecast = _forecast(top, gate)
    weights = top.table("weights", "weights")
    if weights is None:
        return Sharing(gate, horizon, forecast, Weighing())
    if gate not in WEIGHTED:
        cure = f"remove [weights], or choose a gate that weighs: {', '.join(sorted(WEIGHTED))}"
        weights.problem(None, f'gate = "{gate}" gives every question the same weight', cure)
    elif not xi:
        cure = "add xi = 0.05 at the top: the share of rho for diagnostics"
        weights.problem(None, "weights need diagnostics, and xi is 0", cure)
    return Sharing(gate, horizon, forecast, _weights(weights))


def _forecast(top: Section, gate: str) -> tuple[Fraction, ...]:
    if "forecast" not in top:
        return ()
    value = top.data["forecast"]
    if gate not in NEED_HORIZON:
        cure = (
            f"remove forecast, or choose a gate that looks ahead: {', '.join(sorted(NEED_HORIZON))}"
        )
        top.problem("forecast", f'gate = "{gate}" makes no use of a forecast', cure)
        return ()
    if not isinstance(value, list) or not 1 <= len(value) <= MOST_FORECAST:
        message = f"{shown(value)} is not a list of 1 to {MOST_FORECAST} prices in rho"
        top.problem("forecast", message)
        return ()
    prices: list[Fraction] = []
    for i, item in enumerate(value):
        price = top.as_number("forecast", item, item=i)
        if price is not None and not 0 < price <= 10**9:
            top.problem("forecast", f"{shown(item)} is no price in rho", item=i)
        elif price is not None:
            prices.append(price)
    return tuple(prices)


def _weights(section: Section) -> Weighing:
    found: dict[str, Any] = {}
    for key in ("alpha", "beta"):
        number = section.number(key)
        if number is None:
            continue
        if not 0 <= number <= 10:
            section.problem(key, f"{shown(section.data[key])} is not from 0 to 10")
        else:
            found[key] = number
    g = section.choice("g", tuple(GROWTH))
    if g is not None:
        found["g"] = cast(Any, g)
    return Weighing(**found)
