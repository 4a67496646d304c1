"""The public keys of an issuer: where it publishes them, and how long they are relied on.

An issuer changes its keys, and withdraws one that was stolen.  What it publishes is fetched anew once it is
``FRESH`` old, or when a token names a key that is not there; never twice within ``PAUSE``, whatever callers
send; and what is older than ``USABLE`` vouches for nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import math
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt import PyJWK, PyJWTError

from defray.core.brief import brief
from defray.errors import Unreachable
from defray.service.logs import event
from defray.service.oidc.provider import ALGORITHMS, Provider, fetchable

FRESH: Final = 600.0
USABLE: Final = 3600.0
PAUSE: Final = 10.0
PATIENCE: Final = 10.0
"""Seconds that a fetch may take, and ``TIMEOUT`` each wait for the network in it."""
TIMEOUT: Final = 5.0

MOST_BYTES: Final = 1 << 18
HINT: Final = "look at [oidc] in the server's settings, at the issuer and at the network between"
LEAST_RSA_BITS: Final = 2048


@dataclass(frozen=True, slots=True)
class Key:
    """A key, for one of the algorithms that it can be used with."""

    kid: str | None
    algorithm: str
    public: PyJWK = field(repr=False)


@dataclass(frozen=True, slots=True)
class KeySet:
    """All keys of an issuer at one time; ``version`` is the hash of what it published."""

    version: str
    keys: tuple[Key, ...]

    def find(self, kid: str | None, algorithm: str) -> Key | None:
        """The one key of that id, or where no id is given the one key, for the algorithm."""
        fit = [k for k in self.keys if k.algorithm == algorithm and kid in (None, k.kid)]
        return fit[0] if len(fit) == 1 else None


class Keys:
    """The keys of one issuer, kept.  Of one event loop; the network is waited for in a thread."""

    def __init__(self, provider: Provider, clock: Callable[[], float] = time.monotonic) -> None:
        self._provider, self._clock = provider, clock
        self._fetching = asyncio.Lock()
        self._held: KeySet | None = None
        self._fetched = self._tried = -math.inf
        self._trouble = unreachable(provider.discovery, "not asked yet").message

    async def current(self) -> KeySet:
        """Those that are relied on.  Raises Unreachable where there are none."""
        if self._age() > FRESH and not (self._fetching.locked() and self._usable()):
            await self._fetch()
        if self._held is None or not self._usable():
            wait = max(math.ceil(self._tried + PAUSE - self._clock()), 1)
            raise Unreachable(self._trouble, hint=HINT, retry_after=wait)
        return self._held

    async def newer(self) -> KeySet:
        """Those that are there once the issuer was asked again, if that may be."""
        await self._fetch()
        return await self.current()

    def _age(self) -> float:
        return self._clock() - self._fetched

    def _usable(self) -> bool:
        return self._age() <= USABLE

    async def _fetch(self) -> None:
        """What is held is replaced, or stays where that fails or was tried a moment ago."""
        async with self._fetching:
            if self._clock() - self._tried < PAUSE:
                return
            began = self._clock()
            try:
                with anyio.fail_after(PATIENCE):
                    self._held = await anyio.to_thread.run_sync(
                        fetch, self._provider, abandon_on_cancel=True
                    )
            except (Unreachable, TimeoutError) as error:
                late = unreachable(self._provider.discovery, "no answer in time")
                self._trouble = (error if isinstance(error, Unreachable) else late).message
                event("issuer", logging.WARNING, reason=self._trouble)
            else:
                self._fetched = began
            finally:
                self._tried = self._clock()


def fetch(provider: Provider) -> KeySet:
    """What an issuer publishes now.  Raises Unreachable where that cannot be had or trusted."""
    described = _document(provider.discovery)
    if described.get("issuer") != provider.issuer:
        named = brief(repr(described.get("issuer")))
        raise unreachable(provider.discovery, f"it names another issuer, {named}")
    place = described.get("jwks_uri")
    if not fetchable(place, beside=provider.issuer):
        raise unreachable(provider.discovery, "its jwks_uri is no address by https")
    published = _document(place)
    keys = usable(published.get("keys"), provider.algorithms)
    if not keys:
        raise unreachable(place, f"no key there is for {', '.join(provider.algorithms)}")
    return KeySet(hashlib.sha256(json.dumps(published).encode()).hexdigest(), keys)


def usable(published: Any, algorithms: Sequence[str]) -> tuple[Key, ...]:
    """The keys of a JWK set (RFC 7517, 5) that signatures can be checked with; others are passed over."""
    listed = published if isinstance(published, list) else []
    made = (_key(jwk, algorithm) for jwk in listed for algorithm in algorithms)
    return tuple(key for key in made if key is not None)


def _key(jwk: Any, algorithm: str) -> Key | None:
    """A JWK as a key for the algorithm; None where it is for something else, is too short, or was published
    with its private part."""
    if not isinstance(jwk, dict):
        return None
    kind, curves = ALGORITHMS[algorithm]
    fits = jwk.get("kty") == kind and (not curves or jwk.get("crv") in [*curves])
    meant = jwk.get("alg", algorithm) == algorithm and jwk.get("use", "sig") == "sig"
    kid, operations = jwk.get("kid"), jwk.get("key_ops", ["verify"])
    checks = isinstance(operations, list) and "verify" in operations
    if not (fits and meant and checks) or "d" in jwk or not isinstance(kid, str | None):
        return None
    try:
        public = PyJWK(jwk, algorithm)
    except (PyJWTError, ValueError, TypeError):
        return None
    short = isinstance(public.key, RSAPublicKey) and public.key.key_size < LEAST_RSA_BITS
    return None if short else Key(kid, algorithm, public)


def _document(url: str) -> dict[str, Any]:
    """The JSON object at an address; redirects are not followed."""
    place = urlsplit(url)
    host, port = place.hostname or "", place.port
    connection = (
        HTTPSConnection(host, port, timeout=TIMEOUT, context=ssl.create_default_context())
        if place.scheme == "https"
        else HTTPConnection(host, port, timeout=TIMEOUT)
    )
    target = (place.path or "/") + (f"?{place.query}" if place.query else "")
    try:
        connection.request(
            "GET", target, headers={"Accept": "application/json", "User-Agent": "defray"}
        )
        response = connection.getresponse()
        status, data = response.status, response.read(MOST_BYTES + 1)
    except ssl.SSLCertVerificationError:
        raise unreachable(url, "its certificate is not trusted") from None
    except TimeoutError:
        raise unreachable(url, "no answer in time") from None
    except (OSError, HTTPException) as fault:
        why = getattr(fault, "strerror", None) or "the connection broke off"
        raise unreachable(url, str(why)) from None
    finally:
        connection.close()
    if status != 200:
        raise unreachable(url, f"it answers with HTTP {status}")
    if len(data) > MOST_BYTES:
        raise unreachable(url, f"it answers with more than {MOST_BYTES:,} bytes")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise unreachable(url, "it answers with something else than a JSON object")
    return document


def unreachable(url: str, why: str) -> Unreachable:
    return Unreachable(
        f"the keys of the OIDC issuer are not to be had: {brief(url, 200)}: {why}",
        hint=HINT,
    )
