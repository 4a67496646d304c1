"""Questions planned together: what all want of marginals, so that each buys what serves others too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from defray.controller.ask import Ask
from defray.controller.linear import Linear
from defray.controller.rules import rules_of
from defray.core.target import Within


def together(ask: Ask, among: Sequence[Ask]) -> Ask:
    """An ask that is one of these."""
    wanted: dict[str, dict[tuple[int, ...], float]] = {}
    for one in among:
        for measure, columns, variance in _marginals(one):
            held = wanted.setdefault(measure, {})
            held[columns] = min(variance, held.get(columns, variance))
    return replace(ask, among={measure: tuple(held.items()) for measure, held in wanted.items()})


def _marginals(ask: Ask) -> list[tuple[str, tuple[int, ...], float]]:
    """The full GROUP BYs of counts and sums that are asked for within an absolute error: the measure, the
    columns, and the variance of a cell in units."""
    found = []
    for rule, goal in zip(rules_of(ask), ask.goals, strict=True):
        block = rule.blocks[rule.parts[rule.role]] if isinstance(rule, Linear) else None
        if isinstance(rule, Linear) and isinstance(goal, Within) and not rule.anytime:
            assert block is not None
            if block.marginal is not None and not block.confirms:
                variance = 1 / rule.target_precision(goal)
                found.append((str(block.measure), block.marginal, float(variance)))
    return found
