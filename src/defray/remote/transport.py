"""Requests over HTTP that are sent again where that can help, and their replies.

Every request here may be sent twice: most change nothing, and an ask carries a key under which it is
answered once.  So a request is repeated, a bounded number of times and ever later, where the connection
failed, where a gateway says that it could not get through, and where the service asks to wait (429, or 503
with Retry-After).  Redirects are not followed: the token is for one place only.
"""

from __future__ import annotations

import json
import secrets
import ssl
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection, RemoteDisconnected
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from defray.errors import BadInput, DefrayError, Unreachable
from defray.remote.problems import error_of

FIRST_PAUSE: Final = 0.2
LONGEST_PAUSE: Final = 60.0
"""A service that asks to wait for longer, in seconds, is not waited for."""

GATEWAY: Final = (502, 504)
HANG_UPS: Final = (RemoteDisconnected, ConnectionResetError, BrokenPipeError)

Token = str | Callable[[], str]
"""A token, or a function that gives one that works now."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back: ``document`` is its JSON."""

    status: int
    headers: Mapping[str, str]
    document: Any


class Transport:
    """Connections to one service, kept open between requests.  Safe to share between threads."""

    def __init__(
        self, url: str, token: Token, *, timeout: float, retries: int, insecure: bool
    ) -> None:
        self._place = _place(url, insecure)
        self.url = self._place.geturl().rstrip("/")
        self._token = token if callable(token) else _token(token)
        self._headers = {
            "Accept": "application/json, application/problem+json",
            "User-Agent": "defray",
        }
        self.timeout, self._retries = timeout, retries
        self._tls = ssl.create_default_context() if self._place.scheme == "https" else None
        self._idle: deque[HTTPConnection] = deque()

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        asked: Sequence[str] = (),
    ) -> Reply:
        """The reply to a request, whose status is below 300.

        Raises the error that the service tells of (``asked`` are the questions that it may be about), or
        Unreachable.  ``timeout`` is how long to wait for the network, in seconds.
        """
        content = None if body is None else json.dumps(body, allow_nan=False).encode()
        sent = {**self._headers, **(headers or {})}
        if content is not None:
            sent["Content-Type"] = "application/json"
        wait = self.timeout if timeout is None else timeout
        tries = 0
        while True:
            error: DefrayError
            pause: float | None = None
            try:
                sent["Authorization"] = self._authorization()
                reply = self._exchanged(method, path, content, sent, wait)
            except ssl.SSLCertVerificationError:
                error = self._unreachable("its certificate is not trusted")
            except (OSError, HTTPException) as fault:
                error, pause = self._unreachable(_said(fault)), _backoff(tries)
            else:
                if reply.status < 300:
                    return reply
                error, pause = self._refused(reply, asked), _pause(reply, tries)
            tries += 1
            if pause is None or pause > LONGEST_PAUSE or tries > self._retries:
                raise error
            time.sleep(pause)

    def _authorization(self) -> str:
        """The header that shows the token.  Where a function should give it and does not, the service is
        out of reach: so an ask that was sent before keeps its key."""
        if isinstance(self._token, str):
            return f"Bearer {self._token}"
        try:
            return f"Bearer {_token(self._token())}"
        except Exception as fault:
            why = f"the function that gives the token raised {type(fault).__name__}"
        raise self._unreachable(why)

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    # -- one exchange -----------------------------------------------------------------------------

    def _exchanged(
        self, method: str, path: str, content: bytes | None, headers: Mapping[str, str], wait: float
    ) -> Reply:
        while self._idle:
            try:
                return self._over(self._idle.pop(), method, path, content, headers, wait)
            except (*HANG_UPS, IndexError):
                continue  # it was idle for too long, or another thread took it
        return self._over(self._connection(wait), method, path, content, headers, wait)

    def _over(
        self,
        connection: HTTPConnection,
        method: str,
        path: str,
        content: bytes | None,
        headers: Mapping[str, str],
        wait: float,
    ) -> Reply:
        try:
            connection.timeout = wait
            if connection.sock is not None:
                connection.sock.settimeout(wait)
            connection.request(method, self._place.path.rstrip("/") + path, content, dict(headers))
            response = connection.getresponse()
            data = response.read()
        except BaseException:
            connection.close()
            raise
        if response.will_close:
            connection.close()
        else:
            self._idle.append(connection)
        named = {name.lower(): value for name, value in response.getheaders()}
        return Reply(response.status, named, _document(data))

    def _connection(self, wait: float) -> HTTPConnection:
        host, port = self._place.hostname or "", self._place.port
        if self._tls is not None:
            return HTTPSConnection(host, port, timeout=wait, context=self._tls)
        return HTTPConnection(host, port, timeout=wait)

    # -- what went wrong --------------------------------------------------------------------------

    def _refused(self, reply: Reply, asked: Sequence[str]) -> DefrayError:
        if isinstance(reply.document, dict) and "code" in reply.document:
            return error_of(reply.document, reply.status, asked)
        return self._unreachable(f"what answers there is no Defray service (HTTP {reply.status})")

    def _unreachable(self, why: str) -> Unreachable:
        return Unreachable(
            f"{self.url} cannot be reached: {why}", hint="check the address and the network"
        )

    def unreadable(self) -> Unreachable:
        """The error for a reply that makes no sense."""
        return self._unreachable("what answers there is no Defray service of this version")


