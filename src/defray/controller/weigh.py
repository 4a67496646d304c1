"""How difficult an ask is, by what charged diagnostics and earlier answers say of its magnitude (QIF).

``before`` is what was held when the ask began, ``held`` what is now: how far the one lies from the other is
the instability of the answer.
"""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import median

from defray.controller.ask import Ask, Held
from defray.controller.linear import Linear
from defray.controller.rule import Rule
from defray.controller.rules import rules_of
from defray.core.amounts import precision_of
from defray.policy.demand import Pace
from defray.policy.weights import Diagnosis, Weights


def weigh(
    ask: Ask, before: Held, held: Held, probe: Fraction, weights: Weights, pace: Pace
) -> tuple[float, float | None]:
    """(weight, QIF) of an ask: of several cells the median one's; (1, None) where none is diagnosed."""
    found = [
        weights.influence(diagnosis)
        for rule in rules_of(ask)
        for i, empty in enumerate(rule.block("count").empty)
        if not empty and (diagnosis := diagnose(rule, i, before, held, probe)) is not None
    ]
    if not found:
        return 1.0, None
    influence = median(found)
    return weights.weight(influence, pace), influence


def diagnose(rule: Rule, cell: int, before: Held, held: Held, probe: Fraction) -> Diagnosis | None:
    """What is known of a cell's magnitude, in units of its sensitivity to one row; None if that is less
    than a diagnostic of ``probe`` rho tells."""
    now, then = _known(rule, cell, held), _known(rule, cell, before)
    least = precision_of(probe, rule.block("count").reach)
    if now is None or now[0] < float(least) * (1 - 1e-9):
        return None
    precision, value = now
    sd = 1 / math.sqrt(precision)
    if then is None or then[0] >= precision:
        return Diagnosis(value, sd)
    more = precision - then[0]
    fresh = (precision * value - then[0] * then[1]) / more
    return Diagnosis(value, sd, fresh - then[1], math.sqrt(1 / more + 1 / then[0]))


def _known(rule: Rule, cell: int, held: Held) -> tuple[float, float] | None:
    """(precision, value) per unit of sensitivity to one row."""
    rows = rule.block("count").reach
    if isinstance(rule, Linear):
        each = rule.reach / rows
        precision = rule.precision(cell, held)
        if not precision:
            return None
        return float(precision * each * each), float(rule.value(cell, held) / each)
    known = held.known[rule.parts["count"]][cell]
    return (float(known.precision), float(known.value)) if known.precision else None
