"""Ranges on numeric columns of a table, from its files: declared domains, a table, questions in order.

Each numeric column is cut into equal bins over its declared domain.  A question counts the rows in [lb, ub);
the bins that it touches count as whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers import plain_yaml
from benchmarks.peers.files import number, positive, records, rows, text, wrong

Floats = NDArray[np.float64]

BINS = 50
QUESTION = ("attribute", "lb", "ub", "target_variance")


@dataclass(frozen=True, slots=True)
class Span:
    """A numeric column's declared domain, both ends in it."""

    low: float
    high: float

    def touched(self, start: float, end: float, bins: int) -> tuple[int, int]:
        """The bins [a, b) that [start, end) touches, at least one.

        >>> Span(0, 100).touched(10, 14, 50), Span(0, 100).touched(11, 14.5, 50), Span(0, 1).touched(9, 9, 50)
        ((5, 7), (5, 8), (49, 50))
        """
        width = (self.high - self.low) / bins
        first = min(max(0, math.floor((start - self.low) / width)), bins - 1)
        return first, min(max(math.ceil((end - self.low) / width), first + 1), bins)

    def counts(self, values: Floats, bins: int) -> Floats:
        """Rows in each bin; values outside the domain are in none."""
        inside = values[(values >= self.low) & (values <= self.high)]
        at = np.floor((inside - self.low) / (self.high - self.low) * bins).astype(int)
        return np.bincount(np.minimum(at, bins - 1), minlength=bins).astype(float)


@dataclass(frozen=True, slots=True)
class Question:
    """A count of [lb, ub) of a column, answered with at most this variance."""

    attribute: str
    low: float
    high: float
    variance: float


@dataclass(frozen=True, slots=True)
class Declared:
    """The columns of a table in their order; a span for each that is numeric."""

    names: tuple[str, ...]
    spans: Mapping[str, Span]


def questions(path: Path) -> list[Question]:
    """In the order of the file."""
    out = []
    for line, record in records(path, QUESTION):
        low, high = number(path, line, record, "lb"), number(path, line, record, "ub")
        if low > high:
            raise wrong(path, f"lb {low:g} is above ub {high:g}", line=line)
        variance = positive(path, line, record, "target_variance")
        out.append(Question(record["attribute"], low, high, variance))
    if not out:
        raise wrong(path, "holds no question")
    return out


def declared(path: Path, asked: Iterable[str]) -> Declared:
    """The first declared table that has all asked columns, with a span for each of these."""
    try:
        tree = plain_yaml.read(text(path))
    except plain_yaml.NotPlain as failed:
        raise wrong(path, failed.problem, "domains are plain YAML", line=failed.line) from failed
    except RecursionError as failed:
        raise wrong(path, "nested too deeply") from failed
    names = list(dict.fromkeys(asked))
    tables = [t for t in map(_table, _tables(tree)) if t]
    if not tables:
        raise wrong(
            path, "declares no table", "databases: - tables: - columns: - name, type, lb, ub"
        )
    nearest = max(tables, key=lambda t: sum(name in t for name in names))
    absent = [name for name in names if name not in nearest]
    if absent:
        raise wrong(path, f"declares no column {absent[0]!r} beside the others that are asked")
    return Declared(tuple(nearest), {name: _span(path, name, nearest[name]) for name in names})


def _tables(tree: Any) -> list[Any]:
    """Wherever columns are listed."""
    if isinstance(tree, list):
        return [found for part in tree for found in _tables(part)]
    if isinstance(tree, dict):
        own = [tree["columns"]] if "columns" in tree else []
        return own + [t for key, part in tree.items() if key != "columns" for t in _tables(part)]
    return []


def _table(columns: Any) -> dict[str, dict[str, Any]]:
    listed = columns if isinstance(columns, list) else []
    return {c["name"]: c for c in listed if isinstance(c, dict) and isinstance(c.get("name"), str)}


def _span(path: Path, name: str, column: Mapping[str, Any]) -> Span:
    try:
        low, high = float(column["lb"]), float(column["ub"])
    except (KeyError, TypeError, ValueError) as failed:
        raise wrong(
            path, f"column {name!r} has no bounds", "declare lb and ub, numbers"
        ) from failed
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise wrong(path, f"column {name!r} has lb {low:g} and ub {high:g}", "lb is below ub")
    return Span(low, high)


def counts(path: Path, domains: Declared, bins: int = BINS) -> dict[str, Floats]:
    """Counts of the bins of every column that has a span."""
    read = values(path, domains)
    return {name: span.counts(read[name], bins) for name, span in domains.spans.items()}


def values(path: Path, domains: Declared) -> dict[str, Floats]:
    """The values of every column that has a span.  The table's columns are those of the domains, in their
    order; a header may name them instead, in any order.  An absent value (empty, ``?``) is left out."""
    places: Sequence[int] | None = None
    found: dict[str, list[float]] = {name: [] for name in domains.spans}
    width = 0
    for line, row in rows(path):
        if places is None:
            headed = set(domains.spans) <= set(row)
            if not headed and len(row) != len(domains.names):
                raise wrong(
                    path,
                    f"{len(row)} columns, where {len(domains.names)} are declared and none is named",
                    "give the file a header, or the declared columns in their order",
                    line=line,
                )
            names = row if headed else list(domains.names)
            places, width = [names.index(name) for name in found], len(row)
            if headed:
                continue
        if len(row) != width:
            raise wrong(path, f"{len(row)} cells, where the first line has {width}", line=line)
        for name, at in zip(found, places, strict=True):
            if row[at] not in ("", "?"):
                found[name].append(number(path, line, {name: row[at]}, name))
    if not any(found.values()):
        raise wrong(path, "holds no row with a value that is asked about")
    return {name: np.array(column) for name, column in found.items()}
