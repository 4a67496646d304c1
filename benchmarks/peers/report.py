"""What a benchmark found, as text, as JSON, and as one page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from defray import charts
from defray.charts import Figure, shown
from defray.errors import BadInput

NEIGHBOURS = "one row added or removed"
WIDTH = 130

Cell = str | int | float | None


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure to reach."""

    what: str
    found: float
    goal: float
    at_most: bool = True

    @property
    def met(self) -> bool:
        return self.found <= self.goal if self.at_most else self.found >= self.goal

    def __str__(self) -> str:
        sign = "<=" if self.at_most else ">="
        met = "met   " if self.met else "MISSED"
        return f"{met}  {self.what}: {shown(self.found)} {sign} {shown(self.goal)}"


@dataclass(frozen=True, slots=True)
class Section:
    """One table.  ``bars`` are what its chart shows: (group, series, value)."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    goals: tuple[Goal, ...] = ()
    bars: tuple[tuple[str, str, float], ...] = ()
    measure: str = ""
    """What the bars measure, with its unit."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "rows": [dict(zip(self.columns, row, strict=True)) for row in self.rows],
            "notes": list(self.notes),
            "goals": [
                {
                    "what": g.what,
                    "found": g.found,
                    "goal": g.goal,
                    "at_most": g.at_most,
                    "met": g.met,
                }
                for g in self.goals
            ],
        }


def show(section: Section) -> None:
    table = Table(title=section.title, title_justify="left")
    for i, name in enumerate(section.columns):
        table.add_column(name, overflow="fold", justify="left" if i == 0 else "right")
    for row in section.rows:
        table.add_row(*map(_written, row))
    console = Console(width=WIDTH)
    console.print(table)
    for line in (*section.notes, *map(str, section.goals)):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    console.print()


def _written(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, int):
        return f"{cell:,}"
    return shown(cell) if isinstance(cell, float) else cell


def finite(value: Any) -> Any:
    """As JSON: what has no number there is null."""
    if isinstance(value, Mapping):
        return {k: finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_page(path: Path, sections: Sequence[Section]) -> None:
    """One document with everything in it, that opens without a network."""
    goals = [g for s in sections for g in s.goals]
    facts = [("Neighbouring tables", NEIGHBOURS), ("Tables", str(len(sections)))]
    if goals:
        facts.append(("Goals met", f"{sum(g.met for g in goals)} of {len(goals)}"))
    drawn = charts.page("Defray beside its peers", facts, [_figure(s) for s in sections])
    try:
        path.write_text(drawn, encoding="utf-8")
    except OSError as failed:
        raise BadInput(
            f"the page cannot be written to {path} ({failed.strerror})",
            hint="name a place that can be written to",
        ) from failed


def _figure(section: Section) -> Figure:
    values = [
        {"group": group, "series": series, "value": value}
        for group, series, value in section.bars
        if math.isfinite(value) and value > 0
    ]
    series = list(dict.fromkeys(v["series"] for v in values))
    groups = list(dict.fromkeys(v["group"] for v in values))
    spec = {
        "data": {"values": values},
        "mark": {"type": "point", "filled": True, "size": 70},
        "height": {"step": 26},
        "encoding": {
            "y": {"field": "group", "type": "nominal", "title": None, "sort": groups},
            "x": {
                "field": "value",
                "type": "quantitative",
                "scale": {"type": "log"},
                "title": section.measure,
            },
            **{k: v for k, v in charts.coded("series", "", series).items() if k != "strokeDash"},
        },
    }
    goals = tuple(str(g) for g in section.goals)
    summary = " ".join([*section.notes, *goals]) or section.title
    return Figure(section.name, section.title, summary, spec, section.columns, section.rows)
