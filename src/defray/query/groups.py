"""GROUP BY: which declared groups a question has."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from defray.core.domain import Domain
from defray.core.shapes import Anything
from defray.query import refusals
from defray.query.descriptor import Axis
from defray.query.names import Scope
from defray.query.outputs import Call, Item, Key, item_at, read_key, same_name

MAX_GROUPS = 65_536


def resolve_axis(scope: Scope, key: Key) -> Axis:
    """The axis that a grouping column means; refused if it cannot be grouped so."""
    reader, position = scope.reader, scope.column(key.name)
    column = scope.at(position)
    if isinstance(column.shape, Anything):
        raise reader.refuse(
            "no-domain",
            f"column {column.name} has no declared domain, so it has no groups",
            key.name,
            f"declare its values or min and max in the contract: [columns.{column.name}]",
        )
    token = key.level_token
    if token is None:
        return Axis(position)
    levels = column.levels[1:]
    if key.level not in levels:
        if levels:
            message = f"{token.shown()} is not a level of column {column.name}"
            hint = "the levels are " + ", ".join(f"'{level}'" for level in levels)
        else:
            message = f"column {column.name} has no date_trunc levels"
            hint = f"group by the column itself: GROUP BY {column.name}"
        raise reader.refuse("bad-level", message, token, hint)
    by_day = key.level == "day" and column.kind == "date"
    return Axis(position, "value" if by_day else key.level)


def default_label(key: Key, scope: Scope) -> str:
    column = scope.at(scope.column(key.name)).name
    return column if key.level_token is None else f"{column}_{key.level}"


def axis_label(domain: Domain, axis: Axis) -> str:
    """How an axis is named where the text does not say."""
    column = domain.columns[axis.column].name
    return column if axis.level == "value" else f"{column}_{axis.level}"


def read_group_by(scope: Scope, items: Sequence[Item]) -> tuple[list[Axis], list[str]]:
    """Reads the columns after GROUP BY: names, outputs' aliases or positions.  Returns the axes and
    the label of each: its alias in SELECT, else its name."""
    reader = scope.reader
    axes: list[Axis] = []
    labels: list[str] = []
    while True:
        start = reader.now.start
        axis, label = _read_group(scope, items)
        if axis not in axes:
            if any(axis.column == other.column for other in axes):
                name = scope.at(axis.column).name
                raise reader.refuse(
                    "duplicate-group",
                    f"column {name} is grouped twice",
                    (start, reader.last_end),
                    "group by its finest level only",
                )
            axes.append(axis)
            labels.append(label)
            _check_group_count(scope, axes, (start, reader.last_end))
        if not reader.take_sign(","):
            return axes, labels


def _read_group(scope: Scope, items: Sequence[Item]) -> tuple[Axis, str]:
    reader = scope.reader
    token = reader.now
    if token.word in ("ROLLUP", "CUBE", "GROUPING"):
        raise reader.unexpected("")
    if token.word == "ALL":
        raise reader.unsupported(("GROUP BY ALL is", "name the columns: GROUP BY a, b"), token)
    if token.kind == "number":
        item = item_at(reader, items)
        if isinstance(item.what, Call):
            raise reader.refuse(
                "bad-group",
                f"output {token.text} is an aggregate",
                token,
                "group by a column",
            )
        key = item.what
    elif reader.at_sign("("):
        raise reader.unsupported(refusals.GROUPING_SETS, token)
    else:
        if token.word in refusals.AGGREGATES and reader.ahead().text == "(":
            raise reader.refuse(
                "bad-group", "an aggregate cannot be grouped by", token, "group by a column"
            )
        key = read_key(reader)
        if reader.now.kind == "op" and reader.now.text in refusals.SIGNS:
            raise reader.unsupported(refusals.GROUP_ARITHMETIC, reader.now)
        key = _by_alias(scope, key, items)
    axis = resolve_axis(scope, key)
    for item in items:
        same = isinstance(item.what, Key) and resolve_axis(scope, item.what) == axis
        if same and item.alias is not None:
            return axis, item.alias.text
    return axis, default_label(key, scope)


def _by_alias(scope: Scope, key: Key, items: Sequence[Item]) -> Key:
    """The grouping column of SELECT whose alias is meant; columns go before aliases, as in SQL."""
    name = key.name
    if key.level_token is not None or name.qualifier is not None:
        return key
    if scope.domain.find(name.text, quoted=name.quoted) is not None:
        return key
    for item in items:
        if item.alias is not None and same_name(name, item.alias.text):
            if isinstance(item.what, Call):
                raise scope.reader.refuse(
                    "bad-group", f"output {name.text} is an aggregate", name, "group by a column"
                )
            return item.what
    return key


def _check_group_count(scope: Scope, axes: Sequence[Axis], where: tuple[int, int]) -> None:
    groups = prod(scope.at(a.column).group_count(a.level) for a in axes)
    if groups > MAX_GROUPS:
        raise scope.reader.refuse(
            "too-many-groups",
            f"this GROUP BY has {groups:,} groups, more than {MAX_GROUPS:,}",
            where,
            "group by fewer columns, or by a coarser level",
        )


def check_selected(scope: Scope, items: Sequence[Item], axes: Sequence[Axis]) -> None:
    """Refuses a selected column that is not grouped, and a text without aggregates."""
    for item in items:
        if isinstance(item.what, Key) and resolve_axis_or_column(scope, item.what) not in axes:
            shown = scope.reader.text[item.what.start : item.what.end]
            raise scope.reader.refuse(
                "not-grouped",
                f"{shown} is selected but not grouped; single rows are never returned",
                item.what.name
                if item.what.level_token is None
                else (item.what.start, item.what.end),
                f"add GROUP BY {shown}, or ask COUNT({item.what.name.text})",
            )
    if not any(isinstance(item.what, Call) for item in items):
        raise scope.reader.refuse(
            "no-aggregate",
            "nothing is counted or summed",
            (items[0].what.start, items[-1].what.end),
            "add COUNT(*) to SELECT",
        )


def resolve_axis_or_column(scope: Scope, key: Key) -> Axis:
    """The axis of a selected column; one without groups counts as not grouped."""
    position = scope.column(key.name)
    if isinstance(scope.at(position).shape, Anything):
        return Axis(position)
    return resolve_axis(scope, key)
