"""Whose tokens are taken besides those of Defray: the table ``[oidc]`` of the server's settings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeGuard
from urllib.parse import urlsplit

from defray.core.brief import brief
from defray.core.principals import NAME
from defray.errors import BadInput
from defray.service.loopback import is_loopback

ALGORITHMS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    **{f"{kind}{bits}": ("RSA", ()) for kind in ("RS", "PS") for bits in (256, 384, 512)},
    "ES256": ("EC", ("P-256",)),
    "ES384": ("EC", ("P-384",)),
    "ES512": ("EC", ("P-521",)),
    "EdDSA": ("OKP", ("Ed25519", "Ed448")),
}
"""The signatures that can be checked and not made with what an issuer publishes, each with the type and the
curves of its keys (RFC 7518, 3.1; RFC 8037)."""

USUAL: Final = ("RS256", "PS256", "ES256", "EdDSA")
MOST_LEEWAY: Final = 60.0
VISIBLE: Final = re.compile("[!-~]+")


@dataclass(frozen=True, slots=True)
class Provider:
    """An issuer, and what its tokens must hold.

    The ``claim`` names the principal: where there are ``principals``, through them alone, else as it is.
    ``leeway`` (s) is how far the clocks of the issuer and this server may be apart.  Raises BadInput.
    """

    issuer: str
    audience: str
    claim: str = "sub"
    principals: Mapping[str, str] | None = None
    algorithms: Sequence[str] = USUAL
    leeway: float = 10.0

    def __post_init__(self) -> None:
        for name in ("issuer", "audience", "claim"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value:
                raise BadInput(f"{name} of [oidc] must be a text", hint=f'{name} = "..."')
        if not fetchable(self.issuer, beside=self.issuer) or {"?", "#"} & {*self.issuer}:
            raise BadInput(
                f"the issuer {brief(self.issuer)} is no address that keys can be trusted from",
                hint="https://HOST/PATH as its tokens name it; http on the loopback interface alone",
            )
        _check_principals(self.principals)
        _check_algorithms(self.algorithms)
        if type(self.leeway) not in (int, float) or not 0 <= self.leeway <= MOST_LEEWAY:
            raise BadInput(
                f"leeway of [oidc] must be from 0 to {MOST_LEEWAY:g} seconds", hint="leeway = 10"
            )

    @property
    def discovery(self) -> str:
        """Where the issuer describes itself (OpenID Connect Discovery 1.0, 4)."""
        return self.issuer.removesuffix("/") + "/.well-known/openid-configuration"

    def principal(self, claims: Mapping[str, Any]) -> str | None:
        """The name of whom the claims are about, who need not be there; None where they do not say.  An email
        counts once the issuer has verified it: anybody may have written down another's."""
        value = claims.get(self.claim)
        unverified = self.claim == "email" and claims.get("email_verified") is not True
        if not isinstance(value, str) or unverified:
            return None
        return value if self.principals is None else self.principals.get(value)


def fetchable(url: Any, *, beside: str) -> TypeGuard[str]:
    """Whether what is fetched there is what its owner says: by https, or without a network, for an issuer
    (``beside``) that has no network between either.

    >>> fetchable("https://a.example/keys", beside="https://b.example")
    True
    >>> fetchable("http://a.example", beside="http://a.example")
    False
    >>> [fetchable("http://[::1]:1/k", beside=b) for b in ("http://[::1]:1", "https://b.example")]
    [True, False]
    """
    if not isinstance(url, str) or not VISIBLE.fullmatch(url):
        return False
    try:
        place, issuer = urlsplit(url), urlsplit(beside)
        whole = bool(place.hostname) and place.port != 0 and "@" not in place.netloc
    except ValueError:
        return False
    near = is_loopback(place.hostname or "") and issuer.scheme == "http"
    return whole and (place.scheme == "https" or (place.scheme == "http" and near))


def _check_principals(principals: Any) -> None:
    if principals is None:
        return
    if not isinstance(principals, Mapping):
        raise BadInput(
            "principals of [oidc] must be a table", hint='principals = { "claim" = "ana" }'
        )
    for name in principals.values():
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise BadInput(
                f"{brief(repr(name), 40)} in principals of [oidc] is no name of a principal",
                hint="defray analyst list shows their names",
            )


def _check_algorithms(algorithms: Any) -> None:
    listed = isinstance(algorithms, Sequence) and not isinstance(algorithms, str)
    wrong = [name for name in algorithms if name not in [*ALGORITHMS]] if listed else [algorithms]
    if wrong or not algorithms:
        raise BadInput(
            f"{brief(repr(wrong[0] if wrong else algorithms), 40)} is no algorithm of [oidc]",
            hint=f"a list of {', '.join(ALGORITHMS)}",
        )
