"""What a scarce budget grants an ask: its policy's decision, and the step cut down to it.

Everything here follows from the contract, the transcript and charged diagnostics (design: controller, step
5; privacy conditions L1 and L3): no decision depends on uncharged data.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from defray.controller.ask import Ask, Funds, Held
from defray.controller.cut import cut, within
from defray.controller.plan import Price, expected, plan
from defray.controller.weigh import weigh
from defray.core.amounts import quanta_down, rho_of
from defray.policy.demand import Demand, Pace
from defray.policy.gates import Policy
from defray.policy.weights import Weights

if TYPE_CHECKING:
    from defray.controller.share import Share
    from defray.support.overlap import Overlap

ALL_BUT = 1 - Fraction(1, 2**40)
"""Who is granted so much of what is needed, or left, is granted all of it."""

DIGITS = Fraction(1, 2**30)
"""How closely a policy's price is found, relatively."""


@dataclass(frozen=True, slots=True)
class Scarcity:
    """The contract's policy at one moment: with the ``pace`` so far and the answer purse's ``cap`` in rho.
    ``wanted`` is what the ask at hand needed when it arrived, in rho (None: it has not arrived before).
    Without ``weights`` every weight is 1."""

    policy: Policy
    pace: Pace
    cap: Fraction
    weights: Weights | None = None
    wanted: Fraction | None = None

    @property
    def arrived(self) -> bool:
        return self.wanted is not None

    @property
    def before(self) -> Pace:
        """The arrivals without the ask at hand."""
        return self.pace.without_newest() if self.arrived else self.pace

    def gained(self, needed: Fraction) -> Fraction:
        """What an ask that may be granted a part has been granted since it arrived, if so much is still
        needed: it counts against its share."""
        if self.wanted is None or not self.policy.partial:
            return Fraction(0)
        gained = self.wanted - needed
        return gained if gained > self.wanted * (1 - ALL_BUT) else Fraction(0)

    def after(self, demand: Demand, granted: Fraction) -> float:
        """The price mu for the next arrival, once this one was granted so much."""
        return self.policy.after(demand, granted, self.before)

    @property
    def arriving(self) -> bool:
        """Whether the ask at hand, if it needs new budget, is one more arrival, which paces the others."""
        return self.policy.paced and not self.arrived


@dataclass(frozen=True, slots=True)
class Moment:
    """All that a decision rests on.  It follows from the ask and the log, of which ``head`` is the newest
    entry.  ``version`` may be a data version that is still to be opened; ``overlap`` is what all its
    releases say, where the contract credits overlaps; ``share`` what the analyst who asks has of the
    budget, where it is shared."""

    head: str
    version: int
    held: Held
    funds: Funds
    scarcity: Scarcity
    closed: bool
    overlap: Overlap | None = None
    share: Share | None = None
    reserve: bool = False

    def giving(self, quanta: int) -> Moment:
        """Once the analyst's account has given so much for reuse."""
        if not quanta:
            return self
        left = self.funds.answer - rho_of(quanta, self.funds.total)
        return replace(self, funds=replace(self.funds, answer=max(left, Fraction(0))))

    def same(self, other: Moment) -> bool:
        """Whether nothing was learned or spent in between that a price rests on."""
        seqs = [0 if m.overlap is None else m.overlap.history.seq for m in (self, other)]
        if (self.share is None) != (other.share is None):
            return False
        if self.share and other.share:
            if self.share.stakes is not other.share.stakes:
                return False
            if not self.share.alone.same(other.share.alone):
                return False
        return self.funds == other.funds and self.held == other.held and seqs[0] == seqs[1]


@dataclass(frozen=True, slots=True)
class Grant:
    """What the policy grants of a ``demand``: ``rho`` in all, exactly, of which ``gained`` was granted when
    the same was asked before.  ``influence`` is the QIF behind its weight (None: not diagnosed)."""

    demand: Demand
    rho: Fraction
    influence: float | None = None
    gained: Fraction = Fraction(0)

    @property
    def new(self) -> Fraction:
        """What is granted now."""
        return max(self.rho - self.gained, Fraction(0))

    @property
    def whole(self) -> bool:
        return self.rho >= self.demand.residual

    def less(self) -> Grant:
        """No more than any policy means, whose prices are found to nine digits."""
        return replace(self, rho=max(self.rho - self._slack, Fraction(0)))

    def more(self) -> Grant:
        """No less than any policy means."""
        return replace(self, rho=min(self.rho + self._slack, Fraction(self.demand.residual)))

    @property
    def _slack(self) -> Fraction:
        """A grant is a difference: its rounding is small beside the residual, not always beside itself."""
        return self.rho * DIGITS + Fraction(self.demand.residual) / 2**50


