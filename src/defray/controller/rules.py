"""Which rule answers which aggregate."""

from __future__ import annotations

from collections.abc import Mapping

from defray.controller.ask import Ask
from defray.controller.average import Average
from defray.controller.linear import Count, Sum
from defray.controller.rule import Rule

RULES: Mapping[str, type[Rule]] = {"COUNT": Count, "SUM": Sum, "AVG": Average}


def rules_of(ask: Ask) -> list[Rule]:
    return [
        RULES[aggregate.function](ask, j)
        for j, aggregate in enumerate(ask.compiled.question.aggregates)
    ]
