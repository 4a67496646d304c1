"""What a rule is: how one aggregate is estimated from what is known, and what it needs to be known well.

Every rule here reads the transcript and public numbers only.  Quantities are in *whole units* of the
measured column (``Block.unit``) until :meth:`Rule.estimate` returns.  ``want`` answers one question: which
precision of which block, in total, does this cell need?
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from defray.controller.ask import Ask, Funds, Held
from defray.core.amounts import dyadic_up
from defray.core.contract import Purse
from defray.support.exact import Block

Wants = dict[int, Fraction]
"""Block number -> total precision wanted for one cell."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate with its interval, in the aggregate's own units.  ``value`` is None where nothing can
    be said beyond the declared bounds."""

    value: float | None
    low: float
    high: float
    half: float | None = None

    @property
    def half_width(self) -> float:
        if self.half is not None:  # as promised: not what rounding makes of the ends
            return self.half
        if self.value is None:
            return (self.high - self.low) / 2
        return max(self.high - self.value, self.value - self.low)


@dataclass(frozen=True, slots=True)
class Need:
    """What one cell of one aggregate needs next.

    ``final`` needs meet the target; otherwise they buy a diagnostic (``purse``) and the rule is asked
    again. ``hopeless`` cells can never be met and buy nothing.  Where more follows, ``least`` and ``most``
    bound the totals it can come to (``most`` None: whatever may be spent)."""

    wants: Wants
    final: bool = True
    purse: Purse = "answer"
    hopeless: bool = False
    least: Wants = field(default_factory=dict)
    most: Wants | None = None


STAGE_BITS, FINAL_BITS = 4, 7
"""How finely the data-dependent needs of many cells are told apart: to an eighth, to a 64th."""

NOTHING = Need({})
HOPELESS = Need({}, hopeless=True)


class Rule:
    """One aggregate of an ask: the blocks it rests on and its two questions, want and estimate."""

    def __init__(self, ask: Ask, index: int) -> None:
        self.ask = ask
        self.goal = ask.goals[index]
        self.gamma = ask.gamma
        self.parts: Mapping[str, int] = ask.compiled.parts[index]
        self.blocks: tuple[Block, ...] = ask.compiled.blocks
        self._all = tuple(dict.fromkeys(self.parts.values()))
        self._needs: dict[tuple[Fraction, ...], Need] = {}

    def block(self, role: str) -> Block:
        return self.blocks[self.parts[role]]

    def shared(self, precision: Fraction, bits: int) -> Fraction:
        """Of many cells, each with a need of its own, the needs rounded up to few different ones: noise of
        one scale is drawn at once."""
        return dyadic_up(precision, bits) if len(self.ask.compiled.cells) > 1 else precision

    def behind(self, cell: int, held: Held) -> Sequence[int]:
        """The blocks that this cell's estimate rests on."""
        return self._all

    def want(self, cell: int, held: Held, funds: Funds) -> Need:
        raise NotImplementedError

    def estimate(self, cell: int, held: Held) -> Estimate:
        raise NotImplementedError

    def floored(self, cell: int, held: Held, funds: Funds) -> bool:
        """Whether a relative target was scaled by the floor, the truth being perhaps smaller."""
        raise NotImplementedError
