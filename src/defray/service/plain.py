"""The two requests that come most, a price and an answer, on a short way of their own.

FastAPI takes longer to take a request apart than most questions take to be answered.  A request that is
written plainly is read here, and the same route is called; whatever is unusual or wrong goes the long way,
which tells what is the matter.

A price or an answer follows from the log, the data version, who asks, and the request.  Where the log did not
move while a request was answered, the same bytes from the same principal get the same bytes until it moves.
An idempotency key makes no difference until something was paid for under it.  Whether the token works, has
the scope and is within its limits is looked at every time.
"""

from __future__ import annotations

import json
from collections.abc import Hashable
from contextlib import suppress
from typing import Final, NamedTuple

from fastapi import Request
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from defray.core import principals
from defray.errors import DefrayError
from defray.recent import Recent
from defray.service import asking
from defray.service.auth import admitted, shown
from defray.service.models import KEY, AskBody, QuoteBody
from defray.service.parts import Service

QUOTE: Final = "/v1/quote"
ASK: Final = "/v1/ask"

SCOPES: Final[dict[str, principals.Scope]] = {QUOTE: "quote", ASK: "ask"}
"""The routes, and the scope that each needs."""

MOST_BYTES: Final = 1 << 16
"""Of a request that is plain, and of an answer that is kept."""

JSON: Final = b"application/json"


class Asked(NamedTuple):
    """One request, as far as its answer follows from it."""

    path: str
    principal: str
    body: bytes


class Plain:
    """Answers plain requests, from what was said at the same moment where it can, and hands on all else."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service
        self._said = Recent()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not _plain(scope):
            await self._app(scope, receive, send)
            return
        body, came = await _read(receive)
        response = None if body is None else await self._answered(Request(scope), body)
        await (response or self._app)(scope, _once(came, receive), send)

    async def _answered(self, request: Request, body: bytes) -> Response | None:
        """None where the request goes the long way.  Raises what its route does."""
        path: str = request.scope["path"]
        key = request.headers.get("idempotency-key") if path == ASK else None
        try:
            at = self._service.session.version()
            grant = await shown(request, at)
            moment = await self._moment(at)
        except DefrayError:
            return None
        if moment is None:
            return None
        asked = Asked(path, grant.principal.name, body)
        kept: bytes | None = self._said.get(moment, asked)
        if kept is not None and not await self._new(asked, key, at):
            kept = None
        read = _parsed(path, body) if kept is None else None
        if kept is None and read is None:
            return None
        request.state.route = path
        with admitted(request, self._service, grant, SCOPES[path], asks=path == ASK):
            if kept is not None:
                return self._again(request, asked, kept)
            if isinstance(read, AskBody):
                id = request.state.request_id
                response = await asking.ask(request, read, grant, self._service, id, key)
            else:
                assert read is not None
                response = await asking.quote(read, grant, self._service)
        await self._keep(at, moment, asked, key, response)
        return response

    async def _moment(self, at: Hashable | None) -> Hashable | None:
        """Of the contract; None where files would have to be read or many looked at.  A ledger that has no
        version is asked in another thread."""
        session = self._service.session
        if at is None:
            return await run_in_threadpool(session.moment)
        return session.moment(at)

    async def _new(self, asked: Asked, key: str | None, at: Hashable | None) -> bool:
        """Whether nothing was paid for under the key, and nothing is at work."""
        if key is None:
            return True
        if self._service.jobs.at_work(asked.principal, key):
            return False
        session = self._service.session.on_behalf_of(asked.principal)
        return not (await run_in_threadpool(session.kept, key) if at is None else session.kept(key))

    def _again(self, request: Request, asked: Asked, kept: bytes) -> Response:
        """What was said at this moment.  The ask has no line of its own in the log."""
        request.state.again = True
        if asked.path == ASK:
            self._service.metrics.ask("free")
        return Response(kept, media_type=JSON.decode())

    async def _keep(
        self,
        at: Hashable | None,
        moment: Hashable,
        asked: Asked,
        key: str | None,
        response: Response,
    ) -> None:
        """Keep what was said, where it says no more than what follows from the moment, whose ledger was
        ``at`` that version."""
        body = bytes(response.body)
        if response.status_code == 200 and len(body) <= MOST_BYTES:
            with suppress(DefrayError):  # whoever asks next is told
                if self._service.session.version() != at:
                    return
                if await self._moment(at) == moment and await self._new(asked, key, at):
                    self._said.keep(moment, asked, body)


def _plain(scope: Scope) -> bool:
    """Whether nothing but its body and its key tells a request from others."""
    if scope["type"] != "http" or scope["method"] != "POST" or scope["path"] not in SCOPES:
        return False
    headers = dict(scope["headers"])
    length = headers.get(b"content-length", b"")
    small = length.isdigit() and len(length) < 6 and int(length) <= MOST_BYTES
    others = b"prefer" in headers or b"transfer-encoding" in headers
    repeated = len(headers) != len(scope["headers"])
    key = headers.get(b"idempotency-key", b"-").decode("latin-1")
    plain = headers.get(b"content-type") == JSON and KEY.fullmatch(key) is not None
    return small and plain and not (others or repeated or scope["query_string"])


def _parsed(path: str, body: bytes) -> AskBody | QuoteBody | None:
    """None where it has not the form that it must have."""
    try:
        model = AskBody if path == ASK else QuoteBody
        return model.model_validate(json.loads(body))
    except (ValidationError, ValueError, RecursionError):
        return None


async def _read(receive: Receive) -> tuple[bytes | None, list[Message]]:
    """The body, None where it breaks off, and the messages that brought it."""
    came: list[Message] = []
    while True:
        message = await receive()
        came.append(message)
        if message["type"] != "http.request":
            return None, came
        if not message.get("more_body", False):
            return b"".join(part.get("body", b"") for part in came), came


def _once(came: list[Message], receive: Receive) -> Receive:
    """The messages again, then what follows."""
    coming = iter(came)

    async def again() -> Message:
        message = next(coming, None)
        return await receive() if message is None else message

    return again
