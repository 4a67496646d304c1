"""What views save, and what deciding costs: charges beside offline bounds, answers under caps, times.

Charges are the largest cell's, in units of one question's price.  The offline bound knows all questions in
advance and is proved: no plan that answers them all costs less.  Recorded workloads are
in ``benchmarks.peers``.  ``DEFRAY_BENCH_LONG=1`` adds the largest view.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.table import Line, ms
from defray.support.view.certificate import known
from defray.support.view.metric import Metric, metric
from defray.support.view.offer import Free, Offer, offer
from defray.support.view.plan import Kind, class_plan, listed, saddle
from defray.support.view.promise import Promise
from defray.support.view.state import Row, State

Floats = NDArray[np.float64]

Z: Final = 1.959963984540054
N_MAX: Final = 1e6


@dataclass
class Course:
    """A sequence of questions as it went: the last state, who was answered, and the seconds each took."""

    state: State
    answered: int
    free: int
    seconds: list[float]

    @property
    def charge(self) -> float:
        return float(self.state.charges.max())

    def quantile(self, part: float) -> float:
        return float(np.quantile(self.seconds, part))


def play(
    questions: Floats,
    variances: Floats | float = 1.0,
    cap: float = math.inf,
    base: Metric | None = None,
    promise: Promise | None = None,
) -> Course:
    """Every question in order: decide, fold the release in, and answer from the state."""
    count, cells = questions.shape
    base = base or metric((cells,), (True,))
    out = Course(State.empty(cells, N_MAX), 0, 0, [])
    for t, (q, v) in enumerate(zip(questions, np.broadcast_to(variances, (count,)), strict=True)):
        start = time.perf_counter()
        found = offer(
            out.state,
            q,
            float(v),
            cap - out.state.charges,
            base,
            half_width=Z * math.sqrt(v),
            promise=promise,
        )
        if isinstance(found, Offer):
            out.state = out.state.add(Row(t, found.b, found.variance, 0.0, float(v)))
            promise = found.promise
            known(out.state, q)
        out.seconds.append(time.perf_counter() - start)
        out.answered += found is not None
        out.free += isinstance(found, Free)
    return out


# -- workloads ----------------------------------------------------------------------------------------


def ranges(cells: int, count: int, rng: np.random.Generator) -> Floats:
    a, b = rng.integers(0, cells, count), rng.integers(0, cells, count)
    return between(cells, np.minimum(a, b), np.maximum(a, b) + 1)


def between(cells: int, start: NDArray[np.int64], end: NDArray[np.int64]) -> Floats:
    at = np.arange(cells)
    return ((at >= start[:, None]) & (at < end[:, None])).astype(float)


def prefixes(cells: int, count: int, rng: np.random.Generator) -> Floats:
    end = rng.integers(1, cells + 1, count)
    return between(cells, np.zeros_like(end), end)


def last_days(cells: int) -> Floats:
    """On every day from the ninetieth: the last 1, 7, 30 and 90 days."""
    end = np.repeat(np.arange(90, cells + 1), 4)
    return between(cells, end - np.tile([1, 7, 30, 90], cells - 89), end)


def boxes(side: int, count: int, rng: np.random.Generator) -> Floats:
    one, two = ranges(side, count, rng), ranges(side, count, rng)
    return np.einsum("ti,tj->tij", one, two).reshape(count, side * side)


def drill_downs(side: int, count: int, rng: np.random.Generator) -> Floats:
    """Two attributes: everything, then one value of the first, then one cell of it."""
    all_of = np.ones(side)
    one, two = (np.eye(side)[rng.integers(0, side, count)] for _ in range(2))
    steps = [
        [np.kron(all_of, all_of), np.kron(i, all_of), np.kron(i, j)]
        for i, j in zip(one, two, strict=True)
    ]
    return np.array(steps).reshape(-1, side * side)


def tree_walks(cells: int, count: int, rng: np.random.Generator) -> Floats:
    """One attribute: from everything to one cell, each time into a random quarter."""
    steps = []
    for _ in range(count):
        at, size = 0, cells
        while True:
            steps.append((at, at + size))
            if size == 1:
                break
            size //= 4
            at += size * int(rng.integers(4))
    pairs = np.array(steps)
    return between(cells, pairs[:, 0], pairs[:, 1])


# -- figures ------------------------------------------------------------------------------------------


Maker = Callable[[int, int, np.random.Generator], Floats]


def charges() -> Iterator[Line]:
    """Charges and their ratio to the bound."""
    for cells, count, goal, ratio in (
        (64, 1000, 7.08, 1.16),
        (256, 200, 8.82, 1.19),
        (256, 1000, 10.5, 1.16),
    ):
        q = ranges(cells, count, np.random.default_rng(cells + count))
        charge, least = beside_bound(q)
        yield Line(
            f"charge: {count:,} ranges, {cells} cells",
            f"{charge:.2f}",
            f"bound {least:.2f}; exact repeats {np.unique(q, axis=0).sum(axis=0).max():.0f}",
            f"{charge / least:.3f}",
            f"{goal} ({ratio})",
            charge <= goal * 1.005 and charge / least <= ratio,
        )
    square, flat = metric((16, 16), (True, True)), metric((16, 16), (False, False))
    cases: list[tuple[str, Maker, int, int, Metric | None, float]] = [
        ("200 prefixes, 64 cells", prefixes, 64, 200, None, 1.14),
        ("1,000 prefixes, 256 cells", prefixes, 256, 1000, None, math.inf),
        ("last 1/7/30/90 of 256 days", lambda cells, _, __: last_days(cells), 256, 0, None, 1.26),
        ("300 boxes, 16 x 16 cells", boxes, 16, 300, square, 1.16),
        ("100 drill-downs, 16 x 16 cells", drill_downs, 16, 100, flat, 1.12),
        ("200 walks down a tree, 256 cells", tree_walks, 256, 200, None, math.inf),
    ]
    for what, make, cells, count, base, goal in cases:
        ratios = []
        for seed in range(4):
            charge, least = beside_bound(make(cells, count, np.random.default_rng(seed)), base)
            ratios.append(charge / least)
        mean = statistics.fmean(ratios)
        yield Line(
            f"charge: {what}, mean of 4 draws",
            f"{charge:.2f}",
            f"bound {least:.2f} (the last draw)",
            f"{mean:.3f}",
            f"{goal:.2f}" if goal < math.inf else "",
            mean <= goal + 0.005,
        )


def beside_bound(questions: Floats, base: Metric | None = None) -> tuple[float, float]:
    """The charge of a sequence, and the least of any plan for it."""
    least = saddle(listed(np.unique(questions, axis=0)), questions.shape[1]).least
    return play(questions, base=base).charge, least


def under_caps() -> Iterator[Line]:
    for cells, count, cap, goal, repeats in (
        (64, 1000, 6.0, 562, 63),
        (128, 500, 8.0, 466, 51),
        (256, 500, 10.0, 500, 63),
    ):
        q = ranges(cells, count, np.random.default_rng(cells * 7 + count))
        found = play(q, cap=cap).answered
        compared = f"exact repeats {exact_repeats(q, cap)}"
        assert exact_repeats(q, cap) == repeats
        yield Line(
            f"answered: {count:,} ranges, {cells} cells, cap {cap:g}",
            f"{found}",
            compared,
            f"{found / count:.0%}",
            f">= {goal}",
            found >= goal,
        )


def exact_repeats(questions: Floats, cap: float) -> int:
    """How many are answered where only the same question is credited, with a charge of each cell's own."""
    charge, seen, answered = np.zeros(questions.shape[1]), set(), 0
    for q in questions:
        key = q.tobytes()
        if key not in seen and (charge + q).max() > cap:
            continue
        charge += 0 if key in seen else q
        seen.add(key)
        answered += 1
    return answered


