"""The parts of a running service, as its routes find them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends, Request

from defray.access import Access
from defray.service.authenticator import Authenticator
from defray.service.jobs import Jobs
from defray.service.lanes import Lane
from defray.service.limits import AtOnce, Buckets, Limits
from defray.service.metrics import Metrics
from defray.service.pages.sessions import Sessions
from defray.service.workers import Asker
from defray.session import Session


@dataclass(frozen=True)
class Service:
    """One contract, who may ask it, and what they may take."""

    session: Session
    access: Access
    authenticator: Authenticator
    limits: Limits
    jobs: Jobs
    looks: Lane
    asker: Asker
    metrics: Metrics
    asks: Buckets
    reads: Buckets
    reading: AtOnce
    sessions: Sessions


async def _service(request: Request) -> Service:
    return cast(Service, request.app.state.service)


async def _request_id(request: Request) -> str:
    return cast(str, request.state.request_id)


Here = Annotated[Service, Depends(_service)]
RequestId = Annotated[str, Depends(_request_id)]
