"""What is asked, what is held and what may be spent: the inputs of every decision, all public."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from defray.core.contract import PURSES, Purse
from defray.core.numbers import show_number
from defray.core.target import Goal, Relative, Spend, Within
from defray.core.validity import DEFAULT, Validity
from defray.query.reader import identifier
from defray.support.exact import Compiled
from defray.support.known import Known

if TYPE_CHECKING:
    from defray.support.overlap import Overlap

Planned = Mapping[bytes, Sequence[tuple[Fraction, str]]]
"""By functional, the precisions that would be released, each with the name of its ask."""


@dataclass(frozen=True)
class Ask:
    """A compiled question with one goal per aggregate; ``text`` is its canonical SQL.

    ``gamma`` is the miss probability allowed to each interval: 1 - confidence, divided by the number of
    intervals where they are to hold together (``simultaneous``; union bound), and by the looks that were
    declared.  ``floor`` is what relative targets are scaled by at the least (m_floor of the contract).
    ``tag`` names a confirmation.  ``weighed``: how much is granted may depend on what a diagnostic, or an
    earlier answer, said.  ``among``: the marginals that are wanted with it, by measure.
    """

    compiled: Compiled
    goals: tuple[Goal, ...]
    confidence: Fraction
    simultaneous: bool = False
    text: str = ""
    floor: Fraction | None = None
    validity: Validity = DEFAULT
    tag: str = ""
    weighed: bool = False
    among: Mapping[str, Sequence[tuple[tuple[int, ...], float]]] = field(
        default_factory=dict, compare=False
    )

    @cached_property
    def gamma(self) -> float:
        return float(self.miss)

    @property
    def accuracy(self) -> str:
        """The accuracy clause of this ask, as SQL."""
        aliases = [a.alias for a in self.compiled.question.aggregates]
        goals = [str(g) for g in self.goals]
        shown = (
            goals[0]
            if len(goals) == 1
            else ", ".join(f"{g} FOR {identifier(a)}" for g, a in zip(goals, aliases, strict=True))
        )
        sure = f"AT CONFIDENCE {show_number(self.confidence * 100)}%"
        valid = "" if self.validity == DEFAULT else f" VALIDITY {self.validity.sql}"
        joint = " SIMULTANEOUS" if self.simultaneous else ""
        if isinstance(self.goals[0], Spend):
            return f"{sure}{joint}{valid} /* {shown} */"
        return f"ERROR WITHIN {shown} {sure}{joint}{valid}"

    def scaled(self, factor: Fraction) -> Ask:
        """The same question with every tolerance multiplied by ``factor``."""
        return replace(self, goals=tuple(g.scaled(factor) for g in self.goals))

    @cached_property
    def depends_on_data(self) -> bool:
        """Whether the price may depend on earlier noisy values (averages, percentages)."""
        averages = any(a.function == "AVG" for a in self.compiled.question.aggregates)
        return averages or any(isinstance(g, Relative) for g in self.goals)

    @cached_property
    def miss(self) -> Fraction:
        """:attr:`gamma`, exactly."""
        return (1 - self.confidence) / self.shares

    @property
    def shares(self) -> int:
        """How many intervals share the miss probability: cells, aggregates and looks."""
        intervals = len(self.compiled.cells) * len(self.goals) if self.simultaneous else 1
        return intervals * self.validity.looks

    def mark(self, aggregate: int, cell: int) -> bytes:
        """The key under which met targets of this aggregate's cell are remembered: what relative ones were
        scaled by at the least belongs to what was promised."""
        function: str = self.compiled.question.aggregates[aggregate].function
        if function == "AVG" and isinstance(self.goals[aggregate], Within):
            function = "AVG within"
        parts = self.compiled.parts[aggregate]
        keys = b"".join(self.compiled.blocks[parts[role]].keys[cell] for role in sorted(parts))
        return hashlib.sha256(f"{function} {self.floor} ".encode() + keys).digest()[:16]

    @cached_property
    def marks(self) -> tuple[bytes, ...]:
        """The marks of every cell whose target is remembered once it was met."""
        return tuple(
            self.mark(j, i)
            for j in range(len(self.goals))
            if self.share(j) is not None
            for i in range(len(self.compiled.cells))
        )

    def share(self, aggregate: int) -> Fraction | None:
        """What is remembered of a met target that depends on noisy values, so that others' releases may
        move its interval: a part of the magnitude, or of an average's bounds.  None for others."""
        goal = self.goals[aggregate]
        if isinstance(goal, Relative):
            return goal.share
        if isinstance(goal, Within) and "centred" in (parts := self.compiled.parts[aggregate]):
            centred = self.compiled.blocks[parts["centred"]]
            if self.compiled.question.aggregates[aggregate].function == "AVG":
                share = goal.amount / (2 * centred.reach * centred.unit)
                return share if share < 1 else None
        return None

    @cached_property
    def arrival(self) -> bytes:
        """The mark under which it is remembered that this question, at this accuracy, has arrived: of what is
        measured and how well, not of how it is spelled or shown."""
        asked = {
            f"{self.mark(j, i).hex()} {goal}"
            for j, goal in enumerate(self.goals)
            for i in range(len(self.compiled.cells))
        }
        target = f"arrival {self.miss} {self.validity} {' '.join(sorted(asked))}"
        return hashlib.sha256(target.encode()).digest()[:16]

    def promised(self, held: Held, aggregate: int, cell: int) -> bool:
        """Whether this cell's target, or a stronger one, is remembered as met."""
        share = self.share(aggregate)
        if share is None:
            return False
        found = held.marks.get(self.mark(aggregate, cell))
        return found is not None and found.keeps(share, self.miss)


