"""The path of one question, as a straight line.

    text -> descriptor -> what is held -> residual -> charge -> noise -> fuse -> commit -> answer

:meth:`Engine.ask` reads top to bottom.  The private numbers exist in :meth:`Engine._measure` only: they
come from the source, meet their noise on one line, and what leaves that line is a release.

Every decision is made twice: once for free, before the data is touched, and again inside the one
transaction that appends, so that of two asks racing for the last budget one is answered and the other
refused at no cost.  A release is durable before anyone sees it.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from defray.controller.ask import Ask, Funds, Held, Planned
from defray.controller.goals import Wish, resolve
from defray.controller.plan import FREE, MAX_STEPS, Price, Purchase, Step, plan, price
from defray.controller.present import Bought, answer_of
from defray.controller.quote import quote_of
from defray.controller.refuse import best_goals, over_budget, over_ceiling, too_few_rows
from defray.controller.validity import confirming, too_many_looks, validity_of
from defray.core.amounts import QUANTA, exact, rho_of
from defray.core.answer import Answer, Quote
from defray.core.contract import RELATION, Contract
from defray.core.gate import Gate, Greedy
from defray.data.source import Control, Exact, Scan, Source
from defray.errors import (
    LedgerBusy,
    LedgerError,
    LedgerMismatch,
    Refused,
    SourceChanged,
    TargetError,
)
from defray.ledger.records import Purse, Release, Terms
from defray.ledger.store import Ledger, Transaction, View
from defray.noise.sampler import Sampler
from defray.query.region import Regions
from defray.support.exact import Block, Compiled, compile_question
from defray.support.known import UNKNOWN

DEFAULT_PROBES = 1000
"""Diagnostics the purse is divided into where the contract declares no horizon."""

AGAIN = "ask again"

MAX_TRIES = 3
"""How often an ask starts over because the data changed under it."""


def terms_of(contract: Contract) -> Terms:
    """What binds a ledger to a contract: budget, purses and privacy unit."""
    diagnostic = math.floor(contract.xi * QUANTA)
    return Terms(
        rho=contract.rho,
        caps={"answer": QUANTA - diagnostic, "diagnostic": diagnostic},
        unit=contract.unit.to_json(),
        relation=RELATION,
    )


class Engine:
    """A contract at work.  Safe to share between threads; several engines, also in other processes, may
    share one ledger."""

    def __init__(
        self,
        contract: Contract,
        ledger: Ledger,
        source: Source,
        sampler: Sampler,
        gate: Gate | None = None,
    ) -> None:
        self.contract = contract
        self.ledger = ledger
        self._source = source
        self._sampler = sampler
        self._gate = gate or Greedy()
        self._regions = Regions(contract.domain.widths)
        self._domain_json = contract.domain.to_json()
        self._joined: int | None = None
        self.prepare = lru_cache(maxsize=2048)(self._prepare)

    # -- the two questions ------------------------------------------------------------------------

    def quote(self, sql: str, wish: Wish) -> Quote:
        """What asking this would cost now.  Free: writes nothing, reads no row."""
        return self.quote_all([(sql, wish)])[0]

    def quote_all(self, questions: Sequence[tuple[str, Wish]]) -> list[Quote]:
        """The prices of a list asked in this order: each credits what the ones before it would buy.

        Data-dependent prices (averages, percentages) stay ranges, but an exact repeat of one is free.
        """
        asks = [self.prepare(sql, wish) for sql, wish in questions]
        planned: dict[bytes, list[tuple[Fraction, str]]] = {}
        uncertain: set[bytes] = set()
        quoted: set[str] = set()
        spent = Fraction(0)
        quotes: list[Quote] = []
        fingerprint = self._source.fingerprint()
        with self.ledger.view() as view:
            version, closed = self._version(view, fingerprint), view.closed
            for ask in asks:
                held = self._held(ask, view, version)
                funds = self._funds(view)
                funds = replace(funds, answer=max(funds.answer - spent, Fraction(0)))
                estimate, held = _planned_price(ask, held, funds, planned, uncertain, quoted)
                if not estimate.exact:
                    uncertain.update(ask.compiled.credited)
                if closed and not _free(estimate):
                    raise _closed()
                if estimate.step.hopeless:
                    raise too_few_rows(Fraction(0))
                looked = too_many_looks(ask, held, estimate.step, planned)
                if looked is not None:
                    raise looked
                for purchase in estimate.step.purchases:
                    block = ask.compiled.blocks[purchase.block]
                    for keys in filter(None, (block.keys, block.confirms)):
                        for key, precision in zip(keys, purchase.precisions, strict=True):
                            if precision is not None:
                                planned.setdefault(key, []).append((precision, f"q{len(quotes)}"))
                quoted.add(ask.text)
                spent += rho_of(estimate.low, funds.total)  # what is certain to be spent
                quotes.append(quote_of(ask, held, funds, estimate, version))
        return quotes

    def ask(
        self, sql: str, wish: Wish, *, max_rho: Any = None, control: Control | None = None
    ) -> Answer:
        """Answer a question at the asked accuracy, paying only what the transcript does not hold.

        Raises QueryError or TargetError (bad input), BudgetRefused, MaxRhoRefused, TooFewRows or
        TooManyLooks (refused), DataError and LedgerError.
        """
        ask = self.prepare(sql, wish)
        ceiling = _ceiling(max_rho)
        lost = False
        for _ in range(MAX_TRIES):
            fingerprint = self._source.fingerprint()
            with self.ledger.view() as view:
                version = self._version(view, fingerprint)
                held, funds = self._held(ask, view, version), self._funds(view, ceiling)
                closed = view.closed
            estimate = price(ask, held, funds)
            if closed and not _free(estimate):
                raise _closed()
            refusal = too_many_looks(ask, held, estimate.step) or self._refusal(
                ask, held, funds, estimate
            )
            if refusal is not None:
                raise refusal
            if not estimate.step.purchases:
                return answer_of(ask, Bought(held, held, ()), funds, version, self.contract.unit)
            exact_cells = self._source.scan(_scan(ask.compiled), control)
            if self._source.fingerprint() != fingerprint:
                continue  # another version was scanned: nothing was drawn, start over
            with self.ledger.transaction() as tx:
                if self._version(tx, fingerprint) != version:
                    continue  # a newer version was opened meanwhile
                if _counter(tx) != version:
                    tx.open_epoch(fingerprint, self._domain_json)
                outcome = self._buy(ask, exact_cells, tx, ceiling, (held, estimate))
            if isinstance(outcome, Answer):
                self._joined = version
            lost = outcome is None
            if outcome is None:
                continue  # a race for the budget was lost: look again, at no cost
            if isinstance(outcome, Refused):
                raise outcome
            return outcome
        if lost:
            raise LedgerBusy(
                "others kept taking the budget asked for; nothing was charged", hint=AGAIN
            )
        raise SourceChanged(
            "the data kept changing while the question was answered; nothing was charged",
            hint="ask again when the data is at rest",
        )

    # -- the steps of an ask ----------------------------------------------------------------------

    def _prepare(self, sql: str, wish: Wish) -> Ask:
        """Text and arguments to a compiled ask: pure, so cached by exact text."""
        from defray.query.render import canonical_sql
        from defray.query.sql import parse

        contract = self.contract
        question = parse(sql, contract.domain, self._regions, table=contract.table, snap=wish.snap)
        groups = math.prod(
            contract.domain.columns[a.column].group_count(a.level) for a in question.axes
        )
        goals, confidence, simultaneous = resolve(question, wish, contract, groups)
        compiled = compile_question(question, contract, self._regions)
        text = canonical_sql(question, contract.domain, self._regions, contract.table)
        validity = validity_of(question, wish, goals)
        ask = Ask(
            compiled, goals, confidence, simultaneous, floor=contract.m_floor, validity=validity
        )
        ask = confirming(ask)
        return replace(ask, text=f"{text} {ask.accuracy}")

    def _held(self, ask: Ask, view: View, version: int) -> Held:
        """What the transcript holds for the question (the paper's history, restricted to it); nothing
        where ``version`` is still to be opened."""
        compiled = ask.compiled
        keys = [*compiled.keys, *ask.marks]
        found = view.known(keys) if _counter(view) == version else [UNKNOWN] * len(keys)
        cells = len(compiled.cells)
        blocks = [found[b * cells : (b + 1) * cells] for b in range(len(compiled.blocks))]
        return Held(blocks, dict(zip(ask.marks, found[len(compiled.keys) :], strict=True)))

    def _funds(self, view: View, ceiling: Fraction | None = None, charged: int = 0) -> Funds:
        """What may be spent now; ``charged`` quanta of the caller's ceiling are gone already."""
        contract, total = self.contract, self.contract.rho

        def left(purse: Purse) -> Fraction:
            return rho_of(self.ledger.terms.caps[purse] - view.spent(purse), total)

        return Funds(
            total=total,
            answer=left("answer"),
            diagnostic=left("diagnostic"),
            probe=contract.xi * total / (contract.horizon or DEFAULT_PROBES),
            ceiling=None if ceiling is None else ceiling - rho_of(charged, total),
            charged=rho_of(charged, total),
            m_floor=contract.m_floor,
            n_max=contract.n_max,
        )

    def _refusal(
        self, ask: Ask, held: Held, funds: Funds, estimate: Price, *, search: bool = True
    ) -> Refused | None:
        """Why the next step may not be bought, if so; from public data and the transcript alone.
        ``search``: also look for the best accuracy that still fits."""
        step = estimate.step
        if step.hopeless:
            return too_few_rows(Fraction(0))
        if not step.purchases:
            return None
        asked = rho_of(max(estimate.low, step.charge), funds.total)
        if funds.ceiling is not None and asked > funds.ceiling:
            return over_ceiling(asked, funds.ceiling, funds.charged)
        first = rho_of(step.charge, funds.total)
        needed = asked if step.purse == "answer" else first
        available = funds.left(step.purse)
        if step.purse == "diagnostic" and asked - first > funds.answer:
            needed, available = asked - first, funds.answer  # what follows could not be paid
        if self._gate.grant(needed, available) >= needed:
            return None
        cap = rho_of(self.ledger.terms.caps[step.purse], funds.total)
        best = best_goals(ask, held, funds) if search else None
        return over_budget(ask, needed, available, step.purse, cap, best)

    def _buy(
        self,
        ask: Ask,
        exact_cells: Exact,
        tx: Transaction,
        ceiling: Fraction | None,
        foreseen: tuple[Held, Price],
    ) -> Answer | Refused | None:
        """Decide, charge, draw and append, step by step, inside the transaction.

        A price foreseen before the scan is taken again where nothing has been learned since.  Nothing is
        bought (None) where it can no longer be afforded.  A refusal after a first step ends the ask with
        what that step bought, which is kept, credited and shown as not met.
        """
        version = _counter(tx)
        before = held = self._held(ask, tx, version)
        name = str(tx.seq + 1)
        bill: list[Purchase] = []
        stopped = ""
        charged = 0
        limit: int | None = None
        for _ in range(MAX_STEPS):
            funds = self._funds(tx, ceiling, charged)
            if bill:
                step = plan(ask, held, funds)
                estimate = Price(step, step.charge, step.charge)
            else:
                estimate = foreseen[1] if held == foreseen[0] else price(ask, held, funds)
                step = estimate.step
            looked = None if bill else too_many_looks(ask, held, step)
            refusal = looked or self._refusal(ask, held, funds, estimate, search=False)
            if refusal is not None:
                if not bill:
                    return None
                stopped = refusal.message
                break
            limit = estimate.high if limit is None else limit
            if bill and charged + step.charge > limit:
                stopped = "the price that was quoted is reached; ask again to go on"
                break
            if not step.purchases:
                break
            self._measure(ask, step, exact_cells, tx, name)
            bill.extend(step.purchases)
            charged += step.charge
            held = self._held(ask, tx, version)
            if step.final and len(bill) == len(step.purchases):
                break  # the quote was exact: this and no more
        funds = self._funds(tx, ceiling, charged)
        if stopped and plan(ask, held, funds).hopeless:
            return too_few_rows(rho_of(charged, funds.total))
        bought = Bought(before, held, bill)
        return answer_of(ask, bought, funds, version, self.contract.unit, stopped)

    def _measure(
        self, ask: Ask, step: Step, exact_cells: Exact, tx: Transaction, name: str
    ) -> None:
        """Draw and append a step's releases.  True numbers meet their noise here and nowhere else."""
        for purchase in step.purchases:
            block = ask.compiled.blocks[purchase.block]
            drawn = {i: s for i, s in enumerate(purchase.sigmas) if s is not None}
            scales = [math.ldexp(sigma, purchase.bits) for sigma in drawn.values()]
            noise = dict(zip(drawn, self._sampler.draw(scales), strict=True))
            values = tuple(
                _true_value(block, exact_cells, i, purchase.bits) + noise[i] if i in noise else None
                for i in range(len(block.keys))
            )
            last = purchase is step.purchases[-1]
            note: dict[str, Any] = {"at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds")}
            if purchase.given:
                note["given"] = True
            if ask.tag:
                note["confirm"] = ask.tag
            tx.append(
                Release(
                    version=_counter(tx),
                    purse=step.purse,
                    attributes=block.attributes,
                    measure=str(block.measure),
                    weights=block.weights,
                    unit=block.unit,
                    step=purchase.bits,
                    reach=block.reach,
                    values=values,
                    sigmas=purchase.sigmas,
                    precisions=purchase.precisions,
                    charge=purchase.charge,
                    question=ask.text,
                    ask=name,
                    keys=block.functionals,
                    settles=step.settles if last else (),
                    note=note,
                )
            )

    # -- data versions ----------------------------------------------------------------------------

    def _version(self, view: View, fingerprint: str) -> int:
        """The data version that an ask belongs to: the newest, or (L12) the next one, to be opened by
        the first purchase, where the data or the declared domain is another."""
        epoch = view.epoch
        if epoch is None:
            return 1
        if epoch.domain != self._domain_json:
            if self._joined is not None and self._joined < epoch.counter:
                raise LedgerMismatch(
                    "the declared domain was changed in the contract file, and others use it already",
                    hint="open the contract again",
                )
            return epoch.counter + 1
        if epoch.fingerprint != fingerprint:
            return epoch.counter + 1
        self._joined = epoch.counter
        return epoch.counter

    def close(self) -> None:
        """Release files and connections; the contract itself stays open."""
        self._source.close()
        self.ledger.close()


