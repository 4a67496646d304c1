"""The policies a contract can name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from defray.policy.gates import Dual, Fluid, Greedy, Paper, Policy, Refuse, Satisfy
from defray.policy.steady import Generous, Modest, Steady

GATES: Final[Mapping[str, Callable[[int | None], Policy]]] = {
    "refuse": lambda horizon: Refuse(),
    "greedy": lambda horizon: Greedy(),
    "paper": Paper,
    "fluid": lambda horizon: Fluid(_declared(horizon)),
    "dual": lambda horizon: Dual(_declared(horizon)),
    "steady": lambda horizon: Steady(_declared(horizon)),
    "satisfy": lambda horizon: Satisfy(_declared(horizon)),
    "modest": lambda horizon: Modest(_declared(horizon)),
    "generous": lambda horizon: Generous(_declared(horizon)),
}
"""What a contract may name as its ``gate``, made from its horizon."""

NEED_HORIZON: Final = frozenset(GATES) - {"refuse", "greedy", "paper"}
"""The gates that mean nothing without a declared horizon."""


def weighs(gate: str) -> bool:
    """Whether difficult questions are granted more."""
    return GATES[gate](1).weighted


def _declared(horizon: int | None) -> int:
    if horizon is None:
        raise ValueError("this gate needs a horizon")
    return horizon
