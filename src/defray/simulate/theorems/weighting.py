"""What the difficulty weight does (paper, sections 5 and E.1)."""

from __future__ import annotations

import math
from collections.abc import Callable

from defray.policy.demand import Demand, Pace
from defray.policy.gates import Fluid, Policy
from defray.policy.weights import GROWTH, Diagnosis, Weights
from defray.simulate.chance import generator
from defray.simulate.theorems.row import Row
from defray.simulate.theorems.scarcity import PRICED, Priced, arrivals, demand_of, pace_of


def diagnosis_of(variability: float, instability: float, lower: float, z: float) -> Diagnosis:
    """The diagnosis with these v, b and m_LB."""
    value = variability**2
    return Diagnosis(value, (value - lower) / z, moved=instability, moved_sd=0.0)


def monotone(
    sequences: int,
    seed: int = 0,
    influence: Callable[[Weights, Diagnosis], float] = Weights.influence,
) -> Row:
    """One of v, b and m_LB is moved at a time; the weight among others seen never moves the other way."""
    chance, wrong, moves = generator(seed, 42), 0, 0
    growths = sorted(GROWTH)
    for i in range(sequences):
        alpha, beta = float(chance.uniform(0.1, 3)), float(chance.uniform(0.1, 3))
        weights = Weights(alpha, beta, growths[i % len(growths)], floor=1.0)
        v, b, more = (float(x) for x in chance.uniform((5, 0, 1.01), (300, 100, 3)))
        lower = float(chance.uniform(1, v * v / 3))
        pace = Pace()
        for seen in chance.uniform(0.01, 3, 3).tolist():
            pace.advance(1.0, 1.0, 0.0, influence=seen)
        base, harder, shaken, larger = (
            influence(weights, diagnosis_of(*signals, weights.z))
            for signals in (
                (v, b, lower),
                (v * more, b, lower),
                (v, b * more + 1, lower),
                (v, b, min(lower * more, v * v)),
            )
        )
        for low, high in ((base, harder), (base, shaken), (larger, base)):
            wrong += not low < high or weights.weight(low, pace) > weights.weight(high, pace)
            moves += 1
    return Row(
        "QIF rises with v and b and falls with m_LB, and so does the weight",
        "Section 5; E.1 part 1",
        "0 moves the wrong way",
        f"{wrong} of {moves}",
        wrong == 0,
    )


def scale_free(sequences: int, seed: int = 0, fluid: Callable[[int], Policy] = Fluid) -> Row:
    """All weights times c: the same grants."""
    chance, apart = generator(seed, 46), 0.0
    for _ in range(sequences):
        demand, seen, c = (
            demand_of(chance),
            arrivals(chance),
            math.exp(float(chance.uniform(-7, 7))),
        )
        horizon = int(chance.integers(1, 30))
        scaled = Demand(demand.residual, demand.available, demand.cap, demand.weight * c)
        one = float(fluid(horizon).grant(demand, pace_of(seen)))
        two = float(fluid(horizon).grant(scaled, pace_of(seen, scale=c)))
        apart = max(apart, abs(one - two) / float(demand.residual))
    return Row(
        "scaling all weights changes nothing (fluid)",
        "Section 5",
        "grants within 1e-9 of a",
        f"max {apart:.1e}",
        apart <= 1e-9,
    )


def heavier(sequences: int, seed: int = 0, gates: Priced = PRICED) -> Row:
    """A larger weight at the same demand, history and price."""
    chance, drop, gained = generator(seed, 47), 0.0, 0
    for _ in range(sequences):
        demand, seen = demand_of(chance), arrivals(chance)
        price, more = chance.uniform((0, 1), (3, 16)).tolist()
        horizon = int(chance.integers(1, 30))
        weighed = Demand(demand.residual, demand.available, demand.cap, demand.weight * more)
        pace = pace_of(seen, price)
        for make in gates.values():
            low, high = (float(make(horizon).grant(d, pace)) for d in (demand, weighed))
            drop = max(drop, (low - high) / float(demand.residual))
            gained += high > low
    return Row(
        f"rho never falls as w rises ({', '.join(gates)})",
        "Section 5; E.1",
        "drop <= 1e-9 of a",
        f"max {drop:.1e}; {gained} rose",
        drop <= 1e-9 and gained > 0,
    )
