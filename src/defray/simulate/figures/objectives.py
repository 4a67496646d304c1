"""Policies beside each other: one objective, or two at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from defray.charts import Figure
from defray.simulate.figures.rows import (
    Rows,
    heading,
    listed,
    policies,
    quiet,
    seeds,
    summaries,
    tips,
    value,
)


@dataclass(frozen=True, slots=True)
class Objective:
    """A column of the totals: how it is written on an axis, whether more or less of it is better, and how the
    best and the last policies are told."""

    column: str
    slug: str
    axis: str
    more: bool
    best: str
    last: str = "last: {names}, {value}"
    level: tuple[float, str] | None = (1.0, "offline optimum")


TARGETS: Final = Objective(
    column="nsat_ratio",
    slug="targets-met",
    axis="Targets met (share of the offline optimum)",
    more=True,
    best="Nearest to the offline optimum in targets met: {names}, {value} of it",
)
WEIGHTED: Final = Objective(
    column="jw_ratio",
    slug="weighted-shortfall",
    axis="Weighted squared shortfall (times the offline optimum)",
    more=False,
    best="Least weighted shortfall: {names}, {value} times the offline optimum",
)
OBJECTIVES: Final = (
    TARGETS,
    WEIGHTED,
    Objective(
        column="j1_ratio",
        slug="squared-shortfall",
        axis="Squared shortfall (times the offline optimum)",
        more=False,
        best="Least squared shortfall: {names}, {value} times the offline optimum",
    ),
    Objective(
        column="cost_ratio",
        slug="competitive-ratio",
        axis="Rho spent (times the offline cost of all targets)",
        more=False,
        best="Least spent: {names}, {value} times what all targets cost offline",
        last="most: {names}, {value} times",
        level=(1.0, "all targets, offline"),
    ),
    Objective(
        column="relerr",
        slug="relative-error",
        axis="Mean relative error (no answer counts as 1)",
        more=False,
        best="Smallest mean relative error: {names}, {value}",
        level=None,
    ),
)


def ratio(totals: Rows, names: Sequence[str], objective: Objective) -> Figure | None:
    """One objective by policy: the mean over seeds, and from 10 to 90 %; the best comes first."""
    found = summaries(totals, names, objective.column)
    if not found:
        return None
    found.sort(key=lambda row: row["mean"], reverse=objective.more)
    title = _told(objective.best, found, found[0]["mean"])
    if not _alike(found[0]["mean"], found[-1]["mean"]):
        title = f"{title}; {_told(objective.last, found, found[-1]['mean'])}"
    summary = f"{objective.axis}, by policy; {'more' if objective.more else 'less'} is better"
    if objective.column == "cost_ratio":
        summary += " where as many targets are met"
    if any(row["low"] != row["high"] for row in found):
        summary += f". Means over {len(seeds(totals))} seeds; bars reach from 10 to 90 % of them"
    return Figure(
        name=objective.slug,
        title=title,
        summary=summary + ".",
        spec=dots(found, names, objective.axis, objective.level),
        columns=("policy", "mean", "10 %", "90 %"),
        rows=tuple((row["scheme"], row["mean"], row["low"], row["high"]) for row in found),
    )


def _told(words: str, found: Rows, mean: float) -> str:
    names = [row["scheme"] for row in found if _alike(row["mean"], mean)]
    alike = "all policies" if len(names) == len(found) > 1 else listed(names, most=3)
    return words.format(names=alike, value=value(mean))


def _alike(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-9)


def dots(
    found: Rows, names: Sequence[str], axis: str, level: tuple[float, str] | None
) -> dict[str, Any]:
    """Dots with bars, one line a policy, in the order of the rows; ``level`` is a value to compare with."""
    rows = [{**row, "label": value(row["mean"])} for row in found]
    code = quiet(policies(names, names))
    x = {"type": "quantitative", "title": heading(axis),
         "scale": _scale([row[end] for row in found for end in ("low", "high")])}  # fmt: skip
    y = {"field": "scheme", "type": "nominal", "title": None, "sort": [r["scheme"] for r in found],
         "axis": {"grid": True, "domain": False, "ticks": False, "labelPadding": 6}}  # fmt: skip
    told = {"scheme": "policy", "mean": "mean", "low": "10 %", "high": "90 %"}
    marks = [
        {
            "mark": {"type": "rule", "strokeWidth": 2},
            "encoding": {"x": {**x, "field": "low"}, "x2": {"field": "high"}, "color": code["color"]},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 90, "opacity": 1},
            "encoding": {"x": {**x, "field": "mean"}, "color": code["color"], "shape": code["shape"],
                         "tooltip": tips(told)},
        },
        {
            "mark": {"type": "text", "align": "left", "dx": 9, "baseline": "middle"},
            "encoding": {"x": {**x, "field": "high"}, "text": {"field": "label", "type": "nominal"}},
        },
    ]  # fmt: skip
    under = [] if level is None else _level(level, x)
    return {
        "data": {"values": rows},
        "height": 24 * len(rows),
        "encoding": {"y": y},
        "layer": [*under, *marks],
    }


def _level(level: tuple[float, str], x: Mapping[str, Any]) -> list[dict[str, Any]]:
    data = {"values": [{"level": level[0], "words": level[1]}]}
    place = {**x, "field": "level"}
    return [
        {
            "data": data,
            "mark": {"type": "rule", "strokeDash": [6, 4]},
            "encoding": {"x": place, "y": None},
        },
        {
            "data": data,
            "mark": {"type": "text", "baseline": "bottom", "dy": -4},
            "encoding": {
                "x": place,
                "y": {"value": 0},
                "text": {"field": "words", "type": "nominal"},
            },
        },
    ]


def _scale(values: Sequence[float]) -> dict[str, Any]:
    """Logarithmic where values span more than a factor of 30; with room at its ends."""
    log = min(values) > 0 and max(values) / min(values) > 30
    return {"type": "log" if log else "linear", "zero": False, "nice": False, "padding": 24}


def pareto(totals: Rows, names: Sequence[str], across: Objective, up: Objective) -> Figure | None:
    """Two objectives at once; on the front is who is not beaten in both."""
    a = {row["scheme"]: row["mean"] for row in summaries(totals, names, across.column)}
    b = {row["scheme"]: row["mean"] for row in summaries(totals, names, up.column)}
    both = [name for name in names if name in a and name in b]
    if len(both) < 2:
        return None
    worth = {n: (a[n] if across.more else -a[n], b[n] if up.more else -b[n]) for n in both}
    front = sorted(undominated(worth), key=lambda n: (a[n], b[n]))
    rows = [
        {"scheme": n, "across": a[n], "up": b[n], "front": "yes" if n in front else "no"}
        for n in both
    ]
    title = f"Best in both: {listed(front)}"
    if len({worth[n] for n in front}) > 1:
        title = f"No policy is best in both: {len(front)} of {len(both)} are on the front, {listed(front)}"
    good = f"{'right' if across.more else 'left'} and {'up' if up.more else 'down'}"
    return Figure(
        name="pareto",
        title=title,
        summary=f"Each mark is a policy, the mean over seeds; better is {good}. The dashed line joins the "
        "front: those that no other policy beats in both.",
        spec=_scatter(rows, names, front, across, up),
        columns=("policy", across.axis, up.axis, "on the front"),
        rows=tuple((row["scheme"], row["across"], row["up"], row["front"]) for row in rows),
    )


def undominated(worth: Mapping[str, tuple[float, float]]) -> list[str]:
    """Whose pair nobody equals or exceeds in both and exceeds in one.

    >>> undominated({"a": (1, 2), "b": (2, 1), "c": (1, 1)})
    ['a', 'b']
    """
    return [
        name
        for name, (x, y) in worth.items()
        if not any(u >= x and v >= y and (u, v) != (x, y) for u, v in worth.values())
    ]


def _scatter(
    rows: Rows, names: Sequence[str], front: Sequence[str], across: Objective, up: Objective
) -> dict[str, Any]:
    code = policies(names, [row["scheme"] for row in rows])
    x = {"field": "across", "type": "quantitative", "title": heading(across.axis),
         "scale": _scale([row["across"] for row in rows])}  # fmt: skip
    y = {"field": "up", "type": "quantitative", "title": heading(up.axis),
         "scale": _scale([row["up"] for row in rows])}  # fmt: skip
    told = {"scheme": "policy", "across": across.axis, "up": up.axis, "front": "on the front"}
    line = [row for name in front for row in rows if row["scheme"] == name]
    return {
        "data": {"values": list(rows)},
        "height": 340,
        "encoding": {"x": x, "y": y},
        "layer": [
            {
                "data": {"values": line},
                "mark": {"type": "line", "strokeDash": [4, 4], "strokeWidth": 1},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 110, "opacity": 0.9},
                "encoding": {"color": code["color"], "shape": code["shape"],
                             "tooltip": tips(told, ("scheme", "front"))},
            },
        ],
    }  # fmt: skip
