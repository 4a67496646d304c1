"""The page to ask at: prices while one types, dry runs, answers."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from defray.core.answer import Answer, Quote
from defray.errors import DefrayError, NotFound
from defray.service.asking import begin, price_of
from defray.service.jobs import Job
from defray.service.models import AskBody, QuoteBody
from defray.service.pages import forms, tables
from defray.service.pages.drawing import with_bars
from defray.service.pages.forms import Sent
from defray.service.pages.render import page, told
from defray.service.pages.signin import MayAsk, MayFollow, MayQuote, MayRead, Visitor
from defray.service.pages.words import completion
from defray.service.parts import Here, RequestId, Service
from defray.service.problems import status_of
from defray.service.reading import answered, owns
from defray.service.terms import schema_document

routes = APIRouter(include_in_schema=False)

Id = Annotated[str, Path(pattern=r"^[0-9a-f]{24}$")]

SOON: Final = 1.5
"""Seconds that an answer is waited for before its progress is shown."""

SHOWN: Final = 500
"""The most rows of an answer on a page; the download has all."""

DRAFT: Final = ("sql", "within", "confidence", "validity", "max_rho", "simultaneous", "snap")
"""The fields of a question's form."""


@routes.get("/")
def ask_page(
    request: Request,
    visitor: MayRead,
    here: Here,
    example: Annotated[int | None, Query(ge=0, le=99)] = None,
    again: Annotated[str | None, Query(max_length=40)] = None,
) -> Response:
    """With a question to begin with: an example, an earlier one, or what was sent last."""
    draft: Mapping[str, str] = visitor.session.draft
    if again is not None:
        draft = {"sql": answered(here, visitor.grant, again)["question"]}
    if example is not None:
        examples = schema_document(here.session.contract)["examples"]
        draft = {"sql": examples[example]} if example < len(examples) else {}
    return _page(request, here, draft)


def _page(
    request: Request,
    here: Service,
    draft: Mapping[str, str],
    *,
    quote: Quote | None = None,
    error: DefrayError | None = None,
) -> Response:
    return page(
        request,
        "ask.html",
        200 if error is None else status_of(error),
        draft={**dict.fromkeys(DRAFT, ""), **draft},
        press=secrets.token_urlsafe(16),
        quote=quote,
        problem=None if error is None else told(request, error),
        examples=schema_document(here.session.contract)["examples"],
    )


def refused(request: Request, visitor: Visitor, error: DefrayError) -> Response:
    """The page again, with why its question was not priced or asked."""
    return _page(request, request.app.state.service, visitor.session.draft, error=error)


@routes.get("/words")
def words(visitor: MayRead, here: Here) -> Response:
    """What completes a question."""
    return JSONResponse(completion(here.session.contract))


@routes.post("/quote")
def quote(request: Request, visitor: MayQuote, here: Here, sent: Sent) -> Response:
    """The price of what is typed, as a part of a page or, without scripts, as the whole page."""
    visitor.session.draft = _draft(sent)
    body = forms.checked(QuoteBody, forms.question(_without(sent, "max_rho")))
    price = price_of(here, visitor.grant, body)
    if request.headers.get("x-part") == "quote":
        return page(request, "quote.html", quote=price, problem=None)
    return _page(request, here, visitor.session.draft, quote=price)


@routes.post("/ask")
async def ask(
    request: Request, visitor: MayAsk, here: Here, sent: Sent, request_id: RequestId
) -> Response:
    """Begins an ask.  One press of the button is one ask, however often its form is sent."""
    visitor.session.draft = _draft(sent)
    dry = sent.get("do") == "dry"
    body = forms.checked(AskBody, forms.question(sent, dry_run=dry))
    press = sent.get("press", "") or secrets.token_urlsafe(16)
    key = hashlib.sha256(press.encode() + b"\n" + body.canonical()).hexdigest()
    job = begin(here, visitor.grant, body, request_id=request_id, key=key, kept=True)
    await asyncio.wait([asyncio.wrap_future(job.future)], timeout=SOON)
    return RedirectResponse(f"/asks/{job.id}", 303)


@routes.get("/asks/{id}")
def follow(request: Request, id: Id, visitor: MayFollow, here: Here) -> Response:
    job = here.jobs.find(visitor.grant.principal.name, id)
    if job.state == "running":
        return page(request, "running.html", job=job)
    if job.error is not None:
        return _page(request, here, visitor.session.draft, error=job.error)
    answer = job.outcome()
    rows = with_bars(answer["rows"][:SHOWN])
    return page(
        request,
        "answer.html",
        job=job,
        answer=answer,
        rows=rows,
        more=len(answer["rows"]) - len(rows),
        explained=_explained(here, visitor, answer),
    )


@routes.get("/asks/{id}/progress")
def progress(id: Id, visitor: MayFollow, here: Here) -> Response:
    job = here.jobs.find(visitor.grant.principal.name, id)
    return JSONResponse({"state": job.state, "progress": job.progress})


@routes.post("/asks/{id}/cancel")
def cancel(id: Id, visitor: MayFollow, here: Here) -> Response:
    here.jobs.cancel(visitor.grant.principal.name, id)
    return RedirectResponse(f"/asks/{id}", 303)


@routes.get("/asks/{id}/csv")
def csv(id: Id, visitor: MayFollow, here: Here) -> Response:
    answer = Answer.from_dict(_done(here.jobs.find(visitor.grant.principal.name, id)))
    return tables.download(f"answer-{id[:8]}", answer.to_records())


def _done(job: Job) -> dict[str, Any]:
    if job.state == "running":
        raise NotFound("this ask has no answer yet", hint="wait for it and download it then")
    return job.outcome()


def _explained(here: Service, visitor: Visitor, answer: dict[str, Any]) -> str | None:
    """The id under which the visitor may have the answer explained, if there is one."""
    ids = {row["id"].partition(".")[0] for row in answer["rows"] if row["id"]}
    return next(
        (id for id in sorted(ids, key=int, reverse=True) if owns(here, visitor.grant, id)), None
    )


def _draft(sent: Mapping[str, str]) -> dict[str, str]:
    return {name: sent[name] for name in DRAFT if name in sent}


def _without(sent: Mapping[str, str], name: str) -> dict[str, str]:
    return {field: value for field, value in sent.items() if field != name}
