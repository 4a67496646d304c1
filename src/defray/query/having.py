"""HAVING: a condition on the noisy values that a question returns."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from defray.core.comparison import Operator
from defray.query import refusals
from defray.query.comparisons import MIRRORED, OPERATORS
from defray.query.descriptor import Having
from defray.query.outputs import read_key, same_name
from defray.query.reader import Name, Reader
from defray.query.selected import Outputs
from defray.query.tokens import number


class HavingClause:
    """The grammar of conditions on the outputs of one question."""

    def __init__(self, outputs: Outputs) -> None:
        self._outputs = outputs
        self._reader: Reader = outputs.scope.reader

    def read(self) -> Having:
        """Reads one whole condition."""
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
        call = self._outputs.call()
        if call is not None:
            found = call
        else:
            key = read_key(reader)
            alias = None if key.level_token or key.name.qualifier else self._outputs.alias(key.name)
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
            outputs.scope.column(name)
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


def _joined(word: str, parts: Sequence[Having]) -> Having:
    if len(parts) == 1:
        return parts[0]
    flat: list[Having] = []
    for part in parts:
        flat.extend(part.parts if part.op == word else (part,))
    return Having(word, parts=tuple(flat))


def _not(part: Having) -> Having:
    return part.parts[0] if part.op == "NOT" else Having("NOT", parts=(part,))
