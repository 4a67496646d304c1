"""A contract file's text and its TOML document; what makes either unusable is one mistake."""

from __future__ import annotations

import re
import stat
import tomllib
from decimal import Decimal, DecimalException
from pathlib import Path
from typing import Any, Final, NoReturn

from defray.errors import ContractError, Problem

MAX_BYTES: Final = 4 * 2**20

_SYNTAX_CURES: Final = (
    ("Cannot overwrite", "write each key once"),
    ("Cannot declare", "write each [table] header once, and no key of the same name"),
    ("Cannot mutate", "write the table either in braces or under a header, not both"),
    ("Invalid value", "quote texts; numbers are bare, with a digit on both sides of the point"),
    ("Expected '='", "write key = value; quote keys that have blanks or other signs in them"),
    ("Invalid statement", "start the line with a key, a [table] header or a # comment"),
    ("Expected newline", "write one key = value a line, comments after #"),
    ("Unclosed array", "close the list with ]"),
    ("Unterminated string", "close the text with a quote"),
    ("Expected", "close the text with a quote, the list with ], the table with }"),
    ("Illegal character", "close the text on its own line, or take the character out"),
    ("Unescaped", "write a backslash twice, or put the text in single quotes"),
)


def _fail(path: Path, message: str, cure: str, line: int | None = None) -> NoReturn:
    raise ContractError([Problem("(file)", message, cure, line)], path=str(path))


def read_text(path: Path) -> str:
    """The text of a regular UTF-8 file of moderate size; else a ContractError."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            _fail(path, "this is a directory", "name the contract file inside it")
        if not stat.S_ISREG(mode):
            _fail(path, "this is not a regular file", "name a TOML file")
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        _fail(path, "there is no such file", "draft one with: defray init DATA_FILE")
    except OSError as error:
        _fail(path, f"the file cannot be read: {error.strerror}", "check its name and permissions")
    except ValueError:
        _fail(path, "this cannot be the name of a file", "name a TOML file")
    if len(raw) > MAX_BYTES:
        _fail(path, f"the file is larger than {MAX_BYTES >> 20} MiB", "is this a contract file?")
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        _fail(path, "the file is not UTF-8", "save it with encoding UTF-8", line)


def parse_toml(text: str, path: Path) -> dict[str, Any]:
    """The document, floats as exact Decimals; else a ContractError with the line."""

    def number(written: str) -> Decimal:
        try:
            return Decimal(written)
        except DecimalException:
            raise _Unheld(written) from None

    try:
        return tomllib.loads(text, parse_float=number)
    except _Unheld as error:
        line = text.count("\n", 0, text.find(error.args[0])) + 1
        _fail(path, f"{error} is out of range", "numbers lie between 1e-300 and 1e300", line)
    except RecursionError:
        _fail(path, "lists or tables are nested too deeply", "no key needs more than two levels")
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        found = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", message)
        line = int(found[1]) if found and found[1] else text.rstrip().count("\n") + 1
        column = f" at column {found[2]}" if found and found[2] else ""
        what = message[: found.start()] if found else message
        cure = next((cure for start, cure in _SYNTAX_CURES if what.startswith(start)), "")
        _fail(path, f"not valid TOML: {what}{column}", cure or "see https://toml.io", line)
    except ValueError:  # the interpreter's limit on the digits of an integer, and impossible dates
        long = re.search(r"[0-9_]{4000,}", text)
        line = text.count("\n", 0, long.start()) + 1 if long else 1
        _fail(path, "a number has too many digits", "numbers lie between 1e-300 and 1e300", line)


class _Unheld(Exception):
    """A number whose exponent no Decimal holds."""
