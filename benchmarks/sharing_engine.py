"""The asks of :mod:`benchmarks.sharing` put to the whole engine: real plans, noise, ledger and accounts."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

from benchmarks.sharing import (
    ASKED,
    BUSY,
    HALF,
    NAMES,
    NEAR,
    RULE,
    SCHEMES,
    TOTAL,
    Ask,
    Run,
    Scheme,
    near,
    told,
)
from benchmarks.table import Line
from defray.access import Access
from defray.core.column import Column
from defray.core.contract import Contract, SourceSpec, Unit
from defray.core.domain import Domain
from defray.core.shapes import Whole
from defray.engine import Engine
from defray.errors import BudgetRefused
from defray.ledger.memory import MemoryLedger
from defray.noise.opendp_sampler import OpenDPSampler
from defray.policy.sharing import Rule
from defray.session import Session
from defray.simulate.tables import CountedSource
from defray.simulate.through_engine import half_width
from defray.transcript import terms_of

SEEDS = 24

ALL_BUT = 1 - 1e-8
"""Asks need so much of what they need by the rule: charges are rounded up, and ties shall stay ties."""


class ThroughEngine(Scheme):
    """A rule as the engine keeps it: every functional is the count of one item."""

    def run(self, asks: Sequence[Ask]) -> tuple[list[bool], int]:
        items = {about: i for i, about in enumerate(sorted({ask.about for ask in asks}))}
        session, met = opened(self.rule, len(items)), []
        for ask in asks:
            sql = f"SELECT COUNT(*) FROM t WHERE item = {items[ask.about]}"
            demand = ask.rho_min / TOTAL * ALL_BUT
            try:
                answer = session.on_behalf_of(ask.who).ask(sql, within=half_width(demand))
            except BudgetRefused:
                met.append(False)
            else:
                met.append(answer.met)
        spent = session.balance()["spent_rho"]
        session.close()
        return met, int(spent * TOTAL)


def opened(rule: Rule, items: int) -> Session:
    """A contract of rho 1 in which all analysts have equal shares."""
    column = Column("item", "integer", Whole(0, items - 1), null="drop", other="drop")
    contract = Contract(
        table="t",
        rho=Fraction(1),
        unit=Unit(),
        source=SourceSpec("csv"),
        domain=Domain((column,)),
        directory=Path(),
        support="exact",
        gate=rule.alone,
        surplus=rule.surplus,
        sharing=rule.sharing,
    )
    source = CountedSource(contract.domain, {"item": list(range(items))})
    engine = Engine(contract, MemoryLedger(terms_of(contract)), source, OpenDPSampler())
    access = Access(engine.ledger)
    for name in NAMES:
        access.add(name.replace(" ", ""), share=Fraction(1, len(NAMES)))
    return Session(engine)


def lines(seeds: int = SEEDS) -> list[Line]:
    """The figures asked for, those that the engine comes to, and those of the rule on the same asks."""
    found = []
    scheme = ThroughEngine(SCHEMES[RULE].rule)
    for setting in (HALF, BUSY):
        sequences = [setting.asks(seed) for seed in range(seeds)]
        score = [Run.of(scheme, [named(ask) for ask in asks]) for asks in sequences]
        pure = [Run.of(SCHEMES[RULE], asks) for asks in sequences]
        satisfied, worst = ASKED[setting, RULE]
        found.append(
            Line(
                f"overlap {setting.overlap:g}, through the engine, {seeds} seeds: asks satisfied / worst "
                "analyst's fraction",
                told(score),
                f"{told(pure)} by the rule",
                f"{sum(a.satisfied != b.satisfied for a, b in zip(score, pure, strict=True))} differ",
                f"within {NEAR} standard errors of {satisfied} / {worst:.2f}",
                near([run.satisfied for run in score], satisfied, 0.1)
                and near([run.worst for run in score], worst, 0.01),
            )
        )
    return found


def named(ask: Ask) -> Ask:
    """The same by a name that a ledger takes."""
    return Ask(ask.at, ask.who.replace(" ", ""), ask.about, ask.rho_min)
