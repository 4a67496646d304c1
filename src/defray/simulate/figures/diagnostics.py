"""Do diagnostics pay for themselves?  (Paper, E.4.)"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from defray.charts import Figure
from defray.simulate.figures.objectives import dots
from defray.simulate.figures.rows import Row, Rows, rounded, seeds, summaries, tips, value


def amortisation(totals: Rows, curve: Rows, pledged: float) -> Figure | None:
    """They do where the saving by overlap sigma_ov exceeds the break-even xi rho_tot / (spending of SA);
    ``pledged`` is xi rho_tot.

    ``curve`` holds rows of repeat_rate, saving and break_even (shares), and may hold saving_low and
    saving_high.  Without it ``totals`` give the saving of every scheme with diagnostics, wherever it and SA
    meet all targets."""
    return _over_repeats(curve) if curve else _by_policy(totals, pledged)


# -- over repeat rates -------------------------------------------------------------------------------


def _over_repeats(curve: Rows) -> Figure:
    fields = ("repeat_rate", "saving", "break_even", "saving_low", "saving_high")
    rows = sorted(
        ({field: rounded(row[field]) for field in fields if field in row} for row in curve),
        key=lambda row: float(row["repeat_rate"]),
    )
    paid = crossing(rows)
    if paid is None:
        title = "Diagnostics do not pay for themselves at the highest repeat rate that was tried"
    elif paid == rows[0]["repeat_rate"]:
        title = "Diagnostics pay for themselves at every repeat rate that was tried"
    else:
        title = f"Diagnostics pay for themselves once {value(100 * paid)} % of the asks are repeats"
    return Figure(
        name="amortisation",
        title=title,
        summary="The solid line is the share of the spending without credit (SA) that credit saves, by how "
        "many asks are repeats. Diagnostics pay where it lies above the dashed line: what they cost, as a "
        "share of the same spending.",
        spec=_curve(rows),
        columns=("repeats (share)", "saving (share)", "break-even (share)"),
        rows=tuple((row["repeat_rate"], row["saving"], row["break_even"]) for row in rows),
    )


def crossing(rows: Rows) -> float | None:
    """The repeat rate from which on the saving stays above the break-even.

    >>> crossing([{"repeat_rate": r, "saving": r, "break_even": 0.25} for r in (0.0, 0.5, 1.0)])
    0.25
    """
    above = [float(row["saving"]) - float(row["break_even"]) for row in rows]
    if above[-1] <= 0:
        return None
    below = max((i for i, x in enumerate(above) if x <= 0), default=-1)
    if below < 0:
        return float(rows[0]["repeat_rate"])
    left, right = float(rows[below]["repeat_rate"]), float(rows[below + 1]["repeat_rate"])
    return left + (right - left) * -above[below] / (above[below + 1] - above[below])


def _curve(rows: Sequence[Row]) -> dict[str, Any]:
    share = {"type": "quantitative", "axis": {"format": ".0%"}}
    x = {**share, "field": "repeat_rate", "title": "Asks that repeat an earlier one (share)"}
    y = {**share, "title": "Share of the spending without credit"}
    told = {"repeat_rate": "repeats", "saving": "saving", "break_even": "break-even"}
    layers: list[dict[str, Any]] = []
    if all("saving_low" in row and "saving_high" in row for row in rows):
        band = {"y": {**y, "field": "saving_low"}, "y2": {"field": "saving_high"}}
        layers.append({"mark": {"type": "area", "opacity": 0.15}, "encoding": band})
    for column, words, dash, dy in (
        ("saving", "saving by credit", [1, 0], -14),
        ("break_even", "break-even", [6, 4], 14),
    ):
        place = {"y": {**y, "field": column}}
        layers.append(
            {"mark": {"type": "line", "strokeDash": dash, "strokeWidth": 2}, "encoding": place}
        )
        layers.append({
            "data": {"values": [{**rows[-1], "words": words}]},
            "mark": {"type": "text", "align": "right", "dy": dy},
            "encoding": {**place, "text": {"field": "words", "type": "nominal"}},
        })  # fmt: skip
    layers.append({
        "mark": {"type": "point", "filled": True, "size": 50, "opacity": 1},
        "encoding": {"y": {**y, "field": "saving"}, "tooltip": tips(told)},
    })  # fmt: skip
    return {
        "data": {"values": list(rows)},
        "height": 300,
        "encoding": {"x": x},
        "layer": layers,
    }


# -- by policy ---------------------------------------------------------------------------------------


def _by_policy(totals: Rows, pledged: float) -> Figure | None:
    complete = [row for row in totals if row["satisfied"] == row["asked"]]
    scratch = {row["seed"]: float(row["spent"]) for row in complete if row["scheme"] == "SA"}
    rows = [
        {
            "scheme": row["scheme"],
            "seed": row["seed"],
            "saving": 1 - (row["spent"] - row["diagnostic"]) / scratch[row["seed"]],
        }
        for row in complete
        if row["diagnostic"] > 0 and scratch.get(row["seed"], 0) > 0
    ]
    names = tuple(dict.fromkeys(str(row["scheme"]) for row in totals))
    found = summaries(rows, names, "saving")
    if not found or pledged <= 0:
        return None
    even = sum(pledged / scratch[seed] for seed in seeds(rows)) / len(seeds(rows))
    found.sort(key=lambda row: row["mean"], reverse=True)
    paid = sum(row["mean"] > even for row in found)
    return Figure(
        name="amortisation",
        title=f"Diagnostics pay for themselves under {paid} of {len(found)} policies that buy them",
        summary="The mean share of the spending without credit (SA) that credit saves, where both meet every "
        f"target. Diagnostics pay right of the dashed line, the break-even at {value(even)}.",
        spec=dots(
            found, names, "Saving by credit (share of the spending of SA)", (even, "break-even")
        ),
        columns=("policy", "saving (share)", "10 %", "90 %", "break-even (share)"),
        rows=tuple((row["scheme"], row["mean"], row["low"], row["high"], even) for row in found),
    )
