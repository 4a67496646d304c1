"""Lexing: from text to tokens that know where they stand, within fixed limits.

Defray reads SQL with a grammar of its own instead of a general parser: what the grammar does not name
cannot be asked, every token keeps its offsets for the caret, and the limits below are checked before
anything recursive looks at the text.  The text never reaches a database.

>>> [t.text for t in lex("SELECT COUNT(*) -- all of them")][:-1]
['SELECT', 'COUNT', '(', '*', ')']
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NoReturn

from defray.core.brief import brief
from defray.errors import QueryError

MAX_BYTES = 64 * 1024
MAX_NESTING = 32
MAX_TOKENS = 20_000
MAX_LIST = 4096
"""The most items of one IN list."""
MAX_NAME = 128
"""The longest name (of a column, a table, an output), in characters."""
MAX_SHOWN = 40
"""The longest part of a text that a message quotes, in characters."""
MAX_NUMBER = 128
"""The longest number literal, in characters."""
MAX_DIGITS = 60
"""The most digits of a number before and after its decimal point, written without exponent."""

_TOKEN = re.compile(
    r"""
      (?P<space>    \s+ | --[^\n]*+ )
    | (?P<comment>  /\* )
    | (?P<word>     [^\W\d]\w*+ )
    | (?P<number>   (?: [0-9]++ (?:\.[0-9]*+)?+ | \.[0-9]++ ) (?: [eE][+-]?[0-9]++ )?+ )
    | (?P<string>   '[^']*+ (?:''[^']*+)*+' )
    | (?P<quoted>   "[^"]*+ (?:""[^"]*+)*+" )
    | (?P<op>       <> | != | <= | >= | == | :: | := | \|\| | // | ->>? | => | << | >> | !~~?\*?
                  | ~~?\*? | \*\* | \.\.\. | [-+*/%^&|<>=(),.;:?\[\]{}@\#!$`\\] )
    """,
    re.VERBOSE,
)
_FORBIDDEN = re.compile("[\x00-\x08\x0e-\x1f\x7f\ud800-\udfff]")
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_LOOKALIKE = {
    **dict.fromkeys("‘’‚‛′＇`´", "'"),
    **dict.fromkeys("“”„″＂", '"'),
    **dict.fromkeys("‐‑‒–—―−－", "-"),
    "≥": ">=",
    "≤": "<=",
    "≠": "<>",
    "∗": "*",
}

Kind = Literal["word", "number", "string", "quoted", "op", "end"]


@dataclass(slots=True)
class Token:
    """A token: ``text`` is its value (quotes removed and undoubled), ``word`` its upper-case form if
    it is a bare ASCII word, else empty."""

    kind: Kind
    text: str
    start: int
    end: int
    word: str = ""

    def shown(self) -> str:
        """The token as it is quoted in a message."""
        if self.kind == "end":
            return "the end of the text"
        text = brief(self.text, MAX_SHOWN)
        quote = {"string": "'", "quoted": '"'}.get(self.kind, "")
        return f"{quote}{text}{quote}"


def lex(text: str) -> list[Token]:
    """All tokens of the text, an ``end`` token last.  QueryError if the text is too long, too deeply
    nested, or holds something that is no token."""
    _check_size(text)
    tokens: list[Token] = []
    match = _TOKEN.match
    at = depth = 0
    length = len(text)
    while at < length:
        found = match(text, at)
        if found is None:
            _no_token(text, at)
        kind, end = found.lastgroup, found.end()
        if kind == "space":
            at = end
            continue
        if kind == "comment":
            at = _skip_comment(text, at)
            continue
        shown = found.group()
        if kind == "word":
            tokens.append(Token("word", shown, at, end, shown.upper() if shown.isascii() else ""))
        elif kind == "op":
            if shown == "(":
                depth += 1
                if depth > MAX_NESTING:
                    raise QueryError(
                        f"parentheses are nested more than {MAX_NESTING} deep",
                        kind="too-deep",
                        text=text,
                        start=at,
                        end=end,
                        hint="write the condition with fewer nested parentheses",
                    )
            elif shown == ")":
                depth -= 1
            tokens.append(Token("op", shown, at, end))
        elif kind == "number":
            if end < length and (text[end].isalnum() or text[end] in "_."):
                _bad_number(text, at, end + 1)
            tokens.append(Token("number", shown, at, end))
        elif kind == "string":
            tokens.append(Token("string", shown[1:-1].replace("''", "'"), at, end))
        else:
            tokens.append(Token("quoted", shown[1:-1].replace('""', '"'), at, end))
        if len(tokens) > MAX_TOKENS:
            raise QueryError(
                f"the text has more than {MAX_TOKENS:,} words and signs",
                kind="too-long",
                text=text,
                start=at,
                end=end,
                hint="ask a shorter question, with BETWEEN instead of a long list",
            )
        at = end
    tokens.append(Token("end", "", length, length))
    return tokens


def number(text: str, token: Token) -> Fraction:
    """The exact value of a number token, e.g. 5/2 for ``2.5``."""
    shown = token.text
    if len(shown) > MAX_NUMBER:
        _bad_number(text, token.start, token.end, "is too long")
    if shown.isdigit() and len(shown) <= MAX_DIGITS:
        return Fraction(int(shown))
    mantissa, _, exponent = shown.lower().partition("e")
    whole, _, places = mantissa.partition(".")
    shift = int(exponent or "0") - len(places)
    digits = int((whole + places) or "0")
    if digits and not -MAX_DIGITS <= shift <= MAX_DIGITS - len(str(digits)):
        _bad_number(text, token.start, token.end, "is too large or too small")
    if shift < 0 or not digits:
        return Fraction(digits, 10**-shift if digits else 1)
    return Fraction(digits * 10**shift)


def _bad_number(text: str, start: int, end: int, why: str = "is not a number") -> NoReturn:
    shown = text[start : min(end, start + 40)]
    raise QueryError(
        f"{shown} {why}",
        kind="bad-number",
        text=text,
        start=start,
        end=end,
        hint="write numbers like 30, -2.5 or 1e6",
    )


def _check_size(text: str) -> None:
    if len(text) > MAX_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise QueryError(
            f"the text is longer than {MAX_BYTES // 1024} KiB",
            kind="too-long",
            text=text,
            start=0,
            end=min(1, len(text)),
            hint="ask a shorter question, with BETWEEN instead of a long list",
        )
    bad = _FORBIDDEN.search(text)
    if bad is not None:
        raise QueryError(
            f"the character U+{ord(bad.group()):04X} is not allowed",
            kind="bad-character",
            text=text,
            start=bad.start(),
            end=bad.end(),
            hint="remove it",
        )


def _skip_comment(text: str, start: int) -> int:
    """Where the comment that opens at ``start`` ends; comments nest."""
    if text.startswith("/*+", start):
        raise QueryError(
            "hints are not supported",
            kind="unsupported",
            text=text,
            start=start,
            end=start + 3,
            hint="remove the /*+ ... */",
        )
    depth = 0
    for edge in _COMMENT_EDGE.finditer(text, start):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    raise QueryError(
        "this comment is not closed",
        kind="syntax",
        text=text,
        start=start,
        end=start + 2,
        hint="close it with */",
    )


def _no_token(text: str, at: int) -> NoReturn:
    char = text[at]
    if char in "'\"":
        what = "string" if char == "'" else "quoted name"
        message, kind, hint = f"this {what} is not closed", "syntax", f"close it with {char}"
    else:
        name = unicodedata.name(char, "")
        shown = f"U+{ord(char):04X}" + (f" ({name})" if name else "")
        message, kind = f"the character {shown} is not allowed here", "bad-character"
        meant = _LOOKALIKE.get(char) or unicodedata.normalize("NFKC", char)
        hint = f"write {meant}" if meant != char and meant.isascii() else "remove it"
    raise QueryError(message, kind=kind, text=text, start=at, end=at + 1, hint=hint)
