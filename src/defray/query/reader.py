"""A cursor over tokens, and names as they are written."""

from __future__ import annotations

from dataclasses import dataclass

from defray.core.brief import brief
from defray.errors import QueryError
from defray.query import refusals
from defray.query.tokens import MAX_NAME, MAX_SHOWN, Token, lex

Span = tuple[int, int]


def identifier(name: str) -> str:
    """A name as SQL text, quoted where it must be.

    >>> identifier("age"), identifier("order"), identifier("my age")
    ('age', '"order"', '"my age"')
    """
    plain = name.isascii() and name.isidentifier() and name.upper() not in refusals.RESERVED
    return name if plain else '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class Name:
    """A name as written, with its qualifier if it has one."""

    text: str
    quoted: bool
    start: int
    end: int
    qualifier: str | None = None

    @property
    def span(self) -> Span:
        return (self.start, self.end)


class Reader:
    """Reads a text token by token; every refusal it makes points into that text."""

    __slots__ = ("_at", "_tokens", "now", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._tokens = lex(text)
        self._at = 0
        self.now = self._tokens[0]

    def ahead(self, count: int = 1) -> Token:
        """The token ``count`` places on (the end token beyond the end)."""
        return self._tokens[min(self._at + count, len(self._tokens) - 1)]

    def next(self) -> Token:
        """The current token; moves past it."""
        token = self.now
        if token.kind != "end":
            self._at += 1
            self.now = self._tokens[self._at]
        return token

    @property
    def last_end(self) -> int:
        """Where the token before the current one ends."""
        return self._tokens[self._at - 1].end if self._at else 0

    def take_word(self, *words: str) -> Token | None:
        return self.next() if self.now.word in words else None

    def take_sign(self, sign: str) -> Token | None:
        """Moves past the sign if it comes now."""
        return self.next() if self.now.kind == "op" and self.now.text == sign else None

    def at_sign(self, *signs: str) -> bool:
        return self.now.kind == "op" and self.now.text in signs

    def need_word(self, word: str) -> None:
        if self.now.word != word:
            raise self.unexpected(f"{word} is expected here")
        self.next()

    def need_sign(self, sign: str) -> None:
        if not self.at_sign(sign):
            raise self.unexpected(f"{sign} is expected here")
        self.next()

    def name(self, what: str, *, reserved: bool = False) -> Name:
        """A bare (not reserved, unless told) or quoted name."""
        token = self.now
        if token.kind == "quoted" and not token.text:
            raise self.refuse("syntax", "a name cannot be empty", token, f"write {what}")
        if token.kind not in ("word", "quoted") or (
            token.word in refusals.RESERVED and not reserved
        ):
            raise self.unexpected(f"{what} is expected here")
        if len(token.text) > MAX_NAME:
            raise self.refuse(
                "too-long",
                f"this name is longer than {MAX_NAME} characters",
                token,
                "use a shorter name",
            )
        self.next()
        return Name(token.text, token.kind == "quoted", token.start, token.end)

    def column_name(self) -> Name:
        """A name, or ``table.name``."""
        first = self.name("a column")
        if not self.at_sign("."):
            return first
        self.next()
        if self.at_sign("*"):
            raise self.unsupported(refusals.STAR, self.now)
        last = self.name("a column", reserved=True)
        return Name(last.text, last.quoted, first.start, last.end, qualifier=first.text)

    # -- refusing -------------------------------------------------------------------------------

    def refuse(
        self, kind: str, message: str, where: Token | Name | Span, hint: str = ""
    ) -> QueryError:
        start, end = where if isinstance(where, tuple) else (where.start, where.end)
        return QueryError(message, kind=kind, text=self.text, start=start, end=end, hint=hint)

    def unsupported(self, entry: tuple[str, str], where: Token | Name | Span) -> QueryError:
        """Refuses a construct of :mod:`defray.query.refusals` by its name."""
        what, hint = entry
        return self.refuse("unsupported", f"{what} not supported", where, hint)

    def unexpected(self, hint: str) -> QueryError:
        """Refuses the current token: by the name of what it begins, if that has one."""
        token = self.now
        if token.kind == "op" and token.text in refusals.SIGNS:
            return self.unsupported(refusals.SIGNS[token.text], token)
        if token.word == "USING" and self.ahead().word == "SAMPLE":
            return self.unsupported(refusals.SAMPLES, token)
        if token.word in refusals.WORDS:
            return self.unsupported(refusals.WORDS[token.word], token)
        if token.kind == "word" and self.ahead().kind == "op" and self.ahead().text == "(":
            return self.function(token)
        if token.kind == "end":
            return self.refuse("syntax", "the text ends too early", token, hint)
        return self.refuse("syntax", f"{token.shown()} is not expected here", token, hint)

    def function(self, token: Token) -> QueryError:
        """Refuses a call of a function that is not one of ours."""
        name = brief(token.text, MAX_SHOWN)
        if token.word in refusals.AGGREGATES:
            return self.refuse(
                "unsupported",
                f"{token.word} is not supported here",
                token,
                "aggregates belong in SELECT, HAVING and ORDER BY",
            )
        hint = refusals.FUNCTIONS.get(token.word, refusals.OTHER_FUNCTION)
        return self.refuse("unsupported", f"the function {name} is not supported", token, hint)
