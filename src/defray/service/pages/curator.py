"""The curator's pages: who may ask, and the audit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

from fastapi import APIRouter, Path, Request
from starlette.responses import RedirectResponse, Response

from defray.errors import DefrayError
from defray.service import curating
from defray.service.models import AnalystBody, ChangeBody, Name, TokenBody
from defray.service.pages import forms
from defray.service.pages.forms import Sent
from defray.service.pages.render import page, told
from defray.service.pages.signin import MayCurate, Visitor
from defray.service.parts import Here, Service
from defray.service.problems import status_of

routes = APIRouter(include_in_schema=False)

Named = Annotated[Name, Path()]
TokenId = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$")]

BACK: Final = "/analysts"


@routes.get(BACK)
def analysts(request: Request, visitor: MayCurate, here: Here) -> Response:
    return _page(request, visitor, here)


def _page(
    request: Request,
    visitor: Visitor,
    here: Service,
    error: DefrayError | None = None,
    typed: Mapping[str, str] | None = None,
) -> Response:
    return page(
        request,
        "analysts.html",
        200 if error is None else status_of(error),
        **curating.everybody(here),
        accounts={one["name"]: one for one in here.session.balance().get("accounts", ())},
        fresh=visitor.session.shown_once(),
        problem=None if error is None else told(request, error),
        typed=typed or {},
    )


@routes.post(BACK)
def add(request: Request, visitor: MayCurate, here: Here, sent: Sent) -> Response:
    """Lets somebody in and shows a first token."""
    try:
        wanted = {name: sent[name] for name in ("name", "role", "share") if name in sent}
        body = forms.checked(AnalystBody, wanted)
        first = forms.checked(TokenBody, {"days": forms.number(sent, "days")})
        here.access.add(body.name, body.role, body.share)
        _issue(here, visitor, body.name, first)
    except DefrayError as error:
        return _page(request, visitor, here, error, sent)
    return RedirectResponse(BACK, 303)


@routes.post(BACK + "/{name}")
def change(request: Request, name: Named, visitor: MayCurate, here: Here, sent: Sent) -> Response:
    """Another share, or suspended, or resumed."""
    try:
        wanted: dict[str, object] = {field: sent[field] for field in ("share",) if field in sent}
        if "active" in sent:
            wanted["active"] = sent["active"] == "yes"
        curating.changed(here, name, forms.checked(ChangeBody, wanted))
    except DefrayError as error:
        return _page(request, visitor, here, error)
    return RedirectResponse(BACK, 303)


@routes.post(BACK + "/{name}/tokens")
def token(request: Request, name: Named, visitor: MayCurate, here: Here, sent: Sent) -> Response:
    """A new token, in place of all others or beside them."""
    try:
        wanted = {"days": forms.number(sent, "days"), "rotate": sent.get("do") == "rotate"}
        _issue(here, visitor, name, forms.checked(TokenBody, wanted))
    except DefrayError as error:
        return _page(request, visitor, here, error)
    return RedirectResponse(BACK, 303)


@routes.post("/tokens/{id}/revoke")
def revoke(request: Request, id: TokenId, visitor: MayCurate, here: Here) -> Response:
    try:
        here.access.revoke(id)
    except DefrayError as error:
        return _page(request, visitor, here, error)
    return RedirectResponse(BACK, 303)


@routes.get("/audit")
def audit(request: Request, visitor: MayCurate, here: Here) -> Response:
    return page(request, "audit.html", report=here.session.audit().to_dict())


def _issue(here: Service, visitor: Visitor, name: str, body: TokenBody) -> None:
    visitor.session.fresh = name, curating.issued(here, name, body)["token"]
