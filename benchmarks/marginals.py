"""What overlapping marginals cost when they arrive one by one, beside a certified bound of any plan.

Every line asks all marginals of a table in random order.  "Exact repeats" is the paper's credit alone; the
bound is what any Gaussian release of any kind, planned with everything known in advance, must pay.  Goals
are means over random draws, rounded: one hundredth more still meets them.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np

from benchmarks.table import Line
from defray.support.marginal.joint import joint
from defray.support.marginal.residuals import AttributeSet, Columns
from defray.support.marginal.support import LOOK_AHEAD, Support

ADULT = (85, 9, 100, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42, 2)
NARROW = (85, 9, 16, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42, 2)
BINARY = (2,) * 12
WIDE = (10,) * 100

DRAWS = int(os.environ.get("DEFRAY_BENCH_DRAWS", "5"))

Targets = Callable[[np.random.Generator, int], "np.ndarray"]


def random_targets(rng: np.random.Generator, size: int) -> np.ndarray:
    """Standard deviations of 3.2 to 32."""
    return 10 ** rng.uniform(1, 3, size)


def one_target(rng: np.random.Generator, size: int) -> np.ndarray:
    return np.full(size, 100.0)


def marginals(atoms: Sequence[int], most: int = 3) -> list[AttributeSet]:
    return [b for k in range(most + 1) for b in combinations(range(len(atoms)), k)]


def arriving(
    columns: Columns, asks: Sequence[tuple[AttributeSet, float]], tilt: float
) -> tuple[float, float]:
    """(rho, CPU seconds) of asks in order."""
    held: dict[AttributeSet, float] = {}
    support = Support(columns, held)
    rho, start = [], time.process_time()
    for attributes, variance in asks:
        plan = support.raise_to(attributes, variance, tilt)
        plan.add_to(held)
        rho.append(plan.rho)
    return math.fsum(rho), time.process_time() - start


def measured(
    atoms: tuple[int, ...], targets: Targets, draws: int
) -> tuple[float, float, float, float, float]:
    """(exact repeats, water-filling, the same looking ahead) over the bound, ms a question, and the gap that
    the bound leaves."""
    columns, sets = Columns(atoms), marginals(atoms)
    rows = []
    for draw in range(draws):
        rng = np.random.default_rng([7, draw])
        order = rng.permutation(len(sets))
        asks = [(sets[i], float(v)) for i, v in zip(order, targets(rng, len(sets)), strict=True)]
        plain, seconds = arriving(columns, asks, 1.0)
        ahead, _ = arriving(columns, asks, LOOK_AHEAD)
        best = joint(Support(columns, {}), asks)
        repeats = math.fsum(0.5 / v for _, v in asks)  # no marginal is asked twice
        rows.append(
            (
                repeats / best.bound,
                plain / best.bound,
                ahead / best.bound,
                1e3 * seconds / len(asks),
                best.plan.rho / best.bound - 1,
            )
        )
    mean = np.mean(rows, axis=0)
    return tuple(mean.tolist())


def lines() -> list[Line]:
    out: list[Line] = []
    cases: list[tuple[str, tuple[int, ...], Targets, int, float | None, float | None]] = [
        ("Adult <= 3-way, random targets", ADULT, random_targets, DRAWS, 1.05, 1.04),
        ("Adult <= 3-way, one target", ADULT, one_target, DRAWS, 1.08, 1.05),
        ("12 binary <= 3-way, random targets", BINARY, random_targets, DRAWS, 1.22, 1.12),
        ("12 binary <= 3-way, one target", BINARY, one_target, DRAWS, 1.24, 1.14),
        ("Adult (16 for 100) <= 3-way, random targets", NARROW, random_targets, DRAWS, None, None),
        ("Adult (16 for 100) <= 3-way, one target", NARROW, one_target, DRAWS, None, None),
        ("100 x 10 <= 3-way, one target", WIDE, one_target, 1, 1.14, None),
        ("100 x 10 <= 3-way, random targets", WIDE, random_targets, 1, None, None),
    ]
    for name, atoms, targets, draws, goal, goal_ahead in cases:
        exact, plain, ahead, ms, gap = measured(atoms, targets, draws)
        out.append(
            Line(
                f"{name}: rho over the bound",
                f"{plain:.3f}",
                f"exact repeats {exact:.2f}",
                f"bound within {100 * gap:.3f} %",
                "< exact repeats" if goal is None else f"{goal:.2f}",
                plain < (exact if goal is None else goal + 0.01),
            )
        )
        out.append(
            Line(
                f"{name}: looking ahead",
                f"{ahead:.3f}",
                "",
                f"{ms:.3f} ms a question",
                "0.13 ms" if goal_ahead is None else f"{goal_ahead:.2f}, 0.13 ms",
                ms <= 0.13 and (goal_ahead is None or ahead < goal_ahead + 0.01),
            )
        )
    return out
