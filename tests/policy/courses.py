"""Analysts on one budget as a story, run under a rule with every invariant looked at after every event."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import pytest
from hypothesis import strategies as st

from defray.core.amounts import QUANTA
from defray.errors import BadInput
from defray.policy.sharing import Account, Amount, Held, Pool, Rule, Settlement, settle

NAMES = ("ann", "bob", "cem", "dee")
SHARE, RENEW = "share", "renew"
Event = tuple[str, str, int]
"""``(who, functional, rho_min)``, ``(who, SHARE, quarters of the most)`` or ``(who, RENEW, _)``: new data."""
Settle = Callable[[Rule, Held, str, Account, Amount], Settlement]
Kind = type[int] | type[Fraction]


@dataclass(frozen=True)
class Story:
    """Events on a budget of ``total`` quanta; an analyst joins at the first, with all of a most share."""

    total: int
    most: dict[str, Fraction]
    events: Sequence[Event]

    def without(self, name: str) -> Story:
        """The same without an analyst; the data are renewed as before."""
        return replace(self, events=[e for e in self.events if e[0] != name or e[1] == RENEW])


@st.composite
def stories(draw: st.DrawFn, length: int = 24) -> Story:
    """Small budgets, where every quantum shows, and whole contracts; scarce ones and ample ones."""
    weights = draw(st.lists(st.integers(1, 6), min_size=2, max_size=4))
    whole = sum(weights) + draw(st.integers(0, 3))
    most = {name: Fraction(w, whole) for name, w in zip(NAMES, weights, strict=False)}
    total = draw(st.integers(1, 150) | st.just(QUANTA))
    unit = Fraction(total, draw(st.sampled_from([16, 60, 120, 1200])))
    what = st.sampled_from([*"qqqqrrr", SHARE, RENEW])
    event = st.tuples(st.sampled_from(list(most)), what, st.integers(0, 12))
    many = draw(st.integers(0, length))
    found = draw(st.lists(event, min_size=many, max_size=many))
    return Story(
        total,
        most,
        [
            (a, q, size % 5 if q == SHARE else -int(-size * unit // 1) if q != RENEW else 0)
            for a, q, size in found
            if q != RENEW or size > 9
        ],
    )


class Alone:
    """One analyst with an own budget, who reads nobody's releases but the own: the rule's yardstick."""

    def __init__(self) -> None:
        self.left: Amount = 0
        self.has: dict[str, Amount] = defaultdict(int)

    def ask(self, functional: str, rho_min: Amount, greedy: bool) -> Amount:
        gap = rho_min - self.has[functional]
        if gap > self.left:
            gap = self.left if greedy else 0
        if gap > 0:
            self.left -= gap
            self.has[functional] += gap
        return self.has[functional]


@dataclass(frozen=True)
class Told:
    """What became of an ask: its place in the story, guaranteed level and public support afterwards."""

    at: int
    who: str
    level: Amount
    support: Amount


class Course:
    """A story as it runs under a rule, in quanta or in Fractions; ``broken`` names what did not hold."""

    def __init__(self, story: Story, rule: Rule, kind: Kind, how: Settle = settle) -> None:
        self.story, self.rule, self.kind, self.how = story, rule, kind, how
        self.pool = Pool(kind(story.total))
        self.alone: dict[str, Alone] = {}
        self.log: list[Settlement] = []
        self.told: list[Told] = []
        self.spent: Amount = 0
        self.wanted: dict[tuple[int, str], Amount] = {}
        self.sunk: dict[str, Amount] = defaultdict(int)
        self.epoch, self.cuts, self.amply = 0, 0, True
        self.broken: set[str] = set()
        for at, event in enumerate(story.events):
            self.step(at, *event)
            self.broken |= set(self.wrong())
        if self.amply and self.spent != sum(self.wanted.values()):
            self.broken.add("I7")
        for name, account in self.pool.accounts.items():
            net = self.part(account.share) - account.balance
            if abs(net - self.paid(name) - self.sunk[name]) > (self.cuts if kind is int else 0):
                self.broken.add("alike")

    def part(self, share: Fraction) -> Amount:
        return share * self.story.total // 1 if self.kind is int else share * self.story.total

    def assign(self, who: str, share: Fraction) -> None:
        """The pool allows it just if the analyst alone could give so much back."""
        known = self.pool.accounts.get(who)
        change = self.part(share) - self.part(known.share if known else Fraction(0))
        alone = self.alone.setdefault(who, Alone())
        if alone.left + change < 0:
            with pytest.raises(BadInput, match="has spent more"):
                self.pool.assigned(who, share)
            return
        self.pool = self.pool.assigned(who, share)
        alone.left += change

    def step(self, at: int, who: str, what: str, size: int) -> None:
        if what == RENEW:
            return self.renew()
        if who not in self.pool.accounts:
            self.assign(who, self.story.most[who])
        if what == SHARE:
            return self.assign(who, self.story.most[who] * size / 4)
        return self.ask(at, who, what, self.kind(size))

    def renew(self) -> None:
        for name in self.pool.accounts:
            self.sunk[name] += self.paid(name)
            self.alone[name].has.clear()
        self.epoch, self.pool = self.epoch + 1, replace(self.pool, held={})

    def ask(self, at: int, who: str, functional: str, rho_min: Amount) -> None:
        before = self.pool.held.get(functional, Held())
        found = self.how(self.rule, before, who, self.pool.accounts[who], rho_min)
        self.pool = self.pool.after(functional, found)
        self.log.append(found)
        self.spent += found.release
        self.cuts += len(found.held.slices) - len(before.slices) - (found.release > 0)
        level = self.alone[who].ask(functional, rho_min, self.rule.alone == "greedy")
        support = found.held.support
        self.told.append(Told(at, who, found.level, support))
        key = (self.epoch, functional)
        self.wanted[key] = max(self.wanted.get(key, 0), rho_min)
        self.amply &= level >= rho_min
        if support < level:
            self.broken.add("I4")
        if found.level != level:
            self.broken.add("I5")
        if support != before.support + found.release or sum(found.transfers.values()):
            self.broken.add("settlement")
        if any(gain < 0 for name, gain in found.transfers.items() if name != who):
            self.broken.add("settlement")

    def paid(self, name: str) -> Amount:
        """What the slices say that an analyst has paid for them."""
        return sum(s.paid_by(name) for h in self.pool.held.values() for s in h.slices)

    def wrong(self) -> Iterator[str]:
        accounts = self.pool.accounts
        left = sum(account.balance for account in accounts.values())
        if self.spent + left + self.pool.reserve != self.story.total or self.pool.reserve < 0:
            yield "I1"
        for name, account in accounts.items():
            if not account.balance >= account.shadow >= 0:
                yield "I2"
            if account.shadow != self.alone[name].left:
                yield "I5"
            if account.balance > self.part(account.share):
                yield "profit"
        for held in self.pool.held.values():
            if any(held.support < own for own in held.own.values()):
                yield "I3"
