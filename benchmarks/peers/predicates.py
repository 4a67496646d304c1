"""Ranges, prefixes, windows, boxes and drill-downs: charges beside others' and beside the proved bound;
answers under a cap; what deciding takes.

Charges are the dearest cell's, in units of one question's price.  The bound knows all questions in advance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.baselines import (
    answered_with_repeats,
    by_cone,
    exact_repeats,
    least,
    rank_one,
)
from benchmarks.peers.course import Ask, Course, View, play
from benchmarks.peers.report import NEIGHBOURS, Goal, Section
from benchmarks.views import boxes, drill_downs, last_days, prefixes, ranges
from defray.support.view.metric import Metric, metric

Floats = NDArray[np.float64]
Rng = np.random.Generator

Z = 1.959963984540054
N_MAX = 1e6
NEAR = 1.05
"""Published ratios are of other draws of the same workloads: within 5 %."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A family of workloads over the cells of one view; ``ratio`` over the bound to reach, a mean over
    ``draws``, and the ``charge`` to reach where one draw is meant."""

    what: str
    make: Callable[[Rng], Floats]
    base: Metric
    draws: int = 1
    seed: int = 0
    ratio: float | None = None
    charge: float | None = None


LINE = {cells: metric((cells,), (True,)) for cells in (64, 128, 256, 1024, 4096)}
SQUARE = metric((16, 16), (True, True))
FLAT = metric((16, 16), (False, False))

KINDS = (
    Kind("1,000 ranges, 64 cells", lambda r: ranges(64, 1000, r), LINE[64], 1, 1064, 1.16, 7.08),
    Kind("200 ranges, 256 cells", lambda r: ranges(256, 200, r), LINE[256], 1, 456, 1.19, 8.82),
    Kind("1,000 ranges, 256 cells", lambda r: ranges(256, 1000, r), LINE[256], 1, 1256, 1.16, 10.5),
    Kind("200 prefixes, 64 cells", lambda r: prefixes(64, 200, r), LINE[64], 4, 0, 1.14),
    Kind("last 1/7/30/90 of 256 days", lambda _: last_days(256), LINE[256], 1, 0, 1.26),
    Kind("300 boxes, 16 x 16 cells", lambda r: boxes(16, 300, r), SQUARE, 4, 0, 1.16),
    Kind("100 drill-downs, 16 x 16 cells", lambda r: drill_downs(16, 100, r), FLAT, 4, 0, 1.12),
)

CAPS = ((64, 1000, 6.0, 562), (128, 500, 8.0, 466), (256, 500, 10.0, 500))
"""Cells, ranges, cap in units, answered."""

PACE = ((128, 1000, 1.0), (256, 1000, 4.0), (1024, 1000, 30.0), (4096, 300, math.inf))
"""Cells, ranges, and the milliseconds that half of them may take."""


def asks(questions: Floats, variance: float = 1.0) -> Iterator[Ask]:
    for q in questions:
        yield Ask("view", q, variance, Z * math.sqrt(variance))


def course(questions: Floats, base: Metric, cap: float = math.inf, seeds: int = 0) -> Course:
    """On made-up counts, where ``seeds`` draw noise."""
    truth = np.random.default_rng(base.cells).integers(0, 2000, base.cells).astype(float)
    view = View(base, truth if seeds else None)
    return play(asks(questions), {"view": view}, N_MAX, cap=cap, seeds=seeds)


def charges(kinds: tuple[Kind, ...] = KINDS, seeds: int = 20) -> Section:
    rows: list[tuple[Any, ...]] = []
    goals: list[Goal] = []
    bars: list[tuple[str, str, float]] = []
    for kind in kinds:
        found = []
        for draw in range(kind.draws):
            q = kind.make(np.random.default_rng(kind.seed + draw))
            ones = np.ones(len(q))
            c = course(q, kind.base, seeds=seeds if draw == 0 else 0)
            paid = c.charge, rank_one(q, ones).cell, exact_repeats(q, ones).cell, least(q, ones)
            found.append((*paid, c.charge / paid[-1], c.broken, c.milliseconds(0.5)))
        ours, top_ups, repeats, bound, ratio = (
            math.fsum(f[i] for f in found) / len(found) for i in range(5)
        )
        rows.append((kind.what, ours, top_ups, repeats, bound, ratio, *found[0][5:]))
        if kind.charge is not None:
            goals.append(Goal(f"charge: {kind.what}", ours, kind.charge * NEAR))
        if kind.ratio is not None:
            goals.append(Goal(f"over the bound: {kind.what}", ratio, kind.ratio))
        series = (
            ("Defray", ours),
            ("rank-one", top_ups),
            ("exact repeats", repeats),
            ("bound", bound),
        )
        bars += [(kind.what, name, value) for name, value in series]
    columns = (
        "questions",
        "Defray",
        "rank-one",
        "exact repeats",
        "bound",
        "ratio",
        "share broken",
        "ms p50",
    )
    notes = (
        "Charges in units of one question's price, by cell, means over draws; every question is answered.",
        f"Broken: off by more than a half-width of 95 % (promised: at most 5 %), {seeds} seeds of the first "
        f"draw. Neighbouring: {NEIGHBOURS}.",
    )
    title = "Ranges and predicates: charges beside the offline bound"
    measure = "charge of the dearest cell, in questions"
    return Section(
        "predicates", title, columns, tuple(rows), notes, tuple(goals), tuple(bars), measure
    )


def under_caps(caps: tuple[tuple[int, int, float, int], ...] = CAPS) -> Section:
    rows: list[tuple[Any, ...]] = []
    goals, bars = [], []
    for cells, count, cap, goal in caps:
        q = ranges(cells, count, np.random.default_rng(cells * 7 + count))
        c = course(q, LINE[cells], cap)
        repeats = answered_with_repeats(list(q), np.ones(count), ["view"] * count, cap)
        plain = min(count, math.floor(cap))
        what = f"{count:,} ranges, {cells} cells, cap {cap:g}"
        rows.append((what, c.answered, c.charge, repeats, plain, c.milliseconds(0.5)))
        goals.append(Goal(f"answered: {what}", c.answered, goal, at_most=False))
        bars += [(what, "Defray", float(c.answered)), (what, "exact repeats", float(repeats))]
    columns = (
        "questions",
        "Defray",
        "spent",
        "exact repeats by cell",
        "no reuse, one total",
        "ms p50",
    )
    return Section(
        "caps",
        "Ranges under a cap on what any row pays: answered",
        columns,
        tuple(rows),
        ("Caps in units of one question's price.",),
        tuple(goals),
        tuple(bars),
        "questions answered",
    )


def pace(cases: tuple[tuple[int, int, float], ...] = PACE) -> Section:
    rows: list[tuple[Any, ...]] = []
    goals = []
    for cells, count, goal in cases:
        q = ranges(cells, count, np.random.default_rng(cells + count))
        c = course(q, LINE[cells])
        what = f"{count:,} ranges, {cells:,} cells"
        quantiles = (c.milliseconds(0.5), c.mean_milliseconds, c.milliseconds(0.99))
        rows.append((what, *quantiles, c.charge, c.free))
        if goal < math.inf:
            goals.append(Goal(f"ms a question, p50, {what}", c.milliseconds(0.5), goal))
    columns = ("questions", "ms p50", "ms mean", "ms p99", "charge", "free")
    note = "Deciding what to measure, folding it in, answering; the scan of the data is not in it."
    return Section("pace", "Milliseconds a question", columns, tuple(rows), (note,), tuple(goals))


def checked(cells: int = 12, count: int = 30) -> Section:
    """The proved bound beside a general cone solver, where that is quick enough."""
    rows: list[tuple[Any, ...]] = []
    goals = []
    for what, make in (("ranges", ranges), ("prefixes", prefixes)):
        q = np.unique(make(cells, count, np.random.default_rng(3)), axis=0)
        bound, optimum = least(q, np.ones(len(q))), by_cone(q)
        rows.append((f"{len(q)} {what}, {cells} cells", bound, optimum, bound / optimum))
        goals.append(Goal(f"bound / optimum: {what}", bound / optimum, 0.99, at_most=False))
    columns = ("questions", "bound", "optimum (cvxpy, Clarabel)", "bound / optimum")
    title = "The offline bound beside a general solver"
    return Section("bound", title, columns, tuple(rows), (), tuple(goals))


def sections(seeds: int, everything: bool) -> list[Section]:
    cases = (*PACE, (4096, 1000, math.inf)) if everything else PACE
    return [charges(seeds=seeds), under_caps(), pace(cases), checked()]
