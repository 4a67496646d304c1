"""Comparisons: of columns with literals, by the declared domain, and of literals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from defray.core import intervals
from defray.core.comparison import Operator, compare
from defray.core.intervals import EMPTY, Atoms
from defray.core.shapes import Values
from defray.query.names import Scope
from defray.query.operands import Literal, Ref
from defray.query.predicate import FALSE, NOTHING, TRUE, Constant, Leaf, Predicate
from defray.query.reader import Reader, Span

MAX_WORK = 2_000_000
"""How many listed values the comparisons of one text may look at."""

OPERATORS: dict[str, Operator] = {
    **{op: op for op in get_args(Operator)},
    "!=": "<>",
    "==": "=",
}
MIRRORED: dict[Operator, Operator] = {
    "=": "=",
    "<>": "<>",
    "<": ">",
    "<=": ">=",
    ">": "<",
    ">=": "<=",
}

Operand = Ref | Literal | Predicate


class Comparisons:
    """Makes predicates of operands; with ``snap``, thresholds inside a bin are widened to the bin."""

    def __init__(self, scope: Scope, *, snap: bool) -> None:
        self._scope = scope
        self._reader: Reader = scope.reader
        self._snap = snap
        self._work = 0

    def of(self, left: Operand, operator: Operator, right: Operand, span: Span) -> Predicate:
        match left, right:
            case Ref(), Literal():
                return self.compare(left, operator, right)
            case Literal(), Ref():
                return self.compare(right, MIRRORED[operator], left)
            case Literal(), Literal():
                return self._constant(left, operator, right, span)
            case Ref(), Ref():
                raise self._reader.refuse(
                    "unsupported",
                    "comparing two columns is not supported",
                    span,
                    "compare a column with a value: age >= 40",
                )
        raise self._reader.refuse(
            "unsupported",
            "comparing a condition is not supported",
            span,
            "join conditions with AND, OR and NOT",
        )

    def compare(self, ref: Ref, operator: Operator, literal: Literal) -> Leaf:
        true, false = self._sets(ref, operator, literal)
        return Leaf(ref.column, true, false)

    def one_of(self, ref: Ref, values: Sequence[Literal]) -> Leaf:
        sets = [self._sets(ref, "=", value) for value in values]
        true = intervals.normal(span for atoms, _ in sets for span in atoms)
        column = self._scope.at(ref.column)
        outside = [gap for _, atoms in sets for gap in intervals.complement(atoms, column.width)]
        false = intervals.complement(intervals.normal(outside), column.width)
        return Leaf(ref.column, true, false if sets else column.non_nulls)

    def _sets(self, ref: Ref, operator: Operator, literal: Literal) -> tuple[Atoms, Atoms]:
        """The atoms where a comparison is true and false; both are empty for NULL."""
        column = self._scope.at(ref.column)
        if literal.value is None:
            return EMPTY, EMPTY
        where = (literal.start, literal.end)
        if literal.kind in ("date", "timestamp") and column.kind not in ("date", "timestamp"):
            raise self._reader.refuse(
                "literal-type",
                f"column {column.name} is of type {column.kind}, not a {literal.kind}",
                where,
                "write a plain value of that type",
            )
        if isinstance(column.shape, Values) and operator not in ("=", "<>"):
            self._work += column.proper
            if self._work > MAX_WORK:
                raise self._reader.refuse(
                    "too-complex",
                    "the condition takes too many steps to read",
                    where,
                    "list the values: column IN (...)",
                )
        with self._scope.literal_at(where):
            return compare(column, operator, literal.value, snap=self._snap)

    def _constant(self, a: Literal, operator: Operator, b: Literal, span: Span) -> Predicate:
        """A comparison of two literals, which holds everywhere or nowhere (``1 = 1``)."""
        if a.value is None or b.value is None:
            return NOTHING
        if a.kind != b.kind or a.kind not in ("number", "string", "boolean"):
            raise self._reader.refuse(
                "literal-type",
                "these two values are not of one type",
                span,
                "compare a column with a value: age >= 40",
            )
        less, equal = a.value < b.value, a.value == b.value  # type: ignore[operator]
        truth = {
            "=": equal,
            "<>": not equal,
            "<": less,
            "<=": less or equal,
            ">": not (less or equal),
            ">=": not less,
        }[operator]
        return Constant(TRUE if truth else FALSE)
