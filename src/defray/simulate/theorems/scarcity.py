"""The scarcity rule: its closed form, and its price (paper, sections 4 and E.1)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from defray.policy.demand import Amount, Demand, Pace
from defray.policy.gates import Dual, Fluid, Paper, Policy
from defray.policy.price import at_price, fluid_price
from defray.simulate.chance import generator
from defray.simulate.theorems.row import Row, figure

if TYPE_CHECKING:
    import numpy as np

Rule = Callable[[Demand, float], Amount]
"""(demand, price mu) -> rho granted."""

Priced = Mapping[str, Callable[[int], Policy]]

PRICED: Final[Priced] = {"fluid": Fluid, "dual": Dual, "paper": Paper}
"""The gates that follow a price, from a horizon."""

SOLVER: Final = 1e-7
"""How near a bounded scalar search gets to the least of a parabola, relative to its width."""

ROUNDING: Final = 1e-12


def demand_of(chance: np.random.Generator) -> Demand:  # noqa: TID251
    """A residual, what is available and a weight, each over two or three powers of ten."""
    a, cap, left, w = chance.uniform((-4.6, -2.3, 0.0, -2.77), (0.7, 0.7, 1.0, 2.77)).tolist()
    return Demand(math.exp(a), left * math.exp(cap), math.exp(cap), math.exp(w))


def closed_form(sequences: int, seed: int = 0, rule: Rule = at_price) -> Row:
    """``clip(a - mu/(2w), 0, avail)`` against a search of the objective, hinge included, and against its
    optimality (KKT) conditions."""
    from scipy.optimize import minimize_scalar

    chance, apart, slack = generator(seed, 41), 0.0, 0.0
    for _ in range(sequences):
        demand, pull = demand_of(chance), float(chance.uniform(0, 3))
        a, w, top = float(demand.residual), demand.weight, float(demand.available)
        mu = pull * w * a if pull > 0.2 else 0.0
        found = float(rule(demand, mu))

        def cost(r: float, a: float = a, w: float = w, mu: float = mu) -> float:
            return w * max(0.0, a - r) ** 2 + mu * r

        least = minimize_scalar(cost, bounds=(0.0, top), method="bounded", options={"xatol": 1e-12})
        # At mu = 0 all of [a, avail] is optimal: the least cost decides, not the place.
        if mu:
            apart = max(apart, abs(found - float(least.x)) / max(a, top))
        above = (cost(found) - float(least.fun)) / (w * a * a)
        slope = (mu - 2 * w * max(0.0, a - found)) / (2 * w * a)
        inside = 0.0 <= found <= top
        stuck = (found <= 0 and slope >= 0) or (found >= top and slope <= 0)
        slack = max(slack, above, 0.0 if stuck else abs(slope), 0.0 if inside else math.inf)
    return Row(
        "scarcity rule: clip(a - mu/2w, 0, avail) is the minimiser (convex solver, KKT)",
        "Section 4, scarcity allocation",
        "|rho - solver| <= 1e-7; slope and excess cost <= 1e-12",
        f"max {apart:.1e}; {slack:.1e}",
        apart <= SOLVER and slack <= ROUNDING,
    )


def differentiation(sequences: int, seed: int = 0, rule: Rule = at_price) -> Row:
    """Interior grants: the shortfall, and the difference of two asks that need the same."""
    chance, short, apart = generator(seed, 43), 0.0, 0.0
    for _ in range(sequences):
        a, (w_t, w_s) = float(chance.uniform(0.01, 2)), chance.uniform(1 / 16, 16, 2).tolist()
        mu = float(chance.uniform(0.01, 0.99)) * 2 * a * min(w_t, w_s)
        rho_t, rho_s = (float(rule(Demand(a, 2 * a, 4 * a, w), mu)) for w in (w_t, w_s))
        short = max(short, abs(a - rho_t - mu / (2 * w_t)) / a)
        apart = max(apart, abs(rho_t - rho_s - mu / 2 * (1 / w_s - 1 / w_t)) / a)
    return Row(
        "differentiation: shortfall mu/2w; with equal a, rho_t - rho_s = (mu/2)(1/w_s - 1/w_t)",
        "Section 5; E.1 part 2",
        "both within 1e-12 of a",
        f"max {short:.1e}; {apart:.1e}",
        short <= ROUNDING and apart <= ROUNDING,
    )


def arrivals(chance: np.random.Generator) -> list[tuple[float, float]]:  # noqa: TID251
    """Residuals and weights of up to ten arrivals before."""
    drawn = chance.uniform((-4.6, -2.77), (0.7, 2.77), (int(chance.integers(0, 11)), 2))
    return [(math.exp(a), math.exp(w)) for a, w in drawn.tolist()]


def pace_of(seen: list[tuple[float, float]], price: float = 0.0, scale: float = 1.0) -> Pace:
    pace = Pace()
    for residual, weight in seen:
        pace.advance(residual, weight * scale, price)
    return pace


def last_ask(sequences: int, seed: int = 0, gates: Priced = PRICED) -> Row:
    """Where one ask is expected, nothing is held back."""
    chance, apart = generator(seed, 44), 0.0
    for _ in range(sequences):
        demand = demand_of(chance)
        best = min(float(demand.residual), float(demand.available))
        for make in gates.values():
            granted = float(make(1).grant(demand, Pace()))
            apart = max(apart, abs(granted - best) / float(demand.residual))
    return Row(
        f"one expected ask gets min(a, avail) ({', '.join(gates)})",
        "Section 4",
        "within 1e-12 of a",
        f"max {apart:.1e}",
        apart <= ROUNDING,
    )


def feasible_price(sequences: int, seed: int = 0, price: Callable[..., float] = fluid_price) -> Row:
    """The fluid price is 0 where the forecast fits; elsewhere it is the least at which it does."""
    chance, charged, off = generator(seed, 45), 0.0, 0.0
    for i in range(sequences):
        demand, seen = demand_of(chance), arrivals(chance)
        a, w = float(demand.residual), demand.weight
        ahead = int(chance.integers(0, 30))
        asks = [*seen, (a, w)]

        def load(mu: float, ahead: int = ahead, asks: list[tuple[float, float]] = asks) -> float:
            left = [max(0.0, r - mu / (2 * v)) for r, v in asks]
            return left[-1] + ahead * math.fsum(left) / len(left)

        need = load(0.0)
        there = need * (
            float(chance.uniform(1.001, 2)) if i % 2 else float(chance.uniform(0.01, 0.99))
        )
        found = price(
            Demand(a, there, 2 * there, w), ahead, [r for r, _ in asks], [v for _, v in asks]
        )
        if i % 2:
            charged = max(charged, found)
        else:
            off = max(off, abs(load(found) - there) / need)
    return Row(
        "the fluid price: 0 where the forecast is feasible, else what makes it just fit",
        "Section 4, scarcity allocation",
        "mu = 0; |load - avail| <= 1e-9 of the need",
        f"mu <= {figure(charged)}; {off:.1e}",
        charged == 0 and off <= 1e-9,
    )
