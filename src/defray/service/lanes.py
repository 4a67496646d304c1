"""Threads that several share fairly: whoever has least at work is next, and nobody holds all of them."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from threading import Lock
from typing import Any, TypeVar

R = TypeVar("R")


class Lane:
    """So many threads for the work of all principals.

    Next is whose work is least at work, then who has waited longest for a turn.  One principal's work leaves
    a thread to the others, where there are several.
    """

    def __init__(self, name: str, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=f"defray-{name}")
        self._free, self._most = threads, max(threads - 1, 1)
        self._lock = Lock()
        self._waiting: dict[str, deque[tuple[Future[Any], Callable[[], Any]]]] = {}
        self._working: Counter[str] = Counter()
        self._turns: dict[str, int] = {}
        self._count = count(1)

    def submit(self, principal: str, work: Callable[[], R]) -> Future[R]:
        """What work returns, or raises, once it had its turn."""
        future: Future[R] = Future()
        with self._lock:
            self._waiting.setdefault(principal, deque()).append((future, work))
            self._begin()
        return future

    def _begin(self) -> None:
        """Begin what there are threads for; the lock is held."""
        while self._free and (name := self._next()) is not None:
            queue = self._waiting[name]
            future, work = queue.popleft()
            if not queue:
                del self._waiting[name]
            if future.set_running_or_notify_cancel():
                self._free -= 1
                self._working[name] += 1
                self._turns[name] = next(self._count)
                self._pool.submit(self._run, name, future, work)

    def _next(self) -> str | None:
        """Whose turn it is."""
        ready = [name for name in self._waiting if self._working[name] < self._most]
        return min(ready, key=lambda n: (self._working[n], self._turns.get(n, 0)), default=None)

    def _run(self, name: str, future: Future[Any], work: Callable[[], Any]) -> None:
        try:
            future.set_result(work())
        except BaseException as raised:  # whoever waits for it raises it
            future.set_exception(raised)
        finally:
            with self._lock:
                self._free += 1
                self._working[name] -= 1
                if not self._working[name]:
                    del self._working[name]
                self._begin()
