"""From what the analyst wrote (a clause in the SQL, or arguments) to one goal per aggregate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from defray.core.amounts import exact
from defray.core.contract import Contract
from defray.core.target import LARGEST, Goal, Relative, Spend, Within, parse_confidence, parse_goal
from defray.errors import TargetError
from defray.query.descriptor import Aggregate, Question

DEFAULT_CONFIDENCE = Fraction(95, 100)
MAX_DATA_DEPENDENT = 2048
"""Each of these groups is priced step by step while others wait for the ledger."""

LEAST_CONFIDENCE = Fraction(1, 100)


@dataclass(frozen=True)
class Wish:
    """The arguments of an ask as they were given; hashable, so that preparing an ask can be cached."""

    within: Any = None
    confidence: Any = None
    rho: Any = None
    simultaneous: bool | None = None
    snap: bool = False
    validity: str | None = None

    @classmethod
    def of(
        cls,
        within: Any,
        confidence: Any,
        rho: Any,
        simultaneous: bool | None,
        snap: str | None,
        validity: Any = None,
    ) -> Wish:
        if snap is not None and (type(snap) is not str or snap != "outward"):
            raise TargetError('snap must be "outward" or None', hint="leave it out")
        if simultaneous is not None and type(simultaneous) is not bool:
            raise TargetError("simultaneous must be True, False or None", hint="leave it out")
        if isinstance(within, Mapping):
            within = tuple(sorted((str(k), _text("within", v)) for k, v in within.items()))
        elif within is not None:
            within = _text("within", within)
        return cls(
            within,
            None if confidence is None else _text("confidence", confidence),
            None if rho is None else _text("rho", rho),
            None if simultaneous is None else bool(simultaneous),
            snap is not None,
            None if validity is None else _text("validity", validity),
        )


def _text(name: str, value: Any) -> str:
    """A number as it was written; refuses what is too long to be one."""
    try:
        return str(value)
    except ValueError:  # an integer of thousands of digits
        raise TargetError(f"{name} is out of range", hint="use 1e-60 to 1e60") from None


def resolve(
    question: Question, wish: Wish, contract: Contract, groups: int = 1
) -> tuple[tuple[Goal, ...], Fraction, bool]:
    """(goals, confidence, simultaneous).  Raises TargetError with the cure."""
    written = question.accuracy
    if written.goals and (wish.within is not None or wish.rho is not None):
        raise TargetError(
            "the accuracy is given twice, in the SQL and as an argument",
            hint="drop the ERROR WITHIN clause or the argument",
        )
    confidence = written.confidence
    if wish.confidence is not None:
        if confidence is not None:
            raise TargetError(
                "the confidence is given twice, in the SQL and as an argument",
                hint="drop AT CONFIDENCE or the argument",
            )
        confidence = parse_confidence(wish.confidence)
    simultaneous = wish.simultaneous if wish.simultaneous is not None else written.simultaneous
    if question.selects_by_noise:
        if simultaneous is False:
            raise TargetError(
                "HAVING and ORDER BY an aggregate choose rows by their noisy values, so per-cell "
                "intervals would not hold",
                hint="leave the intervals simultaneous, or order by a grouping column",
            )
        simultaneous = bool(question.axes)
    goals = _goals(question, wish, contract)
    if groups > MAX_DATA_DEPENDENT and any(
        isinstance(g, Relative) or a.function == "AVG"
        for g, a in zip(goals, question.aggregates, strict=True)
    ):
        raise TargetError(
            f"averages and percentages are answered for at most {MAX_DATA_DEPENDENT:,} groups at once, "
            f"not {groups:,}",
            hint="group by fewer columns, or give COUNT and SUM an absolute error",
        )
    if confidence is not None and confidence < LEAST_CONFIDENCE:
        raise TargetError(
            "a confidence below 1% promises nothing", hint='for example confidence="95%"'
        )
    return goals, confidence or DEFAULT_CONFIDENCE, bool(simultaneous) and bool(question.axes)


def _goals(question: Question, wish: Wish, contract: Contract) -> tuple[Goal, ...]:
    aggregates = question.aggregates
    if wish.rho is not None:
        return _spend(aggregates, wish, contract)
    named: dict[str | None, Within | Relative] = {}
    if isinstance(wish.within, tuple):
        for alias, text in wish.within:
            named[alias] = parse_goal(text, f"within[{alias!r}]")
    elif wish.within is not None:
        named[None] = parse_goal(wish.within)
    for alias_, goal in question.accuracy.goals:
        named[alias_] = Relative(goal.amount) if goal.relative else Within(goal.amount)
    if not named:
        raise TargetError(
            "say how accurate the answer must be",
            hint="add ERROR WITHIN 50 AT CONFIDENCE 95% to the SQL, or say it beside the SQL: within 50",
        )
    known = {a.alias.casefold(): a for a in aggregates}
    for alias_ in named:
        if alias_ is not None and alias_.casefold() not in known:
            raise TargetError(
                f"there is no aggregate called {alias_}",
                hint=f"the aggregates are {', '.join(a.alias for a in aggregates)}",
            )
    by_alias = {None if a is None else a.casefold(): g for a, g in named.items()}
    bare = by_alias.get(None)
    missing = [a.alias for a in aggregates if a.alias.casefold() not in by_alias and bare is None]
    if missing:
        raise TargetError(
            f"no accuracy for {', '.join(missing)}",
            hint=f"for example ERROR WITHIN 50 FOR {missing[0]}",
        )
    if isinstance(bare, Within) and len({_units(a) for a in aggregates}) > 1:
        raise TargetError(
            "one number cannot be the accuracy of aggregates in different units",
            hint="name them: ERROR WITHIN " + ", ".join(f"50 FOR {a.alias}" for a in aggregates),
        )
    goals = tuple(by_alias.get(a.alias.casefold(), bare) for a in aggregates)
    for aggregate, chosen in zip(aggregates, goals, strict=True):
        if (
            isinstance(chosen, Relative)
            and aggregate.function != "AVG"
            and contract.m_floor is None
        ):
            raise TargetError(
                f"a percentage for {aggregate.alias} needs m_floor in the contract: the least count that "
                "percentages are taken of",
                hint="give an absolute target, or ask the curator to declare it, such as m_floor = 100",
            )
    return tuple(g for g in goals if g is not None)


def _units(aggregate: Aggregate) -> tuple[str, str | None]:
    if aggregate.function == "COUNT":
        return ("rows", None)
    return (aggregate.function, aggregate.column)


def _spend(aggregates: tuple[Aggregate, ...], wish: Wish, contract: Contract) -> tuple[Goal, ...]:
    if wish.within is not None:
        raise TargetError("within and rho are both given", hint="drop one of them")
    if len(aggregates) != 1 or aggregates[0].function == "AVG":
        raise TargetError(
            "rho= buys one COUNT or SUM", hint="give within= for averages and several aggregates"
        )
    try:
        rho = exact(wish.rho)
    except ValueError:
        rho = Fraction(0)
    if rho <= 0 or rho * 2**50 < contract.rho or rho > LARGEST:
        raise TargetError(
            f"rho must be a positive, finite number, not {wish.rho[:40]}",
            hint="for example rho=0.01",
        )
    return (Spend(rho),)
