"""Watching a running statement: progress, cancellation and timeout, from a thread beside it.

Progress is told from the time that has passed and the size of the files alone: a backend's own progress
moves with what it finds in the data.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

from defray.data.source import Control
from defray.errors import Cancelled

POLL_SECONDS = 0.02
QUIET_SECONDS = 1.0
BYTES_PER_SECOND = 200e6


class Watch:
    """Stops a statement through ``interrupt`` when its control says so; ``why`` is the error to raise."""

    def __init__(self, control: Control, size: int) -> None:
        self.control = control
        self.expected = max(size / BYTES_PER_SECOND, 1.0)
        self.started = time.monotonic()
        self.why: Cancelled | None = None
        self.fault: Exception | None = None

    def stopped(self) -> bool:
        """Whether to stop; asks the caller's ``cancelled``, whose own errors stop the scan too."""
        if self.why is None and self.fault is None:
            control, elapsed = self.control, time.monotonic() - self.started
            try:
                if control.cancelled is not None and control.cancelled():
                    self.why = Cancelled(
                        "the scan was cancelled", hint="nothing was spent; ask again when ready"
                    )
                elif control.timeout is not None and elapsed > control.timeout:
                    self.why = Cancelled(
                        f"the scan took longer than the timeout of {control.timeout:g} s",
                        hint="nothing was spent; allow more time",
                    )
                elif control.progress is not None and elapsed > QUIET_SECONDS:
                    control.progress(1.0 - math.exp(-elapsed / self.expected))
            except Exception as fault:  # the caller's own, handed back to the caller
                self.fault = fault
        return self.why is not None or self.fault is not None

    def check(self) -> None:
        if self.stopped():
            raise self.fault or self.why or Cancelled("the scan was cancelled")

    @contextmanager
    def over(self, interrupt: Callable[[], object]) -> Iterator[None]:
        """Watches for as long as the block runs."""
        control = self.control
        if control.progress is None and control.cancelled is None and control.timeout is None:
            yield
            return
        done = Event()

        def look() -> None:
            while not done.wait(POLL_SECONDS):
                if self.stopped():
                    interrupt()

        thread = Thread(target=look, name="defray-watch", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
