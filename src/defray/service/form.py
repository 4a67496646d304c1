"""What holds of every request, whatever it asks for: a body is JSON, and no parameter is unknown."""

from __future__ import annotations

from typing import Final

from fastapi import Depends, Request
from starlette.exceptions import HTTPException

from defray.core.brief import brief
from defray.errors import BadInput


async def _only_json(request: Request) -> None:
    """A body is JSON; curl and forms send another type unless told."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    sent = (
        request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers
    )
    if sent and request.method in ("POST", "PATCH") and kind != "application/json":
        raise HTTPException(415)


async def _only_known(request: Request) -> None:
    """A parameter that is misspelt does not go unnoticed."""
    known = {parameter.alias for parameter in request.scope["route"].dependant.query_params}
    for name in request.query_params:
        if name not in known:
            listed = f"there are {', '.join(sorted(known))}" if known else "leave it out"
            raise BadInput(f"there is no parameter {brief(ascii(name), 40)} here", hint=listed)


FORM: Final = (Depends(_only_json), Depends(_only_known))
