"""An OpenID Connect issuer on the loopback interface: it publishes real keys and signs what it is told to."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import get_default_algorithms

from defray.service.oidc.keys import Keys
from defray.service.oidc.provider import Provider
from defray.service.oidc.tokens import Verifier

AUDIENCE = "defray"
DISCOVERY = "/.well-known/openid-configuration"
JWKS = "/keys"


@cache
def private_key(algorithm: str, number: int = 0, bits: int = 2048) -> Any:
    """A key for the algorithm; another for each number."""
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    if algorithm.startswith("ES"):
        curves = {"ES256": ec.SECP256R1, "ES384": ec.SECP384R1, "ES512": ec.SECP521R1}
        return ec.generate_private_key(curves[algorithm]())
    return rsa.generate_private_key(65537, bits)


def segment(value: Any) -> str:
    """A part of a compact JWS: bytes, or a value as JSON."""
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def public_jwk(kid: str, algorithm: str, private: Any) -> dict[str, Any]:
    told = get_default_algorithms()[algorithm].to_jwk(private.public_key(), as_dict=True)
    return {**told, "kid": kid, "use": "sig", "alg": algorithm}


class Server(ThreadingHTTPServer):
    def handle_error(self, *_: Any) -> None:
        """Whoever asked hung up: tests are silent."""


@dataclass
class Issuer:
    """``jwks`` is what it publishes, ``described`` what its discovery document says besides, ``asked`` the
    paths that were fetched, and ``answers`` what it says in place of a document."""

    port: int = 0
    jwks: list[Any] = field(default_factory=list)
    described: dict[str, Any] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    answers: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    signing: dict[str, tuple[str, Any]] = field(default_factory=dict)
    before: Callable[[], object] = lambda: None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def publish(self, kid: str, algorithm: str = "ES256", number: int = 0) -> None:
        """One more key, to sign with and to be seen."""
        private = private_key(algorithm, number)
        self.signing[kid] = algorithm, private
        self.jwks.append(public_jwk(kid, algorithm, private))

    def withdraw(self, kid: str) -> None:
        """The key signs on and is seen no more."""
        self.jwks = [jwk for jwk in self.jwks if jwk["kid"] != kid]

    def token(
        self,
        sub: Any = "ana",
        *,
        kid: str | None = "",
        headers: dict[str, Any] | None = None,
        lasting: float = 300,
        without: str = "",
        **claims: Any,
    ) -> str:
        """A token signed with the key of that id (the first one), and what is told in its claims."""
        algorithm, private = self.signing[kid or next(iter(self.signing))]
        named = {} if kid is None else {"kid": kid or next(iter(self.signing))}
        now = int(time.time())
        told = {
            "iss": self.url, "aud": AUDIENCE, "sub": sub, "iat": now, "exp": now + lasting, **claims,
        }  # fmt: skip
        told.pop(without, None)
        header = {"alg": algorithm, "typ": "JWT", **named, **(headers or {})}
        signed = f"{segment(header)}.{segment(told)}"
        maker = get_default_algorithms()[algorithm]
        return f"{signed}.{segment(maker.sign(signed.encode(), private))}"

    def provider(self, **settings: Any) -> Provider:
        return Provider(self.url, AUDIENCE, **settings)

    def verifier(self, clock: Callable[[], float] = time.monotonic, **settings: Any) -> Verifier:
        provider = self.provider(**settings)
        return Verifier(provider, Keys(provider, clock))

    def document(self, path: str) -> tuple[int, bytes]:
        described = {"issuer": self.url, "jwks_uri": self.url + JWKS, **self.described}
        documents = {DISCOVERY: described, JWKS: {"keys": self.jwks}}
        if path in self.answers:
            return self.answers[path]
        return (200, json.dumps(documents[path]).encode()) if path in documents else (404, b"")

    @contextmanager
    def up(self, tls: ssl.SSLContext | None = None) -> Iterator[Issuer]:
        """It answers; always at the same port."""
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked.append(self.path)
                issuer.before()
                status, data = issuer.document(self.path)
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", issuer.url + JWKS)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                """Tests are silent."""

        with Server(("127.0.0.1", self.port), Handler) as server:
            self.port = server.server_address[1]
            if tls is not None:
                server.socket = tls.wrap_socket(server.socket, server_side=True)
            thread = threading.Thread(target=server.serve_forever, args=(0.01,))
            thread.start()
            try:
                yield self
            finally:
                server.shutdown()
                thread.join()
