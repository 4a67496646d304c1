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
"""The most that one question takes: of what is left, or of the cap."""

PACE: Final = 2.2
"""How many times its even share of the budget a column may spend."""

CLASS: Final = 6.0
"""What all ranges on some 50 bins cost, in units of one of them."""

PLENTY: Final = 5.0
SCARCE: Final = 0.3
"""Where so many reserves remain, there is no need to look at the price; where no more than so many remain, a
column must have earned what it takes."""


@dataclass
class Paced:
    """Looks at what would then remain of the ``cap``, in reserves: a reserve pays for every range on every
    one of the ``columns``, at the median target of those asked so far.

    With PLENTY of them left a question is granted all it needs; else at most a PART of what is left, unless
    nothing cheaper is asked.  Where it is SCARCE its column must have earned it: PACE times the cap, for the
    part of the ``horizon`` (the questions that are expected) that were questions about this column; then a
    PART of the cap is granted.
    """

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
        reserves = (left - more) / (self.columns * CLASS / median)
        spent = self._spent.get(view, 0.0) + more
        earned = self.pace * self.cap * self._arrived[view] / self.horizon
        scarce = reserves < SCARCE
        dear = reserves < PLENTY and more > self.part * (self.cap if scarce else left)
        if (dear and not self._only_dear(more, left)) or (scarce and spent > earned):
            return False
        self._spent[view] = spent
        return True

    def _only_dear(self, more: float, left: float) -> bool:
        """Whether even the loosest questions are dear: then half of the cap is for them, after half of the
        horizon all of it."""
        arrived = len(self._variances)
        loosest = self._variances[arrived * 9 // 10]
        unlocked = self.cap / (2 if 2 * arrived <= self.horizon else 1)
        return 1 / loosest > self.part * self.cap and self.cap - left + more <= unlocked
