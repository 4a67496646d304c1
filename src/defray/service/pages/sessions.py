"""Who is signed in, in memory: a cookie's random id stands for a grant, never for a token's text."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from defray.access import Grant

MOST: Final = 16
"""Of one principal at one time; the one that was idle longest is ended for another."""


@dataclass(eq=False)
class Session:
    """One signed-in browser.  ``csrf`` comes back with every form, ``draft`` is the question as it was last
    sent, and ``fresh`` a new token that the next page shows, once: whose it is and its text."""

    grant: Grant
    seen: float
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    draft: Mapping[str, str] = field(default_factory=dict, repr=False)
    fresh: tuple[str, str] | None = field(default=None, repr=False)

    def shown_once(self) -> tuple[str, str] | None:
        fresh, self.fresh = self.fresh, None
        return fresh


class Sessions:
    """Sessions by the hash of their id.  One that was idle for ``seconds`` has ended."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._lock = Lock()
        self._open: dict[bytes, Session] = {}

    def begin(self, grant: Grant) -> tuple[str, Session]:
        """A new session, and the id that its cookie holds."""
        id, session = secrets.token_urlsafe(32), Session(grant, self._clock())
        with self._lock:
            self._forget()
            name = grant.principal.name
            mine = [key for key, s in self._open.items() if s.grant.principal.name == name]
            mine.sort(key=lambda key: self._open[key].seen)
            for key in mine[: max(len(mine) + 1 - MOST, 0)]:
                del self._open[key]
            self._open[_hashed(id)] = session
        return id, session

    def find(self, id: str) -> Session | None:
        """The session of an id, from now on idle anew; None where there is none."""
        with self._lock:
            self._forget()
            session = self._open.get(_hashed(id))
            if session is not None:
                session.seen = self._clock()
        return session

    def end(self, id: str) -> None:
        with self._lock:
            self._open.pop(_hashed(id), None)

    def _forget(self) -> None:
        before = self._clock() - self._seconds
        for key in [key for key, session in self._open.items() if session.seen < before]:
            del self._open[key]


def _hashed(id: str) -> bytes:
    return hashlib.sha256(id.encode("utf-8", "surrogatepass")).digest()
