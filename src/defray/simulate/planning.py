"""How much budget a workload needs, and what happens with more or less of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from defray.core.zcdp import epsilon_for
from defray.errors import BadInput
from defray.policy.gates import Greedy, Paper, Refuse
from defray.simulate.chance import generator
from defray.simulate.optimum import feasible_cost
from defray.simulate.run import Budget, run
from defray.simulate.schemes import SCHEMES, Scheme
from defray.simulate.workload import Workload

PRECISION: Final = 1e-4
"""How closely (relative) a budget is found where no formula gives it."""

DOUBLINGS: Final = 40

FACTORS: Final = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0)
TOLERANCES: Final = (0.5, 0.75, 1.0, 1.5, 2.0)
LONGER: Final = 0.1


@dataclass(frozen=True, slots=True)
class Requirement:
    """``rho`` (diagnostics included) lets ``scheme`` meet the targets of at least ``share`` of the arrivals;
    ``reached`` is what it met.  ``exact``: from Theorem 7, not by bisection."""

    scheme: str
    share: float
    rho: float
    xi: float
    reached: float
    exact: bool

    def epsilon(self, delta: float) -> float:
        """The same budget as (epsilon, delta)."""
        return epsilon_for(self.rho, delta)


@dataclass(frozen=True, slots=True)
class BudgetRow:
    """With ``factor`` times the planned rho: the share of arrivals ``satisfied``, and ``shortfall``, the mean
    over arrivals of the missing part of a demand."""

    scheme: str
    factor: float
    rho: float
    satisfied: float
    shortfall: float


@dataclass(frozen=True, slots=True)
class NeedRow:
    """The rho that is needed where all tolerances are ``tolerance`` times as wide and the workload is
    longer by a part ``longer``; ``change`` is that rho over the rho of the workload as it is."""

    scheme: str
    tolerance: float
    longer: float
    rho: float
    change: float


@dataclass(frozen=True, slots=True)
class Sensitivity:
    budgets: tuple[BudgetRow, ...]
    needs: tuple[NeedRow, ...]


def required(
    workload: Workload,
    scheme_name: str,
    *,
    share: float = 1.0,
    seeds: int = 20,
    xi: float = 0.0,
    horizon: int | None = None,
) -> Requirement:
    """The least rho at which the scheme meets the targets of ``share`` of the arrivals, on average over
    ``seeds`` where it draws.  ``horizon``: as declared; else the number of arrivals.

    For every target, and gates that grant what fits, it is the sum over questions of the largest rho_min,
    over ``1 - xi`` where diagnostics are bought (a little more than needed, since they are credited).
    Otherwise by bisection, to :data:`PRECISION`: where more rho can mean fewer met targets, one crossing.
    """
    scheme = _scheme(scheme_name)
    if not 0 < share <= 1 or not len(workload):
        raise BadInput("a plan needs an ask or more, and a share above 0 and up to 1")
    budget = Budget(1.0, xi if scheme.diagnoses else 0.0, horizon or len(workload))
    enough = feasible_cost(workload) / (1 - budget.xi)
    if share == 1 and _grants_what_fits(scheme, workload, budget):
        # A hair above, so that no rounding of the sum leaves the last target unmet.
        rho = enough * (1 + 1e-12)
        reached = _satisfied(workload, scheme, replace(budget, rho=rho), 1)
        return Requirement(scheme_name, share, rho, budget.xi, reached, not budget.xi)

    def reach(rho: float) -> float:
        return _satisfied(workload, scheme, replace(budget, rho=rho), seeds)

    low, high = float(workload.demands.min()) / 2, enough
    for _ in range(DOUBLINGS):
        reached = reach(high)
        if reached >= share - 1e-12:
            break
        low, high = high, 2 * high
    else:
        raise BadInput(
            f"{scheme_name} meets no {share:.0%} of the targets with any budget",
            hint="plan for a smaller share",
        )
    while high / low > 1 + PRECISION:
        middle = math.sqrt(low * high)
        found = reach(middle)
        if found >= share - 1e-12:
            high, reached = middle, found
        else:
            low = middle
    return Requirement(scheme_name, share, high, budget.xi, reached, False)


def sensitivity(
    workload: Workload,
    scheme_names: Sequence[str],
    rho: float,
    *,
    share: float = 1.0,
    seeds: int = 20,
    xi: float = 0.0,
    horizon: int | None = None,
) -> Sensitivity:
    """What more or less rho would do, and how the rho that is needed moves with tolerances and length."""
    budgets: list[BudgetRow] = []
    needs: list[NeedRow] = []
    for name in scheme_names:
        scheme = _scheme(name)
        budget = Budget(rho, xi if scheme.diagnoses else 0.0, horizon or len(workload))
        for factor in FACTORS:
            part = replace(budget, rho=rho * factor)
            satisfied, shortfall = _outcome(workload, scheme, part, seeds)
            budgets.append(BudgetRow(name, factor, rho * factor, satisfied, shortfall))
        base = required(workload, name, share=share, seeds=seeds, xi=xi, horizon=horizon).rho
        for tolerance, longer, changed in _changes(workload):
            if scheme.weights is None and not longer:
                need = base / tolerance**2  # all but the weights is free of scale
            else:
                grown = horizon and round(horizon * (1 + longer))
                need = required(changed, name, share=share, seeds=seeds, xi=xi, horizon=grown).rho
            needs.append(NeedRow(name, tolerance, longer, need, need / base))
    return Sensitivity(tuple(budgets), tuple(needs))


def tolerant(workload: Workload, factor: float) -> Workload:
    """The same asks with ``factor`` times the tolerance: rho_min falls with its square."""
    ceilings = workload.ceilings
    return replace(
        workload,
        demands=workload.demands / factor**2,
        ceilings=None if ceilings is None else ceilings / factor**2,
    )


def longer_by(workload: Workload, part: float) -> Workload:
    """Followed by a part of its asks once more, spread evenly over it and about new questions, repeated among
    each other as before."""
    extra = max(1, round(len(workload) * part))
    again = np.linspace(0, len(workload) - 1, extra).round().astype(np.intp)
    ceilings = workload.ceilings
    return Workload(
        workload.name,
        np.concatenate((workload.keys, workload.keys[again] + workload.keys.max() + 1)),
        np.concatenate((workload.demands, workload.demands[again])),
        np.concatenate((workload.truths, workload.truths[again])),
        np.concatenate((workload.analysts, workload.analysts[again])),
        ceilings=None if ceilings is None else np.concatenate((ceilings, ceilings[again])),
    )


def _changes(workload: Workload) -> Iterator[tuple[float, float, Workload]]:
    for tolerance in TOLERANCES:
        yield tolerance, 0.0, tolerant(workload, tolerance)
    yield 1.0, LONGER, longer_by(workload, LONGER)


def _scheme(name: str) -> Scheme:
    if name not in SCHEMES:
        raise BadInput(f"there is no scheme {name!r}", hint="one of " + ", ".join(SCHEMES))
    return SCHEMES[name]


def _grants_what_fits(scheme: Scheme, workload: Workload, budget: Budget) -> bool:
    policy = scheme.policy(budget, workload, generator(0))
    return scheme.credits and isinstance(policy, Refuse | Greedy | Paper)


def _draws(scheme: Scheme, workload: Workload, budget: Budget) -> bool:
    """Whether its decisions depend on chance: by weights, or by the policy itself."""
    one, other = (scheme.policy(budget, workload, generator(seed, 0)) for seed in (0, 1))
    return (scheme.diagnoses and scheme.weights is not None) or one != other


def _outcome(workload: Workload, scheme: Scheme, budget: Budget, seeds: int) -> tuple[float, float]:
    """The share of arrivals satisfied and the mean missing part, over the seeds."""
    runs = range(max(1, seeds) if _draws(scheme, workload, budget) else 1)
    found = [run(workload, scheme, budget, seed) for seed in runs]
    return (
        float(np.mean([one.met.mean() for one in found])),
        float(np.mean([(one.shortfall / one.demands).mean() for one in found])),
    )


def _satisfied(workload: Workload, scheme: Scheme, budget: Budget, seeds: int) -> float:
    return _outcome(workload, scheme, budget, seeds)[0]
