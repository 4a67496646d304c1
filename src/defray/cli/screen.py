"""Where output goes: people on stdout in plain tables, machines on stdout as one JSON document, errors of
people on stderr.  Nothing is coloured unless a terminal reads it and NO_COLOR is unset."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TextIO

from defray.errors import DefrayError, Mistakes, QueryError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

PIPE_WIDTH = 120
"""Columns of a table that no terminal bounds."""

_CONTROLS = {c: "\ufffd" for c in (*range(32), *range(0x7F, 0xA0)) if chr(c) not in "\n\t"}

_OPTIONS = (
    (r'\bsnap ?= ?"outward"', "--snap"),
    (r'\b(within|confidence|rho)="([^"]*)"', r"--\1 \2"),
    (r"\b(within|confidence|rho)=", r"--\1 "),
    (r"\bmax_rho\b", "--max-rho"),
)

_json = False


def begin(tokens: Sequence[str]) -> None:
    """Start over for one command: an error must know how to speak even if the command was not understood."""
    global _json
    for stream in (sys.stdout, sys.stderr):
        if hasattr(
            stream, "reconfigure"
        ):  # what the terminal cannot show is shown as \\x.. escapes
            stream.reconfigure(errors="backslashreplace")
    options = tokens[: tokens.index("--")] if "--" in tokens else tokens
    _json = "--json" in options
    out.cache_clear()
    err.cache_clear()


def json_wanted() -> bool:
    return _json


@cache
def out() -> Console:
    return _console(sys.stdout)


@cache
def err() -> Console:
    return _console(sys.stderr)


def _console(stream: TextIO) -> Console:
    from rich.console import Console

    class Screen(Console):
        def on_broken_pipe(self) -> None:
            """Whoever reads has left; rich would exit with 1."""
            raise BrokenPipeError

    bounded = stream.isatty() or "COLUMNS" in os.environ
    return Screen(
        file=stream,
        no_color=True if os.environ.get("NO_COLOR") else None,
        color_system=None if os.environ.get("NO_COLOR") else "auto",
        width=None if bounded else PIPE_WIDTH,
        markup=False,
        highlight=False,
        emoji=False,
    )


def plain() -> bool:
    """Whether stdout can show ASCII only."""
    return not (getattr(sys.stdout, "encoding", None) or "ascii").lower().startswith("utf")


def say(what: RenderableType = "", style: str = "") -> None:
    """Print for people; long lines are left to the terminal to wrap, so that they can be copied."""
    if isinstance(what, str):
        what = _showable(safe(what))
    out().print(what, style=style or None, soft_wrap=isinstance(what, str))


def show(document: Any) -> None:
    """Print for machines."""
    import json

    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=plain(), allow_nan=False) + "\n")


def fail(error: DefrayError) -> None:
    """Say what went wrong, where and what to do next."""
    if _json:
        show({"error": error.to_dict()})
        return
    lines = [error.message]
    if isinstance(error, QueryError):
        lines += ["    " + line for line in error.caret().splitlines()]
    if isinstance(error, Mistakes):
        lines += error.details()
    if error.hint:
        lines.append(f"  {_spelt(error.hint)}")
    console = err()
    console.print("error: ", style="bold red", end="")
    encoding = getattr(sys.stderr, "encoding", None) or "ascii"
    text = safe("\n".join(lines)).encode(encoding, "backslashreplace").decode(encoding)
    console.print(text, soft_wrap=True)


def _spelt(hint: str) -> str:
    """A hint with the arguments of Python spelt as options.

    >>> _spelt('for example within=50 or within="2%"'), _spelt("raise max_rho or ask for less")
    ('for example --within 50 or --within 2%', 'raise --max-rho or ask for less')
    """
    for python, option in _OPTIONS:
        hint = re.sub(python, option, hint)
    return hint


def safe(text: str) -> str:
    """The text without characters that a terminal would obey."""
    return text.translate(_CONTROLS)


def _showable(text: str) -> str:
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    return text.encode(encoding, "backslashreplace").decode(encoding) if plain() else text
