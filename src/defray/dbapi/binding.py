"""Parameters become literals, token by token: what stands in a string, a name or a comment is no placeholder,
and a value can be nothing but one literal."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import pairwise
from numbers import Integral, Real
from typing import Any

from defray.dbapi.exceptions import DataError, ProgrammingError
from defray.query import accuracy
from defray.query.accuracy import Clause
from defray.query.reader import Reader
from defray.query.tokens import Token, lex

Parameters = Sequence[Any] | Mapping[str, Any]

_APART = frozenset(" \t\r\n(),")


def bind(sql: str, parameters: Parameters | None) -> str:
    """The question with its ``?`` (or ``:name``, where the parameters are a mapping) as literals.

    Raises QueryError where the text has no tokens, ProgrammingError where placeholders and parameters do
    not match, DataError where a parameter is no value.

    >>> bind("SELECT COUNT(*) FROM t WHERE s = ? AND q = '?' -- ?", ["it's"])
    "SELECT COUNT(*) FROM t WHERE s = 'it''s' AND q = '?' -- ?"
    >>> bind("SELECT COUNT(*) FROM t WHERE n BETWEEN :low AND -:high", {"low": -1, "high": -2.5})
    'SELECT COUNT(*) FROM t WHERE n BETWEEN -1 AND - -2.5'
    """
    if parameters is None:
        return sql
    tokens = lex(sql)
    if isinstance(parameters, Mapping):
        places = _named(tokens, parameters)
    elif isinstance(parameters, Sequence) and not isinstance(parameters, str | bytes):
        places = _in_order(tokens, parameters)
    else:
        raise ProgrammingError("parameters are a sequence for ?, or a mapping for :name")
    out, at = [], 0
    for start, end, value in places:
        before, behind = sql[max(start - 1, 0) : start], sql[end : end + 1]
        out += [sql[at:start], _apart(before), literal(value), _apart(behind)]
        at = end
    return "".join([*out, sql[at:]])


def _apart(beside: str) -> str:
    """What keeps a literal from becoming one token with what stands beside it."""
    return "" if not beside or beside in _APART else " "


def _in_order(tokens: Sequence[Token], values: Sequence[Any]) -> list[tuple[int, int, Any]]:
    marks = [t for t in tokens if t.kind == "op" and t.text == "?"]
    if len(marks) != len(values):
        raise ProgrammingError(
            f"the question has {len(marks)} placeholders (?), and there are {len(values)} parameters"
        )
    return [(t.start, t.end, value) for t, value in zip(marks, values, strict=True)]


def _named(tokens: Sequence[Token], values: Mapping[str, Any]) -> list[tuple[int, int, Any]]:
    found = []
    for colon, name in pairwise(tokens):
        beside = colon.kind == "op" and name.kind == "word" and colon.end == name.start
        if beside and colon.text == ":":
            if name.text not in values:
                raise ProgrammingError(f"there is no parameter for :{name.text}")
            found.append((colon.start, name.end, values[name.text]))
    return found


def literal(value: Any) -> str:
    """A value as the SQL of one literal.

    >>> literal(None), literal(True), literal(dt.date(2024, 2, 29)), literal(Decimal("1.50"))
    ('NULL', 'TRUE', "DATE '2024-02-29'", '1.50')
    """
    item = getattr(value, "item", None)
    if callable(item) and getattr(value, "shape", None) == ():  # a scalar of numpy
        value = item()
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case dt.datetime():
            return f"TIMESTAMP '{value.isoformat(' ')}'"
        case dt.date():
            return f"DATE '{value.isoformat()}'"
        case Decimal() if value.is_finite():
            return f"{value:f}"
        case Integral():
            return str(int(value))
        case Real() if math.isfinite(value):
            return repr(float(value))
    raise DataError(f"a parameter of type {type(value).__name__} is no value: {value!r:.40}")


def written(sql: str) -> Clause | None:
    """The accuracy clause of a question, where it has one."""
    reader = Reader(sql)
    while reader.now.kind != "end":
        if accuracy.starts_here(reader):
            return accuracy.read(reader)
        reader.next()
    return None
