"""What the curator does: principals and their tokens, the audit, the metrics."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any

from fastapi import APIRouter, Path
from starlette.responses import JSONResponse, Response

from defray.access import parse_share
from defray.core.principals import Principal
from defray.errors import BadInput
from defray.service import documents
from defray.service.auth import MayCurate
from defray.service.form import Route
from defray.service.metrics import CONTENT_TYPE
from defray.service.models import AnalystBody, ChangeBody, Name, TokenBody
from defray.service.parts import Here, Service
from defray.shares import check_shareable

routes = APIRouter(prefix="/v1", tags=["curate"], route_class=Route)

Named = Annotated[Name, Path()]
TokenId = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$")]


@routes.get(
    "/analysts", responses=documents.described(documents.Analysts), summary="All principals"
)
def analysts(grant: MayCurate, here: Here) -> Response:
    return JSONResponse(everybody(here))


@routes.post(
    "/analysts",
    responses=documents.described(documents.Analyst, 409, status=201),
    status_code=201,
    summary="Add a principal",
)
def add(body: AnalystBody, grant: MayCurate, here: Here) -> Response:
    if body.share is not None and parse_share(body.share):
        check_shareable(here.session.contract)
    made = here.access.add(body.name, body.role, body.share)
    headers = {"Location": f"/v1/analysts/{made.name}"}
    return JSONResponse(_told(here, made), 201, headers)


@routes.patch(
    "/analysts/{name}",
    responses=documents.described(documents.Analyst, 404, 409),
    summary="Change a share; suspend or resume",
)
def change(name: Named, body: ChangeBody, grant: MayCurate, here: Here) -> Response:
    return JSONResponse(_told(here, changed(here, name, body)))


@routes.post(
    "/analysts/{name}/tokens",
    responses=documents.described(documents.NewToken, 404, 409, status=201),
    status_code=201,
    summary="Issue a token",
)
def issue(name: Named, body: TokenBody, grant: MayCurate, here: Here) -> Response:
    """Its text is shown here and nowhere else."""
    return JSONResponse(issued(here, name, body), 201)


@routes.delete(
    "/tokens/{id}",
    responses=documents.described(None, 404),
    status_code=204,
    summary="Revoke a token",
)
def revoke(id: TokenId, grant: MayCurate, here: Here) -> Response:
    here.access.revoke(id)
    return Response(status_code=204)


@routes.get(
    "/audit", responses=documents.described(documents.Audit), summary="Replay the ledger from zero"
)
def audit(grant: MayCurate, here: Here) -> Response:
    return JSONResponse(here.session.audit().to_dict())


@routes.get(
    "/metrics",
    responses=documents.described(None, text="text/plain"),
    summary="Counts and times for Prometheus",
)
def metrics(grant: MayCurate, here: Here) -> Response:
    balance = here.session.balance()
    gauges = {
        "asks_running": float(here.jobs.running()),
        "rho": balance["rho"],
        "spent_rho": balance["spent_rho"],
        "remaining_rho": balance["remaining_rho"],
    }
    return Response(here.metrics.text(gauges), media_type=CONTENT_TYPE)


def everybody(here: Service) -> dict[str, Any]:
    """All principals with their tokens, and what is nobody's share."""
    listed = [_told(here, principal) for principal in here.access.analysts()]
    return {"analysts": listed, "unassigned_share": float(here.access.reserve())}


def changed(here: Service, name: str, body: ChangeBody) -> Principal:
    """A principal after a change of share, or once suspended or resumed."""
    principal: Principal | None = None
    if body.share is not None:
        if parse_share(body.share):
            check_shareable(here.session.contract)
        principal = here.access.set_share(name, body.share)
    if body.active is not None:
        principal = (here.access.resume if body.active else here.access.suspend)(name)
    if principal is None:
        raise BadInput("nothing is to be changed", hint='{"share": 0.2} or {"active": false}')
    return principal


def issued(here: Service, name: str, body: TokenBody) -> dict[str, Any]:
    """A new token of a principal, with its text."""
    make = here.access.rotate if body.rotate else here.access.issue
    scopes = None if body.scopes is None else frozenset(body.scopes)
    expires = None if body.days is None else dt.timedelta(days=body.days)
    text, token = make(name, scopes, expires)
    return {"token": text, **token.to_dict()}


def _told(here: Service, principal: Principal) -> dict[str, Any]:
    tokens = [token.to_dict() for token in here.access.tokens(principal.name)]
    return {**principal.to_dict(), "tokens": tokens}
