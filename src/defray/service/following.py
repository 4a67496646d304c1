"""Asks that their caller does not wait for."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path
from starlette.responses import JSONResponse, Response

from defray.access import Grant
from defray.service import documents, problems
from defray.service.auth import MayFollow
from defray.service.form import Route
from defray.service.jobs import Job
from defray.service.parts import Here

routes = APIRouter(prefix="/v1/jobs", tags=["jobs"], route_class=Route)

Id = Annotated[str, Path(pattern=r"^[0-9a-f]{24}$")]


@routes.get(
    "/{id}", responses=documents.described(documents.Job, 404), summary="How far an ask has come"
)
def job(id: Id, grant: MayFollow, here: Here) -> Response:
    return JSONResponse(_document(here.jobs.find(grant.principal.name, id), grant))


@routes.delete("/{id}", responses=documents.described(documents.Job, 404), summary="Cancel an ask")
def cancel(id: Id, grant: MayFollow, here: Here) -> Response:
    """One that is not scanning any more ends with its answer, which was paid for; follow it to know."""
    return JSONResponse(_document(here.jobs.cancel(grant.principal.name, id), grant))


def _document(job: Job, grant: Grant) -> dict[str, Any]:
    out: dict[str, Any] = {"id": job.id, "state": job.state, "progress": job.progress}
    if job.state == "done":
        out["answer"] = job.answer
    elif job.state != "running" and job.error is not None:
        out["problem"] = problems.document(
            job.error, job.request_id, whole="curate" in grant.scopes
        )
    return out
