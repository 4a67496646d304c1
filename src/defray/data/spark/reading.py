"""How a declared column is read from a physical Spark column: a value expression and its line.

The cast never raises, whatever a row holds.  Text that cannot be read as the declared type is NULL:

* numbers in text are in digits, with a sign, a point, an exponent, or ``inf``, ``infinity``, ``nan``, between
  blanks.  They are read as DOUBLE, or as DECIMAL(38, s) where the declared integers or decimals need more
  than 53 bits (what is too large for that, infinity too, is its largest number, which is outside); a
  fraction in an integer column stays a fraction, so it is *outside* the domain;
* booleans are read from 0 and 1 and from ``true t yes y 1 / false f no n 0`` in any case;
* dates and timestamps in text are ``YYYY-MM-DD``, with ``HH:MM``, ``HH:MM:SS`` or ``HH:MM:SS.f`` and, behind
  that, ``Z``, ``UTC`` or an offset ``+HH``, ``+HHMM``, ``+HH:MM``; what else Spark would take (``now``, a
  year alone) depends on the clock, or means something else in other databases;
* ``infinity`` and ``inf`` in text are days beyond every domain, where dates are declared;
* a timestamp with a time zone (or text with an offset) is meant in UTC, text without one is UTC; the date
  of a timestamp is the day it falls on in UTC, the date of a text is the day that is written, and the
  timestamp of a date is its midnight;
* text is compared byte by byte: case, blanks and Unicode form all count, whatever the column's collation.
"""

from __future__ import annotations

import re

from defray.core.column import Column
from defray.data.lines import ExactLine, Line
from defray.data.physical import Raw, Unreadable
from defray.data.spark.dialect import SPARK
from defray.data.try_cast import boolean, number

_INTEGERS = {
    "tinyint": (-(2**7), 2**7 - 1),
    "smallint": (-(2**15), 2**15 - 1),
    "int": (-(2**31), 2**31 - 1),
    "bigint": (-(2**63), 2**63 - 1),
}
_FLOATS = ("float", "double")
_TEXT = re.compile(r"string( collate \S+)?|(var)?char\(\d+\)", re.IGNORECASE)

_BLANK = "\\s*"
_NUMBER = (
    f"^{_BLANK}[+-]?(([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?"
    f"|[iI][nN][fF]([iI][nN][iI][tT][yY])?|[nN][aA][nN]){_BLANK}\\z"
)
_DAY = "[0-9]{4,6}-[0-9]{1,2}-[0-9]{1,2}"
_CLOCK = "[ T]([01]?[0-9]|2[0-3]):[0-5]?[0-9](:[0-5]?[0-9]([.][0-9]+)?)?"
_ZONE = "(Z| UTC|[+-][0-9]{2}(:?[0-9]{2})?)?"
_ENDLESS = f"^{_BLANK}-?[iI][nN][fF]([iI][nN][iI][tT][yY])?{_BLANK}\\z"
_FAR = 2**31 - 1
"""The day that others write for infinity."""
_FARTHEST = 2**62
_MOMENT = f"^{_DAY}({_CLOCK}{_ZONE})?\\z"
_WITHOUT_SECONDS = f"^({_DAY}[ T][0-9]+:[0-9]+)({_ZONE[:-1]})\\z"


def raw(x: str, physical: str) -> Raw:
    if _TEXT.fullmatch(physical):
        x = f"({x} COLLATE UTF8_BINARY)" if " collate " in physical.lower() else x
        return Raw(x, "string", x, f"{x} IS NOT NULL")
    text = f"unix_micros({x})" if physical == "timestamp" else x
    there = f"({x} IS NOT NULL AND NOT isnan({x}))" if physical in _FLOATS else f"{x} IS NOT NULL"
    return Raw(x, physical, f"CAST({text} AS STRING)", there)


def comparable(raw: Raw) -> bool:
    """Whether values of the type can be told apart and written as text."""
    return re.match(r"(array|map|struct|variant|binary|interval|void)", raw.physical) is None


def read(column: Column, raw: Raw) -> tuple[str, Line | None]:
    """The value of a column as the declared kind, and its line (None for text and booleans)."""
    x, physical = raw.x, raw.physical
    match column.kind:
        case "string":
            if not comparable(raw):
                raise Unreadable
            return (x if physical == "string" else f"CAST({x} AS STRING)"), None
        case "boolean":
            return boolean(x, physical, _INTEGERS, SPARK, text=physical == "string"), None
        case "date":
            return _date(x, physical), ExactLine("date")
        case "timestamp":
            return _timestamp(x, physical), ExactLine("timestamp")
    is_text = physical == "string"
    x = f"CASE WHEN {_like(x, _NUMBER)} THEN {x} END" if is_text else x
    return number(column, x, physical, _INTEGERS, SPARK, text=is_text)


def _like(x: str, pattern: str) -> str:
    return f"{x} RLIKE {SPARK.text(pattern)}"


def _date(x: str, physical: str) -> str:
    if physical == "date":
        return x
    if physical == "string":
        day = f"substring_index(substring_index(trim({x}), ' ', 1), 'T', 1)"
        past = f"CASE WHEN trim({x}) LIKE '-%' THEN {SPARK.date(-_FAR)} ELSE {SPARK.date(_FAR)} END"
        written = f"WHEN {_like(f'trim({x})', _MOMENT)} THEN TRY_CAST({day} AS DATE)"
        return f"CASE {written} WHEN {_like(x, _ENDLESS)} THEN {past} END"
    return f"CAST({_timestamp(x, physical)} AS DATE)"


def _timestamp(x: str, physical: str) -> str:
    if physical in ("timestamp", "timestamp_ntz"):
        return x
    if physical == "string":
        whole = SPARK.text("$1:00$2")
        full = f"regexp_replace(trim({x}), {SPARK.text(_WITHOUT_SECONDS)}, {whole})"
        moment = f"TRY_CAST({full} AS TIMESTAMP)"
        return f"CASE WHEN {_like(f'trim({x})', _MOMENT)} THEN CAST({moment} AS TIMESTAMP_NTZ) END"
    if physical == "date":
        ends = ((SPARK.date(sign * _FAR), SPARK.timestamp(sign * _FARTHEST)) for sign in (-1, 1))
        endless = " ".join(f"WHEN {x} = {day} THEN {moment}" for day, moment in ends)
        return f"coalesce(TRY_CAST({x} AS TIMESTAMP_NTZ), CASE {endless} END)"
    raise Unreadable
