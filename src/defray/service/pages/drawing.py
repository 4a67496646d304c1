"""Where things lie in small drawings, as plain numbers: templates turn them into SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

from defray.service.pages.words import spelt

WIDE: Final = 600.0
HIGH: Final = 150.0
"""The size of the drawing of charges over time."""


@dataclass(frozen=True, slots=True)
class Bar:
    """An interval on a scale from 0 to 100: where it begins, how long it is, and its middle."""

    x: float
    width: float
    at: float


@dataclass(frozen=True, slots=True)
class Scale:
    """What 0 and 100 stand for, and where zero lies."""

    low: float
    high: float

    @property
    def zero(self) -> float:
        return self.place(0.0)

    def place(self, x: float) -> float:
        """
        >>> Scale(-50, 150).place(50), Scale(0, 0).place(0)
        (50.0, 0.0)
        """
        span = self.high - self.low
        return round(100 * (x - self.low) / span, 3) if span else 0.0


def scale_of(ends: Sequence[tuple[float, float]]) -> Scale:
    """One that holds zero and all intervals.

    >>> scale_of([(10, 30), (-5, 20)])
    Scale(low=-5, high=30)
    """
    return Scale(min(0.0, *(low for low, _ in ends)), max(0.0, *(high for _, high in ends)))


def with_bars(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of an answer with their numbers as ``shown``, and each with its ``bar`` on the ``scale`` that its
    aggregate's rows share; these two are None where nothing is known of its interval."""
    ends: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if _known(row):
            ends.setdefault(row["aggregate"], []).append((row["low"], row["high"]))
    scales = {aggregate: scale_of(found) for aggregate, found in ends.items()}
    return [{**row, **_drawn(row, scales), "shown": spelt(row)} for row in rows]


def _drawn(row: dict[str, Any], scales: dict[str, Scale]) -> dict[str, Any]:
    if not _known(row):
        return {"bar": None, "scale": None}
    scale = scales[row["aggregate"]]
    low, high = scale.place(row["low"]), scale.place(row["high"])
    return {"bar": Bar(low, round(high - low, 3), scale.place(row["value"])), "scale": scale}


def _known(row: dict[str, Any]) -> bool:
    return None not in (row["value"], row["low"], row["high"])


@dataclass(frozen=True, slots=True)
class Step:
    """What was left after one ask, and where that lies."""

    at: str
    left_rho: float
    x: float
    y: float


def burned(asks: Sequence[Mapping[str, Any]], cap: float) -> tuple[list[Step], str]:
    """What was left of ``cap`` after each ask (oldest first) as steps, evenly apart, and the path of a line
    that goes down by them from the whole.

    >>> steps, path = burned([{"at": "a", "spent_rho": 0.25}, {"at": "b", "spent_rho": 0.5}], 1.0)
    >>> steps[-1].left_rho, path
    (0.5, 'M0 0 H200.0 V37.5 H400.0 V75.0 H600')
    """
    steps = []
    for i, ask in enumerate(asks):
        left = max(cap - ask["spent_rho"], 0.0)
        x, y = WIDE * (i + 1) / (len(asks) + 1), HIGH * (1 - (left / cap if cap else 0.0))
        steps.append(Step(ask["at"], left, round(x, 2), round(y, 2)))
    return steps, " ".join(["M0 0", *(f"H{s.x} V{s.y}" for s in steps), f"H{WIDE:g}"])


def strip(values: Sequence[dict[str, Any]], most: float) -> list[dict[str, Any]]:
    """Runs of a column's values side by side on 0 to 100, each as wide as it has values (a 40th at least),
    with what its dearest cell has paid as a part of ``most``.

    >>> [(run["x"], run["width"], run["heat"]) for run in strip([{"values": 3, "spent_rho": 0.5},
    ...     {"values": 1, "spent_rho": 0.0}], 1.0)]
    [(0.0, 75.0, 0.5), (75.0, 25.0, 0.0)]
    """
    widths = [max(run["values"], sum(r["values"] for r in values) / 40) for run in values]
    whole = sum(widths)
    starts = [0.0, *accumulate(widths)]
    return [
        {
            **run,
            "x": round(100 * start / whole, 3),
            "width": round(100 * width / whole, 3),
            "heat": round(min(run["spent_rho"] / most, 1.0), 4) if most else 0.0,
        }
        for run, start, width in zip(values, starts, widths, strict=False)
    ]
