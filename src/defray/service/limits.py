"""What one caller may take: requests a second, sizes, seconds, jobs; all in one place."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from threading import Lock

from defray.errors import BadInput, Throttled


@dataclass(frozen=True, slots=True)
class Limits:
    """Every limit of the service.  Rates are per principal; a burst is what may come at once after a rest."""

    body_bytes: int = 1 << 20
    questions: int = 256
    asks_per_second: float = 5.0
    asks_burst: int = 20
    reads_per_second: float = 20.0
    reads_burst: int = 100
    reads_at_once: int = 8
    scans: int = 4
    looks: int = 2
    asks_at_once: int = 8
    jobs_kept: int = 16
    job_seconds: float = 3600.0
    ask_seconds: float = 600.0
    session_seconds: float = 1800.0
    grace_seconds: float = 20.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            whole = field.type == "int"
            good = type(value) is int if whole else type(value) in (int, float)
            if not good or not 0 < value < math.inf:
                kind = "whole number" if whole else "number"
                raise BadInput(
                    f"the limit {field.name} must be a {kind} above 0, not {value!r:.40}",
                    hint=f"{field.name} = {field.default}",
                )


class Buckets:
    """A token bucket for each name: ``rate`` a second, ``burst`` at once."""

    def __init__(
        self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._lock = Lock()
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, name: str) -> None:
        """One token.  Raises Throttled, with the seconds until there is one."""
        with self._lock:
            now = self._clock()
            left, at = self._left.get(name, (float(self._burst), now))
            left = min(left + (now - at) * self._rate, float(self._burst))
            self._left[name] = (left - 1 if left >= 1 else left, now)
        if left < 1:
            wait = math.ceil((1 - left) / self._rate)
            raise Throttled(
                f"more than {self._rate:g} requests a second",
                hint=f"wait {wait} s and send it again; nothing was charged",
                retry_after=wait,
            )


class AtOnce:
    """How many requests of each name are at work: ``most`` and no more."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = Lock()
        self._working: Counter[str] = Counter()

    @contextmanager
    def one_of(self, name: str) -> Iterator[None]:
        """For as long as one request is at work.  Raises Throttled where there are too many already."""
        with self._lock:
            if self._working[name] >= self._most:
                raise Throttled(
                    f"{self._most} of your requests are at work already",
                    hint="wait for them; nothing was charged",
                    retry_after=1,
                )
            self._working[name] += 1
        try:
            yield
        finally:
            with self._lock:
                self._working[name] -= 1
                if not self._working[name]:
                    del self._working[name]
