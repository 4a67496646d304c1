"""A transcript in memory and a table of known numbers: the controller's loop without a backend.

The controller is pure, so this is all it needs: `Desk.ask` plans, draws noise, fuses and plans again, and
counts quanta.  Unlike the engine it knows one purse only, no ceiling and no limit by the quote.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from defray.controller.ask import Ask, Funds, Held
from defray.controller.goals import Wish, resolve
from defray.controller.plan import plan
from defray.controller.validity import confirming, too_many_looks, validity_of
from defray.core.amounts import QUANTA, rho_of
from defray.core.column import Column
from defray.core.contract import Contract, SourceSpec, Unit
from defray.core.domain import Domain
from defray.core.shapes import Values, Whole
from defray.query.descriptor import Aggregate, Axis, Question
from defray.query.region import Regions
from defray.support.exact import compile_question
from defray.support.known import UNKNOWN, Known, credited

AGE, INCOME, SEX = 0, 1, 2

DOMAIN = Domain(
    (
        Column("age", "integer", Whole(0, 120)),
        Column(
            "income",
            "integer",
            Whole(0, 100_000),
            bounds=(Fraction(0), Fraction(100_000)),
            unit_step=Fraction(100),
        ),
        Column("sex", "string", Values(("F", "M"))),
    )
)
REGIONS = Regions(DOMAIN.widths)


def contract(rho: Any = 1, rows: int = 1, **more: Any) -> Contract:
    return Contract(
        table="people",
        rho=Fraction(rho),
        unit=Unit("id" if rows > 1 else None, rows),
        source=SourceSpec("csv", "people.csv"),
        domain=DOMAIN,
        directory=Path(),
        **more,
    )


def adults(from_age: int) -> Any:
    return REGIONS.where(AGE, ((from_age, 121),))


def question(
    *functions: str, region: Any = True, by: tuple[int, ...] = (), **more: Any
) -> Question:
    aggregates = tuple(
        Aggregate(f"a{n}", f.split(":")[0], [*f.split(":"), None][1])  # type: ignore[arg-type]
        for n, f in enumerate(functions)
    )
    return Question(
        aggregates,
        region,
        tuple(Axis(column) for column in by),
        tuple(DOMAIN.names[column] for column in by),
        **more,
    )


def make_ask(q: Question, terms: Contract, **wish: Any) -> Ask:
    arguments = {
        "within": None,
        "confidence": None,
        "rho": None,
        "simultaneous": None,
        "snap": None,
    }
    asked = Wish.of(**(arguments | wish))
    goals, confidence, simultaneous = resolve(q, asked, terms)
    compiled = compile_question(q, terms, REGIONS)
    validity = validity_of(q, asked, goals)
    return confirming(Ask(compiled, goals, confidence, simultaneous, validity=validity))


@dataclass
class Desk:
    """One contract's transcript and a way to ask."""

    terms: Contract = field(default_factory=contract)
    known: dict[bytes, Known] = field(default_factory=dict)
    spent: int = 0
    seed: int = 0
    seq: int = 0

    def __post_init__(self) -> None:
        self.noise = np.random.default_rng(self.seed)

    def held(self, ask: Ask) -> Held:
        return Held(
            [[self.known.get(k, UNKNOWN) for k in block.keys] for block in ask.compiled.blocks],
            {m: self.known.get(m, UNKNOWN) for m in ask.marks},
        )

    def funds(self, **more: Any) -> Funds:
        total = self.terms.rho
        diagnostic = self.terms.xi * total
        return replace(
            Funds(
                total,
                total - diagnostic - rho_of(self.spent, total),
                diagnostic,
                self.terms.xi * total / 1000,
                m_floor=self.terms.m_floor,
                n_max=self.terms.n_max,
            ),
            **more,
        )

    def ask(self, q: Question, truth: dict[str, list[float]] | None = None, **wish: Any) -> int:
        """Runs the protocol to its end; returns the quanta charged (never past the whole contract)."""
        ask = make_ask(q, self.terms, **wish)
        charged = 0
        name = str(self.seq + 1)
        while True:
            step = plan(ask, self.held(ask), self.funds())
            if not charged and (refused := too_many_looks(ask, self.held(ask), step)):
                raise refused
            if not step.purchases:
                return charged
            if self.spent + step.charge > QUANTA:
                raise OverflowError("refused")
            for purchase in step.purchases:
                block = ask.compiled.blocks[purchase.block]
                self.seq += 1
                for i, (sigma, precision) in enumerate(
                    zip(purchase.sigmas, purchase.precisions, strict=True)
                ):
                    if sigma is None:
                        continue
                    true = (truth or {}).get(str(block.measure), [0.0] * len(block.keys))[i]
                    drawn = Fraction(round((true + self.noise.normal(0, sigma)) * 2**10), 2**10)
                    own = block.functionals[i]
                    for key in credited(own, ask.tag) if ask.tag else (own,):
                        self.known[key] = self.known.get(key, UNKNOWN).fused(
                            precision, drawn, self.seq, i, name
                        )
            for mark, share, gamma in step.settles:
                known = self.known.get(mark, UNKNOWN)
                self.known[mark] = known.promised(share, gamma, self.seq)
            self.spent += step.charge
            charged += step.charge
            if step.final and charged == step.charge:
                return charged

    def rho(self, quanta: int) -> float:
        return float(rho_of(quanta, self.terms.rho))
