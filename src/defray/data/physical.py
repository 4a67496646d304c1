"""Columns as they lie in the data, and what makes a declared column of one, whichever database it is in.

Which physical types there are, and how each is read, is a database's own: see ``reading`` in its package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from defray.core.column import Column
from defray.core.shapes import Cuts, Grid, Values, Whole
from defray.data.dialect import Dialect
from defray.data.lines import Line
from defray.data.measure import MAX_UNITS
from defray.data.normalise import Normal
from defray.errors import SourceUnavailable

TRUE: Final = ("true", "t", "yes", "y", "1")
FALSE: Final = ("false", "f", "no", "n", "0")
"""What a text that is declared boolean may be, in any case and between blanks; others are NULL."""


@dataclass(frozen=True, slots=True)
class Raw:
    """A column in the data: an SQL expression and its physical type; its ``text``, one for each value of the
    type; and the condition that there is a value, ``present``."""

    x: str
    physical: str
    text: str
    present: str


class Unreadable(ValueError):
    """A physical type that cannot hold the declared kind; follows from the schema alone."""


Read = Callable[[Column, Raw], tuple[str, Line | None]]
"""The value of a column as the declared kind, and its line (None for text and booleans).  Unreadable."""


def pick(columns: Mapping[str, Raw], name: str, role: str) -> Raw:
    """A column by its exact name, else by the only one that differs in case; ``role`` says who asks."""
    found = columns.get(name)
    if found is None:
        alike = [c for n, c in columns.items() if n.casefold() == name.casefold()]
        found = alike[0] if len(alike) == 1 else None
    if found is None:
        raise SourceUnavailable(
            f"the data has no column {name} ({role})",
            hint="correct the name in the contract, or the data; a name that occurs twice is not found",
            column=name,
        )
    return found


def normal(column: Column, raw: Raw, name: str, read: Read, dialect: Dialect) -> tuple[str, Normal]:
    """The SELECT item that reads a column as ``name``, and its rules over that name."""
    found = None
    try:
        found = read(column, raw)
    except Unreadable:
        found = None
    if found is None:
        raise SourceUnavailable(
            f"column {column.name} is declared {column.kind}, but the data's type cannot be read as that",
            hint=f"correct the type in [columns.{column.name}], or the data",
            column=column.name,
        )
    if column.bounds is not None and max(abs(column.low_units), abs(column.high_units)) > MAX_UNITS:
        raise SourceUnavailable(
            f"the bounds of column {column.name} are too wide for its unit_step",
            hint=f"declare a coarser unit_step in [columns.{column.name}]",
            column=column.name,
        )
    return f"{found[0]} AS {name}", Normal(column, name, found[1], dialect)


def places_needed(column: Column) -> int | None:
    """None where doubles tell all declared numbers apart, else the places a DECIMAL of 38 can spare."""
    if column.kind == "float":
        return None
    points: list[Fraction] = list(column.bounds or ())
    parts = [column.unit_step] if column.unit_step is not None else []
    match column.shape:
        case Whole(low, high):
            points += [Fraction(low), Fraction(high)]
        case Values(items):
            points += [p for p in items if isinstance(p, Fraction)]
        case Grid(start, step, count):
            points += [start, start + count * step]
            parts.append(step)
        case Cuts(edges):
            points += edges
    largest = max((abs(p) for p in points), default=Fraction(0))
    finest = max((p.denominator for p in [*points, *parts]), default=1)
    if largest * finest < 2**52:
        return None
    return max(0, min(18, 37 - len(str(int(largest)))))
