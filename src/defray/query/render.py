"""The canonical statement of a question, as a person would write it.

It is what analysts see in their history and where a predicate was snapped; parsing it gives an equal
question (``snapped`` aside, since what is written here needs no snapping).
"""

from __future__ import annotations

from fractions import Fraction

from defray.core.domain import Domain
from defray.core.numbers import show_number
from defray.query.conditions import TooLong, region_condition
from defray.query.descriptor import Accuracy, Aggregate, Axis, Having, Order, Question
from defray.query.groups import axis_label
from defray.query.outputs import default_alias
from defray.query.reader import identifier
from defray.query.region import EVERYWHERE, Region, Regions, TooComplex

MAX_STEPS = 500_000


def canonical_sql(
    question: Question, domain: Domain, regions: Regions, table: str, *, accuracy: bool = False
) -> str:
    """The question as SQL text, with the accuracy clause as it was written if ``accuracy``.

    A region that has no condition of bearable length is told by its size only; such a text does not
    parse.
    """
    statement = _Statement(question, domain)
    where = condition_sql(domain, regions, question.region)
    parts = [
        f"SELECT {statement.outputs()}",
        f"FROM {identifier(table)}",
        f"WHERE {where}" if where else "",
        statement.group_by(),
        f"HAVING {statement.having(question.having)}" if question.having else "",
        statement.order_by(),
        f"LIMIT {question.limit}" if question.limit is not None else "",
        f"OFFSET {question.offset}" if question.offset else "",
        accuracy_sql(question.accuracy) if accuracy else "",
    ]
    return " ".join(part for part in parts if part)


def condition_sql(domain: Domain, regions: Regions, region: Region) -> str:
    """The condition of WHERE for a region, empty where every cell belongs to it."""
    if region is EVERYWHERE:
        return ""
    try:
        return region_condition(domain, regions.limited(MAX_STEPS), region).sql
    except (TooLong, TooComplex):
        count = sum(1 for _ in regions.nodes(region))
        return f"[a region of {count:,} parts, too long to write out]"


def accuracy_sql(accuracy: Accuracy) -> str:
    """The accuracy clause, empty where nothing was written."""
    parts: list[str] = []
    if accuracy.goals:
        goals = (
            _amount(goal.amount, goal.relative) + (f" FOR {identifier(alias)}" if alias else "")
            for alias, goal in accuracy.goals
        )
        parts.append("ERROR WITHIN " + ", ".join(goals))
    if accuracy.confidence is not None:
        percent = accuracy.confidence >= Fraction(1, 2)
        parts.append("AT CONFIDENCE " + _amount(accuracy.confidence, percent))
    if accuracy.simultaneous is not None:
        parts.append("SIMULTANEOUS" if accuracy.simultaneous else "PER CELL")
    if accuracy.validity is not None:
        parts.append(f"VALIDITY {accuracy.validity.sql}")
    return " ".join(parts)


def _amount(value: Fraction, percent: bool) -> str:
    return f"{show_number(value * 100)}%" if percent else show_number(value)


class _Statement:
    def __init__(self, question: Question, domain: Domain) -> None:
        self._question = question
        self._domain = domain
        self._by_default: dict[str, str] = {}
        for aggregate in question.aggregates:
            wanted = default_alias(aggregate.function, aggregate.column)
            self._by_default.setdefault(aggregate.alias, wanted)

    def outputs(self) -> str:
        question = self._question
        shown = [
            self._aliased(self._axis(axis), label, axis_label(self._domain, axis))
            for axis, label in zip(question.axes, question.labels, strict=True)
        ]
        shown += [
            self._aliased(_call(a), a.alias, self._by_default[a.alias]) for a in question.aggregates
        ]
        return ", ".join(shown)

    def _aliased(self, expression: str, alias: str, default: str) -> str:
        return expression if alias == default else f"{expression} AS {identifier(alias)}"

    def _axis(self, axis: Axis) -> str:
        name = identifier(self._domain.columns[axis.column].name)
        return name if axis.level == "value" else f"date_trunc('{axis.level}', {name})"

    def group_by(self) -> str:
        axes = self._question.axes
        return "GROUP BY " + ", ".join(map(self._axis, axes)) if axes else ""

    def _output(self, alias: str) -> str:
        """An aggregate as HAVING and ORDER BY name it: its alias if that is written in SELECT, else
        the aggregate itself."""
        for aggregate in self._question.aggregates:
            if aggregate.alias == alias and alias == self._by_default[alias]:
                same = [a for a in self._question.aggregates if _call(a) == _call(aggregate)]
                if same[0].alias == alias:
                    return _call(aggregate)
        return identifier(alias)

    def order_by(self) -> str:
        order = self._question.order
        return "ORDER BY " + ", ".join(map(self._ordered, order)) if order else ""

    def _ordered(self, order: Order) -> str:
        if order.alias is not None:
            shown = self._output(order.alias)
        else:
            assert order.axis is not None
            shown = identifier(self._question.labels[order.axis])
        shown += " DESC" if order.descending else ""
        if order.nulls_first is not None:
            shown += " NULLS FIRST" if order.nulls_first else " NULLS LAST"
        return shown

    def having(self, having: Having) -> str:
        if having.op in ("AND", "OR"):
            parts = (
                f"({self.having(part)})" if part.op in ("AND", "OR") else self.having(part)
                for part in having.parts
            )
            return f" {having.op} ".join(parts)
        if having.op == "NOT":
            return f"NOT ({self.having(having.parts[0])})"
        assert having.alias is not None
        assert having.number is not None
        return f"{self._output(having.alias)} {having.op} {show_number(having.number)}"


def _call(aggregate: Aggregate) -> str:
    column = "*" if aggregate.column is None else identifier(aggregate.column)
    return f"{aggregate.function}({column})"
