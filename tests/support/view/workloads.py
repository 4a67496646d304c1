"""Questions over the cells of a view, and what happens when they are asked in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from defray.support.view.metric import Metric, metric
from defray.support.view.offer import Free, Offer, offer
from defray.support.view.promise import Promise
from defray.support.view.state import Row, State

Floats = NDArray[np.float64]

N_MAX = 1e5
Z = 1.959963984540054


def ranges(cells: int, count: int, rng: np.random.Generator) -> Floats:
    """Random ranges of an ordered attribute, two ends drawn alike."""
    ends = np.sort(rng.integers(0, cells, (count, 2)), axis=1)
    at = np.arange(cells)
    return ((at >= ends[:, :1]) & (at <= ends[:, 1:])).astype(float)


def subsets(cells: int, count: int, rng: np.random.Generator) -> Floats:
    return (rng.random((count, cells)) < rng.random((count, 1))).astype(float)


def single(cells: int, count: int, rng: np.random.Generator) -> Floats:
    return np.eye(cells)[rng.integers(0, cells, count)]


def weighted(cells: int, count: int, rng: np.random.Generator) -> Floats:
    """Real weights of both signs; every other question nearly repeats the one before."""
    q = rng.normal(size=(count, cells))
    for i in range(1, count, 2):
        q[i] = q[i - 1] + 10.0 ** rng.uniform(-5, -2) * q[i]
    return q


@dataclass
class Step:
    """One question: the state it met, and what became of it."""

    before: State
    q: Floats
    variance: float
    cap: Floats
    found: Free | Offer | None
    after: State


def line(cells: int) -> Metric:
    return metric((cells,), (True,))


def play(
    questions: Iterable[Floats],
    variances: Iterable[float],
    cap: float = np.inf,
    base: Metric | None = None,
    promise: Promise | None = None,
) -> Iterator[Step]:
    """Questions in order, each with what is left of one cap for every cell."""
    state: State | None = None
    for t, (q, v) in enumerate(zip(questions, variances, strict=True)):
        if state is None:
            state = State.empty(len(q), N_MAX)
        left = cap - state.charges
        found = offer(
            state,
            q,
            v,
            left,
            base or line(len(q)),
            half_width=Z * np.sqrt(v),
            promise=promise,
        )
        after = state
        if isinstance(found, Offer):
            after = state.add(Row(t, found.b, found.variance, 0.0, v))
            promise = found.promise
        yield Step(state, q, v, left, found, after)
        state = after
