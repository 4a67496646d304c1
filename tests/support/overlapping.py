"""A small domain whose transcript can be written out cell by cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import numpy as np

from defray.controller.ask import Ask, Funds, Held
from defray.controller.goals import Wish
from defray.controller.plan import Step, plan, planned
from defray.controller.prepare import prepare
from defray.controller.purchase import releases
from defray.core.amounts import QUANTA
from defray.core.column import Column
from defray.core.contract import Contract, SourceSpec, Unit
from defray.core.domain import Domain
from defray.core.shapes import Values, Whole
from defray.query.region import Regions
from defray.support.axes import Axes
from defray.support.charges import Charges
from defray.support.history import History, Item
from defray.support.known import UNKNOWN, Known
from defray.support.overlap import Overlap
from defray.support.room import Room

COLUMNS = (
    Column("age", "integer", Whole(0, 7), null="drop"),
    Column("city", "string", Values(("Bern", "Oslo", "Rome")), null="drop"),
    Column(
        "pay", "integer", Whole(0, 99), bounds=(Fraction(0), Fraction(99)), unit_step=Fraction(1)
    ),
    Column("sex", "string", Values(("F", "M")), null="drop"),
)
DOMAIN = Domain(COLUMNS)
REGIONS = Regions(DOMAIN.widths)
CONTRACT = Contract(
    table="people",
    rho=Fraction(1),
    unit=Unit(),
    source=SourceSpec("csv", path="people.csv"),
    domain=DOMAIN,
    directory=Path(),
    n_max=10**6,
    support="linear",
)
CELLS = Axes((0, 1, 3), (None, None, None), (8, 3, 2))
"""All cells but for pay."""


def ask(question: str, within: float | None = 50) -> Ask:
    """``SELECT`` is understood."""
    return prepare(f"SELECT {question}", Wish(within=within), CONTRACT, REGIONS)


def told(items: Sequence[Item] = (), cap: int = QUANTA) -> Told:
    history = History(DOMAIN, REGIONS, 1e6)
    history.add(items)
    charges = Charges(DOMAIN.widths)
    room = Room({"answer": charges, "diagnostic": charges}, {"answer": cap, "diagnostic": 0})
    return Told(Overlap(history, room, CONTRACT.rho, 1))


@dataclass(frozen=True)
class Told:
    """A transcript: all releases, and what each functional's own say."""

    overlap: Overlap
    own: Mapping[bytes, list[tuple[Fraction, str]]] = field(default_factory=dict)

    def held(self, asked: Ask) -> Held:
        compiled = asked.compiled
        unknown = [[UNKNOWN] * len(compiled.cells) for _ in compiled.blocks]
        return Held(unknown).with_planned(compiled, self.own).with_overlap(compiled, self.overlap)

    def step(self, asked: Ask) -> Step:
        """What would be bought."""
        return plan(asked, self.held(asked), Funds(CONTRACT.rho, CONTRACT.rho))

    def after(self, asked: Ask) -> Told:
        """Once it was bought."""
        step = self.step(asked)
        own = {key: list(found) for key, found in self.own.items()}
        for key, found in planned(asked, step).items():
            own.setdefault(key, []).extend(found)
        return Told(self.overlap.planning(releases(asked, step.purchases)), own)

    def known(self, asked: Ask) -> list[Known]:
        """What is known of the cells of the first block."""
        return list(self.held(asked).known[0])


def dense(items: Sequence[Item]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every row of some releases over all cells: weights, variances, values."""
    rows = [row for item in items for row in item.rows(CELLS)]
    return (
        np.array([r.b for r in rows]),
        np.array([r.variance for r in rows]),
        np.array([r.value for r in rows]),
    )
