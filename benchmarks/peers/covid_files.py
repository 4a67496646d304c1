"""Counts over the product of some categorical attributes, from their files: a pool of predicates, an order of
arrivals, and (where errors are to be measured) the counts of every cell."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.files import number, records, wrong

Floats = NDArray[np.float64]

SIZES = (2, 2, 4, 8)
"""Positive, gender, age, ethnicity."""

CELLS = 1024
ATTRIBUTES = 64
"""More are not read."""

Chosen = Mapping[int, tuple[int, ...]]
"""Of each attribute that is restricted, the values that count."""


@dataclass(frozen=True, slots=True)
class Predicate:
    """Count the rows with the ``chosen`` values, within ``utility`` (a part of the table's rows) but for a
    probability of ``beta``."""

    chosen: Chosen
    utility: float
    beta: float

    def over(self, sizes: Sequence[int]) -> Floats:
        """One weight a cell, in row-major order.

        >>> Predicate({1: (0, 2)}, 0.05, 0.001).over((2, 3)).tolist()
        [1.0, 0.0, 1.0, 1.0, 0.0, 1.0]
        """
        q = np.ones(1)
        for axis, size in enumerate(sizes):
            some = np.ones(size)
            if axis in self.chosen:
                some[:] = 0
                some[list(self.chosen[axis])] = 1
            q = np.kron(q, some)
        return q


def pool(path: Path) -> dict[str, Predicate]:
    """By ``query_id``."""
    out: dict[str, Predicate] = {}
    for line, record in records(path, ("query_id", "query", "utility", "utility_beta")):
        utility, beta = (number(path, line, record, name) for name in ("utility", "utility_beta"))
        if not 0 < utility < 1 or not 0 < beta < 1:
            raise wrong(path, "utility and utility_beta lie between 0 and 1", line=line)
        name = record["query_id"]
        if name in out:
            raise wrong(path, f"a second query_id {name}", line=line)
        out[name] = Predicate(_chosen(path, line, record["query"]), utility, beta)
    if not out:
        raise wrong(path, "holds no predicate")
    return out


def _chosen(path: Path, line: int, query: str) -> Chosen:
    problem = f"query is {query[:60]!r}"
    hint = "a mapping of attribute numbers to a value or a list of values: {'0': 1, '2': [0, 3]}"
    try:
        read: Any = ast.literal_eval(query)
    except (ValueError, SyntaxError, RecursionError, MemoryError) as failed:
        raise wrong(path, problem, hint, line) from failed
    if not isinstance(read, dict):
        raise wrong(path, problem, hint, line)
    out: dict[int, tuple[int, ...]] = {}
    for key, found in read.items():
        values = list(found) if isinstance(found, (list, tuple)) else [found]
        if not str(key).isdecimal() or not all(type(v) is int and v >= 0 for v in values):
            raise wrong(path, problem, hint, line)
        if int(key) >= ATTRIBUTES:
            raise wrong(path, problem, hint, line)
        out[int(key)] = tuple(values)
    return out


def order(path: Path, known: Mapping[str, Predicate], limit: int | None) -> list[str]:
    """The query_ids of the arrivals, at most ``limit``."""
    out: list[str] = []
    for line, record in records(path, ("query_id",)):
        if limit is not None and len(out) == limit:
            break
        if record["query_id"] not in known:
            raise wrong(path, f"query_id {record['query_id']!r} is not in the pool", line=line)
        out.append(record["query_id"])
    if not out:
        raise wrong(path, "holds no arrival")
    return out


def shape(path: Path, predicates: Mapping[str, Predicate], given: Sequence[int]) -> tuple[int, ...]:
    """The sizes of the attributes: those given, or else :data:`SIZES` where the pool keeps to them, or else
    as many values as the pool mentions."""
    seen: dict[int, int] = {}
    for predicate in predicates.values():
        for axis, values in predicate.chosen.items():
            seen[axis] = max(seen.get(axis, 1), *(v + 1 for v in values), 1)
    mentioned = tuple(seen.get(axis, 1) for axis in range(max(seen, default=-1) + 1))
    if prod(mentioned) > CELLS:
        raise wrong(path, f"mentions more than {CELLS:,} cells", "a pool over fewer attributes")
    sizes = tuple(given) or (SIZES if _within(mentioned, SIZES) else mentioned)
    if prod(sizes) > CELLS:
        raise wrong(path, f"{prod(sizes):,} cells are too many", f"at most {CELLS:,} are read")
    if not _within(mentioned, sizes):
        raise wrong(path, f"mentions values beyond {' x '.join(map(str, sizes))} cells")
    return sizes or (1,)


def _within(mentioned: Sequence[int], sizes: Sequence[int]) -> bool:
    return len(mentioned) <= len(sizes) and all(
        m <= n for m, n in zip(mentioned, sizes, strict=False)
    )


def block(path: Path) -> NDArray[np.int64]:
    """The counts of one table: the first block of a file with one axis for blocks and one for each
    attribute."""
    try:
        counts = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as failed:
        raise wrong(path, "not an array of counts", "a .npy file: block x attributes") from failed
    if not isinstance(counts, np.ndarray) or counts.ndim < 2 or counts.dtype.kind not in "iuf":
        raise wrong(path, "not an array of counts", "a .npy file: block x attributes")
    if not counts.size or not (np.isfinite(counts).all() and (counts >= 0).all()):
        raise wrong(path, "holds counts that are no counts", "none is negative, and there are some")
    first = counts[0]
    if not first.sum() or first.size > CELLS or (first != np.rint(first)).any():
        raise wrong(path, f"the first block is no table of at most {CELLS:,} cells")
    return first.astype(np.int64)
