"""The controller's loop over one column, without data: plans, counts quanta, adds precision.

Nothing here prices or credits: that is what the planner under test does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Final

from defray.controller.ask import Ask, Funds, Held
from defray.controller.plan import Step, plan
from defray.core.amounts import QUANTA, rho_of
from defray.core.column import Column
from defray.core.contract import Contract, SourceSpec, Unit
from defray.core.domain import Domain
from defray.core.shapes import Whole
from defray.core.target import Spend, Within
from defray.query.descriptor import Aggregate, Question
from defray.query.region import Regions
from defray.support.exact import Compiled, compile_question
from defray.support.known import UNKNOWN, Known

Planner = Callable[[Ask, Held, Funds], Step]

QUESTIONS: Final = 64
"""How many different questions a desk knows: ``COUNT(*) WHERE x = i``."""

SURE: Final = Fraction(19, 20)


@lru_cache(maxsize=1)
def _schema() -> tuple[Contract, Regions]:
    domain = Domain((Column("x", "integer", Whole(0, QUESTIONS - 1)),))
    contract = Contract("t", Fraction(1), Unit(), SourceSpec("csv"), domain, Path())
    return contract, Regions(domain.widths)


@lru_cache(maxsize=QUESTIONS)
def _compiled(question: int) -> Compiled:
    contract, regions = _schema()
    region = regions.where(0, ((question, question + 1),))
    asked = Question((Aggregate("n", "COUNT", None),), region, (), ())
    return compile_question(asked, contract, regions)


class Desk:
    """A contract of ``rho`` whose answer purse is ``(1 - xi) rho``; row privacy, so support is P/2."""

    def __init__(self, rho: Fraction, xi: Fraction = Fraction(0), planner: Planner = plan) -> None:
        self.rho = rho
        self.cap = QUANTA - math.floor(xi * QUANTA)
        self.spent = 0
        self.releases = 0
        self._known: dict[int, Known] = {}
        self._plan = planner

    def support(self, question: int) -> Fraction:
        """rho_hist of a question."""
        return self._known.get(question, UNKNOWN).precision / 2

    def ask(self, question: int, goal: Within | Spend, sure: Fraction = SURE) -> int | None:
        """The quanta charged; None where they do not fit: then nothing changes."""
        ask = Ask(_compiled(question), (goal,), sure)
        known = self._known.get(question, UNKNOWN)
        left = rho_of(self.cap - self.spent, self.rho)
        step = self._plan(ask, Held([[known]]), Funds(self.rho, left))
        if self.spent + step.charge > self.cap:
            return None
        for purchase in step.purchases:
            (precision,) = purchase.precisions
            if precision is not None:
                self.releases += 1
                known = known.fused(precision, Fraction(0), self.releases, 0)
        self._known[question] = known
        self.spent += step.charge
        return step.charge
