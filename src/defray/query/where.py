"""WHERE: from tokens to a predicate.

::

    either     both {OR both}
    both       negation {AND negation}
    negation   {NOT} condition
    condition  operand [comparison operand | [NOT] BETWEEN operand AND operand
               | [NOT] IN (literal, ...) | IS [NOT] (NULL | TRUE | FALSE | UNKNOWN)]
    operand    column | literal | (either)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal as Choice
from typing import get_args

from defray.core import intervals
from defray.core.domain import Operator, Values
from defray.core.intervals import EMPTY, Atoms
from defray.query import refusals
from defray.query.names import Scope
from defray.query.operands import QUERY_WORDS, Literal, Operands, Ref
from defray.query.predicate import (
    FALSE,
    NOTHING,
    TRUE,
    UNKNOWN,
    All,
    Constant,
    Is,
    Leaf,
    Not,
    Predicate,
    Some,
)
from defray.query.reader import Reader, Span
from defray.query.tokens import MAX_LIST

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

NEGATABLE = ("IN", "BETWEEN", "LIKE", "ILIKE", "SIMILAR", "GLOB")

Operand = Ref | Literal | Predicate


class Where:
    """The grammar of conditions over the columns of one scope."""

    def __init__(self, scope: Scope, *, snap: bool) -> None:
        self._scope = scope
        self._reader: Reader = scope.reader
        self._operands = Operands(scope)
        self._snap = snap
        self._work = 0

    def read(self) -> Predicate:
        """Reads one whole condition."""
        start = self._reader.now.start
        return self._condition(self._either(), start)

    # -- connectives ----------------------------------------------------------------------------

    def _either(self) -> Operand:
        return self._chain("OR")

    def _both(self) -> Operand:
        return self._chain("AND")

    def _chain(self, word: Choice["AND", "OR"]) -> Operand:
        reader, below = self._reader, self._both if word == "OR" else self._negation
        start = reader.now.start
        first = below()
        if reader.now.word != word:
            return first
        parts = [self._condition(first, start)]
        while reader.take_word(word):
            start = reader.now.start
            parts.append(self._condition(below(), start))
        return Some(tuple(parts)) if word == "OR" else All(tuple(parts))

    def _negation(self) -> Operand:
        negated, any_not = False, False
        while self._reader.take_word("NOT"):
            negated, any_not = not negated, True
        start = self._reader.now.start
        found = self._compared()
        if not any_not:
            return found
        condition = self._condition(found, start)
        return Not(condition) if negated else condition

    def _condition(self, found: Operand, start: int) -> Predicate:
        """An operand as a condition: a boolean column or constant stands for itself."""
        reader = self._reader
        if isinstance(found, Ref):
            column = self._scope.at(found.column)
            if column.kind != "boolean":
                raise reader.refuse(
                    "not-boolean",
                    f"column {column.name} is of type {column.kind}, not a condition",
                    (found.start, found.end),
                    f"compare it with a value: {column.name} = ...",
                )
            return self._compare(found, "=", Literal("boolean", True, found.start, found.end))
        if isinstance(found, Literal):
            if found.kind == "null":
                return NOTHING
            if isinstance(found.value, bool):
                return Constant(TRUE if found.value else FALSE)
            raise reader.refuse(
                "not-boolean",
                "a value is not a condition",
                (found.start, found.end),
                "compare a column with it: column = value",
            )
        return found

    # -- conditions -----------------------------------------------------------------------------

    def _compared(self) -> Operand:
        reader = self._reader
        start = reader.now.start
        left = self._operand()
        token = reader.now
        if token.kind == "op":
            operator = OPERATORS.get(token.text)
            if operator is None:
                return left
            reader.next()
            right = self._operand()
            found = self._comparison(left, operator, right, (start, reader.last_end))
        elif token.word == "IS":
            return self._is(left, start)
        else:
            negated = token.word == "NOT" and reader.ahead().word in NEGATABLE
            if negated:
                reader.next()
            if reader.take_word("BETWEEN"):
                found = self._between(left, start)
            elif reader.take_word("IN"):
                found = self._in(left, start)
            elif negated or reader.now.word in refusals.WORDS:
                raise reader.unexpected("IN or BETWEEN is expected here")
            else:
                return left
            found = Not(found) if negated else found
        self._no_second_comparison()
        return found

    def _no_second_comparison(self) -> None:
        reader = self._reader
        if reader.at_sign(*OPERATORS) or reader.now.word in ("BETWEEN", "IN"):
            raise reader.refuse(
                "unsupported",
                "chained comparisons are not supported",
                reader.now,
                "write column BETWEEN 30 AND 40, or join two comparisons with AND",
            )
        if reader.now.word == "IS":
            raise reader.refuse(
                "unsupported",
                "IS after a comparison needs parentheses",
                reader.now,
                "write (column = value) IS TRUE",
            )

    def _comparison(
        self, left: Operand, operator: Operator, right: Operand, span: Span
    ) -> Predicate:
        match left, right:
            case Ref(), Literal():
                return self._compare(left, operator, right)
            case Literal(), Ref():
                return self._compare(right, MIRRORED[operator], left)
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

    def _compare(self, ref: Ref, operator: Operator, literal: Literal) -> Leaf:
        true, false = self._sets(ref, operator, literal)
        return Leaf(ref.column, true, false)

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
            return column.compare(operator, literal.value, snap=self._snap)

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

    def _between(self, left: Operand, start: int) -> Predicate:
        reader = self._reader
        if reader.now.word == "SYMMETRIC":
            raise reader.unsupported(
                ("BETWEEN SYMMETRIC is", "write BETWEEN with the lower value first"), reader.now
            )
        low = self._operand()
        low_end = reader.last_end
        reader.need_word("AND")
        high = self._operand()
        above = self._comparison(left, ">=", low, (start, low_end))
        below = self._comparison(left, "<=", high, (start, reader.last_end))
        return All((above, below))

    def _in(self, left: Operand, start: int) -> Predicate:
        reader = self._reader
        reader.need_sign("(")
        if reader.now.word in QUERY_WORDS:
            raise reader.unsupported(refusals.SUBQUERIES, reader.now)
        items: list[Operand] = []
        while True:
            item_start = reader.now.start
            item = self._operand()
            if not isinstance(item, Literal):
                raise reader.refuse(
                    "unsupported",
                    "an IN list holds values only",
                    (item_start, reader.last_end),
                    "write column IN (1, 2), or column = value OR ...",
                )
            items.append(item)
            if len(items) > MAX_LIST:
                raise reader.refuse(
                    "too-long",
                    f"an IN list holds at most {MAX_LIST} values",
                    (item.start, item.end),
                    "use BETWEEN, or several questions",
                )
            if not reader.take_sign(","):
                break
        reader.need_sign(")")
        if not isinstance(left, Ref):
            return Some(
                tuple(self._comparison(left, "=", item, (start, reader.last_end)) for item in items)
            )
        known = [item for item in items if isinstance(item, Literal) and item.value is not None]
        leaf = self._one_of(left, known)
        # A NULL in the list says UNKNOWN wherever no other value is found.
        return leaf if len(known) == len(items) else Some((leaf, NOTHING))

    def _one_of(self, ref: Ref, values: Sequence[Literal]) -> Leaf:
        sets = [self._sets(ref, "=", value) for value in values]
        true = intervals.normal(span for atoms, _ in sets for span in atoms)
        column = self._scope.at(ref.column)
        outside = [gap for _, atoms in sets for gap in intervals.complement(atoms, column.width)]
        false = intervals.complement(intervals.normal(outside), column.width)
        return Leaf(ref.column, true, false if sets else column.non_nulls)

    def _is(self, left: Operand, start: int) -> Predicate:
        reader = self._reader
        token = reader.next()
        negated = reader.take_word("NOT") is not None
        word = reader.now.word
        if word == "DISTINCT":
            raise reader.unsupported(refusals.DISTINCT_FROM, token)
        if word not in ("NULL", "TRUE", "FALSE", "UNKNOWN"):
            raise reader.unexpected("write IS NULL, IS TRUE, IS FALSE or IS UNKNOWN")
        found: Predicate
        if word == "NULL" and isinstance(left, Ref):
            column = self._scope.at(left.column)
            found = Leaf(left.column, column.nulls, column.non_nulls)
        elif word == "NULL" and isinstance(left, Literal):
            found = Constant(TRUE if left.value is None else FALSE)
        else:
            wanted = {"TRUE": TRUE, "FALSE": FALSE}.get(word, UNKNOWN)
            found = Is(self._condition(left, start), wanted)
        reader.next()
        self._no_second_comparison()
        return Not(found) if negated else found

    def _operand(self) -> Operand:
        """A column or literal, or whatever stands in parentheses."""
        if not self._reader.at_sign("("):
            return self._operands.read()
        found = self._parenthesised()
        self._operands.refuse_sign()
        return found

    def _parenthesised(self) -> Operand:
        reader = self._reader
        opening = reader.next()
        if reader.now.word in QUERY_WORDS:
            raise reader.unsupported(refusals.SUBQUERIES, opening)
        found = self._either()
        if reader.at_sign(","):
            raise reader.unsupported(
                ("comparing rows of values is", "write one condition for each column"), opening
            )
        reader.need_sign(")")
        return found
