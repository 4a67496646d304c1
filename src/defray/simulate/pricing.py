"""From asks as they are written to what they need in rho, from scratch.

Under a contract SQL is priced by the product's own controller, as if the transcript were empty.  Without one
there is the closed form ``rho_min = (k Delta z)^2 / (2 U^2)`` (paper, appendix A.1; design: controller).
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from defray.controller.ask import Ask, Funds, Held
from defray.controller.goals import DEFAULT_CONFIDENCE, Wish
from defray.controller.plan import price
from defray.controller.prepare import prepare
from defray.core.amounts import rho_of
from defray.core.contract import Contract
from defray.core.target import LARGEST, SMALLEST, Relative, parse_confidence, parse_goal, two_sided
from defray.errors import BadInput, TargetError
from defray.query.region import Regions
from defray.simulate.workload import Workload
from defray.support.exact import Compiled, compile_question
from defray.support.known import UNKNOWN
from defray.transcript import probe_of, terms_of

_LEAST, _MOST = float(SMALLEST), float(LARGEST)


@dataclass(frozen=True, slots=True)
class Priced:
    """A question's ``descriptor`` and what it is called; what its target needs, in rho: from ``low`` to
    ``high``, which differ where the price depends on a count that only asking tells."""

    descriptor: bytes
    label: str
    low: float
    high: float

    @property
    def exact(self) -> bool:
        return self.low == self.high


class Prices:
    """What SQL needs under a contract.  Neither its data nor its ledger is looked at."""

    def __init__(self, contract: Contract) -> None:
        self.contract = contract
        self._regions = Regions(contract.domain.widths)
        total, caps = contract.rho, terms_of(contract).caps
        self._funds = Funds(
            total=total,
            answer=rho_of(caps["answer"], total),
            diagnostic=rho_of(caps["diagnostic"], total),
            probe=probe_of(contract),
            m_floor=contract.m_floor,
            n_max=contract.n_max,
        )

    def of(self, sql: str, within: Any = None, confidence: Any = None) -> Priced:
        """The price of a question at the accuracy that it or the arguments name.  Raises BadInput."""
        ask = self.ask(sql, Wish.of(within, confidence, None, None, None))
        nothing = Held([[UNKNOWN] * len(block.keys) for block in ask.compiled.blocks])
        found = price(ask, nothing, self._funds)
        if not found.low:
            raise _free()
        low, high = (float(rho_of(q, self.contract.rho)) for q in (found.low, found.high))
        return Priced(*self._named(ask.compiled), low, high)

    def ask(self, sql: str, wish: Wish) -> Ask:
        """The ask as the engine prepares it.  Raises BadInput."""
        return prepare(sql, wish, self.contract, self._regions)

    def question(self, sql: str, wish: Wish | None = None) -> tuple[bytes, str]:
        """The descriptor of a question and its canonical text, if it can be asked with this wish (where there
        is one).  Raises BadInput."""
        from defray.query.sql import parse

        if wish is not None:
            compiled = self.ask(sql, wish).compiled
            if all(empty for block in compiled.blocks for empty in block.empty):
                raise _free()
            return self._named(compiled)
        contract = self.contract
        question = parse(sql, contract.domain, self._regions, table=contract.table)
        return self._named(compile_question(question, contract, self._regions))

    def _named(self, compiled: Compiled) -> tuple[bytes, str]:
        """Names, order and accuracy do not matter: which functionals of which groups are asked does."""
        from defray.query.render import canonical_sql

        question, contract = compiled.question, self.contract
        asked = {
            f"{aggregate.function} {role} ".encode() + b"".join(compiled.blocks[b].keys)
            for aggregate, parts in zip(question.aggregates, compiled.parts, strict=True)
            for role, b in parts.items()
        }
        text = canonical_sql(question, contract.domain, self._regions, contract.table)
        return hashlib.sha256(b"".join(sorted(asked))).digest()[:16], text


def _free() -> BadInput:
    return BadInput("no row can be meant by this: it is answered 0, free", hint="leave it out")


def least_rho(within: Any, confidence: Any = None) -> float:
    """``z^2 / (2 U^2)``: what an error of at most U needs, U in units of k * Delta.  Raises TargetError.

    >>> round(least_rho(10), 6), round(least_rho("5", "95%"), 6)
    (0.019207, 0.076829)
    """
    return float((_quantile(confidence) / _half_width(within)) ** 2 / 2)


@lru_cache(maxsize=256)
def _quantile(confidence: Any) -> float:
    sure = DEFAULT_CONFIDENCE if confidence is None else parse_confidence(confidence)
    return two_sided(float(1 - sure))


def _half_width(within: Any) -> float:
    """U.  A float in range is one; all else is read, or refused, as the product does."""
    try:
        amount = float(within)
    except (TypeError, ValueError, OverflowError):
        amount = math.nan
    if _LEAST <= amount <= _MOST:
        return amount
    goal = parse_goal(within)
    if isinstance(goal, Relative):
        raise TargetError(
            "a percentage has a price only under a contract, for a question in SQL",
            hint="write an absolute error, such as 50",
        )
    return float(goal.amount)


def residuals(workload: Workload) -> NDArray[np.float64]:
    """What each ask needs beyond the largest earlier one of its question: the whole cost where everything is
    granted (Theorem 7), in rho; 0 where it is free."""
    held: dict[int, float] = {}
    left: list[float] = []
    for key, demand in zip(workload.keys.tolist(), workload.demands.tolist(), strict=True):
        had = held.get(key, 0.0)
        left.append(max(0.0, demand - had))
        held[key] = max(had, demand)
    return np.array(left)
