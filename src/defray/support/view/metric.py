"""The metric of a view: which new measurement counts as the cheapest.

A new release of functional b and variance v is priced ``b' G^-1 b / v``.  Any positive definite G gives a
valid release; this one looks ahead without a forecast (design: a dense metric).  ``G = diag(s) G0
diag(s)`` with

* ``G0 = W^p``, W the product over the attributes of the second moment of their random questions: ranges of an
  ordered attribute, subsets of a categorical one; each scaled to mean diagonal 1;
* s, the *barrier*: cells that have paid most are the dearest.

W is never formed: the second moment of ranges, ``(min(i,j)+1)(m - max(i,j))``, is the inverse of the second
difference, which the sine transform (DST-I) diagonalises; that of subsets, ``(I + 11')/2``, is diagonal
in the cosine transform (DCT-II).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct, dst, idct

Floats = NDArray[np.float64]

POWER_ONE, POWER_MORE = 0.2, 0.15
"""The exponent p for one attribute, and for several."""

FLOOR: Final = 1e-6
"""Eigenvalues of W count as at least this part of the largest."""

MATRIX: Final = 256
"""Up to this size a transform is faster as a matrix."""

LEAST: Final = 1e-4
"""The least of ``1 - L / cap'`` in the barrier."""


@dataclass(frozen=True)
class Metric:
    """G0 by its spectrum: ``G0 = T' diag(e) T`` with T the product of the attributes' transforms.

    ``plain`` is the identity over as many cells.

    >>> g = metric((3,), (True,))
    >>> bool(np.allclose(np.linalg.matrix_power(g.dense, 5)[0, 0], np.mean([0.9, 1.2, 0.9]) * 0.9))
    True
    """

    sizes: tuple[int, ...]
    ordered: tuple[bool, ...]
    roots: Floats
    """Square roots of G0's eigenvalues, one a cell, in the order of the transformed cells."""
    plain: bool = False

    @property
    def cells(self) -> int:
        return prod(self.sizes)

    @cached_property
    def dense(self) -> Floats:
        """G0 as a matrix."""
        if self.plain:
            return np.eye(self.cells)
        half = self.forth(np.eye(self.cells)) * self.roots
        return half @ half.T

    def forth(self, x: Floats) -> Floats:
        """T x, along the last axis."""
        return x if self.plain else self._along(x, back=False)

    def back(self, x: Floats) -> Floats:
        """T' x, along the last axis."""
        return x if self.plain else self._along(x, back=True)

    def _along(self, x: Floats, *, back: bool) -> Floats:
        shape = x.shape
        x = x.reshape(*shape[:-1], *self.sizes)
        for axis, (size, ordered) in enumerate(
            zip(self.sizes, self.ordered, strict=True), start=len(shape) - 1
        ):
            if size > MATRIX:
                x = _fast(x, axis, is_ordered=ordered, back=back)
            elif size > 1:
                matrix = _matrix(size, is_ordered=ordered)
                turned = x.swapaxes(axis, -1) @ (matrix if back else matrix.T)
                x = turned.swapaxes(axis, -1)
        return x.reshape(shape)


def _fast(x: Floats, axis: int, *, is_ordered: bool, back: bool) -> Floats:
    """One attribute's transform."""
    if is_ordered:
        return np.asarray(dst(x, type=1, norm="ortho", axis=axis))  # its own inverse
    return np.asarray((idct if back else dct)(x, type=2, norm="ortho", axis=axis))


@lru_cache(maxsize=256)
def _matrix(size: int, *, is_ordered: bool) -> Floats:
    """One attribute's transform as a matrix."""
    matrix = _fast(np.eye(size), 0, is_ordered=is_ordered, back=False)
    matrix.setflags(write=False)
    return matrix


@lru_cache(maxsize=256)
def metric(sizes: tuple[int, ...], ordered: tuple[bool, ...]) -> Metric:
    """G0 of a view with attributes of these sizes."""
    spectrum: Floats = np.ones(1)
    for size, is_ordered in zip(sizes, ordered, strict=True):
        spectrum = np.outer(spectrum, _second_moment(size, is_ordered=is_ordered)).ravel()
    spectrum = np.maximum(spectrum, FLOOR * spectrum.max())
    power = POWER_ONE if sum(size > 1 for size in sizes) <= 1 else POWER_MORE
    roots = spectrum ** (power / 2)
    roots.setflags(write=False)
    return Metric(sizes, ordered, roots)


@lru_cache(maxsize=256)
def identity(cells: int) -> Metric:
    """The metric that prices every cell alike and alone."""
    return Metric((cells,), (False,), np.ones(cells), plain=True)


def _second_moment(size: int, *, is_ordered: bool) -> Floats:
    """Eigenvalues of one attribute's second moment, of mean 1 (its diagonal's mean)."""
    if is_ordered:
        spectrum = 1 / (1 - np.cos(np.pi * np.arange(1, size + 1) / (size + 1)))
    else:
        spectrum = np.ones(size)
        spectrum[0] += size
    return np.asarray(spectrum / spectrum.mean(), dtype=np.float64)


@dataclass(frozen=True)
class Scaled:
    """``G = diag(s) G0 diag(s) = C C'`` with ``C = diag(s) T' diag(roots)``."""

    base: Metric
    scale: Floats

    @cached_property
    def dense(self) -> Floats:
        if self.base.plain:
            return np.diag(self.scale**2)
        return self.base.dense * self.scale[:, None] * self.scale

    def whiten(self, x: Floats) -> Floats:
        """C^-1 x, so that ``b' G^-1 b = |whiten(b)|^2``; along the last axis."""
        return self.base.forth(x / self.scale) / self.base.roots

    def colour(self, u: Floats) -> Floats:
        """C'^-1 u; along the last axis."""
        return self.base.back(u / self.base.roots) / self.scale


def barrier(charges: Floats, cap: Floats, variance: float, *, soft: bool = True) -> Floats:
    """The scale s of every cell: ``sqrt(max(1 - L/cap', 1e-4))``, ``cap' = min(cap, 1.2 max L + 0.5/V)``.

    ``charges`` L and ``cap`` are in precision.  Not ``soft``: cap' = cap.  The soft cap levels the cells long
    before the real one is near; it is left out where the targets of a view differ by more than about 100x in
    variance.

    >>> barrier(np.array([0.0, 1.0]), np.full(2, np.inf), 1.0).round(3).tolist()
    [1.0, 0.642]
    >>> barrier(np.array([0.0, 1.0]), np.full(2, 4.0), 1.0, soft=False).round(3).tolist()
    [1.0, 0.866]
    """
    if soft:
        cap = np.minimum(cap, 1.2 * charges.max() + 0.5 / variance)
    with np.errstate(divide="ignore", invalid="ignore"):
        used = np.where(charges > 0, charges / cap, 0.0)
    return np.asarray(np.sqrt(np.maximum(1 - used, LEAST)))
