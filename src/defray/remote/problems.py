"""From a problem document (RFC 9457) back to the error that it tells of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from defray.errors import BadInput, DefrayError, Mistakes, NotFound, QueryError

OF_HTTP = ("type", "title", "status", "detail", "code", "hint", "message")
"""Members of a problem that are no context of the error."""


def error_of(problem: Mapping[str, Any], status: int, asked: Sequence[str] = ()) -> DefrayError:
    """The error of a problem, of the class that has its code; ``asked`` are the texts it may be about.

    A code that is not known here becomes BadInput where the request was at fault (4xx), else DefrayError.
    """
    message, hint = str(problem.get("detail", "")), str(problem.get("hint", ""))
    context = {str(k): v for k, v in problem.items() if k not in OF_HTTP}
    kind = _by_code().get(str(problem.get("code")))
    if kind is QueryError and _has_place(context):
        return _query_error(message, hint, context, asked)
    if kind is None:
        kind = NotFound if status == 404 else BadInput if 400 <= status < 500 else DefrayError
    if issubclass(kind, Mistakes | QueryError):  # these are made of more than a document may hold
        kind = BadInput
    return kind(message, hint=hint, **context)


def _by_code() -> dict[str, type[DefrayError]]:
    return {kind.code: kind for kind in _family(DefrayError)}


def _family(kind: type[DefrayError]) -> Iterator[type[DefrayError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _family(child)


def _has_place(context: Mapping[str, Any]) -> bool:
    return all(type(context.get(end)) is int for end in ("start", "end"))


def _query_error(
    message: str, hint: str, context: Mapping[str, Any], asked: Sequence[str]
) -> QueryError:
    """With the text that the caret was drawn under, which problems do not repeat."""
    found = [
        QueryError(
            message,
            kind=str(context.get("kind", "")),
            text=text,
            start=context["start"],
            end=context["end"],
            hint=hint,
        )
        for text in (*asked, "")
    ]
    return next((e for e in found if e.caret() == context.get("caret")), found[0])
