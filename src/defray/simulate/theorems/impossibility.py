"""Scarcity: no deterministic rule beats 1/n, and a coin does (paper, Theorem 8 and F.2).

W_A is one ask that needs the whole budget; W_B is the same, then n others of an n-th each.  Exact arithmetic,
so that n asks of an n-th do fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import ClassVar, Final

from defray.policy.choices import GATES, NEED_HORIZON
from defray.policy.demand import Amount, Demand, Pace
from defray.policy.gates import Policy, Unpriced
from defray.policy.research import AllOrNothingFluid, Hedge, Proportional, Zcl
from defray.simulate.chance import generator
from defray.simulate.optimum import most_satisfied
from defray.simulate.theorems.row import Row, figure, most
from defray.simulate.theorems.separations import workload

ONE: Final = Fraction(1)
SIZES: Final = (2, 3, 5, 10, 40)


def satisfied(policy: Policy, demands: list[Fraction]) -> int:
    """How many of these distinct asks a policy meets with a budget of 1."""
    pace, left, met = Pace(), ONE, 0
    for residual in demands:
        demand = Demand(residual, left, ONE)
        granted = policy.grant(demand, pace)
        pace.advance(float(residual), 1.0, policy.after(demand, granted, pace))
        left -= min(Fraction(granted), left)
        met += granted >= residual
    return met


def _pair(n: int) -> tuple[list[Fraction], list[Fraction]]:
    return [ONE], [ONE, *[Fraction(1, n)] * n]


@lru_cache(maxsize=64)
def _offline(n: int) -> tuple[int, int]:
    """N_sat of the offline optimum on both."""
    a, b = (
        most_satisfied(workload(list(range(len(w))), [float(d) for d in w]), 1.0).value
        for w in _pair(n)
    )
    return a, b


def ratios(make: Callable[[], Policy], n: int) -> tuple[Fraction, Fraction]:
    """N_sat over the offline optimum's on W_A and on W_B, a fresh policy each."""
    (w_a, w_b), (best_a, best_b) = _pair(n), _offline(n)
    return Fraction(satisfied(make(), w_a), best_a), Fraction(satisfied(make(), w_b), best_b)


def _deterministic(n: int) -> Iterator[Callable[[], Policy]]:
    """Every deterministic policy there is, for right and wrong horizons."""
    for name, make in GATES.items():
        yield from (partial(make, horizon) for horizon in (1, 2, n, n + 1, 10 * n))
        if name not in NEED_HORIZON:
            yield partial(make, None)
    for horizon in (1, n, n + 1):
        yield from (partial(Proportional, horizon), partial(AllOrNothingFluid, horizon))
    yield from (partial(Zcl, 1 / n, 1.0), partial(Zcl, 1 / n**2, 1.0))
    yield from (partial(Hedge, n, 0.0), partial(Hedge, n, 1 - 2**-53))


def deterministic(
    sequences: int,
    seed: int = 0,
    policies: Callable[[int], Iterator[Callable[[], Policy]]] = _deterministic,
) -> Row:
    """Every policy of the product, the coin of ``hedge`` fixed."""
    best, tried = 0.0, 0
    for n in SIZES:
        for make in policies(n):
            best = max(best, float(n * min(ratios(make, n))))
            tried += 1
    return Row(
        f"impossibility: every deterministic policy has a ratio <= 1/n on W_A or W_B, n = {SIZES[0]} to "
        f"{SIZES[-1]}",
        "Theorem 8",
        "n min(ratio A, ratio B) <= 1",
        f"max {most(best)} over {tried}",
        best <= 1,
    )


@dataclass(frozen=True, slots=True)
class Threshold(Unpriced):
    """Grants in full where the residual is at most ``cutoffs[t]`` of what is left, else ``parts[t]`` of it:
    on W_A and W_B every deterministic rule is one of these."""

    cutoffs: tuple[Fraction, ...]
    parts: tuple[Fraction, ...]

    name: ClassVar[str] = "threshold"
    paced: ClassVar[bool] = True
    partial: ClassVar[bool] = True
    weighted: ClassVar[bool] = False

    def grant(self, demand: Demand, pace: Pace) -> Amount:
        t = min(pace.arrivals, len(self.cutoffs) - 1)
        if demand.residual <= self.cutoffs[t] * demand.available:
            return min(demand.residual, demand.available)
        return min(self.parts[t] * demand.residual, demand.available)


def _same(rule: Policy) -> Policy:
    return rule


def thresholds(sequences: int, seed: int = 0, wrap: Callable[[Policy], Policy] = _same) -> Row:
    """The same for rules drawn at random; some answer the first ask, so the bound is reached."""
    chance, best = generator(seed, 31), 0.0
    for i in range(sequences):
        n = SIZES[i % (len(SIZES) - 1)]
        drawn = chance.integers(0, 9, (2, n + 1)).tolist()
        cutoffs, parts = (tuple(Fraction(x, 6) for x in row) for row in drawn)
        rule = wrap(Threshold(cutoffs, tuple(min(p, ONE) for p in parts)))
        best = max(best, float(n * min(ratios(partial(_same, rule), n))))
    return Row(
        "impossibility: nor is any deterministic threshold rule drawn at random better",
        "Theorem 8",
        "n min(ratio A, ratio B) <= 1",
        f"max {most(best)} over {sequences}",
        best <= 1,
    )


def hedged(sequences: int, seed: int = 0, hedge: Callable[[int, float], Policy] = Hedge) -> Row:
    """The expectation over the coin, exactly: as the mean over an even grid of coins whose size is a multiple
    of 2n-1, so that the probability n/(2n-1) falls between two of them."""
    apart, coins = Fraction(0), 0
    for n in SIZES:
        cells = (2 * n - 1) * math.ceil(sequences / len(SIZES) / (2 * n - 1))
        both = [ratios(partial(hedge, n, (k + 0.5) / cells), n) for k in range(cells)]
        for side in zip(*both, strict=True):
            apart = max(apart, abs(sum(side, Fraction(0)) / cells - Fraction(n, 2 * n - 1)))
        coins += cells
    return Row(
        "a coin escapes it: hedge has n/(2n-1) on both W_A and W_B in expectation",
        "Theorem 8, randomised",
        "|mean ratio - n/(2n-1)| = 0",
        f"{figure(float(apart))} over a grid of {coins} coins",
        apart == 0,
    )
