"""Shortfall against difficulty: does the weight do what it is for?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from defray.charts import Figure
from defray.simulate.figures.rows import (
    Row,
    Rows,
    mean,
    policies,
    rounded,
    short,
    tips,
    value,
)

LEAST: Final = 3
"""Asks of a mean."""


def shortfall(asks: Rows, names: Sequence[str]) -> Figure | None:
    """How far asks fall short, against their difficulty weight w (from the QIF; paper, E.1: mu / 2w).

    Only asks that needed new budget, under schemes whose weights differ."""
    needy = {name: _needy(asks, name) for name in names}
    weighed = {n: own for n, own in needy.items() if len({row["weight"] for row in own}) > 1}
    if not any(row["shortfall"] > 0 for own in weighed.values() for row in own):
        return None
    table = []
    for name, own in weighed.items():
        quarter = max(1, len(own) // 4)
        easy, hard = mean(own[:quarter], "shortfall"), mean(own[-quarter:], "shortfall")
        table.append((name, easy, hard, sum(row["shortfall"] > 0 for row in own), len(own)))
    return Figure(
        name="shortfall",
        title=_finding(table),
        summary="Each small dot is an ask of the first seed that needed budget and fell short of its target; "
        "both axes are logarithmic. Lines join the mean shortfall of the asks that needed budget, met ones "
        "included, from one doubling of the weight to the next.",
        spec=_spec(weighed, names),
        columns=(
            "policy",
            "easiest quarter, mean shortfall (rho)",
            "hardest quarter, mean shortfall (rho)",
            "asks that fall short",
            "asks that needed budget",
        ),
        rows=tuple(table),
    )


def _needy(asks: Rows, name: str) -> list[Row]:
    """The asks of a scheme that needed new budget, the easiest first."""
    own = [
        row
        for row in asks
        if row["scheme"] == name
        and (row["shortfall"] > 0 or row["granted"] > 0)
        and row["weight"] > 0
    ]
    return sorted(own, key=lambda row: float(row["weight"]))


def _finding(table: Sequence[tuple[str, float, float, int, int]]) -> str:
    if len(table) == 1:
        name, easy, hard, *_ = table[0]
        return (
            f"Under {short(name)} the hardest quarter of the asks falls {value(hard)} rho short on average, "
            f"the easiest quarter {value(easy)}"
        )
    less = sum(hard < easy for _, easy, hard, *_ in table)
    return (
        f"Under {less} of {len(table)} policies with difficulty weights, "
        "the hardest quarter of the asks falls less short than the easiest"
    )


def _spec(weighed: dict[str, list[Row]], names: Sequence[str]) -> dict[str, Any]:
    code = policies(names, list(weighed))
    room = {"type": "log", "nice": False, "padding": 8}
    x = {"field": "weight", "type": "quantitative", "scale": room, "axis": {"format": "~g"},
         "title": "Difficulty weight w (from the QIF; 1 is typical)"}  # fmt: skip
    y = {"field": "shortfall", "type": "quantitative", "scale": room, "axis": {"format": "~g"},
         "title": "Shortfall against the target (rho)"}  # fmt: skip
    fields = ("scheme", "t", "weight", "shortfall", "demand")
    told = {"scheme": "policy", "t": "ask", "weight": "weight", "shortfall": "shortfall (rho)",
            "demand": "demand (rho)"}  # fmt: skip
    short_ones = [row for own in weighed.values() for row in own if row["shortfall"] > 0]
    means = [point for name, own in weighed.items() for point in _means(name, own)]
    return {
        "data": {
            "values": [{field: rounded(row[field]) for field in fields} for row in short_ones]
        },
        "height": 340,
        "encoding": {"x": x, "y": y},
        "layer": [
            {
                "mark": {"type": "circle", "size": 16, "opacity": 0.4},
                "encoding": {"color": code["color"], "tooltip": tips(told)},
            },
            {
                "data": {"values": means},
                "mark": {"type": "line", "strokeWidth": 2},
                "encoding": {"color": code["color"], "strokeDash": code["strokeDash"]},
            },
            {
                "data": {"values": means},
                "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
                "encoding": {"color": code["color"], "shape": code["shape"]},
            },
        ],
    }


def _means(name: str, own: Rows) -> list[Row]:
    """The mean shortfall within each doubling of the weight with some asks, where a logarithm can show it."""
    bins: dict[int, list[Row]] = {}
    for row in own:
        bins.setdefault(round(math.log2(row["weight"])), []).append(row)
    return [
        {"scheme": name, "weight": 2.0**doubling, "shortfall": rounded(mean(rows, "shortfall"))}
        for doubling, rows in sorted(bins.items())
        if len(rows) >= LEAST and mean(rows, "shortfall") > 0
    ]
