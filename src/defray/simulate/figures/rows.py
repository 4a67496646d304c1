"""Rows of a comparison, summed up; and the words for them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from defray.charts import coded, shown
from defray.core.brief import brief

Row = Mapping[str, Any]
Rows = Sequence[Row]
Encoding = dict[str, dict[str, Any]]


def summaries(rows: Rows, names: Sequence[str], column: str) -> list[dict[str, Any]]:
    """Mean and 10-90 % of a column, of every scheme with finite values of it alone."""
    out = []
    for name in names:
        own = [row.get(column) for row in rows if row["scheme"] == name]
        values = [float(v) for v in own if v is not None and math.isfinite(v)]
        if values and len(values) == len(own):
            low, high = (float(q) for q in np.quantile(values, (0.1, 0.9)))
            out.append({"scheme": name, "mean": float(np.mean(values)), "low": low, "high": high})
    return out


def seeds(rows: Rows) -> set[int]:
    return {row["seed"] for row in rows}


def mean(rows: Rows, column: str) -> float:
    return sum(float(row[column]) for row in rows) / len(rows)


def rounded(value: Any) -> Any:
    """Six digits are more than a picture shows; the CSV files have them all."""
    return float(f"{value:.6g}") if isinstance(value, float) else value


def policies(names: Sequence[str], present: Sequence[str]) -> Encoding:
    """The look of every scheme, and a legend of those that are present."""
    code = coded("scheme", "policy", names)
    for channel in code.values():
        channel["legend"] = {"values": [name for name in names if name in present]}
    return code


def quiet(code: Encoding) -> Encoding:
    """The same look without a legend."""
    return {channel: {**spec, "legend": None} for channel, spec in code.items()}


def tips(fields: Mapping[str, str], words: Sequence[str] = ("scheme",)) -> list[dict[str, str]]:
    """What a mark tells when it is pointed at."""
    return [
        {"field": field, "type": "nominal", "title": title}
        if field in words
        else {"field": field, "type": "quantitative", "title": title, "format": ".4~g"}
        for field, title in fields.items()
    ]


def heading(axis: str) -> str | list[str]:
    """The title of an axis; its unit on a line of its own where one line is too long for a phone.

    >>> heading("Targets met (asks)"), heading("Weighted squared shortfall (times the optimum)")
    ('Targets met (asks)', ['Weighted squared shortfall', '(times the optimum)'])
    """
    name, bracket, unit = axis.partition(" (")
    return [name, f"({unit}"] if bracket and len(axis) > 40 else axis


def value(x: float) -> str:
    """Three digits, for titles and labels."""
    return shown(x, 3)


def short(name: str) -> str:
    return brief(name, 30)


def listed(names: Iterable[str], most: int = 4) -> str:
    """
    >>> listed("abc"), listed("abcdef")
    ('a, b and c', 'a, b, c and 3 more')
    """
    kept = [short(n) for n in names]
    if len(kept) > most:
        kept = [*kept[: most - 1], f"{len(kept) - most + 1} more"]
    return kept[0] if len(kept) == 1 else f"{', '.join(kept[:-1])} and {kept[-1]}"
