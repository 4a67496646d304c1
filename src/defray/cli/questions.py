"""What was asked on the command line: SQL as an argument, from a file of questions, or from stdin."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from defray.errors import BadInput, DefrayError

_PIECE = re.compile(
    r"""--[^\n]*+ | (?P<comment>/\*) | '[^']*+(?:''[^']*+)*+'? | "[^"]*+(?:""[^"]*+)*+"? | ;""",
    re.VERBOSE,
)
_EDGE = re.compile(r"/\*|\*/")


@dataclass(frozen=True, slots=True)
class Statement:
    """One question; ``line`` is where it begins in its file (None: it was typed as an argument)."""

    sql: str
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Questions:
    """One question, or the questions of a file in order."""

    statements: tuple[Statement, ...]
    file: str = ""

    @property
    def single(self) -> bool:
        """Whether the output is about one question, not about a list of them."""
        return not self.file

    def place(self, i: int, error: DefrayError) -> DefrayError:
        """The error, saying which question of the file it is about."""
        if self.file:
            line = self.statements[i].line
            error.message = f"{self.file}, line {line} (question {i + 1}): {error.message}"
        return error


def read_questions(text: str) -> Questions:
    """``-`` is stdin, a name that ends in ``.sql`` or is a file's is a file, all else is SQL."""
    if text.strip() == "-":
        statements = split(_stdin())
        if len(statements) == 1:
            return Questions((Statement(statements[0].sql),))
        return _filled(statements, "stdin")
    if not _names_file(text):
        return Questions((Statement(text),))
    try:
        content = Path(text).read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise BadInput(f"{text} is not in UTF-8", hint="save the file in UTF-8") from None
    except OSError as error:
        why = error.strerror or "it cannot be read"
        raise BadInput(
            f"cannot read {text}: {why}", hint="give SQL in quotes, a .sql file, or - for stdin"
        ) from None
    return _filled(split(content), text)


def _stdin() -> str:
    try:
        return sys.stdin.read()
    except UnicodeDecodeError:
        raise BadInput("stdin is not in UTF-8", hint="convert the questions to UTF-8") from None


def _filled(statements: list[Statement], file: str) -> Questions:
    if not statements:
        raise BadInput(
            f"{file} holds no question",
            hint="write SELECT ... ERROR WITHIN 50 AT CONFIDENCE 95%, several separated by ;",
        )
    return Questions(tuple(statements), file)


def _names_file(text: str) -> bool:
    if "\n" in text or len(text) > 1000 or not text.strip():
        return False
    try:
        return text.lower().endswith(".sql") or Path(text).is_file()
    except (OSError, ValueError):
        return False  # no path at all, so SQL


def split(text: str) -> list[Statement]:
    """The statements of a text, split at the semicolons outside quotes and comments.

    >>> [(s.line, s.sql) for s in split("SELECT ';' ; -- one; two\\nSELECT 2;")]
    [(1, "SELECT ';'"), (2, 'SELECT 2')]
    """
    found: list[Statement] = []
    begin = 0
    for end in (*_ends(text), len(text)):
        first = _first_word(text, begin, end)
        if first is not None:
            found.append(Statement(text[first:end].rstrip(), text.count("\n", 0, first) + 1))
        begin = end + 1
    return found


def _ends(text: str) -> Iterator[int]:
    at = 0
    while (piece := _PIECE.search(text, at)) is not None:
        at = _comment_end(text, piece.start()) if piece["comment"] else piece.end()
        if piece.group() == ";":
            yield piece.start()


def _comment_end(text: str, start: int) -> int:
    """Behind a comment, which may hold others."""
    depth = 0
    for edge in _EDGE.finditer(text, start):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    return len(text)


def _first_word(text: str, begin: int, end: int) -> int | None:
    """Where a statement begins, after blanks and comments; None where there is nothing else."""
    at = begin
    while at < end:
        if text[at].isspace():
            at += 1
        elif text.startswith("--", at):
            newline = text.find("\n", at, end)
            at = end if newline < 0 else newline
        elif text.startswith("/*", at):
            at = _comment_end(text, at)
        else:
            return at
    return None


def within_of(texts: list[str] | None) -> Any:
    """``--within``: one bare accuracy, or one for each name: ``n=50``.

    >>> within_of(["50"]), within_of(["n=50", "m=2%"]), within_of(None)
    ('50', {'n': '50', 'm': '2%'}, None)
    """
    if not texts:
        return None
    if len(texts) == 1 and "=" not in texts[0]:
        return texts[0]
    named: dict[str, str] = {}
    for text in texts:
        name, equals, goal = (part.strip() for part in text.partition("="))
        if not equals or not name:
            raise BadInput(
                f"--within {text} does not say which aggregate it is for",
                hint="give one --within 50, or one for each: --within n=50 --within m=2%",
            )
        if name in named:
            raise BadInput(f"--within is given twice for {name}", hint="keep one of them")
        named[name] = goal
    return named
