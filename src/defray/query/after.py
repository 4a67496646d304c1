"""HAVING, ORDER BY, LIMIT and OFFSET: what is done with the noisy values afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from defray.core.domain import Operator
from defray.query import refusals
from defray.query.accuracy import find_alias
from defray.query.comparisons import MIRRORED, OPERATORS
from defray.query.descriptor import Aggregate, Axis, Having, Order
from defray.query.groups import resolve_axis
from defray.query.names import Scope
from defray.query.outputs import (
    Call,
    Item,
    check_call,
    item_at,
    read_call,
    read_key,
    same_name,
)
from defray.query.reader import Name, Reader
from defray.query.tokens import Token, number

MAX_LIMIT = 10**15


@dataclass(frozen=True, slots=True)
class Outputs:
    """What HAVING and ORDER BY may name."""

    items: Sequence[Item]
    aggregates: tuple[Aggregate, ...]
    axes: tuple[Axis, ...]
    labels: tuple[str, ...]


class After:
    """Reads the clauses after GROUP BY."""

    def __init__(self, scope: Scope, outputs: Outputs) -> None:
        self._scope = scope
        self._reader: Reader = scope.reader
        self._outputs = outputs

    # -- HAVING ---------------------------------------------------------------------------------

    def having(self) -> Having:
        """Reads a condition on outputs."""
        return self._chain("OR")

    def _chain(self, word: str) -> Having:
        def below() -> Having:
            return self._chain("AND") if word == "OR" else self._negation()

        parts = [below()]
        while self._reader.take_word(word):
            parts.append(below())
        return _joined(word, parts)

    def _negation(self) -> Having:
        negated = False
        while self._reader.take_word("NOT"):
            negated = not negated
        if self._reader.take_sign("("):
            if self._reader.now.word in ("SELECT", "WITH", "VALUES", "FROM"):
                raise self._reader.unsupported(refusals.SUBQUERIES, self._reader.now)
            found = self._chain("OR")
            self._reader.need_sign(")")
        else:
            found = self._comparison()
        return _not(found) if negated else found

    def _comparison(self) -> Having:
        reader = self._reader
        start = reader.now.start
        left = self._operand()
        negated = reader.now.word == "NOT" and reader.ahead().word == "BETWEEN"
        if negated:
            reader.next()
        if reader.take_word("BETWEEN"):
            low = self._number()
            reader.need_word("AND")
            high = self._number()
            if not isinstance(left, str):
                raise self._wanted(start)
            found = Having("AND", parts=(Having(">=", left, low), Having("<=", left, high)))
            return _not(found) if negated else found
        operator: Operator | None = OPERATORS.get(reader.now.text)
        if operator is None or reader.now.kind != "op":
            raise reader.unexpected("compare an output with a number: HAVING COUNT(*) > 100")
        reader.next()
        right = self._operand()
        if isinstance(left, str) and isinstance(right, Fraction):
            return Having(operator, left, right)
        if isinstance(left, Fraction) and isinstance(right, str):
            return Having(MIRRORED[operator], right, left)
        raise self._wanted(start)

    def _wanted(self, start: int) -> Exception:
        return self._reader.refuse(
            "unsupported",
            "HAVING compares an output with a number only; this is not supported",
            (start, self._reader.last_end),
            "write HAVING COUNT(*) > 100",
        )

    def _operand(self) -> str | Fraction:
        """The alias of an output, or a number."""
        reader = self._reader
        if reader.now.kind == "number" or reader.at_sign("-", "+"):
            return self._number()
        if reader.now.kind == "string" or reader.now.word in ("NULL", "TRUE", "FALSE"):
            raise reader.refuse(
                "literal-type",
                f"{reader.now.shown()} is not a number",
                reader.now,
                "write a number",
            )
        call = self._call()
        if call is not None:
            found = call
        else:
            key = read_key(reader)
            alias = None if key.level_token or key.name.qualifier else self._alias(key.name)
            if alias is None:
                raise self._not_an_output(key.name)
            found = alias
        if reader.now.kind == "op" and reader.now.text in refusals.SIGNS:
            raise reader.unsupported(refusals.OUTPUT_ARITHMETIC, reader.now)
        return found

    def _not_an_output(self, name: Name) -> Exception:
        outputs = self._outputs
        grouped = any(same_name(name, label) for label in outputs.labels)
        if not grouped:
            self._scope.column(name)
        return self._reader.refuse(
            "unsupported",
            f"HAVING on the column {name.text} is not supported",
            name,
            f"put it in WHERE: WHERE {name.text} = ...",
        )

    def _number(self) -> Fraction:
        reader = self._reader
        sign = reader.next() if reader.at_sign("-", "+") else None
        if reader.now.kind != "number":
            raise reader.unexpected("a number is expected here")
        value = number(reader.text, reader.next())
        return -value if sign is not None and sign.text == "-" else value

    # -- names ----------------------------------------------------------------------------------

    def _alias(self, name: Name) -> str | None:
        return find_alias(name, self._outputs.aggregates)

    def _call(self) -> str | None:
        """Reads an aggregate, if one comes now, and gives the alias it was selected under."""
        call = read_call(self._reader)
        if call is None:
            return None
        return self._selected(call)

    def _selected(self, call: Call) -> str:
        column = check_call(self._scope, call)
        for aggregate in self._outputs.aggregates:
            if (aggregate.function, aggregate.column) == (call.function, column):
                return aggregate.alias
        shown = self._reader.text[call.start : call.end]
        raise self._reader.refuse(
            "not-selected",
            f"{shown} is not selected",
            (call.start, call.end),
            f"add it to SELECT: {shown}",
        )

    # -- ORDER BY, LIMIT ------------------------------------------------------------------------

    def order_by(self) -> tuple[Order, ...]:
        """Reads the outputs after ORDER BY."""
        found: list[Order] = []
        while True:
            found.append(self._order())
            if not self._reader.take_sign(","):
                return tuple(found)

    def _order(self) -> Order:
        reader = self._reader
        alias, axis = self._ordered_by()
        if reader.now.kind == "op" and reader.now.text in refusals.SIGNS:
            raise reader.unsupported(refusals.OUTPUT_ARITHMETIC, reader.now)
        descending = False
        if reader.take_word("DESC"):
            descending = True
        else:
            reader.take_word("ASC")
        nulls_first: bool | None = None
        if reader.take_word("NULLS"):
            word = reader.take_word("FIRST", "LAST")
            if word is None:
                raise reader.unexpected("write NULLS FIRST or NULLS LAST")
            nulls_first = word.word == "FIRST"
        return Order(alias, axis, descending, nulls_first)

    def _ordered_by(self) -> tuple[str | None, int | None]:
        reader, outputs = self._reader, self._outputs
        token = reader.now
        if token.word == "ALL":
            raise reader.unsupported(("ORDER BY ALL is", "name an output: ORDER BY count"), token)
        if token.kind == "number":
            item = item_at(reader, outputs.items)
            if isinstance(item.what, Call):
                calls = [i for i in outputs.items if isinstance(i.what, Call)]
                return outputs.aggregates[calls.index(item)].alias, None
            return None, outputs.axes.index(resolve_axis(self._scope, item.what))
        alias = self._call()
        if alias is not None:
            return alias, None
        key = read_key(reader)
        if key.level_token is None and key.name.qualifier is None:
            alias = self._alias(key.name)
            if alias is not None:
                return alias, None
            for position, label in enumerate(outputs.labels):
                if same_name(key.name, label):
                    return None, position
        position = self._scope.column(key.name)
        axis = resolve_axis(self._scope, key) if outputs.axes else Axis(position)
        if axis not in outputs.axes:
            raise reader.refuse(
                "not-grouped",
                f"{key.name.text} is neither an output nor grouped",
                (key.start, key.end),
                f"add it to GROUP BY, or order by {outputs.aggregates[0].alias}",
            )
        return None, outputs.axes.index(axis)

    def limit(self) -> tuple[int | None, int]:
        """Reads LIMIT and OFFSET, each at most once, in either order."""
        found: dict[str, int] = {}
        while self._reader.now.word in ("LIMIT", "OFFSET"):
            word = self._reader.next()
            if word.word in found:
                raise self._reader.refuse(
                    "syntax", f"{word.word} is written twice", word, "write it once"
                )
            found[word.word] = self._whole(word)
        return found.get("LIMIT"), found.get("OFFSET", 0)

    def _whole(self, word: Token) -> int:
        reader = self._reader
        token = reader.now
        hint = f"write {word.word} 10"
        if token.kind != "number":
            if reader.at_sign("-", "+") or token.kind == "string" or token.word in ("ALL", "NULL"):
                raise reader.refuse(
                    "bad-limit", f"{word.word} needs a whole number from 0 on", token, hint
                )
            raise reader.unexpected(hint)
        value = number(reader.text, reader.next())
        if value.denominator != 1 or value > MAX_LIMIT:
            raise reader.refuse("bad-limit", f"{word.word} needs a whole number", token, hint)
        if reader.at_sign("%") or reader.now.word == "PERCENT":
            raise reader.unsupported(("LIMIT with a percentage is", hint), reader.now)
        return int(value)


def _joined(word: str, parts: Sequence[Having]) -> Having:
    if len(parts) == 1:
        return parts[0]
    flat: list[Having] = []
    for part in parts:
        flat.extend(part.parts if part.op == word else (part,))
    return Having(word, parts=tuple(flat))


def _not(part: Having) -> Having:
    return part.parts[0] if part.op == "NOT" else Having("NOT", parts=(part,))
