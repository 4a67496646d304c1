"""Quotes: what an ask would cost and how accurate it would be, item by item."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from defray.controller.ask import Ask, Held
from defray.controller.linear import Linear
from defray.controller.plan import Step, expected
from defray.controller.present import TOO_FEW, items_of, reused, version_notes
from defray.controller.purchase import Purchase, charged
from defray.controller.refuse import best_goals, reason
from defray.controller.rules import rules_of
from defray.controller.scarcity import Moment, Ration
from defray.core.amounts import rho_of
from defray.core.answer import Quote


def quote_of(
    ask: Ask, moment: Moment, rationed: Ration, bought: Sequence[Purchase], reuse: int = 0
) -> Quote:
    """The quote of an ask; ``bought`` is what is sure to be measured, and ``reuse`` the quanta that the
    account gives to those who had paid for what is used."""
    price, funds, held = rationed.price, moment.funds, moment.held
    total, step = funds.total, price.step
    low, high = rho_of(price.low, total), rho_of(price.high, total)
    first = rho_of(step.charge, total)
    whole = rationed.whole
    high_rest = rho_of(price.high - charged(step.purchases, "diagnostic"), total)
    paid = step.fits or (high_rest <= funds.answer and first <= funds.left(step.purse))
    hopeless = any(n.hopeless for needs in step.needs for n in needs)
    fits = whole and paid and not price.capped and not hopeless
    credit = sum(
        (
            max(reused(rule, i, held, bought, total) for i in range(len(ask.compiled.cells)))
            for rule in rules_of(ask)
        ),
        Fraction(0),
    )
    notes = list(version_notes(moment.version))
    if not price.exact and step.purse == "diagnostic" and not ask.depends_on_data:
        notes.append(
            "the budget is scarce and the grant depends on how difficult the question is: only the "
            "diagnostic's price is exact; max_rho is never exceeded"
        )
    elif not price.exact:
        notes.append(
            "the rest depends on a count that is not known yet: only the first step's price is "
            "exact; max_rho is never exceeded"
        )
    if hopeless:
        notes.append(f"the target will not be met everywhere: {TOO_FEW}")
    if not whole:
        notes.append(f"the target will not be met: {reason(rationed, moment.scarcity)}")
    shortfall = max(rho_of(rationed.need, total) - high_rest, Fraction(0)) if not whole else 0
    return Quote(
        question=ask.text,
        exact=price.exact,
        charged_rho=float(low),
        low_rho=float(low),
        high_rho=float(high),
        first_rho=float(first),
        reused_rho=float(credit),
        remaining_rho=float(funds.answer),
        fits=fits,
        items=items_of(ask, bought, funds),
        data_version=moment.version,
        needs_rho=float(max(rho_of(rationed.need, total), low)),
        shortfall_rho=float(shortfall),
        achieves=None if whole else achieved(ask, held, bought),
        best=None if fits or not price.exact else best_goals(ask, moment),
        notes=tuple(notes),
        validity=ask.validity.label,
        to_others_rho=float(rho_of(reuse, total)),
    )


def achieved(ask: Ask, held: Held, bought: Sequence[Purchase]) -> dict[str, float] | None:
    """The half-width, by alias, of each COUNT or SUM once this is bought: its widest cell's.  None where
    nothing would be known."""
    after = expected(ask, held, Step(tuple(bought), final=True, purse="answer", needs=()))
    widths: dict[str, float] = {}
    for aggregate, rule in zip(ask.compiled.question.aggregates, rules_of(ask), strict=True):
        if isinstance(rule, Linear):
            cells = [i for i, empty in enumerate(rule.block("count").empty) if not empty]
            if cells and all(rule.precision(i, after) for i in cells):
                widths[aggregate.alias] = max(rule.estimate(i, after).half_width for i in cells)
    return widths or None
