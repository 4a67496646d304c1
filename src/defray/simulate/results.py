"""What a comparison found, as rows for tables and plots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from defray.errors import BadInput
from defray.simulate.measures import Measures, Offline
from defray.simulate.run import Budget, Run, run
from defray.simulate.schemes import Scheme
from defray.simulate.workload import Workload

PLACES: Final = 400
"""At how many arrivals a series is told."""

ASKS: Final = 2000
"""How many single asks are told, over all schemes."""

Row = dict[str, Any]

Runner = Callable[[Workload, Scheme, Budget, int], Run]
"""Runs a workload through a scheme with a budget and a seed."""


@dataclass(frozen=True, slots=True)
class Results:
    """Rows of plain numbers; t counts arrivals from 1.

    ``totals``: one row per (scheme, seed): scheme, seed, spent, diagnostic, satisfied, asked, nsat_ratio,
    jw_ratio, j1_ratio, cost_ratio, relerr (see :class:`~defray.simulate.measures.Measures`; a ratio is None
    where there is nothing to compare with).
    ``series``: per scheme at up to 400 places: scheme, t, spent, spent_low, spent_high, satisfied,
    satisfied_low, satisfied_high (the mean, and 10-90 % over seeds).
    ``asks``: up to 2000 rows of the first seed, spread evenly: scheme, t, demand, weight, granted, support,
    shortfall, met.
    ``notes`` are what a reader must be told beside the numbers.
    """

    workload: str
    rho: float
    xi: float
    horizon: int | None
    seeds: int
    totals: list[Row] = field(default_factory=list)
    series: list[Row] = field(default_factory=list)
    asks: list[Row] = field(default_factory=list)
    notes: tuple[str, ...] = ()


def simulate(
    workload_of: Callable[[int], Workload],
    schemes: Sequence[Scheme],
    budget: Budget,
    seeds: int,
    progress: Callable[[int, int], None] | None = None,
    runner: Runner = run,
) -> Results:
    """Every scheme on the workload of every seed from 0; all schemes meet the same workloads and (but for a
    ``runner`` of real answers) the same noise."""
    names = [scheme.name for scheme in schemes]
    if seeds < 1 or not names or len(set(names)) < len(names):
        raise BadInput("a simulation needs a seed, and schemes of different names")
    totals: list[Row] = []
    asks: list[Row] = []
    curves: dict[str, list[NDArray[np.float64]]] = {name: [] for name in names}
    places = np.zeros(0, np.intp)
    workload: Workload | None = None
    for seed in range(seeds):
        before, workload = workload, workload_of(seed)
        if not len(workload) or (before is not None and len(before) != len(workload)):
            raise BadInput("the workloads of all seeds must be equally long, with one ask or more")
        if workload is not before:
            offline = Offline.of(workload, budget.rho)
        places = spread(len(workload), PLACES)
        for number, scheme in enumerate(schemes):
            found = runner(workload, scheme, budget, seed)
            measures = Measures.of(workload, found, offline)
            totals.append({"scheme": scheme.name, "seed": seed, **asdict(measures)})
            curves[scheme.name].append(_curve(found, places))
            if not seed:
                asks += _asks(found, spread(len(workload), ASKS // len(schemes)))
            if progress is not None:
                progress(seed * len(schemes) + number + 1, seeds * len(schemes))
    series = [row for name in names for row in _series(name, places, np.array(curves[name]))]
    name = workload.name if workload is not None else ""
    return Results(name, budget.rho, budget.xi, budget.horizon, seeds, totals, series, asks)


def spread(length: int, most: int) -> NDArray[np.intp]:
    """Up to ``most`` places of so many, evenly spread, the first and the last among them.

    >>> spread(7, 3).tolist(), spread(2, 400).tolist()
    ([0, 3, 6], [0, 1])
    """
    return np.unique(np.linspace(0, length - 1, min(length, max(1, most))).round().astype(np.intp))


def _curve(found: Run, places: NDArray[np.intp]) -> NDArray[np.float64]:
    """Spent and satisfied so far, at each place."""
    spent = np.cumsum(found.granted + found.diagnostic)
    return np.stack([spent[places], np.cumsum(found.met)[places].astype(np.float64)])


def _series(name: str, places: NDArray[np.intp], curves: NDArray[np.float64]) -> list[Row]:
    mean = curves.mean(axis=0)
    low, high = np.quantile(curves, (0.1, 0.9), axis=0)
    return [
        {
            "scheme": name,
            "t": int(place) + 1,
            "spent": float(mean[0, i]),
            "spent_low": float(low[0, i]),
            "spent_high": float(high[0, i]),
            "satisfied": float(mean[1, i]),
            "satisfied_low": float(low[1, i]),
            "satisfied_high": float(high[1, i]),
        }
        for i, place in enumerate(places)
    ]


def _asks(found: Run, places: NDArray[np.intp]) -> list[Row]:
    shortfall, met = found.shortfall, found.met
    return [
        {
            "scheme": found.scheme,
            "t": int(t) + 1,
            "demand": float(found.demands[t]),
            "weight": float(found.weights[t]),
            "granted": float(found.granted[t]),
            "support": float(found.support[t]),
            "shortfall": float(shortfall[t]),
            "met": bool(met[t]),
        }
        for t in places
    ]
