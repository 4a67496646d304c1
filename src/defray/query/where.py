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

from typing import Literal as Choice

from defray.query import refusals
from defray.query.comparisons import OPERATORS, Comparisons, Operand
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
from defray.query.reader import Reader
from defray.query.tokens import MAX_LIST

NEGATABLE = ("IN", "BETWEEN", "LIKE", "ILIKE", "SIMILAR", "GLOB")


class Where:
    """The grammar of conditions over the columns of one scope."""

    def __init__(self, scope: Scope, *, snap: bool) -> None:
        self._scope = scope
        self._reader: Reader = scope.reader
        self._operands = Operands(scope)
        self._comparisons = Comparisons(scope, snap=snap)

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
            return self._comparisons.compare(
                found, "=", Literal("boolean", True, found.start, found.end)
            )
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
            found = self._comparisons.of(left, operator, right, (start, reader.last_end))
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
        above = self._comparisons.of(left, ">=", low, (start, low_end))
        below = self._comparisons.of(left, "<=", high, (start, reader.last_end))
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
                tuple(
                    self._comparisons.of(left, "=", item, (start, reader.last_end))
                    for item in items
                )
            )
        known = [item for item in items if isinstance(item, Literal) and item.value is not None]
        leaf = self._comparisons.one_of(left, known)
        # A NULL in the list says UNKNOWN wherever no other value is found.
        return leaf if len(known) == len(items) else Some((leaf, NOTHING))

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