@dataclass(frozen=True, slots=True)
class Ration:
    """A price as the policy grants it: ``price.step`` may be ``cut`` down, or hold nothing.  ``need`` is
    what meeting the targets takes from the answer purse, in quanta, of which ``spent`` are paid; ``grant``
    is None where nothing has to be bought, or can be."""

    price: Price
    need: int
    grant: Grant | None
    spent: int = 0
    cut: bool = False

    @property
    def lacking(self) -> int:
        """What of the need is still to be paid, in quanta."""
        return self.need - self.spent

    @property
    def whole(self) -> bool:
        """Whether everything that is needed is granted, as far as that can be told."""
        return self.grant is None or self.grant.whole


def ration(
    ask: Ask,
    before: Held,
    moment: Moment,
    estimate: Price,
    spent: int = 0,
    most_quanta: int | None = None,
) -> Ration:
    """What of a priced step is granted to an ask that has ``spent`` quanta of the answer purse already and
    knew ``before`` when it began; a step that is cut down takes no more than ``most_quanta``.

    While the diagnostic that weighs the ask is still to be bought, its weight is not known: then the price
    is a range, from the lightest to the heaviest, unless the weight makes no difference.
    """
    held, funds, scarcity = moment.held, moment.funds, moment.scarcity
    need = spent + estimate.rest
    if not estimate.step.purchases:
        return Ration(estimate, need, None, spent)
    needed = rho_of(need, funds.total)
    available = funds.answer + rho_of(spent, funds.total)
    if estimate.step.fits:
        available = max(available, needed)
    gained = scarcity.gained(needed)
    demand = Demand(needed + gained, available + gained, scarcity.cap)
    if estimate.step.promised and needed <= available:
        return Ration(estimate, need, Grant(demand, needed + gained, None, gained), spent)
    if not need:  # the diagnostic alone is enough
        return Ration(estimate, need, decide(demand, scarcity, gained=gained), spent)
    weighing = estimate.step.purse == "diagnostic"
    weight, influence = 1.0, None
    if scarcity.weights is not None and not weighing:
        weight, influence = weigh(ask, before, held, funds.probe, scarcity.weights, scarcity.pace)
    grant = decide(replace(demand, weight=weight), scarcity, influence, gained)
    light = heavy = grant
    if weighing and scarcity.weights is not None:
        light, heavy = (
            decide(replace(demand, weight=weight), scarcity, gained=gained)
            for weight in (scarcity.weights.least, scarcity.weights.most)
        )
    first, total = estimate.step.charge, funds.total
    if ask.depends_on_data and _may_stop(estimate, demand, scarcity, total):
        estimate = replace(estimate, low=first)
    if light.whole:
        return Ration(estimate, need, grant, spent)
    if weighing and (heavy.new or scarcity.policy.partial):  # at the least a rough answer
        if ask.depends_on_data:
            return Ration(replace(estimate, exact=False), need, grant, spent)
        # The weight makes no difference where even the heaviest gets nothing, or the lightest all.
        sure = not heavy.new or light.rho == demand.available
        some, most = (light, heavy) if sure else (light.less(), heavy.more())
        by_then = expected(ask, held, estimate.step)
        rest = plan(ask, by_then, replace(funds, weighs=False))
        low, high = (
            first + within(rest, ask, by_then, funds, quanta_down(g.new, total)).charge
            for g in (some, most)
        )
        granted = replace(estimate, low=low, high=max(low, high), exact=sure)
        return Ration(granted, need, grant, spent)
    room = 0 if weighing else max(quanta_down(grant.new, total) - spent, 0)
    if first <= room:  # the first of several steps; how many follow is not known yet
        return Ration(replace(estimate, low=first, exact=False), need, grant, spent)
    # What is cut down measures the question itself, which its dearest cell has to pay for.
    room = min(room, quanta_down(funds.answer, total))
    if most_quanta is not None:
        room = min(room, most_quanta)
    smaller = cut(estimate.step, ask, held, funds, room)
    return Ration(Price.of(smaller), need, grant, spent, cut=True)


def _may_stop(estimate: Price, demand: Demand, scarcity: Scarcity, total: Fraction) -> bool:
    """Whether an ask of which not all is known yet may end with its first step: what is granted may fall as
    the need turns out larger, or not be there."""
    policy = scarcity.policy
    return policy.paced or policy.partial or rho_of(estimate.high, total) >= demand.available


def decide(
    demand: Demand,
    scarcity: Scarcity,
    influence: float | None = None,
    gained: Fraction = Fraction(0),
) -> Grant:
    """The policy's decision, exactly within what is needed and left."""
    granted = scarcity.policy.grant(demand, scarcity.before) if demand.residual else 0
    most = min(Fraction(demand.residual), Fraction(demand.available))
    rho = max(min(Fraction(granted), most), Fraction(0))
    if rho >= most * ALL_BUT:  # a float's last digits decide nothing
        rho = most
    return Grant(demand, rho, influence, gained)


def grants(rho: Fraction, funds: Funds, scarcity: Scarcity) -> bool:
    """Whether an ask of this price would be granted whole now, at the weight of a typical one."""
    if rho > funds.spendable:
        return False
    fresh = replace(scarcity, wanted=None)  # at another accuracy it is another question
    return not rho or decide(Demand(rho, funds.answer, scarcity.cap), fresh).whole
