"""What holds of every request, whatever it asks for: its token works, before its body comes and after, a body
is JSON, and no parameter is unknown."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine
from typing import Any, Final

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from defray.core.brief import brief
from defray.errors import BadInput
from defray.service.auth import shown, was_shown

OPEN: Final = ("/v1/health",)
"""The routes that need no token."""


class Route(APIRoute):
    """A route that looks who asks, and at the form of a request, before its body is read.

    A body may take as long as its sender likes, so who asks is looked up anew once it is there.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        known = frozenset(parameter.alias for parameter in self.dependant.query_params)

        async def checked(request: Request) -> Response:
            if self.path not in OPEN:
                read = was_shown(request)
                await shown(request)
                if self.body_field is not None and not read:
                    request.state.shown = None
            only_json(request)
            only_known(request, known)
            return await handle(request)

        return checked


def only_json(request: Request) -> None:
    """A body is JSON; curl and forms send another type unless told."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    sent = (
        request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers
    )
    if sent and request.method in ("POST", "PATCH") and kind != "application/json":
        raise HTTPException(415)


def only_known(request: Request, known: Collection[str]) -> None:
    """A parameter that is misspelt does not go unnoticed."""
    for name in request.query_params:
        if name not in known:
            listed = f"there are {', '.join(sorted(known))}" if known else "leave it out"
            raise BadInput(f"there is no parameter {brief(ascii(name), 40)} here", hint=listed)
