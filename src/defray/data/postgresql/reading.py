"""How a declared column is read from a PostgreSQL column: a value expression and its line.

The rules are those of :mod:`defray.data.duckdb.reading`: nothing raises whatever a row holds, and what cannot
be read as the declared type is NULL.  What is particular to PostgreSQL:

* ``numeric`` may be NaN, which is NULL; where it is declared without digits it is read to the places that
  the declared numbers need (18 where they need few), halves away from zero, and what is too large, infinity
  too, is its largest number;
* a timestamp with a time zone is compared as it is: the session's time zone is UTC;
* text is compared byte by byte, whatever its collation: one that calls different texts equal is put aside,
  ``citext`` and enums count as their text, ``char(n)`` without the blanks at its end;
* domains are what they are made of.  Arrays, JSON, bytes and all else cannot be read.
"""

from __future__ import annotations

import re
from typing import Final

from defray.core.column import Column
from defray.data.lines import ExactLine, FloatLine, Line
from defray.data.physical import FALSE, TRUE, Raw, Unreadable, places_needed
from defray.data.postgresql import texts
from defray.data.postgresql.dialect import POSTGRESQL

_INTEGERS: Final = {"smallint": 15, "integer": 31, "bigint": 63}
_FLOATS: Final = ("real", "double precision")
_TEXTS: Final = ("text", "character varying", "character", "bpchar", "name", "citext", "enum")
_INCOMPARABLE: Final = re.compile(
    r"(json|jsonpath|xml|point|line|lseg|box|path|polygon|circle|xid|cid|aclitem)(\[\])*"
)
_PLACES: Final = 18
_WHOLE_DIGITS: Final = 38
"""How long the numbers of a ``numeric`` without declared digits may be before the point."""


def raw(x: str, physical: str, *, bytewise: bool = True) -> Raw:
    """``physical`` as ``format_type`` has it, or ``enum``, ``citext``; ``bytewise``: whether equal texts are
    the same bytes in the column's own collation."""
    kind = _bare(physical)
    if kind in _TEXTS:
        text = x if kind in ("text", "character varying") else f"CAST({x} AS text)"
        x = text if bytewise else f'({text} COLLATE "C")'
        return Raw(x, physical, x, f"{x} IS NOT NULL")
    text = f"CAST({x} AS text)"
    if kind == "timestamp with time zone":
        text = f"coalesce(CAST({POSTGRESQL.micros(x)} AS text), CAST({x} AS text))"
    has_nan = kind in _FLOATS or kind == "numeric"
    present = f"({x} IS NOT NULL AND {x} <> 'NaN')" if has_nan else f"{x} IS NOT NULL"
    return Raw(x, physical, text, present)


def _bare(physical: str) -> str:
    """The type without its numbers."""
    return re.sub(r"\(.*?\)", "", physical)


def comparable(raw: Raw) -> bool:
    """Whether values of the type can be told apart and put in order, as far as its name says."""
    return _INCOMPARABLE.fullmatch(raw.physical) is None


def read(column: Column, raw: Raw) -> tuple[str, Line | None]:
    """The value of a column as the declared kind, and its line (None for text and booleans)."""
    kind = _bare(raw.physical)
    match column.kind:
        case "string":
            return _string(kind, raw), None
        case "boolean":
            return _boolean(kind, raw.x), None
        case "date":
            return _date(kind, raw.x), ExactLine("date")
        case "timestamp":
            return _timestamp(kind, raw.x), ExactLine("timestamp")
    return _number(column, kind, raw)


def _string(kind: str, raw: Raw) -> str:
    if kind in (*_TEXTS, *_INTEGERS, "boolean", "date", "uuid") or _digits(raw.physical):
        return raw.text
    raise Unreadable


def _boolean(kind: str, x: str) -> str:
    if kind == "boolean":
        return x
    if kind in _TEXTS:
        listed = [", ".join(map(POSTGRESQL.text, words)) for words in (TRUE, FALSE)]
        folded = f'lower(btrim({x}) COLLATE "C")'
        return f"CASE WHEN {folded} IN ({listed[0]}) THEN TRUE WHEN {folded} IN ({listed[1]}) THEN FALSE END"
    if kind in (*_INTEGERS, *_FLOATS, "numeric"):
        return f"CASE WHEN {x} = 1 THEN TRUE WHEN {x} = 0 THEN FALSE END"
    raise Unreadable


def _date(kind: str, x: str) -> str:
    if kind == "date":
        return x
    if kind in _TEXTS:
        return texts.date(x)
    if kind.startswith("timestamp "):
        return f"CAST({x} AS date)"
    raise Unreadable


def _timestamp(kind: str, x: str) -> str:
    if kind.startswith("timestamp "):
        return x
    if kind in _TEXTS:
        return texts.timestamp(x)
    if kind == "date":  # a date may be later than any timestamp
        fits = f"{x} < DATE '294277-01-01' OR {x} = 'infinity'"
        return f"CASE WHEN {fits} THEN CAST({x} AS timestamp) END"
    raise Unreadable


def _number(column: Column, kind: str, raw: Raw) -> tuple[str, Line]:
    x = raw.x
    if kind in _INTEGERS:
        top = 2 ** _INTEGERS[kind]
        return x, ExactLine("integer", low=-top, high=top - 1)
    if kind in _FLOATS:
        return x, FloatLine(single=kind == "real")
    if kind == "boolean":
        return f"CAST({x} AS integer)", ExactLine("integer", low=0, high=1)
    if kind == "numeric":
        digits = _digits(raw.physical)
        if digits is not None:
            places, top = max(digits[1], 0), (10 ** digits[0] - 1) * 10 ** max(-digits[1], 0)
            return x, ExactLine("decimal", places, digits[0], -top, top, nan=True)
        spare = places_needed(column)
        return _rounded(x, _PLACES if spare is None else spare)
    if kind in _TEXTS:
        spare = places_needed(column)
        return (texts.double(x), FloatLine()) if spare is None else _rounded(texts.number(x), spare)
    raise Unreadable


def _digits(physical: str) -> tuple[int, int] | None:
    """The digits of ``numeric(p,s)``, all and those behind the point."""
    found = re.fullmatch(r"numeric\((\d+),(-?\d+)\)", physical)
    return None if found is None else (int(found[1]), int(found[2]))


def _rounded(x: str, places: int) -> tuple[str, Line]:
    """Any numeric, to ``places``."""
    digits = _WHOLE_DIGITS + places
    top = 10**digits - 1
    first, last = (POSTGRESQL.decimal(n, places, digits) for n in (-top, top))
    value = (
        f"CASE WHEN {x} <= {first} THEN {first} WHEN {x} < {last} THEN round({x}, {places})"
        f" WHEN {x} < 'NaN' THEN {last} END"
    )
    return value, ExactLine("decimal", places, digits, -top, top)
