"""The shape of a benchmark line, and the printing of it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Line:
    """One figure: what was timed, the figure, what it is compared to, the goal and whether it is met."""

    what: str
    ours: str
    compared: str
    ratio: str
    goal: str
    met: bool


def show(title: str, lines: Sequence[Line]) -> None:
    table = Table(title=title, title_justify="left")
    for name in ("what", "ours", "compared to", "ratio / overhead", "goal", "met"):
        table.add_column(name, overflow="fold")
    for line in lines:
        met = "yes" if line.met else "NO"
        table.add_row(line.what, line.ours, line.compared, line.ratio, line.goal, met)
    Console(width=130).print(table)


def once(work: Callable[[], object]) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def paired(
    ours: Sequence[Callable[[], object]], theirs: Sequence[Callable[[], object]]
) -> tuple[float, float]:
    """Median seconds of each side, taken in turns so that a noisy machine is noisy for both."""
    a: list[float] = []
    b: list[float] = []
    for mine, other in zip(ours, theirs, strict=True):
        b.append(once(other))
        a.append(once(mine))
    return statistics.median(a), statistics.median(b)


def ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms"
