"""The application: one contract, one access list, some limits."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.types import Scope

from defray import __version__
from defray.access import Access
from defray.errors import DefrayError, Unauthorized
from defray.service import asking, curating, following, problems, reading
from defray.service.authenticator import Authenticator
from defray.service.frame import Bodies, Frame
from defray.service.jobs import REMEMBERED, Job, Jobs, Lanes
from defray.service.lanes import Lane
from defray.service.limits import AtOnce, Buckets, Limits
from defray.service.logs import event
from defray.service.metrics import Metrics, told
from defray.service.pages.app import add_pages, is_page, trouble, unserved
from defray.service.pages.sessions import Sessions
from defray.service.parts import Service
from defray.service.plain import Plain
from defray.service.workers import Asker, in_session
from defray.session import Session

if TYPE_CHECKING:
    from fastapi.telemetry import TelemetryConfig

    from defray.service.oidc.tokens import Verifier

ABOUT = (
    "Statistical questions about one private table, at the accuracy you need; past answers defray the next "
    "one. Errors are application/problem+json."
)
LOOK_SECONDS = 0.1
ASK_SECONDS = 0.3
"""For which a look, or an ask, has a processor to itself; one that lasts longer lets others begin beside it.
Looks share an interpreter, and with it one processor; asks have processes of their own, and the others."""

SILENT: TelemetryConfig = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "auto_configure": False,
}
"""Of newer versions of FastAPI: nothing about a request goes to telemetry, which may carry bodies."""


def build(
    session: Session,
    access: Access,
    limits: Limits | None = None,
    verifier: Verifier | None = None,
    asker: Asker | None = None,
) -> FastAPI:
    """The application over a contract at work.  With a ``verifier`` the tokens of its issuer are taken as
    well as those of ``access``.  The ``asker`` buys; where there is none the session does, in this process.
    Closing it ends what runs, not the session."""
    limits = limits or Limits()
    metrics = Metrics()
    lanes = _lanes(limits)
    service = Service(
        session=session,
        access=access,
        authenticator=Authenticator(access, verifier),
        limits=limits,
        jobs=Jobs(limits, _ended(metrics), lanes, answered=session.requests(REMEMBERED)),
        looks=lanes.looks,
        asker=asker or in_session(session),
        metrics=metrics,
        asks=Buckets(limits.asks_per_second, limits.asks_burst),
        reads=Buckets(limits.reads_per_second, limits.reads_burst),
        reading=AtOnce(limits.reads_at_once),
        sessions=Sessions(limits.session_seconds),
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(service.jobs.close, limits.grace_seconds)

    app = FastAPI(
        title="Defray",
        version=__version__,
        description=ABOUT,
        openapi_url="/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        telemetry=SILENT,
        middleware=[
            Middleware(Frame, metrics, _fault),
            Middleware(Bodies, limits.body_bytes),
            Middleware(Plain, service),
        ],
        exception_handlers=cast(
            "dict[int | type[Exception], Callable[[Request, Any], Coroutine[Any, Any, Response]]]",
            {
                DefrayError: _defray_error,
                RequestValidationError: _validation_error,
                HTTPException: _http_error,
            },
        ),
    )
    app.state.service = service
    for part in (asking, following, reading, curating):
        app.include_router(part.routes)
    add_pages(app)
    return app


def _lanes(limits: Limits) -> Lanes:
    """What is free goes before what is bought, which takes ten times as long."""
    threads = limits.looks + 1  # one more, since what is noted may stand still
    looks = Lane("look", threads, LOOK_SECONDS)
    others = max((os.cpu_count() or 1) - 1, 1)
    return Lanes(looks, Lane("ask", limits.scans, ASK_SECONDS, abreast=others, after=(looks,)))


async def _defray_error(request: Request, error: DefrayError) -> Response:
    return _problem(request, error)


async def _validation_error(request: Request, error: RequestValidationError) -> Response:
    return _problem(request, problems.invalid(error.errors()))


async def _http_error(request: Request, error: HTTPException) -> Response:
    request_id = request.state.request_id
    if is_page(request):
        return unserved(request, error)
    if error.status_code == 413:
        return problems.too_large(request.app.state.service.limits.body_bytes, request_id)
    hint = "send JSON: -H 'Content-Type: application/json'" if error.status_code == 415 else ""
    return problems.http_response(error, request_id, hint)


def _fault(scope: Scope, error: DefrayError) -> Response:
    return _problem(Request(scope), error)


def _problem(request: Request, error: DefrayError) -> Response:
    request_id, grant = request.state.request_id, getattr(request.state, "grant", None)
    request.state.code = error.code
    if isinstance(error, Unauthorized) and error.reason:
        request.state.reason = error.reason
    if problems.operators_matter(error):
        event("unavailable", code=error.code, reason=error.message, request_id=request_id)
    if is_page(request):
        return trouble(request, error)
    whole = grant is not None and "curate" in grant.scopes
    return problems.response(error, request_id, whole=whole)


def _ended(metrics: Metrics) -> Callable[[Job], None]:
    """Logs and counts an ask that has ended."""

    def ended(job: Job) -> None:
        if job.error is not None:
            outcome = job.error.code
            if job.kept and problems.operators_matter(job.error):
                event(
                    "unavailable", code=outcome, reason=job.error.message, request_id=job.request_id
                )
        else:
            outcome = "paid" if job.answer and job.answer["charged_rho"] else "free"
        told(metrics, outcome, job.principal, job.request_id)

    return ended
