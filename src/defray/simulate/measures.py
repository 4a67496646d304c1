"""How well a run did, beside what an offline planner could have reached with the same rho."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from defray.simulate.optimum import Bound, feasible_cost, least_shortfall, most_satisfied
from defray.simulate.run import Run
from defray.simulate.workload import Workload

Floats = NDArray[np.float64]


def difficulties(workload: Workload) -> Floats:
    """The true difficulty of each ask, known to nobody: ``sqrt(m)/m``, 1 for the median ask."""
    weights = 1 / np.sqrt(np.maximum(workload.truths, 1.0))
    return np.asarray(weights / np.median(weights)) if len(weights) else weights


@dataclass(frozen=True, slots=True, eq=False)
class Offline:
    """The optima of a workload at a budget of rho: the least ``cost`` of meeting every target, the most that
    can be ``satisfied``, and the least sums of squared shortfall, ``jw`` weighted by the true difficulties
    and ``j1`` with every weight 1."""

    difficulty: Floats
    cost: float
    satisfied: Bound
    jw: float
    j1: float

    @classmethod
    def of(cls, workload: Workload, rho: float) -> Self:
        weights = difficulties(workload)
        ones = np.ones(len(workload))
        return cls(
            weights,
            feasible_cost(workload),
            most_satisfied(workload, rho),
            least_shortfall(workload.demands, weights, rho, workload.keys)[0],
            least_shortfall(workload.demands, ones, rho, workload.keys)[0],
        )


@dataclass(frozen=True, slots=True)
class Measures:
    """``nsat_ratio`` is to the upper bound of what can be satisfied, so never too good (except on a table,
    where different questions may rest on the same functional: the optima take them apart).  ``jw_ratio`` and
    ``j1_ratio`` (>= 1) are None where the optimum has no shortfall to compare with.  ``cost_ratio``: rho
    spent over the least that meets every target.  ``relerr``: the mean of min(1, sd/truth), 1 for no answer;
    of real answers, their own relative errors (None: none was measured).
    """

    spent: float
    diagnostic: float
    satisfied: int
    asked: int
    nsat_ratio: float | None
    jw_ratio: float | None
    j1_ratio: float | None
    cost_ratio: float | None
    relerr: float | None

    @classmethod
    def of(cls, workload: Workload, run: Run, offline: Offline) -> Self:
        squares = run.shortfall**2
        satisfied = int(run.met.sum())
        return cls(
            spent=run.spent,
            diagnostic=float(run.diagnostic.sum()),
            satisfied=satisfied,
            asked=len(workload),
            nsat_ratio=_ratio(satisfied, offline.satisfied.upper),
            jw_ratio=_ratio(float((offline.difficulty * squares).sum()), offline.jw),
            j1_ratio=_ratio(float(squares.sum()), offline.j1),
            cost_ratio=_ratio(run.spent, offline.cost),
            relerr=_error(workload, run),
        )


def _error(workload: Workload, run: Run) -> float | None:
    if run.errors is None:
        return relative_error(workload.truths, run.support)
    measured = run.errors[~np.isnan(run.errors)]
    return float(measured.mean()) if len(measured) else None


def relative_error(truths: Floats, support: Floats) -> float:
    """The mean of ``min(1, sd/m)`` with ``sd = 1/sqrt(2 support)`` and magnitudes m of at least 1."""
    if not len(truths):
        return 0.0
    with np.errstate(divide="ignore"):
        deviation = 1 / np.sqrt(2 * support)
    return float(np.minimum(1.0, deviation / np.maximum(truths, 1.0)).mean())


def _ratio(value: float, best: float) -> float | None:
    return value / best if best > 0 else None
