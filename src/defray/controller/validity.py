"""What a validity asks beyond a price: which questions it is for, the looks it allows, confirmations."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from defray.controller.ask import Ask, Held, Planned
from defray.controller.goals import Wish
from defray.controller.plan import Step
from defray.controller.rules import rules_of
from defray.core.canonical import canonical
from defray.core.target import Goal, Relative
from defray.core.validity import DEFAULT, MAX_LOOKS, Validity, parse_validity
from defray.errors import TargetError, TooManyLooks
from defray.query.descriptor import Question

NO_PLANS: Final[Planned] = {}


def validity_of(question: Question, wish: Wish, goals: Sequence[Goal]) -> Validity:
    """The validity that was written, in the SQL or as an argument.  Raises TargetError with the cure."""
    found = question.accuracy.validity
    if wish.validity is not None:
        if found is not None:
            raise TargetError(
                "the validity is given twice, in the SQL and as an argument",
                hint="drop VALIDITY or the argument",
            )
        found = parse_validity(wish.validity)
    validity = found or DEFAULT
    if validity.kind == "anytime" and not _anytime_fits(question, goals):
        raise TargetError(
            "an anytime interval is for COUNT and SUM with an absolute error, not for averages and "
            "percentages",
            hint='declare how often you will look at most (validity="looks=5"), or confirm the answer by a '
            'release of its own (validity="confirm")',
        )
    return validity


def _anytime_fits(question: Question, goals: Sequence[Goal]) -> bool:
    averages = any(a.function == "AVG" for a in question.aggregates)
    return not averages and not any(isinstance(g, Relative) for g in goals)


def confirming(ask: Ask) -> Ask:
    """The same ask, looked up and kept apart from all else that is known where it is a confirmation.

    Its tag stands for the whole question and its target: every functional of every block, and what is
    promised of each aggregate.  So a group that was picked from a confirmed table is confirmed anew.
    """
    if ask.validity.kind != "confirm":
        return ask
    asked = [
        [a.function, str(goal), sorted(parts.items())]
        for a, goal, parts in zip(
            ask.compiled.question.aggregates, ask.goals, ask.compiled.parts, strict=True
        )
    ]
    functionals = [key.hex() for key in ask.compiled.keys]
    target = [asked, functionals, str(ask.miss), str(ask.floor)]
    tag = hashlib.sha256(canonical(target)).hexdigest()[:32]
    return replace(ask, compiled=ask.compiled.confirming(tag), tag=tag)


def too_many_looks(
    ask: Ask, held: Held, step: Step, planned: Planned = NO_PLANS
) -> TooManyLooks | None:
    """The refusal of an ask for more looks at a number than it declared.  A look is an ask that released
    something the number rests on, or is ``planned`` to; the next one counts where ``step`` buys something
    of it."""
    allowed = ask.validity.looks
    if ask.validity.kind != "looks":
        return None
    bought = {(p.block, i) for p in step.purchases for i, c in enumerate(p.charges) if c}
    blocks = ask.compiled.blocks
    most = needed = 0
    for rule in rules_of(ask):
        for i in range(len(ask.compiled.cells)):
            behind = rule.behind(i, held)
            names = {name for b in behind for name in held.known[b][i].asks}
            for b in behind if planned else ():
                names.update(name for _, name in planned.get(blocks[b].keys[i], ()))
            made = len(names)
            after = made + any((b, i) in bought for b in behind)
            if after > needed:
                most, needed = made, after
    if needed <= allowed:
        return None
    more = f'declare more looks, which costs more: validity="looks={min(2 * needed, MAX_LOOKS)}"'
    cures = [more if needed <= MAX_LOOKS else "", 'confirm it by a release of its own: "confirm"']
    if _anytime_fits(ask.compiled.question, ask.goals):
        cures.insert(0, 'ask for an interval that holds whenever you stop: validity="anytime"')
    times = "once" if most == 1 else f"{most} times"
    again = ", and this would be one look more" if needed > most else ""
    return TooManyLooks(
        f"what is asked was released {times} already{again}; looks={allowed} allows for {allowed}",
        hint="; or ".join(cure for cure in cures if cure),
        looks=allowed,
        asks=most,
    )
