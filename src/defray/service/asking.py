"""Prices and answers."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from defray.access import Grant
from defray.core.answer import Quote
from defray.errors import BadInput
from defray.service import documents
from defray.service.auth import MayAsk, MayQuote
from defray.service.form import Route
from defray.service.jobs import Job, Known
from defray.service.models import KEY, AskBody, QuoteBody, QuotesBody
from defray.service.parts import Here, RequestId, Service
from defray.session import Session

routes = APIRouter(prefix="/v1", tags=["ask"], route_class=Route)

FEW_ROWS = 100
"""An answer of so many is spelled in less time than it takes to hand it to another thread."""

Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern=KEY.pattern,
        description="Asked again under the same key, a request is answered as before, whatever broke off.",
    ),
]
Prefer = Annotated[
    str | None, Header(alias="Prefer", description="respond-async: do not wait for the answer.")
]


@routes.post(
    "/quote",
    responses=documents.described(documents.Quote, 404, 409),
    summary="What a question would cost",
)
async def quote(body: QuoteBody, grant: MayQuote, here: Here) -> Response:
    price = here.looks.submit(grant.principal.name, lambda: price_of(here, grant, body).to_dict())
    return JSONResponse(await asyncio.wrap_future(price))


@routes.post(
    "/quotes",
    responses=documents.described(documents.Quotes, 404, 409),
    summary="What a list would cost",
)
def quotes(body: QuotesBody, grant: MayQuote, here: Here) -> Response:
    _check_length(here, body.questions)
    prices = _bound(here, grant).quote_all(body.questions, **body.wish(), together=body.together)
    return JSONResponse({"quotes": [price.to_dict() for price in prices]})


@routes.post(
    "/ask",
    responses=documents.described(documents.Answer, 404, 409, accepted=documents.Job),
    summary="Answer a question",
)
async def ask(
    request: Request,
    body: AskBody,
    grant: MayAsk,
    here: Here,
    request_id: RequestId,
    key: Key = None,
    prefer: Prefer = None,
) -> Response:
    """The answer; with `Prefer: respond-async` a job to follow; with `dry_run` made-up rows."""
    _check_length(here, body.among or ())
    later = _wants_async(request)
    job = begin(here, grant, body, request_id=request_id, key=key, kept=later)
    if later:
        headers = {"Location": f"/v1/jobs/{job.id}", "Preference-Applied": "respond-async"}
        return JSONResponse({"id": job.id, "state": "running", "progress": 0.0}, 202, headers)
    await asyncio.wrap_future(job.future)
    told = job.outcome()
    if len(told["rows"]) <= FEW_ROWS:
        return JSONResponse(told)
    return await run_in_threadpool(JSONResponse, told)


def price_of(here: Service, grant: Grant, body: QuoteBody) -> Quote:
    """What a question would cost the caller now."""
    _check_length(here, body.among or ())
    return _bound(here, grant).quote(body.sql, **body.arguments())


def begin(
    here: Service, grant: Grant, body: AskBody, *, request_id: str, key: str | None, kept: bool
) -> Job:
    """Start the job of an ask, or join the one at work under its key."""
    name = grant.principal.name
    digest = hashlib.sha256(body.canonical()).hexdigest()
    most = here.limits.ask_seconds
    timeout = most if body.timeout is None else min(body.timeout, most)

    session = here.session.on_behalf_of(name)
    arguments = {**body.arguments(), "max_rho": body.max_rho, "request": digest}
    whole = {
        **arguments,
        "key": None if body.dry_run else key,
        "timeout": timeout,
        "dry_run": body.dry_run,
    }

    def known(*, follow: bool) -> dict[str, Any] | None:
        answer = session.known(body.sql, **arguments, key=key, follow=follow)
        return None if answer is None else answer.to_dict()

    def work(job: Job) -> dict[str, Any]:
        return here.asker(name, body.sql, whole, progress=job.advance, cancelled=job.stop.is_set)

    return here.jobs.start(
        name,
        work,
        None if body.dry_run else Known(lambda: known(follow=False), lambda: known(follow=True)),
        request_id=request_id,
        digest=digest,
        key=key,
        kept=kept,
    )


def _check_length(here: Service, questions: Sequence[str]) -> None:
    most = here.limits.questions
    if len(questions) > most:
        raise BadInput(
            f"a list has at most {most} questions, not {len(questions):,}", hint="send it in parts"
        )


def _bound(here: Service, grant: Grant) -> Session:
    return here.session.on_behalf_of(grant.principal.name)


def _wants_async(request: Request) -> bool:
    """RFC 7240; the header may come several times."""
    wishes = ",".join(request.headers.getlist("prefer")).split(",")
    return any(wish.partition(";")[0].strip().lower() == "respond-async" for wish in wishes)
