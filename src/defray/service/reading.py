"""What may be read: the contract, its columns, and the books as far as they are the caller's."""

from __future__ import annotations

import base64
from collections.abc import Collection
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from starlette.responses import JSONResponse, Response

from defray import __version__
from defray.access import Grant
from defray.errors import BadInput, NotFound
from defray.service import documents
from defray.service.auth import Anyone, MayRead
from defray.service.form import Route
from defray.service.parts import Here, Service
from defray.service.terms import contract_document, schema_document
from defray.session import Session

routes = APIRouter(prefix="/v1", tags=["read"], route_class=Route)

Id = Annotated[
    str, Path(max_length=40, description="Of an ask, or of a row of its answer: 12 or 12.0")
]
OTHERS = "a release of another principal"


@routes.head("/health", include_in_schema=False)
@routes.get(
    "/health",
    responses={200: {"model": documents.Health}},
    summary="Whether the service answers",
)
async def health() -> Response:
    return JSONResponse({"status": "ok", "version": __version__})


@routes.get("/me", responses=documents.described(documents.Me), summary="Who I am and what I may")
def me(grant: Anyone, here: Here) -> Response:
    principal = grant.principal
    return JSONResponse(
        {
            "principal": principal.name,
            "role": principal.role,
            "scopes": sorted(grant.scopes),
            "share": None if principal.share is None else float(principal.share),
            "account": _bound(here, grant)
            .balance(within=50, confidence="95%", by=None)
            .get("account"),
        }
    )


@routes.get("/contract", responses=documents.described(documents.Terms), summary="What is promised")
def contract(grant: MayRead, here: Here) -> Response:
    return JSONResponse(contract_document(here.session.contract))


@routes.get(
    "/schema", responses=documents.described(documents.Schema), summary="What can be asked about"
)
def schema(grant: MayRead, here: Here) -> Response:
    return JSONResponse(schema_document(here.session.contract))


@routes.get(
    "/history", responses=documents.described(documents.History), summary="What was paid for"
)
def history(
    grant: MayRead,
    here: Here,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
    cursor: Annotated[str | None, Query(max_length=100)] = None,
    refresh: bool = False,
) -> Response:
    """Newest first; an analyst's own asks, or all for a curator.  `refresh`: also what is known now."""
    return JSONResponse(paid_for(here, grant, limit=limit, cursor=cursor, refresh=refresh))


@routes.get(
    "/answers/{id}",
    responses=documents.described(documents.Asked, 404),
    summary="One answer, then and now",
)
def answer(id: Id, grant: MayRead, here: Here) -> Response:
    return JSONResponse(answered(here, grant, id))


@routes.get(
    "/answers/{id}/explain",
    responses=documents.described(documents.Explanation, 404),
    summary="What an answer rests on",
)
def explain(id: Id, grant: MayRead, here: Here) -> Response:
    """Of releases that others paid for an analyst sees the weights, not what was asked."""
    return JSONResponse(explained(here, grant, id))


@routes.get(
    "/balance", responses=documents.described(documents.Balance, 404), summary="What is left"
)
def balance(
    grant: MayRead,
    here: Here,
    within: Annotated[str, Query(max_length=40)] = "50",
    confidence: Annotated[str, Query(max_length=40)] = "95%",
    by: Annotated[str | None, Query(min_length=1, max_length=200)] = None,
) -> Response:
    return JSONResponse(left(here, grant, within=within, confidence=confidence, by=by))


def paid_for(
    here: Service,
    grant: Grant,
    *,
    limit: int,
    cursor: str | None = None,
    refresh: bool = False,
    holding: str = "",
) -> dict[str, Any]:
    """A page of the caller's history, of questions that hold a text in whatever case."""
    before = None if cursor is None else _from_cursor(cursor)
    asks = [
        told
        for told in reversed(_bound(here, grant).history(refresh=refresh))
        if (before is None or int(told["id"]) < before)
        and holding.casefold() in told["question"].casefold()
    ]
    page = asks[:limit]
    more = len(asks) > limit
    return {"asks": page, "next": _to_cursor(page[-1]["id"]) if more else None}


def answered(here: Service, grant: Grant, id: str) -> dict[str, Any]:
    """One of the caller's answers, as it was and as it is known now."""
    return _own(_bound(here, grant).history(refresh=True), id)


def explained(here: Service, grant: Grant, id: str) -> dict[str, Any]:
    """What one of the caller's answers rests on."""
    bound = _bound(here, grant)
    asks = bound.history()
    told = bound.explain(_own(asks, id)["id"])
    return _without_others(told, {ask["id"] for ask in asks})


def left(
    here: Service,
    grant: Grant,
    *,
    within: str = "50",
    confidence: str = "95%",
    by: str | None = None,
) -> dict[str, Any]:
    """What is left, as the caller may know it."""
    return _bound(here, grant).balance(within=within, confidence=confidence, by=by)


def spent(here: Service, grant: Grant) -> list[dict[str, Any]]:
    """What was spent after each of the caller's asks, oldest first."""
    return _bound(here, grant).spending()


def _bound(here: Service, grant: Grant) -> Session:
    return here.session.on_behalf_of(grant.principal.name)


def _own(asks: list[dict[str, Any]], id: str) -> dict[str, Any]:
    """The ask of that id among one's own.  NotFound is the same for others' asks and for none."""
    name = id.partition(".")[0]
    for ask in asks:
        if ask["id"] == name or any(release["id"] == name for release in ask["releases"]):
            return ask
    raise NotFound("you have no answer of that id", hint="GET /v1/history lists yours")


def owns(here: Service, grant: Grant, id: str) -> bool:
    """Whether the caller has an answer of that id."""
    asks = _bound(here, grant).history()
    return any(id == ask["id"] or any(id == r["id"] for r in ask["releases"]) for ask in asks)


def _without_others(told: dict[str, Any], own: Collection[str]) -> dict[str, Any]:
    """An explanation without the questions of others."""
    releases = [
        release if release["ask"] in own else {**release, "ask": None, "measured": OTHERS}
        for release in told["releases"]
    ]
    return {**told, "releases": releases}


def _to_cursor(id: str) -> str:
    return base64.urlsafe_b64encode(f"before {id}".encode()).decode().rstrip("=")


def _from_cursor(cursor: str) -> int:
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii")
    except ValueError:
        text = ""
    word, _, number = text.partition(" ")
    if word != "before" or not number.isdecimal():
        raise BadInput(
            "this is no cursor of the history", hint="send `next` of the page before, unchanged"
        )
    return int(number)
