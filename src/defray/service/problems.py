"""Everything that goes wrong, as ``application/problem+json`` (RFC 9457).

The texts are those of :mod:`defray.errors`, which hold no true value and no text of a database.  What is
the operator's matter (paths, the state of the ledger) is told to curators only; an analyst learns that the
service cannot answer now, and the log says why under the request's id.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from defray.errors import (
    BadInput,
    Cancelled,
    ContractClosed,
    ContractError,
    DataError,
    DefrayError,
    Forbidden,
    LedgerBusy,
    LedgerError,
    MissingExtra,
    NotFound,
    Refused,
    SourceUnavailable,
    Throttled,
    Unauthorized,
    Unreachable,
)

STATUS: Final[tuple[tuple[type[DefrayError], int], ...]] = (
    (NotFound, 404),
    (ContractError, 503),
    (BadInput, 422),
    (Unauthorized, 401),
    (Forbidden, 403),
    (Throttled, 429),
    (Refused, 409),
    (Cancelled, 409),
    (ContractClosed, 409),
    (DataError, 503),
    (LedgerError, 503),
    (MissingExtra, 503),
    (Unreachable, 503),
)
"""The first class that fits decides; a fault is 500."""

OPERATORS: Final = (LedgerError, SourceUnavailable, MissingExtra, ContractError, Unreachable)

HTTP_CODES: Final = {
    404: "not-found",
    405: "method-not-allowed",
    413: "body-too-large",
    415: "unsupported-media-type",
}
"""The codes of what HTTP itself refuses; all others are those of :mod:`defray.errors`."""

BUSY_SECONDS: Final = 1


class Problem(JSONResponse):
    """In ASCII, whatever a caller's text that it repeats may hold."""

    media_type = "application/problem+json"

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False).encode("ascii")


def status_of(error: DefrayError) -> int:
    return next((status for kind, status in STATUS if isinstance(error, kind)), 500)


def operators_matter(error: DefrayError) -> bool:
    """Whether only a curator is told what went wrong."""
    return isinstance(error, OPERATORS) and not isinstance(error, LedgerBusy | ContractClosed)


def document(error: DefrayError, request_id: str, *, whole: bool = False) -> dict[str, Any]:
    """The problem of an error; ``whole``: with what is the operator's matter."""
    told = error.to_dict()
    if operators_matter(error) and not whole:
        message = "the service cannot answer now; its operator finds the reason in the log"
        told = {"code": error.code, "message": message, "hint": "try again later"}
    return _document(status_of(error), request_id, told)


def _document(status: int, request_id: str, told: Mapping[str, Any]) -> dict[str, Any]:
    code = told["code"]
    more = {k: v for k, v in told.items() if k not in ("code", "message", "hint")}
    return {
        **more,
        "type": f"urn:defray:error:{code}",
        "title": code.replace("-", " "),
        "status": status,
        "detail": told["message"],
        "code": code,
        "hint": told["hint"],
        "request_id": request_id,
    }


def response(error: DefrayError, request_id: str, *, whole: bool = False) -> Problem:
    status = status_of(error)
    headers = {}
    if isinstance(error, Unauthorized):
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, Throttled | Unreachable):
        headers["Retry-After"] = str(error.context.get("retry_after", BUSY_SECONDS))
    if isinstance(error, LedgerBusy):
        headers["Retry-After"] = str(BUSY_SECONDS)
    return Problem(document(error, request_id, whole=whole), status, headers)


def http_response(error: HTTPException, request_id: str, hint: str = "") -> Problem:
    """What HTTP refuses: an unknown route, a method, a body that cannot be read."""
    told = http_document(error, request_id, hint)
    return Problem(told, told["status"], error.headers)


def http_document(error: HTTPException, request_id: str, hint: str = "") -> dict[str, Any]:
    status = error.status_code if error.status_code != 400 else 422
    phrase = HTTPStatus(status).phrase.lower()
    code = HTTP_CODES.get(status, BadInput.code if status == 422 else phrase.replace(" ", "-"))
    message = {404: "there is no such route", 422: "the body cannot be read"}.get(status, phrase)
    told = {"code": code, "message": message, "hint": hint or "see docs/http.md"}
    return _document(status, request_id, told)


def too_large(most: int, request_id: str) -> Problem:
    told = {
        "code": HTTP_CODES[413],
        "message": f"a body has at most {most:,} bytes",
        "hint": "send less",
    }
    return Problem(_document(413, request_id, told), 413, {"Connection": "close"})


def invalid(errors: Sequence[Mapping[str, Any]]) -> BadInput:
    """A request that does not have its declared form; what was sent is not repeated."""
    problems = [
        {
            "where": ".".join(str(part) for part in e["loc"])[:200],
            "message": str(e["msg"]).removeprefix("Value error, ")[:200],
        }
        for e in errors[:20]
    ]
    first = problems[0]
    return BadInput(
        f"{first['where']}: {first['message']}",
        hint="the OpenAPI document at /v1/openapi.json says what is accepted",
        problems=problems,
    )
