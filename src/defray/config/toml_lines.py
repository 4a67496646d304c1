"""On which line each key of a TOML text stands (tomllib does not tell).

The text must already have been accepted by tomllib; this scanner only follows its structure.

>>> key_lines("a = 1\\n[b]\\nc.d = [\\n  2,\\n  3]\\n")[("b", "c", "d", 1)]
5
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator

Where = tuple[str | int, ...]
"""A place in a TOML document: keys, and positions in lists."""

_TOKEN = re.compile(
    r"(?P<skip>[ \t\r]+|\#[^\n]*)"
    r'|"""(?:[^\\]|\\.)*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:[^"\\]|\\.)*"'
    r"|'[^']*'"
    r"|[\[\]{}=,.\n]"
    r"|[^\s\[\]{}=,.#\"']+",
    re.DOTALL,
)


def key_lines(text: str) -> dict[Where, int]:
    """The line, from 1, of every key, table and list item."""
    return _Walk(text).lines


class _Walk:
    def __init__(self, text: str) -> None:
        self.lines: dict[Where, int] = {}
        self.tables: dict[Where, int] = {}  # lists of tables: how many headers so far
        self.tokens = list(_tokens(text))
        self.at = 0
        table: Where = ()
        while self.solid():
            if self.solid() != "[":
                self.pair(table)
                continue
            line = self.tokens[self.at][1]
            listed = self.tokens[self.at + 1][0] == "["
            self.at += 2 if listed else 1
            table = ()
            for part in self.key():
                if table in self.tables:
                    table += (self.tables[table] - 1,)
                table += (part,)
            if listed:
                self.tables[table] = self.tables.get(table, 0) + 1
            if table in self.tables:
                table += (self.tables[table] - 1,)
            self.mark(table, line)
            self.at += 2 if listed else 1

    def solid(self) -> str:
        """The next token that is no line end (empty at the end of the text)."""
        while self.tokens[self.at][0] == "\n":
            self.at += 1
        return self.tokens[self.at][0]

    def mark(self, where: Where, line: int) -> None:
        for depth in range(1, len(where) + 1):
            self.lines.setdefault(where[:depth], line)

    def key(self) -> Where:
        parts: list[str] = []
        while True:
            token = self.tokens[self.at][0]
            parts.append(tomllib.loads(f"k = {token}")["k"] if token[0] in "\"'" else token)
            self.at += 1
            if self.tokens[self.at][0] != ".":
                return tuple(parts)
            self.at += 1

    def pair(self, table: Where) -> None:
        self.solid()
        line = self.tokens[self.at][1]
        where = table + self.key()
        self.mark(where, line)
        self.at += 1  # the equals sign
        self.value(where)

    def value(self, where: Where) -> None:
        opening = self.solid()
        self.mark(where, self.tokens[self.at][1])
        if opening not in ("[", "{"):
            while self.tokens[self.at][0] not in ("\n", ",", "]", "}", ""):
                self.at += 1
            return
        self.at += 1
        index = 0
        while self.solid() not in ("]", "}"):
            self.value((*where, index)) if opening == "[" else self.pair(where)
            index += 1
            if self.solid() == ",":
                self.at += 1
        self.at += 1


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    line = 1
    for match in _TOKEN.finditer(text):
        if not match["skip"]:
            yield match[0], line
        line += match[0].count("\n")
    yield "", line
