"""Columns and literals: the operands of a condition."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal as Choice
from typing import NoReturn

from defray.query import refusals
from defray.query.names import Scope
from defray.query.reader import Reader
from defray.query.tokens import Token, number

LiteralKind = Choice["number", "string", "boolean", "null", "date", "timestamp"]
TYPED: dict[str, LiteralKind] = {"DATE": "date", "TIMESTAMP": "timestamp", "DATETIME": "timestamp"}
QUERY_WORDS = ("SELECT", "WITH", "VALUES", "FROM")
"""What a subquery may begin with."""


@dataclass(frozen=True, slots=True)
class Ref:
    """A column that stands alone."""

    column: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal and its place; NULL has value None."""

    kind: LiteralKind
    value: Fraction | str | bool | None
    start: int
    end: int


class Operands:
    """Reads one column or literal at a time."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._reader: Reader = scope.reader

    def read(self) -> Ref | Literal:
        """Reads the operand that comes now; refuses anything else by its name."""
        token = self._reader.now
        match token.kind:
            case "word":
                found = self._word(token)
            case "quoted":
                found = self._ref()
            case "number":
                self._reader.next()
                value = number(self._reader.text, token)
                found = Literal("number", value, token.start, token.end)
            case "string":
                self._reader.next()
                found = self._cast_by_colons(token)
            case _:
                found = self._signed()
        self.refuse_sign()
        return found

    def refuse_sign(self) -> None:
        """Refuses arithmetic, casts, patterns and the like behind an operand."""
        if self._reader.now.kind == "op" and self._reader.now.text in refusals.SIGNS:
            raise self._reader.unexpected("")

    def _word(self, token: Token) -> Ref | Literal:
        reader, ahead = self._reader, self._reader.ahead()
        if token.word in refusals.RESERVED:
            return self._reserved(token)
        if ahead.kind == "string":
            if token.word in TYPED:
                reader.next()
                reader.next()
                return Literal(TYPED[token.word], ahead.text, token.start, ahead.end)
            if ahead.start == token.end:
                raise reader.unsupported(refusals.ESCAPES, token)
        if token.word == "INTERVAL" and ahead.kind in ("string", "number"):
            raise reader.unsupported(refusals.INTERVALS, token)
        if ahead.kind == "op" and ahead.text == "(":
            self._refuse_call(token)
        if token.word in refusals.CLOCKS and self._scope.domain.find(token.text) is None:
            raise reader.function(token)
        return self._ref()

    def _reserved(self, token: Token) -> Literal:
        reader = self._reader
        if token.word in ("TRUE", "FALSE"):
            reader.next()
            return Literal("boolean", token.word == "TRUE", token.start, token.end)
        if token.word == "NULL":
            reader.next()
            return Literal("null", None, token.start, token.end)
        if token.word == "CAST":
            return self._cast()
        if self._scope.domain.find(token.text) is not None:
            raise reader.refuse(
                "syntax",
                f"{token.text} is a word of SQL",
                token,
                f'quote it if the column is meant: "{token.text}"',
            )
        raise reader.unexpected("a column or a value is expected here")

    def _ref(self) -> Ref:
        name = self._reader.column_name()
        return Ref(self._scope.column(name), name.start, name.end)

    def _signed(self) -> Literal:
        reader, sign = self._reader, self._reader.now
        if not reader.at_sign("-", "+") or reader.ahead().kind != "number":
            raise reader.unexpected("a column or a value is expected here")
        reader.next()
        digits = reader.next()
        value = number(reader.text, digits)
        signed = -value if sign.text == "-" else value
        return Literal("number", signed, sign.start, digits.end)

    def _cast_by_colons(self, token: Token) -> Literal:
        """A string literal, with ``::DATE`` or ``::TIMESTAMP`` behind it if that is there."""
        reader = self._reader
        if not reader.at_sign("::") or reader.ahead().word not in TYPED:
            return Literal("string", token.text, token.start, token.end)
        reader.next()
        kind = reader.next()
        return Literal(TYPED[kind.word], token.text, token.start, kind.end)

    def _cast(self) -> Literal:
        """``CAST('2020-01-31' AS DATE)`` of a string literal."""
        reader = self._reader
        token = reader.next()
        literal, as_, kind = reader.ahead(), reader.ahead(2), reader.ahead(3)
        of_literal = reader.at_sign("(") and literal.kind == "string" and as_.word == "AS"
        if not of_literal or kind.word not in TYPED:
            raise reader.unsupported(refusals.CASTS, token)
        for _ in range(4):
            reader.next()
        reader.need_sign(")")
        return Literal(TYPED[kind.word], literal.text, token.start, reader.last_end)

    def _refuse_call(self, token: Token) -> NoReturn:
        if token.word in refusals.AGGREGATES:
            raise self._reader.refuse(
                "unsupported",
                f"{token.word} is not supported in WHERE",
                token,
                "a condition on an output belongs in HAVING",
            )
        raise self._reader.unexpected("")
