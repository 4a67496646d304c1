"""How databases that have TRY_CAST read numbers and booleans, from types that they name alike.

``physical`` is a type's name in small letters, ``integers`` are the ends of those of whole numbers; ``text``:
the value ``x`` is text.  Nothing raises whatever a row holds: what cannot be read is NULL.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from defray.core.column import Column
from defray.data.dialect import Dialect
from defray.data.lines import ExactLine, FloatLine, Line
from defray.data.physical import FALSE, TRUE, Unreadable, places_needed

Integers = Mapping[str, tuple[int, int]]

DIGITS = 38
"""The most digits of a DECIMAL."""


def boolean(x: str, physical: str, integers: Integers, dialect: Dialect, *, text: bool) -> str:
    """A truth value: from text as :data:`TRUE` and :data:`FALSE` have it, from numbers 1 and 0."""
    if physical == "boolean":
        return x
    if text:
        true, false = (", ".join(map(dialect.text, words)) for words in (TRUE, FALSE))
        folded = f"lower(trim({x}))"
        return f"CASE WHEN {folded} IN ({true}) THEN TRUE WHEN {folded} IN ({false}) THEN FALSE END"
    if physical in integers or physical in ("float", "double") or physical.startswith("decimal"):
        return f"CASE WHEN {x} = 1 THEN TRUE WHEN {x} = 0 THEN FALSE END"
    raise Unreadable


def number(
    column: Column, x: str, physical: str, integers: Integers, dialect: Dialect, *, text: bool
) -> tuple[str, Line]:
    """A number and its line."""
    if physical in integers:
        low, high = integers[physical]
        return x, ExactLine("integer", low=low, high=high)
    if physical in ("float", "double"):
        return x, FloatLine(single=physical == "float")
    if physical == "boolean":
        return f"CAST({x} AS TINYINT)", ExactLine("integer", low=0, high=1)
    found = re.fullmatch(r"decimal\((\d+),(\d+)\)", physical)
    if found is not None:
        return x, _decimal(places=int(found[2]), digits=int(found[1]))
    if text:
        return _in_text(column, x, dialect)
    raise Unreadable


def _decimal(places: int, digits: int) -> ExactLine:
    top = 10**digits - 1
    return ExactLine("decimal", places, digits, -top, top)


def _in_text(column: Column, x: str, dialect: Dialect) -> tuple[str, Line]:
    """As doubles where these tell the declared numbers apart, else as decimals: what is too large for
    them, infinity too, is the largest."""
    rough, places = f"TRY_CAST({x} AS DOUBLE)", places_needed(column)
    if places is None:
        return rough, FloatLine()
    line = _decimal(places, DIGITS)
    first, last = line.sql(line.low, dialect), line.sql(line.high, dialect)
    above = f"WHEN {rough} BETWEEN 0 AND {dialect.double(math.inf)} THEN {last}"
    beyond = f"CASE WHEN {rough} < 0 THEN {first} {above} END"
    return f"coalesce(TRY_CAST({x} AS DECIMAL({DIGITS},{places})), {beyond})", line
