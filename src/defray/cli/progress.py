"""A bar for what takes longer than a second, on stderr, where a terminal shows it."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from defray.cli import screen

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PATIENCE = 1.0
"""Seconds before a bar appears."""


class Bar:
    """Told now and then how much of how much is done, or which fraction; gone without a trace at the end."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._begun = time.monotonic()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __call__(self, done: float, total: float = 1.0) -> None:
        if self._bar is None:
            late = time.monotonic() - self._begun > PATIENCE
            if not late or screen.json_wanted() or not screen.err().is_terminal:
                return
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            self._bar = Progress(
                TextColumn(self._what),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f} %"),
                TimeElapsedColumn(),
                console=screen.err(),
                transient=True,
            )
            self._task = self._bar.add_task(self._what, total=total)
            self._bar.start()
        if self._task is not None:
            self._bar.update(self._task, completed=min(total, max(0.0, done)), total=total)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
