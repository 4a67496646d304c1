"""The prices of a list of questions asked in order: each credits what the ones before it would buy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from defray.controller.ask import Ask
from defray.controller.cut import within
from defray.controller.plan import (
    FREE,
    Price,
    expected,
    plan,
    price,
)
from defray.controller.purchase import Purchase, charged, releases
from defray.controller.quote import quote_of
from defray.controller.refuse import closed, too_few_rows
from defray.controller.scarcity import Moment, Ration
from defray.controller.sharing import Decision, decide
from defray.controller.validity import too_many_looks
from defray.core.amounts import rho_of
from defray.core.answer import Quote
from defray.ledger.records import PURSES
from defray.ledger.store import View
from defray.policy.demand import Pace
from defray.policy.stakes import Stakes
from defray.transcript import Transcript

if TYPE_CHECKING:
    from defray.support.planned import Planned


def price_list(
    asks: Sequence[Ask],
    transcript: Transcript,
    view: View,
    version: int,
    name: str | None = None,
) -> list[Quote]:
    """The quotes of asks in this order.  Data-dependent prices (averages, percentages) stay ranges, but an
    exact repeat of one is free.  Raises TooFewRows, TooManyLooks or LedgerError where asking would."""
    foreseen = _Foreseen()
    quotes: list[Quote] = []
    for ask in asks:
        moment = foreseen.moment(ask, transcript.moment(ask, view, version, name=name))
        estimate, moment = foreseen.price(ask, moment)
        if moment.closed and not estimate.free:
            raise closed()
        if estimate.step.hopeless:
            raise too_few_rows(Fraction(0))
        decision = decide(ask, moment, estimate)
        rationed = foreseen.doubtful(decision.rationed, moment)
        looked = too_many_looks(ask, moment.held, rationed.price.step, foreseen.planned)
        if looked is not None:
            raise looked
        bought = purchases(ask, moment, rationed)
        foreseen.take(ask, moment, rationed, bought)
        foreseen.move(ask, moment, decision, bought)
        quote = quote_of(ask, moment, rationed, bought, decision.reuse)
        if quote.fits:
            foreseen.met.add(ask.arrival)
        quotes.append(quote)
    return quotes


def purchases(ask: Ask, moment: Moment, rationed: Ration) -> tuple[Purchase, ...]:
    """What is sure to be bought: the first step and, where the price is exact, what follows it."""
    step = rationed.price.step
    granted = rationed.price.low - step.charge
    if not rationed.price.exact or granted <= 0:
        return step.purchases
    by_then, funds = expected(ask, moment.held, step), replace(moment.funds, weighs=False)
    rest = plan(ask, by_then, funds)
    return (*step.purchases, *within(rest, ask, by_then, funds, granted).purchases)


@dataclass(slots=True)
class _Foreseen:
    """What the asks so far would change: ``planned`` precision would be there; of ``uncertain`` functionals
    more may be known than is planned; what is certain would be spent, and have arrived; ``doubt`` is how much
    more might be.  Those of ``met`` will be met, whatever the data says."""

    planned: dict[bytes, list[tuple[Fraction, str]]] = field(default_factory=dict)
    uncertain: set[bytes] = field(default_factory=set)
    quoted: dict[bytes, Fraction | None] = field(default_factory=dict)
    met: set[bytes] = field(default_factory=set)
    doubt: Fraction = Fraction(0)
    releases: list[Planned] = field(default_factory=list)
    moves: list[Planned] = field(default_factory=list)
    stakes: Stakes | None = None
    reuse: int = 0
    asks: int = 0
    answer: Fraction = Fraction(0)
    diagnostic: Fraction = Fraction(0)
    pace: Pace | None = None

    def moment(self, ask: Ask, now: Moment) -> Moment:
        """This moment, after the asks so far."""
        total = now.funds.total
        if now.overlap is None:
            answer, diagnostic = (
                now.funds.answer - self.answer - rho_of(self.reuse, total),
                now.funds.diagnostic - self.diagnostic,
            )
        else:
            overlap = now.overlap.planning(self.releases)
            left = overlap.answerable(ask.compiled.blocks)
            answer, diagnostic = (rho_of(left[p], total) for p in PURSES)
            now = replace(now, overlap=overlap)
        if now.share is not None and (self.moves or self.releases):
            share = now.share.after(ask, now, self.moves, self.releases)
            if self.stakes is not None:
                paid = {**share.paid, "answer": share.paid["answer"].moved(self.reuse)}
                share = replace(share, stakes=self.stakes, paid=paid)
            now = replace(now, share=share)
            if now.overlap is not None:
                alone = share.alone.overlap
                now = replace(now, overlap=replace(now.overlap, alone=alone))
        funds = replace(
            now.funds,
            answer=max(answer, Fraction(0)),
            diagnostic=max(diagnostic, Fraction(0)),
        )
        scarcity = replace(
            now.scarcity,
            pace=self.pace or now.scarcity.pace,
            wanted=self.quoted.get(ask.arrival) or now.scarcity.wanted,
        )
        return replace(now, funds=funds, scarcity=scarcity)

    def price(self, ask: Ask, moment: Moment) -> tuple[Price, Moment]:
        """The price of an ask after those so far, and the moment with what would be held by then."""
        if ask.depends_on_data and ask.arrival in self.met:
            return FREE, moment
        touched = self.uncertain.intersection(ask.compiled.keys)
        if ask.depends_on_data:
            touched |= self.planned.keys() & set(ask.compiled.keys)
        else:
            held = moment.held.with_planned(ask.compiled, self.planned)
            if held.overlap is not None and moment.overlap is not None:
                held = held.with_overlap(ask.compiled, moment.overlap)
            moment = replace(moment, held=held)
        estimate = price(ask, moment.held, moment.funds)
        if moment.held.overlap is not None and self.uncertain:
            touched |= self.uncertain
        # More knowledge can only make it cheaper.
        return (replace(estimate, low=0, exact=False) if touched else estimate), moment

    def doubtful(self, rationed: Ration, moment: Moment) -> Ration:
        """A price is not exact where it depends on how much those before it will have spent."""
        price = rationed.price
        left = moment.funds.answer - self.doubt
        dear = rationed.grant is not None and rho_of(rationed.need, moment.funds.total) > left
        paced = rationed.grant is not None and moment.scarcity.policy.paced
        if not self.doubt or not (dear or paced):
            return rationed
        high = max(price.high, rationed.need)
        unsure = replace(price, low=0, high=high, exact=False, capped=price.capped or dear)
        return replace(rationed, price=unsure)

    def move(
        self, ask: Ask, moment: Moment, decision: Decision, bought: Sequence[Purchase]
    ) -> None:
        """The shadow of who asks follows, and those who had paid for what it reaches get a part of it."""
        self.moves.extend(decision.moves)
        if moment.share is not None:
            made = list(releases(ask, bought))
            self.stakes = moment.share.staking(ask, decision.moves, made, moment.funds.total)
            self.reuse += decision.reuse

    def take(self, ask: Ask, moment: Moment, rationed: Ration, bought: Sequence[Purchase]) -> None:
        """One more ask, as priced."""
        total = moment.funds.total
        self.asks += 1
        name = f"q{self.asks}"
        for purchase in bought:
            block = ask.compiled.blocks[purchase.block]
            for keys in filter(None, (block.keys, block.confirms)):
                for key, precision in zip(keys, purchase.precisions, strict=True):
                    if precision is not None:
                        self.planned.setdefault(key, []).append((precision, name))
        if moment.overlap is not None or moment.share is not None:
            self.releases.extend(releases(ask, bought))
        if not rationed.price.exact:
            self.uncertain.update(ask.compiled.credited)
        first = charged(bought, "diagnostic")
        rest = max(rationed.price.low - first, 0)
        self.diagnostic += rho_of(first, total)
        self.answer += rho_of(rest, total)
        self.doubt += rho_of(rationed.price.high - rationed.price.low, total)
        scarcity, grant = moment.scarcity, rationed.grant
        wanted = scarcity.wanted
        if grant is not None and scarcity.arriving:
            demand = grant.demand
            granted = rho_of(min(rest, rationed.need), total)
            price = scarcity.after(demand, granted)
            self.pace = scarcity.pace.copy()
            self.pace.advance(float(demand.residual), demand.weight, price, grant.influence)
            wanted = Fraction(demand.residual)
        self.quoted[ask.arrival] = wanted
