"""Calls at a time of their own, all made by one thread: to set one takes no longer than noting it."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable
from itertools import count
from threading import Condition, Thread

from defray.session import incident_of

Call = Callable[[], object]


class Alarm:
    """Makes calls when their time has come, one after the other; they must be short."""

    def __init__(self) -> None:
        self._change = Condition()
        self._count = count()
        self._coming: list[tuple[float, int, Call]] = []
        self._thread: Thread | None = None

    def after(self, seconds: float, call: Call) -> None:
        """Have it called in so many seconds."""
        with self._change:
            heapq.heappush(self._coming, (time.monotonic() + seconds, next(self._count), call))
            if self._thread is None:
                thread = Thread(target=self._run, name="defray-alarm", daemon=True)
                thread.start()  # where none can, the next call tries again
                self._thread = thread
            self._change.notify()

    def _run(self) -> None:
        while True:
            call = self._next()
            try:
                call()
            except Exception as fault:  # others are called all the same; the log says what it was
                incident_of(fault)

    def _next(self) -> Call:
        """The call that is due next, once it is."""
        with self._change:
            while True:
                left = self._coming[0][0] - time.monotonic() if self._coming else None
                if left is not None and left <= 0:
                    return heapq.heappop(self._coming)[2]
                self._change.wait(left)
