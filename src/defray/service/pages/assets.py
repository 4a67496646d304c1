"""The style sheet and the scripts, out of the package."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from typing import Annotated, Final

from fastapi import APIRouter, Path
from starlette.exceptions import HTTPException
from starlette.responses import Response

routes = APIRouter(include_in_schema=False)

_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_FILES: Final = {
    file.name: file.read_bytes()
    for file in sorted(
        (files("defray.service.pages") / "static").iterdir(), key=lambda file: file.name
    )
    if file.name.rpartition(".")[2] in _TYPES
}
VERSION: Final = hashlib.sha256(b"".join(_FILES.values())).hexdigest()[:12]
"""Of all files together: it is part of their addresses, so that a browser may keep what it has."""


@routes.get("/static/{version}/{name}")
async def static(
    version: Annotated[str, Path(max_length=64)], name: Annotated[str, Path(max_length=64)]
) -> Response:
    if name not in _FILES or version != VERSION:
        raise HTTPException(404)
    return Response(
        _FILES[name],
        media_type=_TYPES[name.rpartition(".")[2]],
        headers={"Cache-Control": "public, max-age=31536000, immutable"},
    )
