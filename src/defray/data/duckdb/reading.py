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

from defray.core.column import Column
from defray.data.duckdb.dialect import DUCKDB
from defray.data.lines import ExactLine, Line
from defray.data.physical import Raw, Unreadable
from defray.data.try_cast import boolean, number

_INTEGERS = {
    "tinyint": (-(2**7), 2**7 - 1),
    "smallint": (-(2**15), 2**15 - 1),
    "integer": (-(2**31), 2**31 - 1),
    "bigint": (-(2**63), 2**63 - 1),
    "hugeint": (-(2**127), 2**127 - 1),
    "utinyint": (0, 2**8 - 1),
    "usmallint": (0, 2**16 - 1),
    "uinteger": (0, 2**32 - 1),
    "ubigint": (0, 2**64 - 1),
    "uhugeint": (0, 2**128 - 1),
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
            return boolean(x, physical.lower(), _INTEGERS, DUCKDB, text=is_text), None
        case "date":
            return _date(physical, x, is_text), ExactLine("date")
        case "timestamp":
            return _timestamp(physical, x, is_text), ExactLine("timestamp")
    return number(column, x, physical.lower(), _INTEGERS, DUCKDB, text=is_text)


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
