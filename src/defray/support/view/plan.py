"""The cheapest precision X that answers every question of a class at once, and a proof of how cheap.

``min max_c X_cc`` with ``q' X^-1 q <= 1`` for all q of the class: a saddle of question weights y and cell
prices d.  For fixed (y, d) the best X is ``D^-1/2 (D^1/2 M D^1/2)^1/2 D^-1/2``, ``M = sum y q q'``, and
the squared trace of that root bounds the optimum from below; multiplicative updates raise the weight of
the questions that are answered worst and the price of the cells that pay most.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

Floats = NDArray[np.float64]

Kind = Literal["ranges", "subsets", "cells", "whole"]

ROUNDS: Final = 200
PACE: Final = 0.7
CLOSE: Final = 2e-3
"""Updates end where the plan is proved to be within this part of the optimum."""

CLOSE_ENOUGH: Final = ((64, CLOSE), (256, 1e-2), (math.inf, 3e-2))
"""For all ranges: up to so many atoms, how close."""


INVERTIBLE: Final = 1e-3
"""What a plan for one total gives to every direction."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A precision that answers each question of a class with variance at most 1.

    ``charge`` is its largest diagonal entry; no plan of the class has one below ``least``.
    """

    precision: Floats
    least: float

    @property
    def charge(self) -> float:
        return float(np.diag(self.precision).max())

    def times(self, other: Plan) -> Plan:
        """For the products of the two classes' questions: precisions multiply, and so do charges."""
        precision: Floats = np.kron(self.precision, other.precision).astype(np.float64)
        return Plan(precision, self.least * other.least)


def class_plan(sizes: tuple[int, ...], kinds: tuple[Kind, ...]) -> Plan:
    """The plan of a product of classes, one an attribute: ``ranges``, all ``subsets``, single
    ``cells``, or the attribute as a ``whole``."""
    return reduce(Plan.times, (_one(size, kind) for size, kind in zip(sizes, kinds, strict=True)))


@lru_cache(maxsize=64)
def _one(size: int, kind: Kind) -> Plan:
    if kind == "cells" or size == 1:
        return Plan(np.eye(size), 1.0)
    if kind == "whole":
        return Plan(np.ones((size, size)) + INVERTIBLE * np.eye(size), 1.0)
    if kind == "subsets":
        return saddle(_subsets(size), size)
    close = next(close for most, close in CLOSE_ENOUGH if size <= most)
    return saddle(_ranges(size), size, close=close, pace=1.0, mirrored=True)


@dataclass(frozen=True, slots=True)
class Questions:
    """A class as two linear maps: question weights y (a vector of ``count``) to ``M = sum y q q'``, and a
    covariance to the variances of the questions."""

    count: int
    moment: Callable[[Floats], Floats]
    variances: Callable[[Floats], Floats]


def listed(questions: Floats) -> Questions:
    """The rows of a matrix, each scaled so that its target variance is 1."""
    return Questions(
        len(questions),
        lambda y: (questions * y[:, None]).T @ questions,
        lambda c: np.einsum("ij,ij->i", questions @ c, questions),
    )


def _ranges(size: int) -> Questions:
    """All ranges [i, j) of an ordered attribute, by cumulative sums: m^2 work, not m^4."""
    start, end = np.triu_indices(size + 1, 1)
    low = np.minimum.outer(np.arange(size), np.arange(size))
    high = np.maximum.outer(np.arange(size), np.arange(size))

    def moment(y: Floats) -> Floats:
        at = np.zeros((size + 1, size + 1))
        at[start, end] = y
        # covering[i, j]: weight of the ranges that start at i or before and end after j
        covering = np.cumsum(np.cumsum(at, axis=0)[:, ::-1], axis=1)[:, ::-1][:, 1:]
        return np.asarray(covering[low, high])

    def variances(c: Floats) -> Floats:
        s = np.zeros((size + 1, size + 1))
        s[1:, 1:] = np.cumsum(np.cumsum(c, axis=0), axis=1)
        own = np.diag(s)
        return np.asarray(own[start] + own[end] - 2 * s[start, end])

    return Questions(len(start), moment, variances)


def _subsets(size: int) -> Questions:
    """All subsets of a categorical attribute: by symmetry only their sizes matter."""
    t = np.arange(1.0, size + 1)
    pairs = t * (t - 1)

    def moment(y: Floats) -> Floats:
        apart = float(y @ pairs) / (size * (size - 1))
        return np.full((size, size), apart) + np.eye(size) * (float(y @ t) / size - apart)

    def variances(c: Floats) -> Floats:
        one = float(np.trace(c)) / size
        two = (float(c.sum()) - float(np.trace(c))) / (size * (size - 1))
        return t * one + pairs * two

    return Questions(size, moment, variances)


def saddle(
    questions: Questions,
    cells: int,
    rounds: int = ROUNDS,
    close: float = CLOSE,
    pace: float = PACE,
    *,
    mirrored: bool = False,
) -> Plan:
    """The plan of a class of questions over ``cells`` cells; ``mirrored`` where the class is the same when
    the cells are numbered from the other end."""
    y = np.full(questions.count, 1 / questions.count)
    d = np.full(cells, 1 / cells)
    best, least, plan = np.inf, 0.0, np.eye(cells)
    for _ in range(rounds):
        root = np.sqrt(d)
        moment = questions.moment(y) * root[:, None] * root
        spectrum, vectors = _mirrored(moment) if mirrored else eigh(moment, check_finite=False)
        e = np.sqrt(np.maximum(spectrum, 1e-12 * spectrum.max()))
        least = max(least, float(np.sqrt(np.maximum(spectrum, 0)).sum()) ** 2)
        up, down = vectors / root[:, None], vectors * root[:, None]
        precision = (up * e) @ up.T
        v = questions.variances((down / e) @ down.T)
        charges = np.diag(precision)
        worst = float(v.max())
        if charges.max() * worst < best:
            best, plan = float(charges.max()) * worst, precision * worst
        if best <= (1 + close) * least:
            break
        y = y * v**pace
        y /= y.sum()
        d = d * charges**pace
        d /= d.sum()
    return Plan(plan, least)


def _mirrored(matrix: Floats) -> tuple[Floats, Floats]:
    """Eigenvalues (in no order) and eigenvectors of a symmetric matrix that is the same from the other end:
    its even and its odd vectors, each half as long."""
    n = len(matrix)
    half = n // 2
    near, far = matrix[:half, :half], matrix[:half, n - half :][:, ::-1]
    even = near + far
    if n % 2:
        middle = math.sqrt(2) * matrix[:half, half : half + 1]
        even = np.block([[even, middle], [middle.T, matrix[half : half + 1, half : half + 1]]])
    values, vectors = eigh(even, check_finite=False)
    odd_values, odd_vectors = eigh(near - far, check_finite=False)
    count, root = len(values), math.sqrt(0.5)
    whole = np.zeros((n, n))
    whole[:half, :count] = root * vectors[:half]
    whole[n - half :, :count] = root * vectors[:half][::-1]
    whole[half : n - half, :count] = vectors[half:]
    whole[:half, count:] = root * odd_vectors
    whole[n - half :, count:] = -root * odd_vectors[::-1]
    return np.concatenate((values, odd_values)), whole
