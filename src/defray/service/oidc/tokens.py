"""Whether a JWT is a token of the issuer for this service, and for whom it speaks (RFC 7519, RFC 8725)."""

from __future__ import annotations

import hashlib
import json
import math
import re
import time
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import jwt

from defray.errors import Unauthorized
from defray.recent import Recent
from defray.service.oidc.keys import Key, Keys
from defray.service.oidc.provider import Provider
from defray.service.oidc.refusal import refused

MOST_BYTES: Final = 1 << 14
"""Of a token."""

COMPACT: Final = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+){2}")
TYPES: Final = ("jwt", "at+jwt", "application/jwt", "application/at+jwt")
LAST: Final = 1e12
"""Seconds since 1970 that no time is beyond."""

PREFIX: Final = "defray:"
"""Of an entry of the claim ``scope`` that is meant for Defray."""

DOUBTS: Final = (
    (jwt.InvalidSignatureError, "its signature is wrong"),
    (jwt.InvalidIssuerError, "it is of another issuer"),
    (jwt.InvalidAudienceError, "it is for another audience"),
    (jwt.MissingRequiredClaimError, "it lacks exp, iss or aud"),
)


@dataclass(frozen=True, slots=True)
class Vouched:
    """For whom a token speaks, with the ``scopes`` it is cut down to (None: it is not), and from when to when
    it does, in seconds since 1970.  Whether there is such a principal it does not say."""

    principal: str
    scopes: frozenset[str] | None
    begins: float
    ends: float


class Verifier:
    """Verifies tokens, each once: what a signature vouches for stays true as long as the issuer's keys are
    the same.  Whether it is the time for it is looked at again."""

    def __init__(
        self, provider: Provider, keys: Keys, clock: Callable[[], float] = time.time
    ) -> None:
        self._provider, self._keys, self._clock = provider, keys, clock
        self._recent = Recent()

    async def vouched(self, token: str) -> Vouched:
        """Raises Unauthorized where the token does not work, and Unreachable where that cannot be told now.
        The issuer is not asked about what has not even the form."""
        kid, algorithm = self._form(token)
        keys, digest = await self._keys.current(), hashlib.sha256(token.encode("ascii")).digest()
        known: Vouched | None = self._recent.get(keys.version, digest)
        if known is None:
            key = keys.find(kid, algorithm)
            if key is None:
                keys = await self._keys.newer()
                key = keys.find(kid, algorithm)
            if key is None:
                raise refused("no key of the issuer fits it")
            known = self._read(token, key)
            self._recent.keep(keys.version, digest, known)
        now, leeway = self._clock(), self._provider.leeway
        if now >= known.ends + leeway:
            raise refused("it has expired")
        if now < known.begins - leeway:
            raise refused("it works later")
        return known

    def _form(self, token: str) -> tuple[str | None, str]:
        """The key id and the algorithm that a token names."""
        if len(token) > MOST_BYTES or not COMPACT.fullmatch(token):
            raise refused("it is no signed JWT, or too large")
        head = token.partition(".")[0]
        try:
            header = json.loads(urlsafe_b64decode(head + "=" * (-len(head) % 4)))
        except (ValueError, RecursionError):
            header = None
        if not isinstance(header, dict):
            raise refused("its header cannot be read")
        kid, algorithm, kind = header.get("kid"), header.get("alg"), header.get("typ", "JWT")
        if not isinstance(algorithm, str) or algorithm not in self._provider.algorithms:
            raise refused("its algorithm is not among those of [oidc]")
        if not isinstance(kind, str) or kind.lower() not in TYPES:
            raise refused("it is of another type than an access token")
        if not isinstance(kid, str | None) or "crit" in header:
            raise refused("its header asks for something unknown")
        return kid, algorithm

    def _read(self, token: str, key: Key) -> Vouched:
        try:
            claims = jwt.decode(
                token,
                key.public,
                algorithms=[key.algorithm],
                audience=self._provider.audience,
                issuer=self._provider.issuer,
                options={
                    "require": ["exp", "iss", "aud"],
                    "verify_exp": False,  # here, each time the token is shown
                    "verify_nbf": False,
                    "verify_iat": False,
                },
            )
        except (jwt.PyJWTError, RecursionError) as error:
            raise _doubted(error) from None
        principal = self._provider.principal(claims)
        if principal is None:
            raise refused("its claim names nobody")
        begins = max(_time(claims, name, -math.inf) for name in ("nbf", "iat"))
        return Vouched(principal, _scopes(claims), begins, _time(claims, "exp", -math.inf))


def _doubted(error: Exception) -> Unauthorized:
    return refused(next((why for kind, why in DOUBTS if isinstance(error, kind)), "it is no JWT"))


def _time(claims: Mapping[str, Any], name: str, absent: float) -> float:
    """A NumericDate (RFC 7519, 2)."""
    value = claims.get(name)
    if name not in claims:
        return absent
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) < LAST:
        raise refused(f"its claim {name} is no time")
    return float(value)


def _scopes(claims: Mapping[str, Any]) -> frozenset[str] | None:
    """The scopes of Defray that the claim ``scope`` (RFC 8693, 4.2) names; None where it names none."""
    value = claims.get("scope", "")
    words = value.split() if isinstance(value, str) else value
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise refused("its claim scope is no list of words")
    ours = [word for word in words if word.startswith(PREFIX)]
    return frozenset(word.removeprefix(PREFIX) for word in ours) if ours else None