@dataclass(frozen=True, slots=True)
class Held:
    """What the transcript holds for a compiled question: ``known[block][cell]``, and by mark what was
    promised of relative targets.  With an ``overlap`` other releases of a measure count as well; ``own`` is
    what is known without."""

    known: Sequence[Sequence[Known]]
    marks: Mapping[bytes, Known] = field(default_factory=dict)
    overlap: Overlap | None = field(default=None, repr=False, compare=False)
    own: Sequence[Sequence[Known]] = field(default=(), repr=False, compare=False)

    def with_planned(self, compiled: Compiled, planned: Planned) -> Held:
        """As if more were released of some functionals (their values unknown)."""

        def expected(known: Known, key: bytes) -> Known:
            for precision, ask in planned.get(key, ()):
                known = known.expecting(precision, ask)
            return known

        def all_of(known: Sequence[Sequence[Known]]) -> list[list[Known]]:
            return [
                [expected(k, key) for k, key in zip(row, block.keys, strict=True)]
                for row, block in zip(known, compiled.blocks, strict=True)
            ]

        return replace(self, known=all_of(self.known), own=self.own and all_of(self.own))

    def with_overlap(self, compiled: Compiled, overlap: Overlap) -> Held:
        """As the releases of ``overlap`` tell, where that is more."""
        own = self.own or self.known
        known = [overlap.known(block, row) for block, row in zip(compiled.blocks, own, strict=True)]
        return Held(known, self.marks, overlap, own)

    def by_overlap(self, block: int, cell: int) -> bool:
        """Whether others than the functional's own releases say what is known of it."""
        if not self.own:
            return False
        return self.own[block][cell].precision != self.known[block][cell].precision


@dataclass(frozen=True, slots=True)
class Funds:
    """What may be spent, in rho: what is left in each purse, the caller's own ceiling for this ask,
    and the contract's public numbers that prices depend on.

    ``probe`` is the price of one diagnostic; it is 0 where the contract has no diagnostic purse.
    ``weighs``: a question's difficulty matters, so its magnitude is diagnosed before it is answered.
    """

    total: Fraction
    answer: Fraction
    diagnostic: Fraction = Fraction(0)
    probe: Fraction = Fraction(0)
    ceiling: Fraction | None = None
    charged: Fraction = Fraction(0)
    m_floor: Fraction | None = None
    n_max: int | None = None
    weighs: bool = False

    def leaving(self, left: Mapping[Purse, Fraction]) -> Funds:
        """The same where so much is left of each purse; never less than nothing."""
        answer, diagnostic = (max(left[purse], Fraction(0)) for purse in PURSES)
        return replace(self, answer=answer, diagnostic=diagnostic)

    def left(self, purse: Purse) -> Fraction:
        """What is left in a purse."""
        return self.answer if purse == "answer" else self.diagnostic

    @property
    def spendable(self) -> Fraction:
        """What this ask may still draw from the answer purse."""
        return self.answer if self.ceiling is None else min(self.answer, self.ceiling)
