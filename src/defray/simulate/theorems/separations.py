"""What crediting saves: against allocators that ignore released history, and against a parted budget.

Paper, sections 6.1, E.2 and E.3.  The comparators are the simulator's own schemes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from defray.controller.plan import plan
from defray.core.amounts import rho_of
from defray.core.target import Spend, Within, two_sided
from defray.simulate.chance import generator
from defray.simulate.optimum import feasible_cost
from defray.simulate.run import Budget, Run, run
from defray.simulate.schemes import SCHEMES, Scheme
from defray.simulate.theorems.desk import SURE, Desk, Planner
from defray.simulate.theorems.row import Row, figure
from defray.simulate.workload import Workload

Floats = NDArray[np.float64]
Schemes = Mapping[str, Scheme]

Z: Final = two_sided(0.05)
ROUNDING: Final = 1e-12
"""Sums of floats agree to this part of them."""


def workload(
    keys: list[int] | NDArray[np.int64],
    demands: list[float] | Floats,
    analysts: list[int] | None = None,
) -> Workload:
    """Counts of 1000 rows each, asked in this order."""
    n = len(keys)
    return Workload(
        "drawn",
        np.asarray(keys, dtype=np.int64),
        np.asarray(demands, dtype=np.float64),
        np.full(n, 1000.0),
        np.asarray(analysts if analysts is not None else [0] * n, dtype=np.int64),
    )


def history(asked: Workload) -> Floats:
    """rho_hist before each ask where every target is met: the largest demand of that question so far."""
    held: dict[int, float] = {}
    before = []
    for key, demand in zip(asked.keys.tolist(), asked.demands.tolist(), strict=True):
        before.append(held.get(key, 0.0))
        held[key] = max(demand, before[-1])
    return np.array(before)


def drawn(sequences: int, seed: int, stream: int) -> Iterator[tuple[Workload, np.random.Generator]]:  # noqa: TID251
    """Random workloads of 1 to 12 asks of few questions, within 3 to 60 at 95 %, whose worst-case price
    is up to twice as high."""
    chance = generator(seed, stream)
    for _ in range(sequences):
        asks = int(chance.integers(1, 13))
        keys = chance.integers(0, int(chance.integers(1, 7)), asks)
        within = np.exp(chance.uniform(math.log(3), math.log(60), asks))
        demands = Z**2 / (2 * within**2)
        ceilings = demands * chance.uniform(1, 2, asks)
        yield replace(workload(keys, demands), ceilings=ceilings), chance


def ample(asked: Workload, scheme: Scheme) -> Run:
    """A run in the feasible regime: even from scratch every target fits."""
    return run(asked, scheme, Budget(2 * float(asked.demands.sum()) * max(1, asked.crowd)))


def non_crediting(sequences: int, seed: int = 0, schemes: Schemes = SCHEMES) -> list[Row]:
    """Allocators that ignore history pay every satisfied repeat again."""
    rows = []
    for stream, name, words in ((21, "SA", "state-agnostic"), (22, "AC", "accuracy-aware")):
        least, repeats = math.inf, 0
        for asked, _ in drawn(sequences, seed, stream):
            again = history(asked) >= asked.demands
            saved = ample(asked, schemes[name]).spent - ample(asked, schemes["refuse"]).spent
            owed = float(asked.demands[again].sum())
            repeats += int(again.sum())
            least = min(least, (saved - owed) / float(asked.demands.sum()))
        rows.append(
            Row(
                f"against {words} pricing ({name}) the saving covers the satisfied repeats",
                f"Section 6.1; Definition {2 if name == 'SA' else 3}",
                "saving - sum of their rho_min >= 0",
                f"least {figure(least if abs(least) > ROUNDING else 0)} of the demand, {repeats} repeats",
                least >= -ROUNDING and repeats > 0,
            )
        )
    return rows


def per_step(sequences: int, seed: int = 0, schemes: Schemes = SCHEMES) -> Row:
    """Each step's cost relative to the state-agnostic one."""
    over, partly = -math.inf, 0
    for asked, _ in drawn(sequences, seed, 23):
        ratio = ample(asked, schemes["refuse"]).granted / ample(asked, schemes["SA"]).granted
        bound = np.maximum(0.0, 1 - history(asked) / asked.demands)
        over = max(over, float((ratio - bound).max()))
        partly += int(((bound > 0) & (bound < 1)).sum())
    return Row(
        "per step against SA: rho_new / rho_new of SA",
        "Section 6.1, (12); E.2",
        "<= max(0, 1 - rho_hist / rho_min)",
        f"max ratio - bound {over:.1e}, {partly} partly credited",
        over <= ROUNDING and partly > 0,
    )


