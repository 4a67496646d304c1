"""ORDER BY, LIMIT and OFFSET: how the rows of an answer are arranged."""

from __future__ import annotations

from defray.query import refusals
from defray.query.descriptor import Axis, Order
from defray.query.groups import resolve_axis
from defray.query.outputs import Call, item_at, read_key, same_name
from defray.query.reader import Reader
from defray.query.selected import Outputs
from defray.query.tokens import Token, number

MAX_LIMIT = 10**15


def read_order_by(outputs: Outputs) -> tuple[Order, ...]:
    """Reads the outputs after ORDER BY."""
    found: list[Order] = []
    while True:
        found.append(_order(outputs))
        if not outputs.scope.reader.take_sign(","):
            return tuple(found)


def _order(outputs: Outputs) -> Order:
    reader = outputs.scope.reader
    alias, axis = _ordered_by(outputs)
    if reader.now.kind == "op" and reader.now.text in refusals.SIGNS:
        raise reader.unsupported(refusals.OUTPUT_ARITHMETIC, reader.now)
    descending = False
    if reader.take_word("DESC"):
        descending = True
    else:
        reader.take_word("ASC")
    nulls_first: bool | None = None
    if reader.take_word("NULLS"):
        word = reader.take_word("FIRST", "LAST")
        if word is None:
            raise reader.unexpected("write NULLS FIRST or NULLS LAST")
        nulls_first = word.word == "FIRST"
    return Order(alias, axis, descending, nulls_first)


def _ordered_by(outputs: Outputs) -> tuple[str | None, int | None]:
    reader = outputs.scope.reader
    token = reader.now
    if token.word == "ALL":
        raise reader.unsupported(("ORDER BY ALL is", "name an output: ORDER BY count"), token)
    if token.kind == "number":
        item = item_at(reader, outputs.items)
        if isinstance(item.what, Call):
            calls = [i for i in outputs.items if isinstance(i.what, Call)]
            return outputs.aggregates[calls.index(item)].alias, None
        return None, outputs.axes.index(resolve_axis(outputs.scope, item.what))
    alias = outputs.call()
    if alias is not None:
        return alias, None
    key = read_key(reader)
    if key.level_token is None and key.name.qualifier is None:
        alias = outputs.alias(key.name)
        if alias is not None:
            return alias, None
        for position, label in enumerate(outputs.labels):
            if same_name(key.name, label):
                return None, position
    position = outputs.scope.column(key.name)
    axis = resolve_axis(outputs.scope, key) if outputs.axes else Axis(position)
    if axis not in outputs.axes:
        raise reader.refuse(
            "not-grouped",
            f"{key.name.text} is neither an output nor grouped",
            (key.start, key.end),
            f"add it to GROUP BY, or order by {outputs.aggregates[0].alias}",
        )
    return None, outputs.axes.index(axis)


def read_limit(reader: Reader) -> tuple[int | None, int]:
    """Reads LIMIT and OFFSET, each at most once, in either order."""
    found: dict[str, int] = {}
    while reader.now.word in ("LIMIT", "OFFSET"):
        word = reader.next()
        if word.word in found:
            raise reader.refuse("syntax", f"{word.word} is written twice", word, "write it once")
        found[word.word] = _whole(reader, word)
    return found.get("LIMIT"), found.get("OFFSET", 0)


def _whole(reader: Reader, word: Token) -> int:
    token = reader.now
    hint = f"write {word.word} 10"
    if token.kind != "number":
        if reader.at_sign("-", "+") or token.kind == "string" or token.word in ("ALL", "NULL"):
            raise reader.refuse(
                "bad-limit", f"{word.word} needs a whole number from 0 on", token, hint
            )
        raise reader.unexpected(hint)
    value = number(reader.text, reader.next())
    if value.denominator != 1 or value > MAX_LIMIT:
        raise reader.refuse("bad-limit", f"{word.word} needs a whole number", token, hint)
    if value == 0 and word.word == "LIMIT":
        what = "LIMIT 0 would show nothing and cost as much"
        raise reader.refuse("bad-limit", what, token, hint)
    if reader.at_sign("%") or reader.now.word == "PERCENT":
        raise reader.unsupported(("LIMIT with a percentage is", hint), reader.now)
    return int(value)
