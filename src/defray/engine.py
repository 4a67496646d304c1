"""The path of one question, as a straight line.

    text -> descriptor -> what is held -> residual -> charge -> noise -> fuse -> commit -> answer

:meth:`Engine.ask` reads top to bottom.  The private numbers come from the source, are handed on unseen, and
meet their noise on one line of :meth:`Engine._measure`: what leaves that line is a release.

Every decision is made twice: once for free, before the data is touched, and again inside the one
transaction that appends, so that of two asks racing for the last budget one is answered and the other
refused at no cost.  A release is durable before anyone sees it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from defray.controller.ask import Ask
from defray.controller.goals import Wish
from defray.controller.plan import MAX_STEPS, Price, Step, plan, price
from defray.controller.prepare import prepare
from defray.controller.present import Bought, answer_of, settled
from defray.controller.refuse import closed, reason, refusal_of, too_few_rows
from defray.controller.scarcity import Moment, Ration
from defray.controller.sharing import Decision, decide
from defray.controller.together import together
from defray.controller.validity import too_many_looks
from defray.core.amounts import exact, rho_of
from defray.core.answer import Answer, Quote
from defray.core.contract import Contract
from defray.core.principals import Caller
from defray.data.source import Control, Source, glance_of
from defray.errors import LedgerBusy, MaxRhoRefused, Refused, SourceChanged, TargetError
from defray.ledger.records import Release, Settled
from defray.ledger.store import Ledger, Transaction
from defray.noise.sampler import Sampler
from defray.pricelist import price_list
from defray.query.reader import identifier
from defray.query.region import Regions
from defray.recent import Recent
from defray.recording import Record, keep_answer, kept_answer, views_noted
from defray.scans import Scanned, noisy, scan, true_value
from defray.transcript import Transcript, counter

AGAIN = "ask again"

MAX_TRIES = 5
"""How often an ask starts over because the data changed under it."""


class Engine:
    """A contract at work.  Safe to share between threads; several engines, also in other processes, may
    share one ledger."""

    def __init__(
        self, contract: Contract, ledger: Ledger, source: Source, sampler: Sampler
    ) -> None:
        self.contract = contract
        self.ledger = ledger
        self.transcript = Transcript(contract, ledger)
        self._source, self._glance = source, glance_of(source)
        self._sampler = sampler
        self._regions = Regions(contract.domain.widths)
        self.prepare = lru_cache(maxsize=2048)(self._prepare)
        self._quotes, self._answers, self._moments = Recent(), Recent(), Recent()

    # -- the two questions ------------------------------------------------------------------------

    def quote(
        self, sql: str, wish: Wish, among: Sequence[str] = (), name: str | None = None
    ) -> Quote:
        """What asking this would cost now.  Free: writes nothing, reads no row."""
        return self.quote_all([(sql, wish)], among, name)[0]

    def quote_all(
        self,
        questions: Sequence[tuple[str, Wish]],
        among: Sequence[str] = (),
        name: str | None = None,
    ) -> list[Quote]:
        """The prices of a list asked in this order: each credits what the ones before it would buy."""
        asks = [self._asked(sql, wish, among) for sql, wish in questions]
        fingerprint = self._source.fingerprint()
        with self.ledger.view() as view:
            version = self.transcript.version(view, fingerprint)
            now, key = (view.head, version), (tuple(questions), tuple(among), name)
            quotes: list[Quote] | None = self._quotes.get(now, key)
            if quotes is None:
                quotes = price_list(asks, self.transcript, view, version, name)
                self._quotes.keep(now, key, quotes)
        return list(quotes)

    def moment(self, at: Hashable | None = None) -> tuple[str, int] | None:
        """The log's head and the data version: while these stay, the same question from the same principal
        has the same price and, where it is free, the same answer.  ``at`` is the version of the ledger, where
        it was just read.  None where files would have to be waited for."""
        fingerprint = self._glance()
        if fingerprint is None:
            return None
        of = self.ledger.version() if at is None else at
        seen: tuple[str, int] | None = self._moments.get(of, fingerprint)
        if seen is None:
            with self.ledger.view() as view:
                seen = view.head, self.transcript.version(view, fingerprint)
            self._moments.keep(of, fingerprint, seen)
        return seen

    def ask(
        self,
        sql: str,
        wish: Wish,
        *,
        among: Sequence[str] = (),
        max_rho: Any = None,
        control: Control | None = None,
        caller: Caller | None = None,
    ) -> Answer:
        """Answer a question at the asked accuracy, paying only what the transcript does not hold; where
        the contract's gate grants less, at the accuracy which that buys.  What it has in common with those
        ``among`` which it is asked is bought as suits them all.

        Raises QueryError or TargetError (bad input), BudgetRefused, MaxRhoRefused, TooFewRows or
        TooManyLooks (refused), DataError and LedgerError.
        """
        answer = self._answered(sql, wish, among, max_rho, control, caller)
        assert answer is not None
        return answer

    def known(
        self,
        sql: str,
        wish: Wish,
        *,
        among: Sequence[str] = (),
        max_rho: Any = None,
        caller: Caller | None = None,
        follow: bool = False,
    ) -> Answer | None:
        """What :meth:`ask` answers where that is free; None where something would have to be bought, or an
        analyst's shadow to move and may not ``follow``.  Reads no row, and writes nothing else.  Raises as
        :meth:`ask` does, but nothing is refused here."""
        return self._answered(sql, wish, among, max_rho, None, caller, buy=False, follow=follow)

    def _answered(
        self,
        sql: str,
        wish: Wish,
        among: Sequence[str],
        max_rho: Any,
        control: Control | None,
        caller: Caller | None,
        *,
        buy: bool = True,
        follow: bool = True,
    ) -> Answer | None:
        ask = self._asked(sql, wish, among)
        ceiling, name = ceiling_of(max_rho), None if caller is None else caller.name
        key, lost = (sql, wish, tuple(among), ceiling, name), False
        for _ in range(MAX_TRIES):
            fingerprint = self._source.fingerprint()
            with self.ledger.view() as view:
                kept = kept_answer(view, caller)
                if kept is not None:
                    return kept
                version, head = self.transcript.version(view, fingerprint), view.head
                known: Answer | None = self._answers.get((head, version), key)
                if known is not None:
                    return known
                moment = self.transcript.moment(ask, view, version, ceiling, name=name)
            estimate = price(ask, moment.held, moment.funds)
            if not buy and not estimate.free:
                return None
            if moment.closed and not estimate.free:
                raise closed()
            decision = decide(ask, moment, estimate)
            if not follow and decision.moves:
                return None
            rationed = decision.rationed
            looked = too_many_looks(ask, moment.held, rationed.price.step)
            if looked is not None:
                raise looked
            refusal = refusal_of(ask, moment, rationed)
            done = not rationed.price.step.purchases  # known already, refused, or held back
            given = self._remembered(ask, moment, decision, fingerprint, name) if done else 0
            if given is None:
                continue
            if refusal is not None:
                raise refusal
            if done:
                bought = Bought(moment.held, moment.held)
                answer = self._answer(ask, bought, moment.giving(given), rationed, given=given)
                self._answers.keep((head, version), key, answer)
                return answer
            step, overlap = rationed.price.step, moment.held.overlap
            scanned = scan(self._source, ask.compiled, step, overlap, control)
            if self._source.fingerprint() != fingerprint:
                continue  # another version was scanned: nothing was drawn, start over
            if control is not None:
                control.check()
            with self.ledger.transaction() as tx:
                if self.transcript.version(tx, fingerprint) != version:
                    continue  # a newer version was opened meanwhile
                self.transcript.open_version(tx, version, fingerprint)
                outcome = self._buy(ask, scanned, tx, ceiling, (moment, decision), caller)
            if outcome is None:
                lost = True
                continue  # a race for the budget was lost: look again, at no cost
            if isinstance(outcome, Refused):
                raise outcome
            self.transcript.joined = version
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
        return prepare(sql, wish, self.contract, self._regions)

    def _asked(self, sql: str, wish: Wish, among: Sequence[str]) -> Ask:
        """A question, as one of those that are asked with the same arguments."""
        ask = self.prepare(sql, wish)
        return together(ask, [self.prepare(other, wish) for other in among]) if among else ask

    def _buy(
        self,
        ask: Ask,
        scanned: Scanned,
        tx: Transaction,
        ceiling: Fraction | None,
        foreseen: tuple[Moment, Decision],
        caller: Caller | None = None,
    ) -> Answer | Refused | None:
        """Decide, charge, draw and append, step by step, inside the transaction.

        What was foreseen before the scan stands where the log did not move, and its price where nothing was
        learned or spent since; where overlaps count, only what was scanned can be measured.  Nothing is
        bought (None) where it can no longer be afforded.  A refusal after a first step ends the ask with
        what that step bought, which is kept, credited and shown as not met.
        """
        kept = kept_answer(tx, caller)
        if kept is not None:
            return kept
        version = counter(tx)
        views, by = scanned.views.keys(), None if caller is None else caller.name
        moment, decision = foreseen
        if tx.head != moment.head or moment.overlap is not None:
            before = moment
            moment = self.transcript.moment(ask, tx, version, ceiling, scanned=views, name=by)
            if not moment.same(before):
                decision = decide(ask, moment)
            elif moment.share is None:
                decision = decide(ask, moment, decision.estimate)
        rationed = latest = decision.rationed
        looked = too_many_looks(ask, moment.held, latest.price.step)
        if looked is not None:
            return looked
        refusal = refusal_of(ask, moment, latest, search=False)
        early = isinstance(refusal, MaxRhoRefused)  # counts for no one, as before the scan
        if refusal is not None and (early or not moment.scarcity.policy.paced):
            return None
        if refusal is not None:  # the decision of this moment, which paces others
            self.transcript.arrive(tx, ask, moment, latest, 0)
            return refusal

        if not scanned.covers(latest.price.step):
            return None  # others' releases changed what is measured: look again

        most, bought, stopped = latest.price.high, Bought(moment.held, moment.held), ""
        given, name = 0, str(tx.seq + 1 + len(decision.moves))  # its first release has that seq
        for n in range(MAX_STEPS):
            step = latest.price.step
            if stopped or not step.purchases:
                break
            record = Record(self.contract, ask, tx, name, None if moment.share is None else by)
            record.move(decision)
            self._measure(step, scanned, record, views_noted(ask, moment, self.contract.domain))
            given += decision.reuse
            charged = bought.charged + step.charge
            moment = self.transcript.moment(
                ask, tx, version, ceiling, charged, scanned=views, name=by
            )
            bought = bought.with_step(step, moment.held)
            if latest.cut or (step.final and not n):
                break  # cut down, or the quote was exact: this and no more
            following = Price.of(plan(ask, moment.held, moment.funds))
            room = most - bought.charged
            decision = decide(
                ask,
                moment,
                following,
                before=bought.before,
                spent=bought.spent,
                most_quanta=room,
            )
            latest = decision.rationed
            rationed = rationed if latest.grant is None else latest
            stopped = _stop(ask, moment, latest, room)
            if not scanned.covers(latest.price.step):
                stopped = stopped or AGAIN
        self.transcript.arrive(tx, ask, moment, rationed, bought.spent)
        if stopped and latest.price.step.hopeless:
            return too_few_rows(rho_of(bought.charged, moment.funds.total))
        unpaid = 0
        if stopped:  # what was to come next may have been a diagnostic, which lacks nothing
            rest = plan(ask, moment.held, replace(moment.funds, weighs=False, probe=Fraction(0)))
            unpaid = latest.lacking or rest.charge
        answer = self._answer(ask, bought, moment, rationed, stopped, unpaid, given)
        settles = settled(ask, bought, moment.funds)
        if settles:
            tx.settle(Settled(name, settles))
        keep_answer(tx, caller, answer)
        return answer

    def _answer(
        self,
        ask: Ask,
        bought: Bought,
        moment: Moment,
        rationed: Ration,
        stopped: str = "",
        unpaid: int = 0,
        given: int = 0,
    ) -> Answer:
        """``unpaid`` quanta are lacking where the ask was ``stopped``; else what the gate did not grant.
        ``given`` quanta went to those who had paid for what was used."""
        if not rationed.whole:
            unpaid = rationed.need - bought.spent
            stopped = stopped or reason(rationed, moment.scarcity)
        total = moment.funds.total
        answer = answer_of(
            ask,
            bought,
            moment.funds,
            moment.version,
            self.contract.unit,
            stopped,
            rho_of(unpaid, total),
        )
        return replace(answer, to_others_rho=float(rho_of(given, total))) if given else answer

    def _remembered(
        self, ask: Ask, moment: Moment, decision: Decision, fingerprint: str, by: str | None
    ) -> int | None:
        """Remember an ask that its gate grants nothing, where that paces others, and a free one that moves
        its analyst's shadow: what that gives to others, in quanta.  None where things have changed and
        another look is due."""
        version = moment.version
        if decision.moves and not moment.closed:
            return self._followed(ask, moment, decision, fingerprint, by)
        if decision.rationed.grant is None or not moment.scarcity.arriving:
            return 0
        with self.ledger.transaction() as tx:
            if self.transcript.version(tx, fingerprint) != version or tx.closed:
                return None
            now = self.transcript.moment(ask, tx, version, moment.funds.ceiling)
            again = decide(ask, now).rationed
            if again.grant is None or again.price.step.purchases:
                return None
            self.transcript.open_version(tx, version, fingerprint)
            self.transcript.arrive(tx, ask, now, again, 0)
        self.transcript.joined = version
        return 0

    def _followed(
        self, ask: Ask, moment: Moment, decision: Decision, fingerprint: str, by: str | None
    ) -> int | None:
        """Let the shadow of who asks follow what all know already: what that gives to others, in quanta.
        None where another look is due."""
        version = moment.version
        with self.ledger.transaction() as tx:
            if self.transcript.version(tx, fingerprint) != version or tx.closed:
                return None
            if tx.head != moment.head:
                now = self.transcript.moment(ask, tx, version, name=by)
                if not now.same(moment):
                    decision = decide(ask, now)
            if decision.rationed.price.step.purchases:
                return None
            if decision.moves:
                self.transcript.open_version(tx, version, fingerprint)
                Record(self.contract, ask, tx, str(tx.seq + 1), by).move(decision)
        self.transcript.joined = version
        return decision.reuse

    def _measure(
        self, step: Step, scanned: Scanned, record: Record, views: Sequence[Any] = ()
    ) -> None:
        """Draw and append a step's releases.  True numbers meet their noise here and nowhere else."""
        made: list[Release] = []
        for purchase in step.purchases:
            block = record.ask.compiled.blocks[purchase.block]
            for drawn in purchase.draws:
                values = noisy(drawn, block, scanned, self._sampler.draw(drawn.scales))
                made.append(record.release(purchase, values, drawn))
            if not purchase.draws:
                assert scanned.own is not None
                sigmas = {i: s for i, s in enumerate(purchase.sigmas) if s is not None}
                scales = [math.ldexp(sigma, purchase.bits) for sigma in sigmas.values()]
                noise = dict(zip(sigmas, self._sampler.draw(scales), strict=True))
                own = tuple(
                    true_value(block, scanned.own, i, purchase.bits) + noise[i]
                    if i in noise
                    else None
                    for i in range(len(block.keys))
                )
                made.append(record.release(purchase, own))
        record.append(made, step, views)

    def warm(self) -> None:
        """Load what a first ask would wait for: by a price, for one of those who may ask, and by noise that
        nobody gets.  Writes nothing, reads no row.  Raises as :meth:`quote` does."""
        with self.ledger.view() as view:
            those = view.principals().values()
        name = next((p.name for p in those if p.active and p.share is not None), None)
        sql = f"SELECT COUNT(*) FROM {identifier(self.contract.table)} ERROR WITHIN 1"
        self.quote(sql, Wish(), name=name)
        self._sampler.draw([1.0])

    def close(self) -> None:
        """Release files and connections; the contract itself stays open."""
        self._source.close()
        self.ledger.close()


def _stop(ask: Ask, moment: Moment, rationed: Ration, room: int) -> str:
    """Why an ask that has bought something goes no further than ``room`` quanta; empty where it may."""
    refusal = refusal_of(ask, moment, rationed, search=False)
    if refusal is not None:
        return refusal.message
    if rationed.price.step.charge > room:
        return "the price that was quoted is reached; ask again to go on"
    return ""


def ceiling_of(max_rho: Any) -> Fraction | None:
    """``max_rho`` as a number; TargetError where it is none."""
    if max_rho is None:
        return None
    try:
        ceiling = exact(max_rho)
    except ValueError:
        ceiling = Fraction(-1)
    if ceiling < 0:
        raise TargetError("max_rho must be a finite number of at least 0", hint="max_rho=0.01")
    return ceiling
