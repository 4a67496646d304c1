"""One workload through one scheme: accounting only, in floats, without data."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from defray.errors import BadInput
from defray.policy.demand import Demand, Pace
from defray.simulate.chance import generator
from defray.simulate.diagnosis import Diagnostics
from defray.simulate.schemes import Scheme
from defray.simulate.workload import Workload


@dataclass(frozen=True, slots=True)
class Budget:
    """``rho`` (zCDP) in all, of which a share ``xi`` is kept for diagnostics.  ``horizon``: how many arrivals
    will need new budget.  ``m_floor``: the least magnitude believed.  ``forecast``: residuals expected (rho),
    a public prior."""

    rho: float
    xi: float = 0.0
    horizon: int | None = None
    m_floor: float = 1.0
    forecast: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not (math.isfinite(self.rho) and self.rho > 0):
            raise BadInput(f"rho must be a finite number above 0, not {self.rho}")
        if not 0 <= self.xi < 1:
            raise BadInput(f"xi must lie in [0, 1), not {self.xi}")
        if self.horizon is not None and self.horizon < 1:
            raise BadInput(f"horizon must be at least 1, not {self.horizon}")
        if not (math.isfinite(self.m_floor) and self.m_floor > 0):
            raise BadInput(f"m_floor must be a finite number above 0, not {self.m_floor}")
        if not all(math.isfinite(a) and a > 0 for a in self.forecast):
            raise BadInput("a forecast holds finite amounts of rho above 0")


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One entry an arrival, in rho: what it was ``granted``, what its ``diagnostic`` cost, the ``support``
    that its question has right after it, and its difficulty ``weights``.  ``spent`` is rho in all.

    Where real answers were given, ``answered`` tells whose target was met by what the answer says, and
    ``errors`` how far it was off, relatively (nan: not measured)."""

    scheme: str
    demands: NDArray[np.float64]
    granted: NDArray[np.float64]
    diagnostic: NDArray[np.float64]
    support: NDArray[np.float64]
    weights: NDArray[np.float64]
    spent: float
    answered: NDArray[np.bool_] | None = None
    errors: NDArray[np.float64] | None = None

    @property
    def met(self) -> NDArray[np.bool_]:
        """Whose target is met."""
        if self.answered is not None:
            return self.answered
        return self.support >= self.demands * (1 - 1e-9)

    @property
    def shortfall(self) -> NDArray[np.float64]:
        """What each target lacks, in rho."""
        return np.maximum(0.0, self.demands - self.support)

    @property
    def prices(self) -> NDArray[np.float64]:
        """``2 w (rho_min - support)``, what one more rho was worth to each: the price mu wherever a grant
        lies between nothing and all there was (paper, section 4)."""
        return 2 * self.weights * self.shortfall


def run(workload: Workload, scheme: Scheme, budget: Budget, seed: int = 0) -> Run:
    """The workload in its order.  Equal seeds give equal runs; schemes differ in decisions only.

    As in the engine, one question at one accuracy arrives once, however often it is asked.  Where earlier
    answers are not credited, the best of them may still be looked at: support is the larger
    of what was held and what was granted.
    """
    policy = scheme.policy(budget, workload, generator(seed, 0))
    distinct, keys = np.unique(workload.keys, return_inverse=True)
    cap, diagnostics, learn = budget.rho, None, None
    if scheme.diagnoses and budget.xi > 0:
        cap = budget.rho * (1 - budget.xi)
        diagnostics = _diagnostics(workload, scheme, budget, len(distinct), seed)
        learn = diagnostics.learn if scheme.weights is not None else None
    crowd, whose = _crowd(workload, scheme)
    cap /= crowd
    purses, paces = [cap] * crowd, [Pace(budget.forecast) for _ in range(crowd)]
    ceilings = None
    if scheme.worst_case and workload.ceilings is not None:
        ceilings = workload.ceilings.tolist()
    grant, after, credits = policy.grant, policy.after, scheme.credits
    remembers = policy.paced or learn is not None

    arrived: set[tuple[int, float]] = set()
    support = [0.0] * len(distinct)
    grants, costs, supports, weights = [], [], [], []
    arrivals = zip(keys.tolist(), workload.demands.tolist(), whose, strict=True)
    for t, (key, wanted, who) in enumerate(arrivals):
        held, cost, weight, granted = support[key], 0.0, 1.0, 0.0
        residual = wanted - held if credits else wanted
        if residual > 0:
            pace, available, influence = paces[who], purses[who], None
            if diagnostics is not None:
                cost, weight, influence = diagnostics.look(t, key, held, residual, pace)
                held += cost
                residual -= cost
            demand = Demand(residual, available, cap, weight)
            if residual > 0 and (ceilings is None or ceilings[t] <= available):
                granted = float(grant(demand, pace))
            if remembers and (key, wanted) not in arrived:
                arrived.add((key, wanted))
                pace.advance(residual, weight, after(demand, granted, pace), influence)
            purses[who] = available - granted
            if learn is not None and granted:
                learn(t, key, held, granted)
            if not credits:
                held = max(held, granted)
            elif granted >= residual:
                held = wanted  # to the last digit, so that a repeat is free
            else:
                held += granted
            support[key] = held
        grants.append(granted)
        costs.append(cost)
        supports.append(held)
        weights.append(weight)

    return Run(
        scheme.name,
        workload.demands,
        np.array(grants),
        np.array(costs),
        np.array(supports),
        np.array(weights),
        math.fsum(grants) + math.fsum(costs),
    )


def _diagnostics(
    workload: Workload, scheme: Scheme, budget: Budget, questions: int, seed: int
) -> Diagnostics:
    weights = scheme.weights
    if weights is not None:
        weights = replace(weights, floor=max(weights.floor, budget.m_floor))
    purse = budget.rho * budget.xi
    return Diagnostics(purse, budget.horizon, weights, workload.truths, questions, seed)


def _crowd(workload: Workload, scheme: Scheme) -> tuple[int, list[int]]:
    """Into how many parts the purse is divided, and whose part each arrival draws on."""
    if not scheme.analysts or not len(workload):
        return 1, [0] * len(workload)
    names, members = np.unique(workload.analysts, return_inverse=True)
    return len(names), members.tolist()
