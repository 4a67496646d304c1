"""Who asks, and whether they may: a bearer token becomes a grant, and each route names the scope it needs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Hashable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from fastapi.security.utils import get_authorization_scheme_param

from defray.access import Grant
from defray.core.principals import Scope
from defray.errors import Unauthorized
from defray.service.parts import Here, Service

_bearer = HTTPBearer(
    auto_error=False,
    description="A token, as `defray analyst` shows it once, or one of an OIDC issuer that is trusted here.",
)

Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


def was_shown(request: Request) -> bool:
    """Whether the request's token was looked up, and still counts."""
    return getattr(request.state, "shown", None) is not None


async def shown(request: Request, at: Hashable | None = None) -> Grant:
    """The grant of a request's token, which is looked up once as long as that counts; ``at`` is the ledger's
    version, where it was just read.  Raises Unauthorized, and Unreachable where that cannot be said."""
    found: Grant | None = getattr(request.state, "shown", None)
    if found is None:
        scheme, token = get_authorization_scheme_param(request.headers.get("authorization"))
        if scheme.lower() != "bearer" or not token:
            raise Unauthorized(
                "this needs a token", hint="send the header Authorization: Bearer dfy_..."
            )
        authenticator = request.app.state.service.authenticator
        found = request.state.shown = await authenticator.grant(token, at)
    return found


def permitted(scope: Scope | None = None, *, asks: bool = False) -> Any:
    """A dependency: the grant of a request that has the ``scope`` (None: any valid token will do) and is
    within its principal's limits, those for ``asks`` or those for all else.

    It raises Unauthorized, Forbidden or Throttled.  The grant is left in the request's state, for its log
    line and for :mod:`defray.service.problems`.
    """

    async def grant_of(request: Request, here: Here, _: Credentials) -> AsyncIterator[Grant]:
        grant = await shown(request)
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
