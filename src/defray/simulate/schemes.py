"""The schemes that are compared: a policy, and what stands around it.

The residual schemes credit what is held and differ in their gate.  The comparators (paper, section 6.1) price
every ask from scratch: SA is state-agnostic, AC knows its price but denies by the worst case (as APEx does),
BP also parts the purse among the analysts (as Pujol et al. do).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from defray.errors import BadInput
from defray.policy.choices import GATES, NEED_HORIZON
from defray.policy.gates import Policy, Refuse
from defray.policy.research import AllOrNothingFluid, Hedge, Proportional, Zcl
from defray.policy.weights import Weights
from defray.simulate.workload import Workload

if TYPE_CHECKING:
    import numpy as np

    from defray.simulate.run import Budget

Make = Callable[["Budget", Workload, "np.random.Generator"], Policy]  # noqa: TID251


@dataclass(frozen=True, slots=True)
class Scheme:
    """``policy`` makes the policy of one run, with chance where it needs some.  ``credits``: support of
    earlier answers counts.  ``weights``: how diagnostics become difficulty weights (None: every weight is 1).
    ``diagnoses``: buys a diagnostic of each question from the purse ``xi``, and credits it.  ``analysts``:
    each analyst has an equal part of the purse.  ``worst_case``: denied unless even the ceiling fits."""

    name: str
    policy: Make
    credits: bool = True
    weights: Weights | None = None
    diagnoses: bool = False
    analysts: bool = False
    worst_case: bool = False


def horizon_of(budget: Budget, name: str) -> int:
    """The declared number of arrivals."""
    if budget.horizon is None:
        raise BadInput(
            f"scheme {name} needs a horizon", hint="say how many asks are expected: horizon = 500"
        )
    return budget.horizon


def _gate(name: str) -> Make:
    def make(budget: Budget, workload: Workload, chance: object) -> Policy:
        return GATES[name](horizon_of(budget, name) if name in NEED_HORIZON else budget.horizon)

    return make


def _zcl(budget: Budget, workload: Workload, chance: object) -> Policy:
    """Its range of demands is a public prior: here the workload's own."""
    return Zcl(float(workload.demands.min()), float(workload.demands.max()))


def _hedge(budget: Budget, workload: Workload, chance: np.random.Generator) -> Policy:  # noqa: TID251
    """One contested ask, and n others that would share the purse."""
    return Hedge(max(1, horizon_of(budget, "hedge") - 1), float(chance.random()))


def _refuse(budget: Budget, workload: Workload, chance: object) -> Policy:
    return Refuse()


_RESIDUAL: Final = [Scheme(name, _gate(name)) for name in GATES]

_ALL: Final = [
    *_RESIDUAL,
    # The same gates with diagnostics: with difficulty weights, and with every weight 1 (what weighting adds).
    *(replace(s, name=f"qif_{s.name}", weights=Weights(), diagnoses=True) for s in _RESIDUAL),
    *(replace(s, name=f"w1f_{s.name}", diagnoses=True) for s in _RESIDUAL),
    Scheme("proportional", lambda b, w, _: Proportional(horizon_of(b, "proportional"))),
    Scheme("zcl", _zcl),
    Scheme("aon_fluid", lambda b, w, _: AllOrNothingFluid(horizon_of(b, "aon_fluid"))),
    Scheme("hedge", _hedge),
    Scheme("reuse-only", _gate("paper")),
    Scheme("SA", _refuse, credits=False),
    Scheme("AC", _refuse, credits=False, worst_case=True),
    Scheme("BP", _refuse, credits=False, analysts=True),
]

SCHEMES: Final[Mapping[str, Scheme]] = {scheme.name: scheme for scheme in _ALL}
"""By name.  With diagnostics (``qif_``, ``w1f_``) a budget needs a share ``xi`` above 0 to buy any."""
