"""The SELECT list: what a question returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from defray.query import refusals
from defray.query.descriptor import Aggregate, Function
from defray.query.names import Scope
from defray.query.reader import Name, Reader
from defray.query.tokens import Token, number

MAX_OUTPUTS = 100
NUMERIC = ("integer", "float", "decimal")
TRUNC = "DATE_TRUNC"


@dataclass(frozen=True, slots=True)
class Call:
    """An aggregate as written; ``argument`` is None for COUNT(*)."""

    function: Function
    argument: Name | None
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Key:
    """A grouping column as written, at a level if it stands in date_trunc."""

    name: Name
    level: str
    level_token: Token | None
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of the SELECT list."""

    what: Call | Key
    alias: Name | None


def read_items(reader: Reader) -> list[Item]:
    """Reads the SELECT list up to FROM."""
    items: list[Item] = []
    while True:
        items.append(_read_item(reader))
        if len(items) > MAX_OUTPUTS:
            raise reader.refuse(
                "too-long",
                f"SELECT has more than {MAX_OUTPUTS} outputs",
                (items[-1].what.start, items[-1].what.end),
                "ask several questions",
            )
        if not reader.take_sign(","):
            return items


def _read_item(reader: Reader) -> Item:
    token = reader.now
    if reader.at_sign("*"):
        raise reader.unsupported(refusals.STAR, token)
    if token.word in ("DISTINCT", "ALL"):
        raise reader.unsupported((f"SELECT {token.word} is", refusals.DISTINCT[1]), token)
    if token.word == "TOP" and reader.ahead().kind == "number":
        raise reader.unexpected("")
    if token.kind in ("number", "string") or token.word in ("NULL", "TRUE", "FALSE"):
        raise reader.unsupported(("selecting a constant is", refusals.OTHER_FUNCTION), token)
    if reader.at_sign("-", "+", "("):
        opens_query = reader.ahead().word in ("SELECT", "WITH", "VALUES", "FROM")
        entry = refusals.SUBQUERIES if opens_query else refusals.OUTPUT_ARITHMETIC
        raise reader.unsupported(entry, token)
    if token.kind == "end" or token.word == "FROM":
        raise reader.unexpected("COUNT(*) or another aggregate is expected here")
    what = read_call(reader) or read_key(reader)
    if reader.at_sign("+", "-", "*", "/", "%", "//", "^", "**", "||", "<<", ">>", "&", "|"):
        raise reader.unsupported(refusals.OUTPUT_ARITHMETIC, reader.now)
    if reader.at_sign("=", "<>", "!=", "<", "<=", ">", ">=", "=="):
        raise reader.unsupported(
            ("a comparison in SELECT is", "put the condition in WHERE"), reader.now
        )
    if reader.now.word == "WITHIN" and reader.ahead().word != "GROUP":
        raise reader.unexpected("FROM is expected here")
    return Item(what, _read_alias(reader))


def _read_alias(reader: Reader) -> Name | None:
    if reader.take_word("AS"):
        return reader.name("the name of an output", reserved=True)
    bare = reader.now.kind == "word" and reader.now.word not in refusals.RESERVED
    return reader.name("the name of an output") if bare or reader.now.kind == "quoted" else None


def read_call(reader: Reader) -> Call | None:
    """Reads COUNT, SUM, AVG or MEAN with its argument, if one comes now."""
    token = reader.now
    if not token.word or reader.ahead().kind != "op" or reader.ahead().text != "(":
        return None
    if token.word == TRUNC:
        return None
    if token.word not in refusals.AGGREGATES:
        raise reader.unexpected("")
    function = cast(Function, refusals.AGGREGATES[token.word])
    reader.next()
    reader.next()
    argument: Name | None = None
    inside = reader.now
    if reader.now.word in ("DISTINCT", "ALL"):
        entry = (f"{token.word}({inside.word} ...) is", refusals.DISTINCT[1])
        raise reader.unsupported(entry, inside)
    if function == "COUNT" and reader.at_sign("*"):
        reader.next()
    elif function == "COUNT" and inside.kind == "number":
        number(reader.text, inside)
        reader.next()
    elif (
        inside.kind in ("number", "string")
        or inside.word in ("NULL", "TRUE", "FALSE")
        or reader.at_sign("*", ")")
    ):
        raise reader.refuse(
            "syntax", f"{token.word} needs a column", inside, f"write {token.word}(column)"
        )
    else:
        argument = reader.column_name()
    if not reader.at_sign(")"):
        if reader.now.word == "ORDER" or reader.at_sign(","):
            raise reader.unsupported(
                ("an aggregate of several columns is", "write one column: SUM(column)"), reader.now
            )
        raise reader.unexpected(") is expected here")
    reader.next()
    return Call(function, argument, token.start, reader.last_end)


