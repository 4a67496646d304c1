"""An answer as the rows of a table: a group's columns, then three for each aggregate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from defray.core.answer import Answer, Row
from defray.dbapi.types import type_of
from defray.query.outputs import Call, default_alias, free_alias, read_items
from defray.query.reader import Reader

Column = tuple[str, type, None, None, None, None, bool | None]
"""A column as PEP 249 describes it: name, type, sizes that are not told, whether it may be NULL."""


@dataclass(frozen=True, slots=True)
class Table:
    """``NAME`` is the value of an aggregate, ``NAME_half_width`` half of its interval, ``NAME_charged_rho``
    what its row was charged.  NULL: a group of NULL, an unknown value, a half-width without end."""

    description: tuple[Column, ...]
    rows: list[tuple[Any, ...]]


def table_of(answer: Answer) -> Table:
    groups, aggregates = _names(answer)
    cells: dict[tuple[Any, ...], dict[str, Row]] = {}
    for row in answer.rows:
        cells.setdefault(tuple(row.group.values()), {})[row.aggregate] = row
    labels = [[group[i] for group in cells] for i in range(len(groups))]
    kinds = [type_of(column) for column in labels]
    rows = [
        (
            *(_as(kind, label) for kind, label in zip(kinds, group, strict=True)),
            *(field for name in aggregates for field in _fields(of[name])),
        )
        for group, of in cells.items()
    ]
    described = [_column(name, kind, None) for name, kind in zip(groups, kinds, strict=True)]
    taken = {name.casefold() for name in (*groups, *aggregates)}
    for name in aggregates:
        described.append(_column(name, float, True))
        for field, null in (("half_width", True), ("charged_rho", False)):
            free = free_alias(f"{name}_{field}", taken)
            taken.add(free.casefold())
            described.append(_column(free, float, null))
    return Table(tuple(described), rows)


def _column(name: str, kind: type, null: bool | None) -> Column:
    return (name, kind, None, None, None, None, null)


def _fields(row: Row) -> tuple[float | None, float | None, float]:
    told = row.to_dict()
    return told["value"], told["half_width"], row.charged_rho


def _as(kind: type, label: Any) -> Any:
    return label if label is None or type(label) is kind else kind(label)


def _names(answer: Answer) -> tuple[list[str], list[str]]:
    """The grouping columns and the aggregates; where no row tells them, the canonical question does."""
    if answer.rows:
        return list(answer.rows[0].group), list(dict.fromkeys(r.aggregate for r in answer.rows))
    reader = Reader(answer.question)
    reader.need_word("SELECT")
    groups, aggregates = [], []
    for item in read_items(reader):
        what, alias = item.what, item.alias
        if isinstance(what, Call):
            column = None if what.argument is None else what.argument.text
            aggregates.append(alias.text if alias else default_alias(what.function, column))
        else:
            level = "" if what.level == "value" else f"_{what.level}"
            groups.append(alias.text if alias else what.name.text + level)
    return groups, aggregates
