"""Who asks, and whether they may: a bearer token becomes a grant, and each route names the scope it needs."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from defray.errors import Forbidden, Unauthorized
from defray.service.parts import Here
from defray.service.ports import Grant

_bearer = HTTPBearer(auto_error=False, description="A token, as `defray analyst` shows it once.")

Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


def permitted(scope: str | None = None, *, asks: bool = False) -> Any:
    """A dependency: the grant of a request that has the ``scope`` (None: any valid token will do), after one
    token of the principal's bucket was taken, of that for ``asks`` or that for all else.

    It raises Unauthorized, Forbidden or Throttled.  The grant is left in the request's state, for its log
    line and for :mod:`defray.service.problems`.
    """

    def grant_of(request: Request, here: Here, credentials: Credentials) -> Grant:
        if credentials is None:
            raise Unauthorized(
                "this needs a token", hint="send the header Authorization: Bearer dfy_..."
            )
        grant = here.access.authenticate(credentials.credentials)
        request.state.grant = grant
        (here.asks if asks else here.reads).take(grant.principal.name)
        if scope is not None and scope not in grant.scopes:
            raise Forbidden(
                f"this token does not have the scope {scope}",
                hint=f"a curator can issue one with it; this one has {', '.join(sorted(grant.scopes))}",
            )
        return grant

    return Depends(grant_of)


Anyone = Annotated[Grant, permitted()]
MayQuote = Annotated[Grant, permitted("quote")]
MayAsk = Annotated[Grant, permitted("ask", asks=True)]
MayFollow = Annotated[Grant, permitted("ask")]
MayRead = Annotated[Grant, permitted("read")]
MayCurate = Annotated[Grant, permitted("curate")]
