"""Whether a question that fits should be bought, where the budget cannot serve all: any order of arrivals.

Bought for whoever comes first, the budget goes to the first few precise questions of some rarely asked
columns, and those who come later find nothing left.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field
from typing import Final

from benchmarks.peers.course import Ask

PART: Final = 0.1
"""Of the budget, the most that one question takes."""

PACE: Final = 2.0
"""How many times its even share of the budget a column may spend."""

CLASS: Final = 6.0
"""What all ranges on some 50 bins cost, in units of one of them."""


@dataclass
class Paced:
    """Grants a question all it needs while what then remains of the ``cap`` still pays for every range on
    every one of the ``columns``, at the median target of those asked so far.  Else it takes at most a PART
    of the cap, from what its column has earned: PACE times the cap for the part of the ``horizon`` (the
    questions that are expected) that were questions about it."""

    cap: float
    horizon: int
    columns: int
    part: float = PART
    pace: float = PACE
    _view: str = ""
    _variances: list[float] = field(default_factory=list)
    _arrived: dict[str, int] = field(default_factory=dict)
    _spent: dict[str, float] = field(default_factory=dict)

    def arrives(self, ask: Ask) -> None:
        self._view = ask.view
        self._arrived[ask.view] = self._arrived.get(ask.view, 0) + 1
        insort(self._variances, ask.variance)

    def grants(self, more: float, left: float) -> bool:
        view, median = self._view, self._variances[len(self._variances) // 2]
        spent = self._spent.get(view, 0.0) + more
        earned = self.pace * self.cap * self._arrived[view] / self.horizon
        ample = left - more >= self.columns * CLASS / median
        if not ample and (more > self.part * self.cap or spent > earned):
            return False
        self._spent[view] = spent
        return True
