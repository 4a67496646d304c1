"""How a declared column is read from a physical DuckDB column: a value expression and its line.

The cast never raises, whatever a row holds.  Text that cannot be read as the declared type is NULL, and so
are values for which the cast has no answer (a timestamp beyond the type's range).  In particular

* numbers in text are read as DOUBLE, or as DECIMAL(38, s) where the declared integers or decimals need
  more than 53 bits (what is too large for that, infinity too, is its largest number, which is outside);
  a fraction in an integer column stays a fraction, so it is *outside* the domain;
* booleans are read from 0 and 1 and from ``true t yes y 1 / false f no n 0`` in any case;
* a timestamp with a time zone (or text with an offset) is moved to UTC, text without one is UTC;
  the date of a timestamp is the day it falls on, the timestamp of a date is its midnight;
* text is compared exactly: case, blanks and Unicode form all count.

A physical type that can never be read as the declared kind (a date where a number is declared) is a
mistake of the contract, and said so by :class:`~defray.data.physical.Unreadable`.
"""

from __future__ import annotations

import re

from defray.core.column import Column
from defray.data.duckdb.dialect import DUCKDB
from defray.data.lines import ExactLine, FloatLine, Line
from defray.data.physical import FALSE, TRUE, Raw, Unreadable, places_needed

_INTEGERS = {
    "TINYINT": (-(2**7), 2**7 - 1),
    "SMALLINT": (-(2**15), 2**15 - 1),
    "INTEGER": (-(2**31), 2**31 - 1),
    "BIGINT": (-(2**63), 2**63 - 1),
    "HUGEINT": (-(2**127), 2**127 - 1),
    "UTINYINT": (0, 2**8 - 1),
    "USMALLINT": (0, 2**16 - 1),
    "UINTEGER": (0, 2**32 - 1),
    "UBIGINT": (0, 2**64 - 1),
    "UHUGEINT": (0, 2**128 - 1),
}
_ZONED = ("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ", "TIMESTAMP_NS WITH TIME ZONE")


def raw(x: str, physical: str) -> Raw:
    if physical.startswith("TIMESTAMP") and "TIME ZONE" in physical:
        text = f"coalesce(CAST(epoch_us({x}) AS VARCHAR), CAST({x} AS VARCHAR))"
    else:
        text = x if physical == "VARCHAR" else f"CAST({x} AS VARCHAR)"
    is_float = physical in ("DOUBLE", "FLOAT")
    present = f"({x} IS NOT NULL AND NOT isnan({x}))" if is_float else f"{x} IS NOT NULL"
    return Raw(x, physical, text, present)


def read(column: Column, raw: Raw) -> tuple[str, Line | None]:
    """The value of a column as the declared kind, and its line (None for text and booleans)."""
    x, physical = raw.x, raw.physical
    is_text = physical == "VARCHAR" or physical.startswith("ENUM")
    if is_text and physical != "VARCHAR":
        x = f"CAST({x} AS VARCHAR)"
    match column.kind:
        case "string":
            return (x if is_text else f"CAST({x} AS VARCHAR)"), None
        case "boolean":
            return _boolean(physical, x, is_text), None
        case "date":
            return _date(physical, x, is_text), ExactLine("date")
        case "timestamp":
            return _timestamp(physical, x, is_text), ExactLine("timestamp")
    return _number(column, physical, x, is_text)


def _boolean(physical: str, x: str, is_text: bool) -> str:
    if physical == "BOOLEAN":
        return x
    if is_text:
        listed = [", ".join(map(DUCKDB.text, words)) for words in (TRUE, FALSE)]
        folded = f"lower(trim({x}))"
        return f"CASE WHEN {folded} IN ({listed[0]}) THEN TRUE WHEN {folded} IN ({listed[1]}) THEN FALSE END"
    if physical in _INTEGERS or physical in ("FLOAT", "DOUBLE") or physical.startswith("DECIMAL"):
        return f"CASE WHEN {x} = 1 THEN TRUE WHEN {x} = 0 THEN FALSE END"
    raise Unreadable


def _date(physical: str, x: str, is_text: bool) -> str:
    if physical == "DATE":
        return x
    if is_text:
        return f"TRY_CAST(trim({x}) AS DATE)"
    return f"TRY_CAST({_timestamp(physical, x, False)} AS DATE)"


def _timestamp(physical: str, x: str, is_text: bool) -> str:
    if physical == "TIMESTAMP":
        return x
    if is_text:
        return f"make_timestamp(epoch_us(TRY_CAST(trim({x}) AS TIMESTAMPTZ)))"
    if physical in _ZONED:
        endless = f"TRY_CAST(CAST({x} AS VARCHAR) AS TIMESTAMP)"  # which has no microseconds
        return f"coalesce(make_timestamp(epoch_us({x})), {endless})"
    if physical == "DATE" or physical.startswith("TIMESTAMP"):
        return f"TRY_CAST({x} AS TIMESTAMP)"
    raise Unreadable


def _number(column: Column, physical: str, x: str, is_text: bool) -> tuple[str, Line]:
    if physical in _INTEGERS:
        low, high = _INTEGERS[physical]
        return x, ExactLine("integer", low=low, high=high)
    if physical == "DOUBLE":
        return x, FloatLine()
    if physical == "FLOAT":
        return x, FloatLine(single=True)
    if physical == "BOOLEAN":
        return f"CAST({x} AS TINYINT)", ExactLine("integer", low=0, high=1)
    found = re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", physical)
    if found is not None:
        digits, places = int(found[1]), int(found[2])
        top = 10**digits - 1
        return x, ExactLine("decimal", places, digits, -top, top)
    if is_text:
        spare = places_needed(column)
        if spare is None:
            return f"TRY_CAST({x} AS DOUBLE)", FloatLine()
        top = 10**38 - 1
        first, last = (DUCKDB.decimal(n, spare, 38) for n in (-top, top))
        rough = f"TRY_CAST({x} AS DOUBLE)"
        beyond = (
            f"CASE WHEN {rough} < 0 THEN {first} WHEN {rough} BETWEEN 0 AND 'inf' THEN {last} END"
        )
        exact = f"coalesce(TRY_CAST({x} AS DECIMAL(38,{spare})), {beyond})"
        return exact, ExactLine("decimal", spare, 38, -top, top)
    raise Unreadable
