"""An analyst who has a share of the budget, at one moment: the account, the shadow, the savings between
them, and what is given for what others paid for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from defray.controller.ask import Ask, Funds, Held
from defray.controller.scarcity import Moment
from defray.core.amounts import rho_of
from defray.core.contract import PURSES, Purse, Surplus
from defray.policy.stakes import Measured, Stakes, price_of

if TYPE_CHECKING:
    from defray.support.charges import Added, Charges
    from defray.support.planned import Planned

Backs = tuple[Mapping[str, int], ...]
"""By release of a shadow, the quanta that come back to others, by name."""


@dataclass(frozen=True, eq=False)
class Share:
    """An analyst at one moment.  ``alone`` is the moment of the shadow, whose funds are the share's;
    ``paid`` is what every cell has paid for the analyst, ``bound`` what it has for the shadow, by purse;
    ``stakes`` say who paid for what is known (None: reuse is not shared)."""

    name: str
    surplus: Surplus
    alone: Moment
    paid: Mapping[Purse, Charges]
    bound: Mapping[Purse, Charges]
    stakes: Stakes | None = None

    def back(self, ask: Ask, moves: Sequence[Planned], total: Fraction) -> Backs | None:
        """What comes back to others as the shadow moves by these releases, by release."""
        return None if self.stakes is None else self._moved(self.stakes.branch(), ask, moves, total)

    def _moved(self, stakes: Stakes, ask: Ask, moves: Sequence[Planned], total: Fraction) -> Backs:
        return tuple(stakes.move(_staked(m, ask, total), self.name, shares=True) for m in moves)

    def savings(self, ask: Ask, moment: Moment, moves: Sequence[Planned]) -> tuple[Held, Funds]:
        """What may be paid once the shadow has moved by these releases: in every cell, what it has paid
        more, what is given for reuse included."""
        from defray.support.room import Room, between

        given = reuse(self.back(ask, moves, moment.funds.total))
        paid: dict[Purse, Charges] = {}
        caps: dict[Purse, int] = {}
        for purse, charges in self.bound.items():
            moved = [p for move in moves if move.purse == purse for p in _paid(move, moment)]
            spent = self.paid[purse].moved(given if purse == "answer" else 0)
            paid[purse], caps[purse] = between(spent, charges.plus(moved))
        total, overlap = moment.funds.total, moment.held.overlap
        if overlap is None:
            left = {purse: caps[purse] - charges.worst() for purse, charges in paid.items()}
            held = moment.held
        else:
            overlap = replace(overlap, room=Room(paid, caps))
            left = overlap.answerable(ask.compiled.blocks)
            held = replace(moment.held, overlap=overlap)
        return held, moment.funds.leaving({p: rho_of(q, total) for p, q in left.items()})

    def after(
        self, ask: Ask, moment: Moment, moves: Sequence[Planned], bought: Sequence[Planned]
    ) -> Share:
        """As if the shadow had moved by these releases and this were bought for the analyst."""

        def paid(before: Mapping[Purse, Charges], made: Sequence[Planned]) -> dict[Purse, Charges]:
            return {
                purse: charges.plus(p for m in made if m.purse == purse for p in _paid(m, moment))
                for purse, charges in before.items()
            }

        bound = paid(self.bound, moves)
        alone, planned = self.alone, by_functional(moves)
        held = alone.held.with_planned(ask.compiled, planned)
        if held.overlap is not None:
            overlap = held.overlap.planning(moves)
            held = held.with_overlap(ask.compiled, overlap)
            quanta = overlap.answerable(ask.compiled.blocks)
            left = {p: rho_of(quanta[p], alone.funds.total) for p in PURSES}
        else:
            left = {
                p: alone.funds.left(p)
                - rho_of(bound[p].worst() - self.bound[p].worst(), alone.funds.total)
                for p in PURSES
            }
        there = replace(alone, held=held, funds=alone.funds.leaving(left), overlap=held.overlap)
        return replace(self, alone=there, bound=bound, paid=paid(self.paid, bought))

    def staking(
        self, ask: Ask, moves: Sequence[Planned], bought: Sequence[Planned], total: Fraction
    ) -> Stakes | None:
        """Who would have paid for what after that."""
        if self.stakes is None:
            return None
        stakes = self.stakes.branch()
        self._moved(stakes, ask, moves, total)
        for one in bought:
            stakes.release(_staked(one, ask, total), self.name)
        return stakes


def reuse(back: Backs | None) -> int:
    """What an analyst gives for reuse, in quanta."""
    return sum(sum(one.values()) for one in back or ())


def _staked(made: Planned, ask: Ask, total: Fraction) -> Measured:
    """A release of an ask as those see it who share it."""
    block = made.block
    return Measured(
        added={
            key: precision
            for key, precision in zip(block.functionals, made.precisions, strict=False)
            if precision is not None
        },
        price=price_of(block.reach, total),
        charge=made.charge,
        shared=made.purse == "answer" and not ask.tag,
    )


def by_functional(moves: Sequence[Planned]) -> dict[bytes, list[tuple[Fraction, str]]]:
    """The precisions that releases would add to the functionals that they measure themselves."""
    found: dict[bytes, list[tuple[Fraction, str]]] = {}
    for move in moves:
        for key, precision in zip(move.block.keys, move.precisions, strict=False):
            if precision is not None:
                found.setdefault(key, []).append((precision, "expected"))
    return found


def _paid(move: Planned, moment: Moment) -> tuple[Added, ...]:
    """What each cell pays for a release, or all of them where overlaps do not count."""
    if moment.held.overlap is None:
        return (((), move.charge),)
    return move.paid(moment.held.overlap.history.domain, moment.funds.total)
