"""When diagnostics are worth their purse (paper, E.4), and what they cost once they are credited."""

from __future__ import annotations

import math

import numpy as np

from defray.simulate.optimum import feasible_cost
from defray.simulate.run import Budget, run
from defray.simulate.schemes import SCHEMES
from defray.simulate.theorems.row import Row
from defray.simulate.theorems.separations import ROUNDING, Schemes, ample, drawn, history


def amortisation(sequences: int, seed: int = 0, schemes: Schemes = SCHEMES) -> Row:
    """Residual pricing with a whole diagnostic purse, credited to nothing, against SA: the sign of the
    difference is that of ``sigma_ov - xi rho_tot / sum rho_SA``.  Half of the purses lie within 1 % of it."""
    wrong, pays, closest = 0, 0, math.inf
    for i, (asked, chance) in enumerate(drawn(sequences, seed, 26)):
        scratch = ample(asked, schemes["SA"]).spent
        total = scratch * float(chance.uniform(2, 4))
        overlap = float(np.minimum(history(asked), asked.demands).sum() / asked.demands.sum())
        edge = overlap * scratch / total
        xi = float(chance.uniform(0, 0.5)) if i % 2 else edge * float(chance.uniform(0.99, 1.01))
        credited = run(asked, schemes["refuse"], Budget(total * (1 - xi))).spent
        margin = overlap - xi * total / scratch
        if abs(margin) > ROUNDING:
            wrong += (credited + xi * total < scratch) != (margin > 0)
            pays += margin > 0
            closest = min(closest, abs(margin))
    return Row(
        "diagnostics pay exactly where sigma_ov > xi rho_tot / sum rho_SA",
        "E.4",
        "0 misclassified",
        f"{wrong} of {sequences}; {pays} pay; closest margin {closest:.1e}",
        wrong == 0 and 0 < pays < sequences,
    )


def credited_diagnostics(sequences: int, seed: int = 0, schemes: Schemes = SCHEMES) -> Row:
    """A diagnostic that is credited, and bought only where more than it is missing, adds nothing."""
    apart, bought = 0.0, 0
    for asked, chance in drawn(sequences, seed, 27):
        xi, optimum = float(chance.uniform(0.01, 0.4)), feasible_cost(asked)
        total = optimum * float(chance.uniform(1.01, 3)) / (1 - xi)
        made = run(asked, schemes["qif_refuse"], Budget(total, xi, len(asked)), seed)
        bought += int((made.diagnostic > 0).sum())
        apart = max(apart, abs(made.spent / optimum - 1))
    return Row(
        "credited diagnostics: their overhead is 0 in the feasible regime",
        "Theorem 7, Proposition 4",
        "|spent / C(OPT) - 1| <= 1e-12",
        f"max {apart:.1e}, {bought} diagnostics",
        apart <= ROUNDING and bought > 0,
    )
