"""From the text of a bearer token to who shows it: the one way in for all requests that carry one."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool

from defray.access import Access, Grant
from defray.errors import MissingExtra
from defray.service.oidc.provider import Provider
from defray.service.oidc.refusal import refused

if TYPE_CHECKING:
    from defray.service.oidc.tokens import Verifier


class Authenticator:
    """Takes tokens of Defray, and those of an issuer where there is one.  Either way the principal is looked
    up in the ledger each time: whoever is suspended is out at once, and nobody comes in by a token alone."""

    def __init__(self, access: Access, verifier: Verifier | None = None) -> None:
        self._access, self._verifier = access, verifier

    async def grant(self, token: str, at: Hashable | None = None) -> Grant:
        """Raises Unauthorized where the token does not work, and Unreachable where the issuer's keys are not
        to be had.  ``at`` is the version of the ledger, where it was just read.

        To look a token up in a file, or to check a signature, takes less than handing it to another thread
        would, and waits for nobody.  A ledger in a server, and the issuer, are waited for in another one.
        """
        at = self._access.version() if at is None else at
        if self._verifier is None or token.startswith("dfy_"):
            if at is None:
                return await run_in_threadpool(self._access.authenticate, token)
            return self._access.authenticate(token, at)
        vouched = await self._verifier.vouched(token)
        known = vouched.principal, vouched.scopes
        if at is None:
            grant = await run_in_threadpool(self._access.vouched, *known)
        else:
            grant = self._access.vouched(*known)
        if grant is None:
            raise refused("nobody active has the name it stands for")
        return grant


def verifier_of(provider: Provider) -> Verifier:
    """What verifies the tokens of an issuer.  Raises MissingExtra where a package for it is not there."""
    try:
        from defray.service.oidc.keys import Keys
        from defray.service.oidc.tokens import Verifier
    except ImportError:
        raise MissingExtra(
            "tokens of an OIDC issuer need PyJWT and cryptography",
            hint="pip install 'defray[oidc]'",
        ) from None
    return Verifier(provider, Keys(provider))