def witness(sequences: int, seed: int = 0, schemes: Schemes = SCHEMES) -> Row:
    """One question repeated at ``m = floor(alpha (K-1))`` of K places, all others asked once."""
    chance, apart = generator(seed, 24), 0.0
    for _ in range(sequences):
        asks = int(chance.integers(2, 16))
        m = math.floor(float(chance.random()) * (asks - 1))
        keys = np.arange(asks)
        keys[chance.permutation(np.arange(1, asks))[:m]] = 0
        demand = float(chance.uniform(1e-4, 1))
        asked = workload(keys, np.full(asks, demand))
        gap = ample(asked, schemes["SA"]).spent - ample(asked, schemes["refuse"]).spent
        apart = max(apart, abs(gap / demand - m))
    return Row(
        "exact-repeat witness: m repeats of one question save m rho_min against SA",
        "E.3",
        "|gap / rho_min - m| <= 1e-12",
        f"max {apart:.1e}",
        apart <= ROUNDING,
    )


def partitioned(sequences: int, seed: int = 0, schemes: Schemes = SCHEMES) -> Row:
    """A second analyst's repeat of what the first already knows well enough."""
    chance = generator(seed, 25)
    here, least = 0.0, math.inf
    for _ in range(sequences):
        between = int(chance.integers(0, 4))
        first = float(chance.uniform(1e-3, 1))
        second = first * float(chance.uniform(0.01, 1))
        asked = workload(
            [0, *range(1, between + 1), 0],
            [first, *chance.uniform(1e-3, 1, between), second],
            [0, *chance.integers(0, 2, between), 1],
        )
        here = max(here, float(ample(asked, schemes["refuse"]).granted[-1]))
        least = min(least, float(ample(asked, schemes["BP"]).granted[-1]) / second)
    return Row(
        "a second analyst's satisfied repeat, against a budget parted among analysts (BP)",
        "Section 6.1; Definition 4",
        "0 here; >= rho_min there",
        f"{figure(here)} here; >= {figure(least)} rho_min there",
        here == 0 and least >= 1 - ROUNDING,
    )


def two_queries(
    sequences: int, seed: int = 0, planner: Planner = plan, schemes: Schemes = SCHEMES
) -> Row:
    """0.7 spent on a question, then a target for it that needs 1.0."""
    desk = Desk(Fraction(2), planner=planner)
    desk.ask(0, Spend(Fraction(7, 10)))
    within = Within(Fraction(two_sided(float(1 - SURE)) / math.sqrt(2)))
    exact = float(rho_of(desk.ask(0, within) or 0, desk.rho))
    asked = workload([0, 0], [0.7, 1.0], [0, 1])
    new, apex, parted = (
        float(ample(asked, schemes[name]).granted[1]) for name in ("refuse", "AC", "BP")
    )
    offline = feasible_cost(asked)
    here = max(exact, new, key=lambda x: abs(x - 0.3))
    found = np.array([here, apex, parted, offline])
    fine = bool(np.allclose(found, [0.3, 1.0, 1.0, 1.0], rtol=0, atol=1e-8))
    return Row(
        "two queries: 0.7, then a target for the same that needs 1.0",
        "Section 6, two-query illustration",
        "0.3 here; 1 as APEx; 1 parted; 1 offline in all",
        f"{figure(here)} here; {figure(apex)} as APEx; {figure(parted)} parted; {figure(offline)} offline",
        fine,
    )
