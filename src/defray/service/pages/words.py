"""Numbers, labels and times as people read them, and the words that a question may be made of."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import Any, Final

from defray.core.column import Column
from defray.core.contract import Contract
from defray.core.literals import show_point
from defray.core.shapes import Values, Whole
from defray.query.reader import identifier

FEW: Final = 40
"""The most values of a column that are offered one by one."""

CLAUSES: Final = (
    ("SELECT", "begins a question"),
    ("FROM", "the table"),
    ("WHERE", "which rows"),
    ("GROUP BY", "one answer for each group"),
    ("HAVING", "which groups, by their noisy values"),
    ("ORDER BY", "in which order"),
    ("LIMIT", "at most so many rows"),
    ("AND", ""),
    ("OR", ""),
    ("NOT", ""),
    ("BETWEEN", "from one value to another, both included"),
    ("IN (", "one of a list"),
    ("IS NULL", "missing"),
    ("IS NOT NULL", "not missing"),
    ("ERROR WITHIN 50 AT CONFIDENCE 95%", "at most 50 off, 95 times in 100"),
    ("ERROR WITHIN 2% AT CONFIDENCE 95%", "at most 2 % off"),
    ("SIMULTANEOUS", "all intervals hold at once"),
    ("VALIDITY ANYTIME", "valid whenever you stop asking again"),
    ("VALIDITY LOOKS 5", "valid for at most five looks"),
    ("VALIDITY CONFIRM", "a release of its own, whatever was asked before"),
)


def number(x: float | None) -> str:
    """Six significant digits, with thousands set apart.

    >>> number(8117.94870954752), number(-0.25), number(48511425.2), number(None)
    ('8,117.95', '-0.25', '48,511,425', 'unknown')
    """
    if x is None or not math.isfinite(x):
        return "unknown"
    if x == 0:
        return "0"
    places = max(0, 5 - math.floor(math.log10(abs(x))))
    if places > 12:
        return f"{x:.6g}"
    text = f"{x:,.{places}f}"
    return text.rstrip("0").rstrip(".") if places else text


def spelt(row: Mapping[str, Any]) -> dict[str, str]:
    """The numbers of a row, to three digits of its error.  The error is rounded up, the ends outwards.

    >>> spelt({"value": 906.0904, "low": 876.0907, "high": 936.0901, "half_width": 29.9997})
    {'value': '906.1', 'low': '876.0', 'high': '936.1', 'half_width': '30.0'}
    """
    width = row["half_width"]
    if width is None or not 1e-9 < width < 1e15:
        return {name: number(row[name]) for name in ("value", "low", "high", "half_width")}
    places = max(0, 2 - math.floor(math.log10(width)))

    def at(name: str, rounding: str) -> str:
        x = row[name]
        if x is None:
            return "unknown"
        return f"{Decimal(x).quantize(Decimal(1).scaleb(-places), rounding):,}"

    return {
        "value": at("value", ROUND_HALF_EVEN),
        "low": at("low", ROUND_FLOOR),
        "high": at("high", ROUND_CEILING),
        "half_width": at("half_width", ROUND_CEILING),
    }


def pointed(caret: str) -> tuple[str, str, str]:
    """A line with carets under some of its characters as what is before them, these, and what is after.

    >>> pointed("SELECT agee FROM people\\n       ^^^^")
    ('SELECT ', 'agee', ' FROM people')
    """
    line, _, under = caret.rpartition("\n")
    start, end = len(under) - len(under.lstrip()), len(under)
    return line[:start], line[start:end], line[end:]


def sentence(text: str) -> str:
    """A text that begins with a capital letter; the others are as they are."""
    return text[:1].upper() + text[1:]


def rho(x: float) -> str:
    """An amount of privacy, to three digits.

    >>> rho(0.013338398), rho(1.0), rho(0), rho(5.9e-07)
    ('0.0133', '1', '0', '5.9e-07')
    """
    return f"{x:.3g}"


def percent(part: float) -> str:
    """
    >>> percent(0.1473), percent(0.95), percent(0.0004), percent(0)
    ('14.7 %', '95 %', '0.04 %', '0 %')
    """
    return f"{100 * part:.3g} %"


def label(value: Any) -> str:
    """A group's label, as SQL has it where it is none."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return str(value)


def when(at: str) -> str:
    """A moment of the log, to the minute.

    >>> when("2026-11-30T11:16:56+00:00"), when("")
    ('2026-11-30 11:16 UTC', '')
    """
    return f"{dt.datetime.fromisoformat(at).astimezone(dt.UTC):%Y-%m-%d %H:%M} UTC" if at else ""


def completion(contract: Contract) -> dict[str, Any]:
    """What can be typed next: ``words`` with what each is, and by column the ``values`` that it may have."""
    columns = contract.domain.columns
    return {
        "words": [{"text": text, "says": says} for text, says in _words(contract)],
        "values": {
            column.name: values for column in columns if (values := _values(column)) is not None
        },
    }


def _words(contract: Contract) -> list[tuple[str, str]]:
    words = [("COUNT(*)", "how many rows"), (identifier(contract.table), "the table")]
    for column in contract.domain.columns:
        name = identifier(column.name)
        words.append((name, column.kind))
        if column.bounds is not None:
            low, high = (number(float(bound)) for bound in column.bounds)
            within = f"of {column.name}, from {low} to {high}"
            words += [(f"SUM({name})", f"the sum {within}"), (f"AVG({name})", f"the mean {within}")]
        words += [
            (f"date_trunc('{level}', {name})", f"{column.name} by {level}")
            for level in column.levels
            if level != "value"
        ]
    return [*words, *CLAUSES]


def _values(column: Column) -> list[str] | None:
    shape = column.shape
    if shape.count > FEW or not isinstance(shape, Values | Whole):
        return None
    if isinstance(shape, Whole) and column.kind != "integer":
        return None
    return [show_point(column, column.label(atom)) for atom in range(shape.count)]