def _planned_price(
    ask: Ask,
    held: Held,
    funds: Funds,
    planned: Planned,
    uncertain: set[bytes],
    quoted: set[str],
) -> tuple[Price, Held]:
    """The price of an ask after others of a list, and what would be held by then.

    ``planned`` precision would be there; of ``uncertain`` functionals more may be known than is planned.
    """
    if ask.depends_on_data and ask.text in quoted:
        return FREE, held
    touched = uncertain.intersection(ask.compiled.keys)
    if ask.depends_on_data:
        estimate = price(ask, held, funds)
        touched |= planned.keys() & set(ask.compiled.keys)
    else:
        held = held.with_planned(ask.compiled, planned)
        estimate = price(ask, held, funds)
    # More knowledge can only make it cheaper.
    return (replace(estimate, low=0, exact=False) if touched else estimate), held


def _free(estimate: Price) -> bool:
    return not estimate.step.purchases and not estimate.step.hopeless


def _closed() -> LedgerError:
    return LedgerError(
        "the contract was closed; only what is known already is answered",
        hint="what was asked and answered before is in its history",
    )


def _counter(view: View) -> int:
    epoch = view.epoch
    return 0 if epoch is None else epoch.counter


def _ceiling(max_rho: Any) -> Fraction | None:
    if max_rho is None:
        return None
    try:
        ceiling = exact(max_rho)
    except ValueError:
        ceiling = Fraction(-1)
    if ceiling < 0:
        raise TargetError("max_rho must be a finite number of at least 0", hint="max_rho=0.01")
    return ceiling


def _scan(compiled: Compiled) -> Scan:
    """Every exact number the question can need, in one pass over the table."""
    question = compiled.question
    columns = {a.column for a in question.aggregates if a.column is not None}
    sums = {a.column for a in question.aggregates if a.column and a.function != "COUNT"}
    return Scan(question.region, question.axes, tuple(sorted(columns)), tuple(sorted(sums)))


def _true_value(block: Block, exact_cells: Exact, cell: int, bits: int) -> int:
    """The exact functional in lattice steps of ``2**-bits`` units, in unbounded integers."""
    rows = exact_cells.rows if block.column is None else exact_cells.non_null[block.column]
    if block.measure.kind == "count":
        return rows[cell] << bits
    assert block.column is not None
    total = Fraction(exact_cells.sums[block.column][cell])
    if block.measure.kind == "centred":
        total -= block.middle * rows[cell]
    scaled = total * (1 << bits)
    assert scaled.denominator == 1
    return scaled.numerator