def promises() -> Iterator[Line]:
    classes: list[tuple[int, Kind, float]] = [
        (16, "ranges", 3.65),
        (64, "ranges", 6.21),
        (128, "ranges", 7.86),
        (256, "ranges", 9.83),
        (8, "subsets", 3.64),
    ]
    for size, kind, goal in classes:
        start = time.perf_counter()
        plan = class_plan((size,), (kind,))
        took = time.perf_counter() - start
        yield Line(
            f"class charge: all {kind}, {size} values",
            f"{plan.charge:.2f}",
            f"bound {plan.least:.2f}; {took:.1f} s",
            f"{plan.charge / plan.least:.3f}",
            f"{goal}",
            plan.charge <= goal + 0.005,
        )
    q = ranges(64, 1000, np.random.default_rng(3))
    plan = class_plan((64,), ("ranges",))
    for cap in (6.3, 2 * plan.charge):
        kept = play(q, cap=cap, promise=Promise.of(plan, 1.0))
        plain = play(q, cap=cap)
        yield Line(
            f"promised: 1,000 ranges, 64 cells, cap {cap:.1f}",
            f"{kept.answered} ({kept.charge:.2f})",
            f"{plain.answered} without ({plain.charge:.2f})",
            f"p50 {ms(kept.quantile(0.5))}, p99 {ms(kept.quantile(0.99))}",
            "1,000",
            kept.answered == 1000,
        )


def times() -> Iterator[Line]:
    cases = [(128, 1000, 1e-3), (256, 1000, 4e-3), (1024, 1000, 30e-3)]
    if os.environ.get("DEFRAY_BENCH_LONG"):
        cases.append((4096, 1000, math.inf))
    for cells, count, goal in cases:
        course = play(ranges(cells, count, np.random.default_rng(cells + count)))
        asked = statistics.median(course.seconds)
        yield Line(
            f"decide, fold, answer: {cells:,} cells x {count:,}",
            f"p50 {ms(asked)}",
            f"p90 {ms(course.quantile(0.9))}, p99 {ms(course.quantile(0.99))}",
            f"charge {course.charge:.2f}, {course.free} free",
            f"p50 <= {ms(goal)}" if goal < math.inf else "",
            asked <= goal,
        )


def lines() -> list[Line]:
    parts: list[Callable[[], Iterator[Line]]] = [charges, under_caps, promises, times]
    return [line for part in parts for line in part()]
