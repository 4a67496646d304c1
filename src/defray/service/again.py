"""What was said a moment ago, said again before the request is taken apart.

A price or an answer follows from the log, the data version, who asks, and the request.  Where the log did not
move while a request was answered, the same bytes from the same principal get the same bytes until it moves.
An idempotency key makes no difference until something was paid for under it.  Whether the token works, has
the scope and is within its limits is looked at every time.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, NamedTuple

from fastapi import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from defray.access import Grant
from defray.core import principals
from defray.errors import DefrayError
from defray.recent import Recent
from defray.service.auth import admitted, shown
from defray.service.metrics import told
from defray.service.models import KEY
from defray.service.parts import Service

SCOPES: Final[dict[str, principals.Scope]] = {"/v1/quote": "quote", "/v1/ask": "ask"}
"""The routes of which answers are said again, and the scope that each needs."""

MOST_BYTES: Final = 1 << 16
"""Of a request, and of an answer that is kept."""

JSON: Final = b"application/json"


class Said(NamedTuple):
    """One request, as far as its answer follows from it."""

    path: str
    principal: str
    body: bytes


class Again:
    """Answers what was answered at the same moment, and hands on all else."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service
        self._said = Recent()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = _plain(scope)
        if headers is None:
            await self._app(scope, receive, send)
            return
        body, came = await _read(receive)
        grant = await self._grant(scope)
        moment = None if grant is None else self._moment(grant, headers)
        if body is None or grant is None or moment is None:
            await self._app(scope, _once(came, receive), send)
            return
        said = Said(scope["path"], grant.principal.name, body)
        kept: bytes | None = self._said.get(moment, said)
        if kept is not None and self._admitted(scope, grant):
            await self._send(scope, grant, kept, send)
            return
        answer = Answered(send)
        await self._app(scope, _once(came, receive), answer)
        if answer.whole is not None and self._moment(grant, headers) == moment:
            self._said.keep(moment, said, answer.whole)

    def _moment(self, grant: Grant, headers: dict[bytes, bytes]) -> Hashable | None:
        """What all that is said follows from; None under a key that was paid for or is at work, and where
        there is trouble, which the route will tell."""
        name, given = grant.principal.name, headers.get(b"idempotency-key")
        try:
            if given is None:
                return self._service.session.moment()
            key = given.decode("latin-1")
            if not KEY.fullmatch(key) or self._service.jobs.at_work(name, key):
                return None
            moment = self._service.session.moment()
            kept = self._service.session.on_behalf_of(name).kept(key)
        except DefrayError:
            return None
        return None if kept else moment

    async def _grant(self, scope: Scope) -> Grant | None:
        try:
            return await shown(Request(scope))
        except DefrayError:
            return None

    def _admitted(self, scope: Scope, grant: Grant) -> bool:
        path = scope["path"]
        try:
            with admitted(
                Request(scope), self._service, grant, SCOPES[path], asks=path == "/v1/ask"
            ):
                return True
        except DefrayError:
            return False

    async def _send(self, scope: Scope, grant: Grant, body: bytes, send: Send) -> None:
        scope["state"]["route"] = scope["path"]
        if scope["path"] == "/v1/ask":
            told(self._service.metrics, "free", grant.principal.name, scope["state"]["request_id"])
        headers = [(b"content-length", str(len(body)).encode()), (b"content-type", JSON)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


class Answered:
    """Sends on, and keeps what was sent: ``whole`` is the body of an answer that is not too large."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._parts: list[bytes] | None = None
        self.whole: bytes | None = None

    async def __call__(self, message: Message) -> None:
        await self._send(message)
        if message["type"] == "http.response.start":
            self._parts = [] if message["status"] == 200 else None
        elif self._parts is not None:
            self._parts.append(message.get("body", b""))
            if sum(map(len, self._parts)) > MOST_BYTES:
                self._parts = None
            elif not message.get("more_body", False):
                self.whole = b"".join(self._parts)


def _plain(scope: Scope) -> dict[bytes, bytes] | None:
    """The headers of a request that nothing but its body and its key tells from others; None for all else."""
    if scope["type"] != "http" or scope["method"] != "POST" or scope["path"] not in SCOPES:
        return None
    headers = dict(scope["headers"])
    length = headers.get(b"content-length", b"")
    small = length.isdigit() and len(length) < 6 and int(length) <= MOST_BYTES
    others = b"prefer" in headers or b"transfer-encoding" in headers
    plain = headers.get(b"content-type") == JSON and not others
    repeated = len(headers) != len(scope["headers"])
    return headers if small and plain and not repeated and not scope["query_string"] else None


async def _read(receive: Receive) -> tuple[bytes | None, list[Message]]:
    """The body, None where it breaks off, and the messages that brought it."""
    told: list[Message] = []
    while True:
        message = await receive()
        told.append(message)
        if message["type"] != "http.request":
            return None, told
        if not message.get("more_body", False):
            return b"".join(part.get("body", b"") for part in told), told


def _once(told: list[Message], receive: Receive) -> Receive:
    """The messages again, then what follows."""
    coming = iter(told)

    async def again() -> Message:
        message = next(coming, None)
        return await receive() if message is None else message

    return again
