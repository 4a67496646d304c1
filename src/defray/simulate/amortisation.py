"""From which share of repeats on do diagnostics pay for their purse?  (Paper, E.4.)"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from defray.simulate.generate import repeats
from defray.simulate.optimum import feasible_cost
from defray.simulate.run import Budget, run
from defray.simulate.schemes import SCHEMES

RATES: Final = tuple(round(0.05 * k, 2) for k in range(20))
SEEDS: Final = 10
MOST: Final = 2000
"""The most asks a curve is drawn with; more change nothing that can be seen."""


def amortisation_curve(asks: int, budget: Budget, seeds: int = SEEDS) -> list[dict[str, Any]]:
    """Rows of ``repeat_rate``, ``saving`` (sigma_ov: the share of the spending without credit that credit
    saves; mean, and 10-90 % as ``saving_low`` and ``saving_high``) and ``break_even``, the share of the same
    spending that the diagnostic purse ``xi rho`` is.

    ``asks`` of different half-widths, of which a part repeats an earlier one exactly; every target is met.
    """
    count = max(2, min(asks, MOST))
    rows = []
    for rate in RATES:
        savings, edges = [], []
        for seed in range(seeds):
            workload = repeats(count, seed, rate)
            ample = replace(budget, rho=2 * float(workload.demands.sum()), xi=0.0, forecast=())
            scratch = run(workload, SCHEMES["SA"], ample).spent
            savings.append(1 - feasible_cost(workload) / scratch)
            edges.append(budget.xi * budget.rho / scratch * (count / max(asks, 1)))
        low, high = np.quantile(savings, (0.1, 0.9))
        rows.append(
            {
                "repeat_rate": rate,
                "saving": float(np.mean(savings)),
                "saving_low": float(low),
                "saving_high": float(high),
                "break_even": float(np.mean(edges)),
            }
        )
    return rows
