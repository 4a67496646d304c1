"""The course of a comparison: what was spent and met after each ask."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from defray.charts import Figure
from defray.simulate.figures.rows import (
    Row,
    Rows,
    listed,
    policies,
    rounded,
    short,
    tips,
    value,
)

FROM_SCRATCH: Final = ("SA", "AC", "BP")
"""The comparators that price every ask from scratch (paper, Definitions 2 to 4)."""

RESIDUAL: Final = ("reuse-only", "paper", "greedy", "refuse", "fluid", "dual")
"""Who stands for the residual allocator beside them: the first of these that took part."""

MARKERS: Final = 8
"""Shapes along a line."""

PLACES: Final = 11
"""Rows of a table."""


@dataclass(frozen=True, slots=True)
class Course:
    """A column of the series, and what its axis is called."""

    column: str
    axis: str


SPENT: Final = Course("spent", "Spent so far (rho)")
MET: Final = Course("satisfied", "Targets met so far (asks)")


def spend(series: Rows, names: Sequence[str], rho: float) -> Figure | None:
    """What each scheme has spent, against the budget."""
    last = _last(series)
    if not last:
        return None
    most = max(last, key=lambda n: last[n]["spent"])
    full = 0.99 * rho
    emptied = {
        name: next(r["t"] for r in series if r["scheme"] == name and r["spent"] >= full)
        for name in last
        if last[name]["spent"] >= full
    }
    if emptied:
        first = min(emptied, key=lambda n: emptied[n])
        after = f"after {emptied[first]:,} of {last[first]['t']:,} asks"
        title = f"{len(emptied)} of {len(last)} policies use up the budget; {short(first)} first, {after}"
        if len(last) == 1:
            title = f"{short(first)} uses up the budget {after}"
    else:
        share = value(100 * last[most]["spent"] / rho)
        title = f"The budget is not used up: {short(most)} spends most, {share} % of it"
    near = last[most]["spent"] >= 0.3 * rho
    where = "The dashed line is the budget" if near else "The budget lies above the chart"
    return Figure(
        name="spend",
        title=title,
        summary=f"Spending in rho after each ask, one line a policy{_band(series, SPENT)}. "
        f"{where}, {value(rho)} rho.",
        spec=_lines(series, names, SPENT, _budget(rho) if near else []),
        **_table(series, names, SPENT),
    )


def satisfied(series: Rows, names: Sequence[str]) -> Figure | None:
    """How many targets each scheme has met."""
    last = _last(series)
    if not last:
        return None
    counts = {name: float(row["satisfied"]) for name, row in last.items()}
    asks = max(row["t"] for row in last.values())
    high, low = max(counts.values()), min(counts.values())
    best = listed(name for name in counts if counts[name] == high)
    title = f"{best}: {high:,.4g} of {asks:,} targets met"
    if low < high:
        worst = listed(name for name in counts if counts[name] == low)
        title = f"Most targets are met by {best}: {high:,.4g} of {asks:,}; fewest by {worst}: {low:,.4g}"
    return Figure(
        name="satisfied",
        title=title,
        summary=f"Asks whose target was met, one line a policy{_band(series, MET)}. "
        "The dashed diagonal would be every ask.",
        spec=_lines(series, names, MET, _every_ask(asks)),
        **_table(series, names, MET),
    )


def separation(series: Rows, names: Sequence[str]) -> Figure | None:
    """What is spent by who prices from scratch, against the residual allocator (paper, section 6.1)."""
    last = _last(series)
    scratch = [name for name in FROM_SCRATCH if name in last]
    credit = next((name for name in RESIDUAL if name in last), None)
    if not scratch or credit is None:
        return None
    prices: dict[str, float] = {name: _price(last[name]) for name in (credit, *scratch)}
    kept = [row for row in series if row["scheme"] in prices]
    return Figure(
        name="separation",
        title=_dearer(prices, credit),
        summary=f"Spending of the policies that price every ask from scratch, and of {credit}, which credits "
        f"what earlier answers say{_band(kept, SPENT)}.",
        spec=_lines(kept, names, SPENT, []),
        **_table(kept, names, SPENT),
    )


def _price(row: Row) -> float:
    """Rho of a met target."""
    return float(row["spent"]) / row["satisfied"] if row["satisfied"] else math.inf


def _dearer(prices: dict[str, float], credit: str) -> str:
    own = prices[credit]
    others = {name: price for name, price in prices.items() if name != credit}
    if not 0 < own < math.inf:
        return f"Spending with credit ({credit}) and from scratch"
    ratios: dict[str, list[str]] = {}
    for name, price in others.items():
        words = f"{value(price / own)} times that" if price < math.inf else "no target is met"
        ratios.setdefault(words, []).append(name)
    each = ", ".join(f"{words} under {listed(alike)}" for words, alike in ratios.items())
    return f"A met target costs {value(own)} rho with credit ({credit}), {each}"


# -- drawing -----------------------------------------------------------------------------------------


def _lines(
    series: Rows, names: Sequence[str], course: Course, more: list[dict[str, Any]]
) -> dict[str, Any]:
    """A line a scheme, with its 10-90 % band and a few shapes along it."""
    column, low, high = course.column, f"{course.column}_low", f"{course.column}_high"
    fields = ("scheme", "t", column, low, high)
    rows = [{field: rounded(row[field]) for field in fields} for row in series]
    present = _present(rows, names)
    code = policies(names, present)
    y = {"field": column, "type": "quantitative", "title": course.axis}
    told = {"scheme": "policy", "t": "asks so far", column: course.axis,
            low: "10 % of seeds are below", high: "90 % of seeds are below"}  # fmt: skip
    layers: list[dict[str, Any]] = [
        {
            "mark": {"type": "line", "strokeWidth": 2},
            "encoding": {"y": y, "color": code["color"], "strokeDash": code["strokeDash"]},
        },
        {
            "data": {"values": _marked(rows, present)},
            "mark": {"type": "point", "filled": True, "size": 50, "opacity": 1},
            "encoding": {
                "y": y,
                "color": code["color"],
                "shape": code["shape"],
                "tooltip": tips(told),
            },
        },
    ]
    if _varies(rows, course):
        band = {"y": {**y, "field": low}, "y2": {"field": high}, "color": code["color"]}
        faint = min(0.18, 0.5 / len(present))
        layers.insert(0, {"mark": {"type": "area", "opacity": faint}, "encoding": band})
    x = {"field": "t", "type": "quantitative", "title": "Asks so far"}
    return {
        "data": {"values": rows},
        "height": 320,
        "encoding": {"x": x},
        "layer": [*more, *layers],
    }


def _marked(rows: Rows, present: Sequence[str]) -> list[Row]:
    """A few rows of every scheme, at places that differ from scheme to scheme."""
    marked: list[Row] = []
    for i, name in enumerate(present):
        own = [row for row in rows if row["scheme"] == name]
        step = max(1, len(own) // MARKERS)
        marked += own[step * (i + 1) // (len(present) + 1) :: step]
    return marked


def _budget(rho: float) -> list[dict[str, Any]]:
    y = {"field": SPENT.column, "type": "quantitative", "title": SPENT.axis}
    data = {"values": [{SPENT.column: rho, "words": "budget"}]}
    text = {"type": "text", "align": "left", "baseline": "bottom", "dx": 4, "dy": -3}
    return [
        {
            "data": data,
            "mark": {"type": "rule", "strokeDash": [6, 4]},
            "encoding": {"x": None, "y": y},
        },
        {
            "data": data,
            "mark": text,
            "encoding": {"x": {"value": 0}, "y": y, "text": {"field": "words", "type": "nominal"}},
        },
    ]


def _every_ask(asks: int) -> list[dict[str, Any]]:
    y = {"field": MET.column, "type": "quantitative", "title": MET.axis}
    return [
        {
            "data": {"values": [{"t": 0, MET.column: 0}, {"t": asks, MET.column: asks}]},
            "mark": {"type": "line", "strokeDash": [4, 4], "strokeWidth": 1},
            "encoding": {"y": y},
        }
    ]


# -- telling -----------------------------------------------------------------------------------------


def _table(series: Rows, names: Sequence[str], course: Course) -> dict[str, Any]:
    """Columns and rows: the means at some places, a column a scheme."""
    present = _present(series, names)
    means = {(row["scheme"], row["t"]): row[course.column] for row in series}
    places = sorted({row["t"] for row in series})
    last = len(places) - 1
    told = [places[i] for i in sorted({round(last * k / (PLACES - 1)) for k in range(PLACES)})]
    return {
        "columns": ("asks so far", *present),
        "rows": tuple((t, *(means.get((name, t)) for name in present)) for t in told),
    }


def _present(rows: Rows, names: Sequence[str]) -> list[str]:
    there = {row["scheme"] for row in rows}
    return [name for name in names if name in there]


def _last(series: Rows) -> dict[str, Row]:
    """The last row of every scheme."""
    last: dict[str, Row] = {}
    for row in series:
        if row["scheme"] not in last or row["t"] >= last[row["scheme"]]["t"]:
            last[row["scheme"]] = row
    return last


def _varies(rows: Rows, course: Course) -> bool:
    return any(row[f"{course.column}_low"] != row[f"{course.column}_high"] for row in rows)


def _band(rows: Rows, course: Course) -> str:
    return ": the mean over seeds, and its 10-90 % band" if _varies(rows, course) else ""
