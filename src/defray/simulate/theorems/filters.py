"""Never overspend: zCDP composition under an adaptive spender, and the filter behind every policy.

Paper, Theorem 1; the filter: Feldman and Zrnic, "Individual privacy accounting via a Renyi filter" (2021).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from defray.controller.purchase import noise_for
from defray.core.amounts import QUANTA, precision_of, quanta_down, rho_of
from defray.core.target import Lattice
from defray.policy.choices import GATES
from defray.policy.demand import Demand, Pace
from defray.policy.gates import Policy
from defray.policy.research import AllOrNothingFluid, Hedge, Proportional, Zcl
from defray.simulate.chance import generator
from defray.simulate.theorems.row import Row, figure, most

ONE: Final = Fraction(1)
LATTICE: Final = Lattice(20)

RHO: Final = Fraction(1, 2)
STEPS: Final = 10
ORDERS: Final = (1.5, 2.0, 4.0, 8.0)
GRID: Final = QUANTA // 4096
"""Spenders choose among so many charges (quanta), so that each is rounded once."""

_Floats = NDArray[np.float64]
_Quanta = NDArray[np.int64]

Rounding = Callable[[int, bool], tuple[float, int]]
"""(quanta asked, whether they are given) -> (sigma, quanta charged) of a release at sensitivity 1."""

Spender = Callable[[_Floats, _Quanta, int], _Floats]
"""(privacy loss so far, quanta left, step) -> quanta asked next."""

SPENDERS: Final[Mapping[str, Spender]] = {
    "even": lambda loss, left, t: np.full(len(loss), QUANTA / STEPS),
    "recover": lambda loss, left, t: np.where(loss < 0, 0.7 * left, QUANTA / 50),
    "stop when high": lambda loss, left, t: np.where(loss > 0.7, 0.0, QUANTA / STEPS),
    "double down": lambda loss, left, t: np.where(loss > 0, QUANTA / 20 * 2.0**t, QUANTA / 99),
    "by the loss": lambda loss, left, t: left / (1 + (t < STEPS - 1) * (1 + np.abs(loss))),
    "too much": lambda loss, left, t: np.where(loss < 0, 0.4 * left + 2 * GRID, 1.01 * left),
}
"""Adversaries.  Some ask more than is left: the filter has to refuse them."""


@lru_cache(maxsize=16384)
def rounded(asked: int, given: bool) -> tuple[float, int]:
    """The controller's own: a spend that is given is floored and sigma rounded up to fit it; a target rounds
    sigma down and its charge up."""
    precision = precision_of(rho_of(asked, RHO), ONE)
    sigma, _, quanta = noise_for(precision, ONE, LATTICE, RHO, given=given)
    return sigma, quanta


def _losses(
    noise: _Floats,
    spender: Spender,
    shift: float,
    rounding: Rounding,
    fits: Callable[[_Quanta, _Quanta], NDArray[np.bool_]],
) -> tuple[_Floats, _Floats]:
    """Privacy loss ``log P/Q`` and rho spent on paths whose noise is N(shift, sigma^2); P has mean 0, Q 1."""
    loss, rho = np.zeros(len(noise)), np.zeros(len(noise))
    left = np.full(len(noise), QUANTA, dtype=np.int64)
    for t in range(STEPS):
        asked = np.clip(spender(loss, left, t), 0, 2 * QUANTA).astype(np.int64)
        asked = np.where(asked == left, asked, asked // GRID * GRID)
        kinds, at = np.unique(asked, return_inverse=True)
        made = [rounding(int(a), t % 2 == 1) if a else (1.0, 0) for a in kinds]
        sigma = np.array([m[0] for m in made])[at]
        charge = np.array([m[1] for m in made], dtype=np.int64)[at]
        charge = np.where(fits(charge, left), charge, 0)
        drawn = np.where(charge > 0, 1 / (2 * sigma**2), 0.0)
        loss += drawn * (1 - 2 * (shift + sigma * noise[:, t]))
        rho += drawn
        left -= charge
    return loss, rho


def composition(
    sequences: int,
    seed: int = 0,
    rounding: Rounding = rounded,
    fits: Callable[[_Quanta, _Quanta], NDArray[np.bool_]] = np.less_equal,
) -> Row:
    """``E_P (P/Q)^(a-1) <= exp((a-1) a B)`` whatever the strategy.

    Measured twice: by plain sampling at the two lowest orders (four standard errors), and at all of them on
    paths tilted to mean 1-a, where the same expectation is the mean of ``exp(a (a-1) rho spent)``.
    """
    sequences = max(sequences, 1000)
    budget, tilted, plain = float(RHO), 0.0, 0.0
    fine = True
    for s, spender in enumerate(SPENDERS.values()):
        noise = generator(seed, 1, s).normal(size=(sequences, STEPS))
        loss, _ = _losses(noise, spender, 0.0, rounding, fits)
        for a in ORDERS[:2]:
            ratio = np.exp((a - 1) * loss - (a - 1) * a * budget)
            error = float(ratio.std()) / math.sqrt(sequences)
            fine = fine and bool(ratio.mean() <= 1 + 4 * error)
            plain = max(plain, float(ratio.mean()))
        for a in ORDERS:
            _, rho = _losses(noise, spender, 1 - a, rounding, fits)
            tilted = max(tilted, float(np.exp(a * (a - 1) * (rho - budget)).mean()))
    return Row(
        f"zCDP composition holds for {len(SPENDERS)} adaptive spenders, orders {ORDERS[0]} to "
        f"{figure(ORDERS[-1])}",
        "Theorem 1",
        "E (P/Q)^(a-1) / exp((a-1) a rho) <= 1",
        f"max {most(tilted)}; sampled {figure(plain)}",
        fine and tilted <= 1 + 1e-12,
    )


def _gate(name: str) -> Callable[[int, float], Policy]:
    return lambda horizon, coin: GATES[name](horizon)


POLICIES: Final[Mapping[str, Callable[[int, float], Policy]]] = {
    **{name: _gate(name) for name in GATES},
    "paper, no horizon": lambda n, u: GATES["paper"](None),
    "proportional": lambda n, u: Proportional(n),
    "zcl": lambda n, u: Zcl((u + 0.01) / 100, u + 0.01),
    "aon_fluid": lambda n, u: AllOrNothingFluid(n),
    "hedge": lambda n, u: Hedge(n, u),
}
"""Every policy there is, from a horizon and a number in [0, 1)."""


def no_overspending(
    sequences: int,
    seed: int = 0,
    policies: Mapping[str, Callable[[int, float], Policy]] = POLICIES,
) -> Row:
    """Every policy on arbitrary demands, in integer quanta: equal parts of the purse, all that is left, too
    much, one quantum; right and wrong horizons; weights from 1/15 to 15."""
    chance = generator(seed, 2)
    over, outside, grants, fullest = 0, 0, 0, 0.0
    for _ in range(sequences):
        arrivals = int(chance.integers(1, 9))
        cap = QUANTA - int(chance.uniform(0, 0.3) * QUANTA)
        rho = Fraction(int(chance.integers(1, 1000)), 100)
        kinds, sizes = chance.integers(0, 5, arrivals), np.exp(chance.uniform(-9, 1, arrivals))
        weights = np.exp(chance.uniform(-2.7, 2.7, arrivals))
        horizon, coin = int(chance.integers(1, 2 * arrivals + 1)), float(chance.random())
        for make in policies.values():
            policy, pace, spent = make(horizon, coin), Pace(), 0
            for kind, size, weight in zip(kinds.tolist(), sizes.tolist(), weights, strict=True):
                left = cap - spent
                wanted = (int(size * cap), cap // arrivals, left, left + 1, 1)[kind] or 1
                demand = Demand(
                    rho_of(wanted, rho), rho_of(left, rho), rho_of(cap, rho), float(weight)
                )
                granted = policy.grant(demand, pace)
                charge = quanta_down(Fraction(granted), rho)
                price = policy.after(demand, granted, pace)
                pace.advance(float(demand.residual), demand.weight, price)
                outside += not 0 <= charge <= min(wanted, left)
                spent += charge
                grants += 1
            over = max(over, spent - cap)
            fullest = max(fullest, spent / cap)
    return Row(
        f"no policy overspends by any path ({len(policies)} policies)",
        "Theorem 1; filter",
        "spent - cap <= 0 quanta; 0 <= grant <= min(a, avail)",
        f"over by {over}; {outside} of {grants} grants outside; fullest purse {most(fullest)}",
        over == 0 and outside == 0,
    )
