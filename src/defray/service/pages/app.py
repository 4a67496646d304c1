"""All pages together, and what they show where something went wrong."""

from __future__ import annotations

from typing import Final

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from defray.errors import DefrayError, Unauthorized
from defray.service.pages import asks, assets, books, curator, signin
from defray.service.pages.render import page, told
from defray.service.problems import http_document, status_of

PARTS: Final = (assets, signin, asks, books, curator)


def add_pages(app: FastAPI) -> None:
    for part in PARTS:
        app.include_router(part.routes)


def is_page(request: Request) -> bool:
    """Whether an error is to be shown to somebody with a browser."""
    path = request.url.path
    api = path == "/v1" or path.startswith("/v1/")
    return not api and "text/html" in request.headers.get("accept", "")


def trouble(request: Request, error: DefrayError) -> Response:
    """An error where it happened: at the door, beside the question, or on a page of its own."""
    part = request.headers.get("x-part") == "quote"
    if part:
        return page(
            request, "quote.html", status_of(error), quote=None, problem=told(request, error)
        )
    if isinstance(error, Unauthorized):
        return signin.door(request, error)
    visitor = getattr(request.state, "visitor", None)
    if visitor is not None and request.url.path in ("/ask", "/quote"):
        return asks.refused(request, visitor, error)
    return page(request, "problem.html", status_of(error), problem=told(request, error))


def unserved(request: Request, error: HTTPException) -> Response:
    """What HTTP refuses, such as a page that is not there."""
    hint = "the menu leads to what there is" if error.status_code == 404 else "go back to the page"
    problem = http_document(error, request.state.request_id, hint)
    return page(request, "problem.html", problem["status"], problem=problem)
