"""Signing in with a token, once; from then on a cookie says who it is.

The cookie is an opaque id.  At each request the grant behind it is looked up anew, so that what is revoked or
suspended works no more at once.  A form must bring back its session's own value besides, and that of the
sign-in page the value of a cookie that no other site can have sent.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request
from starlette.responses import RedirectResponse, Response

from defray.access import Grant
from defray.core.principals import Scope
from defray.errors import DefrayError, Forbidden, Unauthorized
from defray.service import problems
from defray.service.auth import admitted
from defray.service.loopback import is_loopback
from defray.service.pages.forms import Sent
from defray.service.pages.render import page
from defray.service.pages.sessions import Session
from defray.service.parts import Here

routes = APIRouter(include_in_schema=False)

COOKIE: Final = "defray"
DOOR: Final = "defray-door"
"""The cookie of who is about to sign in."""


@dataclass(frozen=True)
class Visitor:
    """Somebody who is signed in and may do what is asked for."""

    grant: Grant
    session: Session


def visiting(scope: Scope | None = None, *, asks: bool = False) -> Any:
    """A dependency as :func:`defray.service.auth.permitted` is, by the cookie.  A form must be of its
    session."""

    def visitor_of(request: Request, here: Here, sent: Sent) -> Iterator[Visitor]:
        id = request.cookies.get(_named(request, COOKIE), "")
        session = here.sessions.find(id)
        if session is None:
            raise Unauthorized("you are not signed in", hint="paste your token to go on")
        try:
            session.grant = here.access.again(session.grant)
        except Unauthorized:
            here.sessions.end(id)
            raise
        request.state.visitor = Visitor(session.grant, session)
        with admitted(request, here, session.grant, scope, asks=asks):
            if request.method == "POST":
                _same_site(request)
                _same(sent.get("csrf", ""), session.csrf)
            yield request.state.visitor

    return Depends(visitor_of)


Anyone = Annotated[Visitor, visiting()]
MayQuote = Annotated[Visitor, visiting("quote")]
MayAsk = Annotated[Visitor, visiting("ask", asks=True)]
MayFollow = Annotated[Visitor, visiting("ask")]
MayRead = Annotated[Visitor, visiting("read")]
MayCurate = Annotated[Visitor, visiting("curate")]


def known(request: Request) -> bool:
    """Whether a browser says that it is, or was, signed in."""
    return bool(request.cookies.get(_named(request, COOKIE)))


@routes.get("/sign-in")
def sign_in_page(request: Request) -> Response:
    return door(request)


def door(request: Request, error: DefrayError | None = None) -> Response:
    """The page to sign in at, with why it is shown; somebody who just came has done nothing wrong."""
    value = secrets.token_urlsafe(32)
    problem = None
    if error is not None and (request.method == "POST" or known(request)):
        problem = problems.document(error, request.state.request_id)
    response = page(
        request,
        "sign_in.html",
        200 if error is None else problems.status_of(error),
        problem=problem,
        door=value,
        cookies_travel=_secure(request) or is_loopback(request.url.hostname or ""),
    )
    _set(response, request, DOOR, value)
    return response


@routes.post("/sign-in")
def sign_in(request: Request, here: Here, sent: Sent) -> Response:
    _same_site(request)
    _same(sent.get("door", ""), request.cookies.get(_named(request, DOOR), ""))
    grant = here.access.authenticate(sent.get("token", ""))
    with admitted(request, here, grant, None):
        here.sessions.end(request.cookies.get(_named(request, COOKIE), ""))
        id, _ = here.sessions.begin(grant)
    response = RedirectResponse("/", 303)
    _set(response, request, COOKIE, id)
    _drop(response, request, DOOR)
    return response


@routes.post("/sign-out")
def sign_out(request: Request, here: Here, visitor: Anyone) -> Response:
    here.sessions.end(request.cookies[_named(request, COOKIE)])
    response = RedirectResponse("/sign-in", 303)
    _drop(response, request, COOKIE)
    return response


def _secure(request: Request) -> bool:
    """Whether cookies may travel encrypted only: everywhere but on this machine itself."""
    forwarded = request.headers.get("x-forwarded-proto", "").lower() == "https"
    encrypted = request.url.scheme == "https" or forwarded
    return encrypted or not is_loopback(request.url.hostname or "")


def _named(request: Request, name: str) -> str:
    """With the prefix by which browsers hold a cookie to this host and to encryption."""
    return f"__Host-{name}" if _secure(request) else name


def _set(response: Response, request: Request, name: str, value: str) -> None:
    response.set_cookie(
        _named(request, name), value, httponly=True, samesite="strict", secure=_secure(request)
    )


def _drop(response: Response, request: Request, name: str) -> None:
    response.delete_cookie(
        _named(request, name), httponly=True, samesite="strict", secure=_secure(request)
    )


def _same(given: str, kept: str) -> None:
    if not kept or not hmac.compare_digest(given.encode(), kept.encode()):
        raise Forbidden(
            "this form is not of your session",
            hint="load the page again and send it anew; the browser must allow cookies, and reach "
            "another machine by https",
        )


def _same_site(request: Request) -> None:
    """A page of another site sent it: browsers say so."""
    site = request.headers.get("sec-fetch-site", "same-origin")
    origin = request.headers.get("origin", "null")
    elsewhere = origin != "null" and origin.partition("://")[2] != request.headers.get("host")
    if site not in ("same-origin", "none") or elsewhere:
        raise Forbidden(
            "this form was sent by another site",
            hint="open the page and send it anew; a proxy in front must pass the header Host as it came",
        )
