"""Pages to read: history, answers and what they rest on, the balance, the columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from defray.service.pages import tables
from defray.service.pages.drawing import burned, strip, with_bars
from defray.service.pages.render import page
from defray.service.pages.signin import MayRead
from defray.service.pages.words import spelt
from defray.service.parts import Here
from defray.service.reading import answered, explained, left, paid_for, spent
from defray.service.terms import contract_document, schema_document

routes = APIRouter(include_in_schema=False)

Id = Annotated[str, Path(max_length=40)]

PAGE: Final = 20
"""Asks on one page of the history."""

COLUMNS: Final = 12
"""The most columns whose charges are drawn at once."""

LATEST: Final = 1000
"""The most asks in the drawing of what was left."""

SHOWN: Final = 500


@routes.get("/history")
def history(
    request: Request,
    visitor: MayRead,
    here: Here,
    search: Annotated[str, Query(max_length=200)] = "",
    cursor: Annotated[str | None, Query(max_length=100)] = None,
) -> Response:
    found = paid_for(here, visitor.grant, limit=PAGE, cursor=cursor, holding=search.strip())
    return page(request, "history.html", **found, search=search.strip(), later=cursor is not None)


@routes.get("/answers/{id}")
def answer(request: Request, id: Id, visitor: MayRead, here: Here) -> Response:
    asked = answered(here, visitor.grant, id)
    rows = asked.get("rows")
    shown = None if rows is None else with_bars([_now(row) for row in rows[:SHOWN]])
    more = 0 if rows is None else len(rows) - len(rows[:SHOWN])
    return page(request, "answered.html", asked=asked, rows=shown, more=more)


@routes.get("/answers/{id}/csv")
def csv(id: Id, visitor: MayRead, here: Here) -> Response:
    asked = answered(here, visitor.grant, id)
    return tables.download(f"answer-{asked['id']}", tables.then_and_now(asked.get("rows") or ()))


@routes.get("/answers/{id}/explain")
def explain(request: Request, id: Id, visitor: MayRead, here: Here) -> Response:
    told = explained(here, visitor.grant, id)
    rows = with_bars(told["rows"][:SHOWN])
    return page(request, "explain.html", told=told, rows=rows, more=len(told["rows"]) - len(rows))


@routes.get("/balance")
def balance(request: Request, visitor: MayRead, here: Here) -> Response:
    grant = visitor.grant
    told = left(here, grant)
    account = told.get("account") or told["answer"]
    steps, line = burned(spent(here, grant)[-LATEST:], account["cap_rho"])
    columns = [column.name for column in here.session.contract.domain.columns if column.levels]
    strips = [
        (name, strip(left(here, grant, by=name)["by"]["values"], told["answer"]["spent_rho"]))
        for name in columns[:COLUMNS]
    ]
    return page(
        request,
        "balance.html",
        told=told,
        account=account,
        own="account" in told,
        steps=steps,
        line=line,
        uneven=[(name, runs) for name, runs in strips if not _alike(runs)],
        even=[(name, runs) for name, runs in strips if _alike(runs)],
        more=columns[COLUMNS:],
    )


@routes.get("/schema")
def schema(request: Request, visitor: MayRead, here: Here) -> Response:
    contract = here.session.contract
    return page(
        request, "schema.html", schema=schema_document(contract), terms=contract_document(contract)
    )


def _alike(runs: Sequence[dict[str, Any]]) -> bool:
    return len({run["heat"] for run in runs}) <= 1


def _now(row: dict[str, Any]) -> dict[str, Any]:
    """A row as it is known now, with both ends."""
    now = row["now"]
    value, width = now["value"], now["half_width"]
    known = value is not None and width is not None
    return {
        **row,
        "told": spelt({"low": None, "high": None, **row["then"]}),
        "value": value,
        "half_width": width,
        "low": value - width if known else None,
        "high": value + width if known else None,
    }