def read_key(reader: Reader) -> Key:
    """Reads a column, or ``date_trunc('month', column)``."""
    token = reader.now
    if token.word == TRUNC and reader.ahead().text == "(":
        reader.next()
        reader.next()
        level = reader.now
        if level.kind != "string":
            raise reader.unexpected("write date_trunc('month', column)")
        reader.next()
        reader.need_sign(",")
        name = reader.column_name()
        reader.need_sign(")")
        return Key(name, level.text.lower(), level, token.start, reader.last_end)
    if token.kind == "word" and reader.ahead().kind == "op" and reader.ahead().text == "(":
        raise reader.function(token)
    name = reader.column_name()
    return Key(name, "value", None, name.start, name.end)


def check_call(scope: Scope, call: Call) -> str | None:
    """The name of the column that an aggregate is over (None for COUNT(*)); refused if it cannot be
    aggregated so."""
    if call.argument is None:
        return None
    column = scope.at(scope.column(call.argument))
    if call.function == "COUNT":
        return column.name
    if column.kind not in NUMERIC:
        raise scope.reader.refuse(
            "not-numeric",
            f"column {column.name} is of type {column.kind}, so it has no {call.function}",
            call.argument,
            f"count it: COUNT({column.name})",
        )
    if column.bounds is None or column.unit_step is None:
        raise scope.reader.refuse(
            "no-bounds",
            f"column {column.name} has no bounds",
            call.argument,
            f"add them to the contract: [columns.{column.name}] bounds = [low, high]",
        )
    return column.name


def default_alias(function: str, column: str | None) -> str:
    return "count" if column is None else f"{function.lower()}_{column}"


def aggregates(scope: Scope, items: Sequence[Item], labels: Sequence[str]) -> tuple[Aggregate, ...]:
    """The aggregates of the SELECT list with unique aliases: those written, else ``count``,
    ``count_age``, ``sum_income``, ``avg_income``, with ``_2``, ``_3`` ... where that is taken."""
    calls = [(item.what, item.alias) for item in items if isinstance(item.what, Call)]
    taken = {label.casefold() for label in labels}
    for _, alias in calls:
        if alias is not None:
            if alias.text.casefold() in taken:
                raise scope.reader.refuse(
                    "duplicate-alias",
                    f"two outputs are named {alias.text}",
                    alias,
                    f"give them different names: AS {alias.text}_2",
                )
            taken.add(alias.text.casefold())
    out: list[Aggregate] = []
    for call, written in calls:
        column = check_call(scope, call)
        if written is not None:
            shown = written.text
        else:
            shown = free_alias(default_alias(call.function, column), taken)
            taken.add(shown.casefold())
        out.append(Aggregate(shown, call.function, column, call.start, call.end))
    return tuple(out)


def free_alias(wanted: str, taken: set[str]) -> str:
    """The first of ``wanted``, ``wanted_2``, ... that is not taken (``taken`` holds case folds)."""
    alias, count = wanted, 1
    while alias.casefold() in taken:
        count += 1
        alias = f"{wanted}_{count}"
    return alias


def item_at(reader: Reader, items: Sequence[Item]) -> Item:
    """Reads a position in the SELECT list."""
    token = reader.next()
    position = number(reader.text, token)
    if position.denominator != 1 or not 1 <= position <= len(items):
        raise reader.refuse(
            "bad-position",
            f"there is no output {token.text}",
            token,
            f"outputs are numbered from 1 to {len(items)}",
        )
    return items[int(position) - 1]


def same_name(name: Name, other: str) -> bool:
    """Whether a name as written means the output called ``other``."""
    if name.text == other:
        return True
    return not name.quoted and name.text.casefold() == other.casefold()
