"""Quotes: what an ask would cost, item by item."""

from __future__ import annotations

from fractions import Fraction

from defray.controller.ask import Ask, Funds, Held
from defray.controller.plan import Price
from defray.controller.present import items_of, reused, version_notes
from defray.controller.refuse import best_goals
from defray.controller.rules import rules_of
from defray.core.amounts import rho_of
from defray.core.answer import Quote


def quote_of(ask: Ask, held: Held, funds: Funds, price: Price, version: int) -> Quote:
    """The quote of an ask from its price."""
    total, step = funds.total, price.step
    low, high = rho_of(price.low, total), rho_of(price.high, total)
    first = rho_of(step.charge, total)
    fits = high <= funds.answer and first <= funds.left(step.purse)
    credit = sum(
        (
            max(reused(rule, i, held) for i in range(len(ask.compiled.cells)))
            for rule in rules_of(ask)
        ),
        Fraction(0),
    )
    notes = list(version_notes(version))
    if not price.exact:
        notes.append(
            "the rest depends on a count that is not known yet: only the first step's price is "
            "exact; max_rho is never exceeded"
        )
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
        items=items_of(ask, step.purchases, funds),
        data_version=version,
        best=None if fits or not price.exact else best_goals(ask, held, funds),
        notes=tuple(notes),
        validity=ask.validity.label,
    )
