"""What surrounds every request: its id, the size of its body, its log line, and that no fault gets out."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Callable
from itertools import count
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from defray.errors import DefrayError, Throttled
from defray.service import problems
from defray.service.logs import event
from defray.service.metrics import Metrics
from defray.session import incident_of

SANE = re.compile(r"[A-Za-z0-9._-]{1,64}")
"""Request ids that are taken over from a caller."""

UNKNOWN = "unknown"
"""The route of a request that has none; a path of the caller's own is never logged."""


class Frame:
    """Gives each request an id, answers its faults as ``shown`` says, logs and counts it."""

    def __init__(
        self, app: ASGIApp, metrics: Metrics, shown: Callable[[Scope, DefrayError], ASGIApp]
    ) -> None:
        self._app, self._metrics, self._shown = app, metrics, shown
        self._process, self._number = secrets.token_hex(4), count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if SANE.fullmatch(given) else f"{self._process}{next(self._number):08x}"
        state = scope.setdefault("state", {})
        state["request_id"] = request_id
        status, started = 0, time.perf_counter()

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = request_id
                headers.setdefault("Cache-Control", "no-store")
                headers["X-Content-Type-Options"] = "nosniff"
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except asyncio.CancelledError:  # the server stops, and waits for this one no longer
            if status == 0:
                await self._shown(scope, stopped())(scope, receive, sending)
        except Exception as fault:
            error = fault if isinstance(fault, DefrayError) else incident_of(fault)
            if status == 0:
                await self._shown(scope, error)(scope, receive, sending)
        finally:
            self._told(scope, state, status, time.perf_counter() - started)

    def _told(self, scope: Scope, state: dict[str, Any], status: int, seconds: float) -> None:
        found = state.get("route") or getattr(scope.get("route"), "path", None)
        route = str(found or UNKNOWN)
        method = scope["method"] if scope["method"] in METHODS else "other"
        grant = state.get("grant")
        event(
            "request",
            method=method,
            route=route,
            status=status,
            ms=round(seconds * 1000, 1),
            principal=None if grant is None else grant.principal.name,
            request_id=state["request_id"],
            **{name: state[name] for name in ("code", "reason", "again") if name in state},
        )
        self._metrics.request(method, route, status, seconds)


def stopped() -> Throttled:
    """The error for a request that is not waited for, since the service stops."""
    return Throttled(
        "the service stopped before this had ended",
        hint="send it again, an ask under the same Idempotency-Key: what was paid for by then is told again",
        retry_after=5,
    )


METHODS = ("GET", "POST", "PATCH", "DELETE", "PUT", "HEAD", "OPTIONS")


class Bodies:
    """Refuses bodies of more than ``most`` bytes, before they are read where their length is declared."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app, self._most = app, most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = Headers(scope=scope).get("content-length", "0")
        if len(declared) > 18 or (declared.isdecimal() and int(declared) > self._most):
            await problems.too_large(self._most, scope["state"]["request_id"])(scope, receive, send)
            return
        read = 0

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self._most:
                raise HTTPException(413)
            return message

        await self._app(scope, counted, send)
