"""What an analyst who has a share of the budget buys: at least what that share would have bought alone.

Shadow-guaranteed residual sharing (design: several analysts, linear support).  Each analyst has a *shadow*:
what would be known and spent if nobody else had ever asked.  It moves first, by the contract's gate within
the share.  What all know is kept above what every shadow knows, so that

* no analyst is answered less precisely than alone, and
* no cell has paid more for an analyst than for the shadow; what it has paid less are the *savings*, from
  which questions may be answered that the share alone could not.

Bought is the cheapest of what is missing publicly, and what the shadow's releases say beyond that; where
the two together are too dear, the latter first and then, from savings, the rest.  Nothing that is known
publicly is bought for the shadow's sake: then it stays as it is, unless all of its releases are held
already.

Where reuse is shared (exact support), whoever's shadow moves pays those who paid for what it reaches
(:mod:`defray.policy.stakes`), before anything is bought.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from defray.controller.ask import Ask, Funds, Held
from defray.controller.cut import cut
from defray.controller.plan import Price, Step, expected, plan, price
from defray.controller.purchase import Purchase, charged, releases, residual_of
from defray.controller.scarcity import Grant, Moment, Ration, ration
from defray.controller.share import Backs, Share, reuse
from defray.core.amounts import quanta_down, rho_of
from defray.core.contract import PURSES
from defray.policy.demand import Demand

if TYPE_CHECKING:
    from defray.support.drawn import Drawn
    from defray.support.planned import Planned


DUST: Final = Fraction(1, 2**40)
"""So much of a precision is not worth a release of its own."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What an ask is priced at, what of it is granted, the releases by which the analyst's shadow moves, and
    what comes back to others for each of these (None: reuse is not shared)."""

    estimate: Price
    rationed: Ration
    moves: tuple[Planned, ...] = ()
    back: Backs | None = None

    @property
    def reuse(self) -> int:
        """What the analyst gives for reuse, in quanta."""
        return reuse(self.back)


def decide(
    ask: Ask,
    moment: Moment,
    estimate: Price | None = None,
    *,
    before: Held | None = None,
    spent: int = 0,
    most_quanta: int | None = None,
) -> Decision:
    """What is bought at this moment; ``estimate`` is its price where that is known.  The rest as in
    :func:`~defray.controller.scarcity.ration`."""
    estimate = estimate or price(ask, moment.held, moment.funds)
    if moment.share is not None:
        rationed, moves = _shared(ask, moment, moment.share, estimate)
        back = moment.share.back(ask, moves, moment.funds.total)
        return Decision(estimate, rationed, moves, back)
    held = before or moment.held
    return Decision(estimate, ration(ask, held, moment, estimate, spent, most_quanta))


def _shared(
    ask: Ask, moment: Moment, share: Share, estimate: Price
) -> tuple[Ration, tuple[Planned, ...]]:
    """What is bought, and how the shadow moves."""
    alone = share.alone
    own = ration(ask, alone.held, alone, price(ask, alone.held, alone.funds))
    first = own.price.step
    if estimate.free or estimate.step.hopeless:
        follows = bool(first.purchases) and not beyond(ask, first.purchases, moment.held, share)
        moves = tuple(releases(ask, first.purchases)) if follows else ()
        return Ration(estimate, 0, None), trimmed(moves, ask, moment.held, share)
    moves = tuple(releases(ask, first.purchases))
    held, funds = share.savings(ask, moment, moves)
    whole = own.whole and bool(moves) and _enough(ask, moment, first, share)
    step = _bought(ask, moment, first, held, funds, share, whole=whole)
    need = charged(step.purchases, "answer")
    met = whole or (step.final and bool(step.purchases))
    wanted = rho_of(max(estimate.rest, need), funds.total)
    demand = Demand(wanted, moment.funds.answer, share.alone.scarcity.cap)
    grant = Grant(demand, wanted if met else rho_of(need, funds.total))
    priced = Price.of(step)
    if ask.depends_on_data and not step.final:
        priced = Price(step, step.charge, max(own.price.high, step.charge), exact=False)
    moves = trimmed(moves, ask, expected(ask, moment.held, step), share)
    return Ration(priced, max(estimate.rest, need), grant, cut=not met), moves


def _enough(ask: Ask, moment: Moment, first: Step, share: Share) -> bool:
    """Whether all that is asked is met once all know as much as the shadow: an anytime interval is as wide as
    its first release was precise, and what all know may have begun otherwise."""
    if ask.validity.kind == "fixed" or ask.depends_on_data:
        return True
    bought = replace(first, purchases=beyond(ask, first.purchases, moment.held, share))
    return not plan(ask, expected(ask, moment.held, bought), moment.funds).purchases


def _bought(
    ask: Ask,
    moment: Moment,
    first: Step,
    held: Held,
    funds: Funds,
    share: Share,
    *,
    whole: bool,
) -> Step:
    """From what is saved: what is missing publicly and then what the shadow's ``first`` step says beyond
    it; or the other way round."""
    direct = plan(ask, held, moment.funds)
    if _payable(direct, funds) and (whole or share.surplus != "none"):
        more = beyond(ask, first.purchases, expected(ask, held, direct), share)
        if not more:
            return replace(direct, fits=True)
        both = replace(direct, purchases=(*direct.purchases, *more), fits=True)
        if _fits(ask, both, held, funds):
            return both
    guaranteed = replace(first, purchases=beyond(ask, first.purchases, held, share), fits=True)
    if guaranteed.purchases and (whole or ask.depends_on_data):
        return guaranteed  # all that is wanted, or what follows depends on values that are not known yet
    rest = _rest(ask, moment, guaranteed, held, funds, share)
    purchases = (*guaranteed.purchases, *rest.purchases)
    settles = (*guaranteed.settles, *rest.settles)
    return replace(rest, purchases=purchases, settles=settles, fits=bool(purchases))


def _rest(
    ask: Ask, moment: Moment, guaranteed: Step, held: Held, funds: Funds, share: Share
) -> Step:
    """What is bought from savings on top of what is guaranteed."""
    after = expected(ask, held, guaranteed) if guaranteed.purchases else held
    left = _left(ask, after, funds, guaranteed)
    rest = plan(ask, after, moment.funds)
    if not rest.purchases or (_payable(rest, left) and share.surplus != "none"):
        return rest
    none = replace(rest, purchases=(), settles=(), final=False)
    if share.surplus != "partial":
        return none
    room = quanta_down(left.left(rest.purse), left.total)
    return cut(rest, ask, after, left, room) if room else none


def _left(ask: Ask, after: Held, funds: Funds, step: Step) -> Funds:
    """What is left once a step was paid."""
    total, overlap = funds.total, after.overlap
    if overlap is None:
        left = {p: funds.left(p) - rho_of(charged(step.purchases, p), total) for p in PURSES}
    else:
        quanta = overlap.answerable(ask.compiled.blocks)
        left = {p: rho_of(quanta[p], total) for p in PURSES}
    return funds.leaving(left)


def _payable(step: Step, funds: Funds) -> bool:
    return bool(step.purchases) and (
        step.fits or step.charge <= quanta_down(funds.left(step.purse), funds.total)
    )


def _fits(ask: Ask, step: Step, held: Held, funds: Funds) -> bool:
    if held.overlap is not None:
        return held.overlap.fits(releases(ask, step.purchases))
    return step.charge <= quanta_down(funds.left(step.purse), funds.total)


# -- precision order -------------------------------------------------------------------------------------


def beyond(
    ask: Ask, purchases: Sequence[Purchase], public: Held, share: Share
) -> tuple[Purchase, ...]:
    """What the shadow's purchases say beyond what all know, measured in the same way: after it, all know at
    least as much as the shadow."""
    alone, funds = share.alone.held, share.alone.funds
    found: list[Purchase] = []
    for purchase in purchases:
        if public.overlap is None or alone.overlap is None:
            rest = _by_functional(ask, purchase, public, alone, funds)
        else:
            rest = _by_order(ask, purchase, public, alone, funds)
        if rest is not None:
            found.append(rest)
        if purchase is purchases[-1]:
            break
        step = Step((purchase,), final=True, purse=purchase.purse, needs=())
        alone = expected(ask, alone, step)
        if rest is not None:
            public = expected(ask, public, replace(step, purchases=(rest,)))
    return tuple(found)


def _by_functional(
    ask: Ask, purchase: Purchase, public: Held, alone: Held, funds: Funds
) -> Purchase | None:
    """Cell by cell: what is known of the very same functional counts."""
    known, own = public.known[purchase.block], alone.known[purchase.block]
    missing = {
        i: p - max(known[i].precision - own[i].precision, Fraction(0))
        for i, p in enumerate(purchase.precisions)
        if p is not None
    }
    dust = DUST if public.overlap is None else Fraction(0)
    wanted = {
        i: known[i].precision + m
        for i, m in missing.items()
        if m > dust * (purchase.precisions[i] or 0)
    }
    return _measured(ask, purchase, wanted, public, funds)


def _by_order(
    ask: Ask, purchase: Purchase, public: Held, alone: Held, funds: Funds
) -> Purchase | None:
    """On the views that questions are answered from: of what is drawn, the part that is not held yet."""
    from defray.support.dominance import held
    from defray.support.remainder import Remainder

    block, more, own = ask.compiled.blocks[purchase.block], public.overlap, alone.overlap
    assert more is not None and own is not None
    kept: list[Drawn] = []
    for piece in releases(ask, (purchase,)):
        history = own.history
        part = held(piece.item(history.domain, history.regions, history.seq + 1), block, more, own)
        if piece.drawn is None:
            if part is None:
                return _by_functional(ask, purchase, public, alone, funds)
            left = Fraction(1 - part)
            known = public.known[purchase.block]
            wanted = {
                i: known[i].precision + left * p
                for i, p in enumerate(purchase.precisions)
                if p is not None and left
            }
            return _measured(ask, purchase, wanted, public, funds)
        own = own.planning((piece,))
        if part is None or part < 1:
            drawn = piece.drawn.part(1 - (part or 0.0))
            kept.append(drawn)
            more = more.planning((replace(piece, drawn=drawn, charge=drawn.charge),))
    if not kept:
        return None
    dearest = Remainder(more).dearest(block, kept)
    charges = tuple(dearest if c else 0 for c in purchase.charges)
    return replace(purchase, draws=tuple(kept), charges=charges, itself=None)


def trimmed(
    moves: tuple[Planned, ...], ask: Ask, public: Held, share: Share
) -> tuple[Planned, ...]:
    """A shadow's releases without the dust that they say beyond what all know: the noise of one release and
    that of several which add up to it are rounded apart."""
    own = share.alone.held
    if public.overlap is not None:
        return moves
    found: list[Planned] = []
    for move in moves:
        at = ask.compiled.blocks.index(move.block)
        kept = list(move.precisions)
        for i, p in enumerate(move.precisions):
            if p is not None:
                over = own.known[at][i].precision + p - public.known[at][i].precision
                kept[i] = p - over if 0 < over <= DUST * p else p
        found.append(replace(move, precisions=tuple(kept)))
    return tuple(found)


def _measured(
    ask: Ask, purchase: Purchase, wanted: dict[int, Fraction], public: Held, funds: Funds
) -> Purchase | None:
    """The question itself, to so much precision of each cell."""
    if not wanted:
        return None
    block = ask.compiled.blocks[purchase.block]
    known = public.known[purchase.block]
    return residual_of(purchase.block, block, wanted, known, funds, purchase.purse, given=False)
