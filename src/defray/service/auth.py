"""Who asks, and whether they may: a bearer token becomes a grant, and each route names the scope it needs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, nullcontext
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from defray.access import Grant
from defray.core.principals import Scope
from defray.errors import Unauthorized
from defray.service.parts import Here, Service

_bearer = HTTPBearer(
    auto_error=False,
    description="A token, as `defray analyst` shows it once, or one of an OIDC issuer that is trusted here.",
)

Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


def permitted(scope: Scope | None = None, *, asks: bool = False) -> Any:
    """A dependency: the grant of a request that has the ``scope`` (None: any valid token will do) and is
    within its principal's limits, those for ``asks`` or those for all else.

    It raises Unauthorized, Forbidden or Throttled.  The grant is left in the request's state, for its log
    line and for :mod:`defray.service.problems`.
    """

    async def grant_of(
        request: Request, here: Here, credentials: Credentials
    ) -> AsyncIterator[Grant]:
        if credentials is None:
            raise Unauthorized(
                "this needs a token", hint="send the header Authorization: Bearer dfy_..."
            )
        grant = await here.authenticator.grant(credentials.credentials)
        with admitted(request, here, grant, scope, asks=asks):
            yield grant

    return Depends(grant_of)


@contextmanager
def admitted(
    request: Request, here: Service, grant: Grant, scope: Scope | None, *, asks: bool = False
) -> Iterator[None]:
    """For as long as one request of a grant is at work, where it has the scope and is within its limits."""
    request.state.grant = grant
    name = grant.principal.name
    (here.asks if asks else here.reads).take(name)
    if scope is not None:
        grant.require(scope)
    with nullcontext() if asks else here.reading.one_of(name):
        yield


Anyone = Annotated[Grant, permitted()]
MayQuote = Annotated[Grant, permitted("quote")]
MayAsk = Annotated[Grant, permitted("ask", asks=True)]
MayFollow = Annotated[Grant, permitted("ask")]
MayRead = Annotated[Grant, permitted("read")]
MayCurate = Annotated[Grant, permitted("curate")]