def _place(url: Any, insecure: bool) -> SplitResult:
    """The parts of the service's address.  Raises BadInput, also where a token would travel in the clear."""
    hint = 'connect("https://stats.example.org", token)'
    try:
        place = urlsplit(url if isinstance(url, str) else "")
        odd = place.username is not None or bool(place.query or place.fragment)
        known = place.scheme in ("http", "https") and bool(place.hostname) and place.port != 0
    except ValueError:
        odd = True
    if odd or not known:
        raise BadInput("a service is named by its http or https address alone", hint=hint)
    if place.scheme == "http" and not insecure and not _loopback(place.hostname or ""):
        raise BadInput(
            "over plain http others on the way could read the token and the answers",
            hint="use https; or insecure=True, where the network is yours alone",
        )
    return place


def _loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _token(token: Any) -> str:
    if not (isinstance(token, str) and token and token.isascii() and token.isprintable()):
        raise BadInput(
            "the token is no token", hint="a token is one line of visible ASCII characters"
        )
    return token


def _document(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return None


def _said(fault: Exception) -> str:
    if isinstance(fault, TimeoutError):
        return "no answer in time"
    strerror = getattr(fault, "strerror", None)
    return strerror if isinstance(strerror, str) else "the connection broke off"


def _backoff(tries: int) -> float:
    """Seconds before the next try: twice as long each time, less a random part of up to a half."""
    longest = FIRST_PAUSE * 2.0 ** min(tries, 8)
    return longest * (1 - secrets.randbelow(512) / 1024)


def _pause(reply: Reply, tries: int) -> float | None:
    """How long to wait before sending a refused request again; None where that would not help."""
    asked = _retry_after(reply.headers.get("retry-after"))
    if reply.status == 429 or (reply.status == 503 and (asked is not None or not reply.document)):
        return max(_backoff(tries), asked or 0.0)
    return _backoff(tries) if reply.status in GATEWAY else None


def _retry_after(value: str | None) -> float | None:
    """Seconds, or a date (RFC 9110, 10.2.3).

    >>> _retry_after("3"), _retry_after("soon"), _retry_after("Wed, 21 Oct 2015 07:28:00 GMT")
    (3.0, None, 0.0)
    """
    if value is None:
        return None
    if value.isascii() and value.isdecimal():
        return float(value[:9])
    try:
        date = parsedate_to_datetime(value)
    except ValueError:
        return None
    when = date if date.tzinfo is not None else date.replace(tzinfo=UTC)
    return max((when - datetime.now(UTC)).total_seconds(), 0.0)
