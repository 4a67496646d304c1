"""Several analysts with shares of one budget, without noise: who knows and has paid what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from defray.controller.ask import Ask, Funds, Held
from defray.controller.plan import Step, planned
from defray.controller.purchase import releases
from defray.controller.scarcity import Moment, Ration, Scarcity
from defray.controller.share import Share
from defray.controller.sharing import decide
from defray.core.amounts import QUANTA, rho_of
from defray.core.contract import Surplus
from defray.policy.demand import Pace
from defray.policy.gates import Greedy, Policy, Refuse
from defray.support.charges import Charges
from defray.support.dominance import dominates, homes
from defray.support.history import History
from defray.support.known import UNKNOWN
from defray.support.overlap import Overlap
from defray.support.planned import Planned
from defray.support.room import Room
from tests.support.overlapping import CONTRACT, DOMAIN, REGIONS

GATES: dict[str, Policy] = {"refuse": Refuse(), "greedy": Greedy()}


@dataclass
class World:
    """What is known, by overlap or by functional, and what every cell has paid of ``cap``."""

    cap: int
    linear: bool = True
    gate: str = "refuse"
    history: History = field(default_factory=lambda: History(DOMAIN, REGIONS, 1e6))
    own: dict[bytes, list[tuple[Fraction, str]]] = field(default_factory=dict)
    paid: Charges = field(default_factory=lambda: Charges.of(DOMAIN))
    alone: World | None = None

    def overlap(self) -> Overlap:
        nothing = Charges.of(DOMAIN)
        room = Room(
            {"answer": self.paid, "diagnostic": nothing}, {"answer": self.cap, "diagnostic": 0}
        )
        alone = None if self.alone is None else self.alone.overlap()
        return Overlap(self.history, room, CONTRACT.rho, 1, alone=alone)

    def held(self, asked: Ask) -> Held:
        compiled = asked.compiled
        unknown = [[UNKNOWN] * len(compiled.cells) for _ in compiled.blocks]
        held = Held(unknown).with_planned(compiled, self.own)
        return held.with_overlap(compiled, self.overlap()) if self.linear else held

    def moment(self, asked: Ask) -> Moment:
        held = self.held(asked)
        left = self.cap - self.paid.worst()
        if held.overlap is not None:
            left = held.overlap.answerable(asked.compiled.blocks)["answer"]
        funds = Funds(CONTRACT.rho, rho_of(left, CONTRACT.rho))
        scarcity = Scarcity(GATES[self.gate], Pace([]), rho_of(self.cap, CONTRACT.rho))
        return Moment("", 1, held, funds, scarcity, False, held.overlap)

    def take(self, asked: Ask, step: Step) -> None:
        """What was bought, for everybody here."""
        for key, found in planned(asked, step).items():
            self.own.setdefault(key, []).extend(found)
        self.add(list(releases(asked, step.purchases)))

    def add(self, made: Sequence[Planned]) -> None:
        self.history = self.history.branch()
        for one in made:
            self.history.add([one.item(DOMAIN, REGIONS, self.history.seq + 1)])
            self.paid = self.paid.plus(self.pays(one))

    def pays(self, one: Planned) -> Any:
        return one.paid(DOMAIN, CONTRACT.rho) if self.linear else (((), one.charge),)

    def precision(self, asked: Ask) -> list[Fraction]:
        return [k.precision for row in self.held(asked).known for k in row]


@dataclass
class Several:
    """The public world, each analyst's shadow, and what each has paid."""

    shares: dict[str, Fraction]
    linear: bool = True
    gate: str = "refuse"
    surplus: Surplus = "allornothing"
    cap: int = QUANTA

    def __post_init__(self) -> None:
        self.public = World(self.cap, self.linear, self.gate)
        self.shadows = {
            name: World(int(self.cap * share), self.linear, self.gate)
            for name, share in self.shares.items()
        }
        self.accounts = {name: Charges.of(DOMAIN) for name in self.shares}

    def ask(self, name: str, asked: Ask) -> Ration:
        shadow, account = self.shadows[name], self.accounts[name]
        moment = replace(self.public, paid=account, cap=shadow.cap, alone=shadow).moment(asked)
        nothing = Charges.of(DOMAIN)
        share = Share(
            name,
            self.surplus,
            shadow.moment(asked),
            {"answer": account, "diagnostic": nothing},
            {"answer": shadow.paid, "diagnostic": nothing},
        )
        decision = decide(asked, replace(moment, share=share))
        rationed, moves = decision.rationed, decision.moves
        step = rationed.price.step
        for one in releases(asked, step.purchases):
            self.accounts[name] = self.accounts[name].plus(self.public.pays(one))
        self.public.take(asked, step)
        if moves:
            self.move(shadow, asked, moves)
        self.check(name, asked)
        return rationed

    def move(self, shadow: World, asked: Ask, moves: Sequence[Planned]) -> None:
        """The shadow releases what it would have released alone."""
        for one in moves:
            keys = asked.compiled.blocks[asked.compiled.blocks.index(one.block)].keys
            for key, precision in zip(keys, one.precisions, strict=False):
                if precision is not None:
                    shadow.own.setdefault(key, []).append((precision, "alone"))
        shadow.add(moves)

    def check(self, name: str, asked: Ask) -> None:
        cells = tuple(range(len(DOMAIN.columns)))
        total = np.zeros(DOMAIN.widths, np.int64)
        for analyst, shadow in self.shadows.items():
            paid, bound = self.accounts[analyst].paid(cells), shadow.paid.paid(cells)
            assert (paid <= bound).all(), "I2: more was paid than the share alone would have"
            assert bound.max() <= shadow.cap
            total += paid
        assert (total == self.public.paid.paid(cells)).all()
        assert total.max() <= self.cap, "I1"
        shadow = self.shadows[name]
        told = replace(self.public, alone=shadow).precision(asked)
        for known, alone in zip(told, shadow.precision(asked), strict=True):
            assert known >= alone * (1 - Fraction(1, 10**5)), "I4: less is known than alone"
        if self.linear:
            public, own = self.public.overlap(), shadow.overlap()
            for block in asked.compiled.blocks:
                for axes in homes(shadow.history, str(block.measure)):
                    assert dominates(block, axes, public, own), (
                        "I3: the shadow knows something more"
                    )
