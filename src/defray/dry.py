"""Dry runs: a question answered from made-up rows, to see that it is understood and what the answer is like.

The whole path of an ask is walked, over a table made from the declared domain and with a ledger in memory
that is dropped afterwards: no row of the data is read, nothing is written, and no budget can refuse.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from typing import Any, Final

from defray.controller.goals import Wish
from defray.core.answer import DRY_RUN, Answer, Row
from defray.core.canonical import canonical
from defray.data.counted import CountedSource
from defray.data.made_up import MadeUpNoise, made_up
from defray.data.source import Control
from defray.engine import Engine, ceiling_of
from defray.errors import BudgetRefused, InternalError, TooFewRows
from defray.ledger.memory import MemoryLedger
from defray.transcript import terms_of

MAX_TRIES: Final = 8
MORE: Final = 2**20
"""By how much a made-up budget grows until it meets every target."""


def dry_run(
    engine: Engine,
    sql: str,
    wish: Wish,
    among: Sequence[str] = (),
    *,
    max_rho: Any = None,
    control: Control | None = None,
    name: str | None = None,
) -> Answer:
    """What :meth:`Engine.ask` would give the principal of that ``name`` in shape, columns and accuracy, with
    made-up values.

    Raises QueryError or TargetError as an ask does, Forbidden for who may not ask now, and Cancelled;
    ``max_rho`` is never exceeded.
    """
    with engine.ledger.view() as view:
        left = engine.transcript.left(view, name)
    ask = engine.prepare(sql, wish)
    for other in among:
        engine.prepare(other, wish)
    ceiling_of(max_rho)
    contract = engine.contract
    seed = sha256(canonical([contract.table, contract.domain.to_json(), ask.text])).digest()
    question, cells = ask.compiled.question, ask.compiled.cells
    source = made_up(contract.domain, question, cells, seed, contract.n_max)
    answer = _answered(engine, source, sql, wish, seed, control)
    return _marked(answer, float(left))


def _answered(
    engine: Engine,
    source: CountedSource,
    sql: str,
    wish: Wish,
    seed: bytes,
    control: Control | None,
) -> Answer:
    """The answer over made-up rows, with as much budget as it takes to meet every target."""
    contract = replace(engine.contract, gate="refuse", support="exact", promises=())
    answer: Answer | None = None
    for _ in range(MAX_TRIES):
        contract = replace(contract, rho=contract.rho * MORE)
        with closing(MemoryLedger(terms_of(contract))) as ledger:
            made = Engine(contract, ledger, source, MadeUpNoise(seed))
            made.prepare = engine.prepare  # the very question, which was understood already
            try:
                answer = _finished(made, sql, wish, control)
            except (BudgetRefused, TooFewRows) as refusal:
                asked = Fraction(refusal.context.get("asked", 0))
                contract = replace(contract, rho=max(contract.rho, asked))
        if answer is not None and answer.met:
            break
    if answer is None:
        raise InternalError("no made-up budget meets the target")
    return answer


def _finished(engine: Engine, sql: str, wish: Wish, control: Control | None) -> Answer:
    """Asked until every target is met, or nothing more is bought: a long ask stops on its way."""
    while True:
        answer = engine.ask(sql, wish, control=control)
        if answer.met or not answer.charged_rho:
            return answer


def _marked(answer: Answer, remaining: float) -> Answer:
    """The answer as what it is: free, resting on no release, and made up."""
    return replace(
        answer,
        rows=tuple(map(_marked_row, answer.rows)),
        charged_rho=0.0,
        reused_rho=0.0,
        remaining_rho=remaining,
        items=(),
        data_version=0,
        shortfall_rho=0.0,
        notes=(DRY_RUN, *answer.notes),
        dry_run=True,
    )


def _marked_row(row: Row) -> Row:
    note = f"{DRY_RUN}; {row.note}" if row.note else DRY_RUN
    return replace(row, charged_rho=0.0, reused_rho=0.0, releases=0, asks=0, id="", note=note)
