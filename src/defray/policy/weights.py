"""The Query Influence Factor: how difficult a question is, from a charged diagnostic.

``QIF = (v + beta b) / g(m_LB)`` rises with the variability v and the instability b and falls with the lower
bound of the magnitude (paper, section 5).  ``w = clip(QIF / running median, 1/16, 16)^alpha``: free of
scale, bounded, and 1 for a typical question.  It says how hard a question is, not how important.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from defray.policy.demand import Pace

GROWTH: Final[Mapping[str, Callable[[float], float]]] = {
    "identity": lambda m: m,
    "sqrt": math.sqrt,
    "log": lambda m: 1 + math.log1p(m),
}
"""What g may be: increasing and positive for m > 0."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What is known of a question's magnitude, in units of its sensitivity (for a count: rows).

    ``value`` is the fused answer and ``sd`` its standard deviation; ``moved`` is how far the diagnostic lay
    from what was known before, ``moved_sd`` the standard deviation of that difference (None: nothing was).
    """

    value: float
    sd: float
    moved: float | None = None
    moved_sd: float = 0.0


@dataclass(frozen=True, slots=True)
class Weights:
    """``alpha`` >= 0 sharpens (0: every weight is 1, diagnostics are still bought and credited), ``beta``
    >= 0 weighs instability, ``growth`` names g, ``floor`` > 0 is the least magnitude that is believed."""

    alpha: float = 1.0
    beta: float = 1.0
    growth: str = "identity"
    floor: float = 1.0
    z: float = 1.645
    clip: float = 16.0

    @property
    def least(self) -> float:
        """The smallest weight there is."""
        return float(self.clip**-self.alpha)

    @property
    def most(self) -> float:
        """The largest weight there is."""
        return float(self.clip**self.alpha)

    def influence(self, found: Diagnosis) -> float:
        """The QIF of a diagnosed question."""
        lower = max(self.floor, found.value - self.z * found.sd)
        variability = math.sqrt(max(found.value, 1.0))
        if found.moved is None:
            instability = found.sd
        else:
            instability = max(0.0, abs(found.moved) - 1.959964 * found.moved_sd)
        return (variability + self.beta * instability) / GROWTH[self.growth](lower)

    def weight(self, influence: float, pace: Pace) -> float:
        """Its weight among those seen, itself included."""
        relative = influence / pace.typical_influence(influence)
        return float(min(max(relative, 1 / self.clip), self.clip) ** self.alpha)
