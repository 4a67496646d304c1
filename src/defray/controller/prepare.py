"""From a text and a wish to a compiled ask: what engine and simulator begin with."""

from __future__ import annotations

import math
from dataclasses import replace

from defray.controller.ask import Ask
from defray.controller.goals import Wish, resolve
from defray.controller.validity import confirming, validity_of
from defray.core.contract import Contract
from defray.policy.choices import weighs
from defray.query.region import Regions
from defray.support.exact import compile_question


def prepare(
    sql: str, wish: Wish, contract: Contract, regions: Regions, *, text: str | None = None
) -> Ask:
    """Pure: neither data nor ledger is looked at.  ``text`` is the ask's canonical text where it is known.
    Raises QueryError or TargetError."""
    from defray.query.render import canonical_sql
    from defray.query.sql import parse

    question = parse(sql, contract.domain, regions, table=contract.table, snap=wish.snap)
    groups = math.prod(
        contract.domain.columns[a.column].group_count(a.level) for a in question.axes
    )
    goals, confidence, simultaneous = resolve(question, wish, contract, groups)
    compiled = compile_question(question, contract, regions)
    validity = validity_of(question, wish, goals)
    ask = Ask(
        compiled,
        goals,
        confidence,
        simultaneous,
        floor=contract.m_floor,
        validity=validity,
        weighed=weighs(contract.gate) and contract.xi > 0 and contract.weights.alpha > 0,
    )
    ask = confirming(ask)
    if text is None:
        statement = canonical_sql(question, contract.domain, regions, contract.table)
        text = f"{statement} {ask.accuracy}"
    return replace(ask, text=text)
