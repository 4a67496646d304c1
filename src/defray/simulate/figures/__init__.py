"""What a comparison found, as figures: rows in; a Vega-Lite spec, its finding and its numbers out.

Every function is pure.  ``names`` are the schemes in one order for all figures, so that each keeps its
colour; a function returns None where its rows hold nothing to draw.
"""

from __future__ import annotations

from collections.abc import Mapping

from defray.charts import Figure
from defray.simulate.figures.course import satisfied, separation, spend
from defray.simulate.figures.diagnostics import amortisation
from defray.simulate.figures.difficulty import shortfall
from defray.simulate.figures.objectives import (
    OBJECTIVES,
    TARGETS,
    WEIGHTED,
    Objective,
    pareto,
    ratio,
)
from defray.simulate.figures.rows import Rows
from defray.simulate.results import Results

__all__ = [
    "OBJECTIVES",
    "TARGETS",
    "WEIGHTED",
    "Objective",
    "amortisation",
    "figures",
    "pareto",
    "ratio",
    "satisfied",
    "schemes",
    "separation",
    "shortfall",
    "spend",
]


def figures(results: Results, extra: Mapping[str, Rows] | None = None) -> tuple[Figure, ...]:
    """All figures there are rows for.  ``extra["amortisation"]`` holds rows of :func:`amortisation`."""
    names = schemes(results)
    totals = results.totals
    curve = (extra or {}).get("amortisation", ())
    drawn = [
        spend(results.series, names, results.rho),
        satisfied(results.series, names),
        *(ratio(totals, names, objective) for objective in OBJECTIVES),
        pareto(totals, names, WEIGHTED, TARGETS),
        shortfall(results.asks, names),
        separation(results.series, names),
        amortisation(totals, curve, results.xi * results.rho),
    ]
    return tuple(figure for figure in drawn if figure is not None)


def schemes(results: Results) -> tuple[str, ...]:
    """Every scheme that took part, in the order of the rows."""
    tables = (results.totals, results.series, results.asks)
    return tuple(dict.fromkeys(str(row["scheme"]) for table in tables for row in table))
