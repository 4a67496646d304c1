r"""Attribute sets, their residuals, and how a marginal is made of them.

Notation, for columns of n_i atoms: ``n_S = prod over S of n_i`` and ``p_A = prod over A of (1 - 1/n_i)``.
Noise of standard deviation s on the residual of A, centred like it, gives it precision ``h_A = 1/s^2``;
one row, in whatever cell, pays ``rho = p_A h_A / 2``.  The variance of every cell of marginal B is the sum
over A in B of ``p_A / (n_{B\A}^2 h_A)``.

Seen by B, a residual is known like a plain noisy B-marginal of precision ``u_A = h_A n_{B\A}``.  With shares
``w_A = prod over A of (n_i - 1) / n_B``, which sum to one, the variance is ``sum w_A / u_A`` and rho is
``sum w_A u_A / 2``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

AttributeSet = tuple[int, ...]
"""Numbers of columns, ascending, without columns of one atom: those say nothing."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Marginal:
    """A marginal as the sum of its residuals.  ``sets`` are all subsets of ``attributes``; entry j of
    ``shares`` is w_A, of ``spreads`` n_{B\\A}, of ``depths`` the number of columns of B that A lacks."""

    attributes: AttributeSet
    sets: tuple[AttributeSet, ...]
    shares: Floats
    spreads: Floats
    depths: Floats


@dataclass(frozen=True, slots=True)
class Columns:
    """The declared columns of a table, as the numbers of their atoms.

    >>> columns = Columns((3, 1, 4))
    >>> columns.reduced((2, 1)), columns.cells((0, 2)), columns.price((0, 2))
    ((2,), 12, Fraction(1, 2))
    """

    atoms: tuple[int, ...]

    def __post_init__(self) -> None:
        if any(n < 1 for n in self.atoms):
            raise ValueError(f"a column without atoms: {self.atoms}")

    def reduced(self, columns: Iterable[int]) -> AttributeSet:
        """Columns as an attribute set: in order, without repeats and columns of one atom."""
        return tuple(i for i in sorted(set(columns)) if self.atoms[i] > 1)

    def shape(self, attributes: AttributeSet) -> tuple[int, ...]:
        return tuple(self.atoms[i] for i in attributes)

    def cells(self, attributes: AttributeSet) -> int:
        """n_A."""
        return math.prod(self.atoms[i] for i in attributes)

    def price(self, attributes: AttributeSet) -> Fraction:
        """p_A: twice the rho of a unit of precision of the residual."""
        return Fraction(self.squared_reach(attributes), self.cells(attributes) ** 2)

    def squared_reach(self, attributes: AttributeSet) -> int:
        """``prod n_i (n_i - 1)``: how far one row moves ``n_A z_A``, squared."""
        return math.prod(n * (n - 1) for n in self.shape(attributes))

    def marginal(self, columns: Iterable[int]) -> Marginal:
        """The marginal of some columns.  2^k sets for k of them."""
        attributes = self.reduced(columns)
        sets: list[AttributeSet] = [()]
        for i in attributes:
            sets += [(*a, i) for a in sets]
        return Marginal(attributes, tuple(sets), *_geometry(self.shape(attributes)))


@lru_cache(maxsize=4096)
def _geometry(shape: tuple[int, ...]) -> tuple[Floats, Floats, Floats]:
    """Shares, spreads and depths of all subsets, in the order in which ``marginal`` lists them."""
    shares, spreads, depths = np.ones(1), np.ones(1), np.zeros(1)
    for n in shape:
        shares = np.concatenate([shares / n, shares * ((n - 1) / n)])
        spreads = np.concatenate([spreads * n, spreads])
        depths = np.concatenate([depths + 1, depths])
    for array in (shares, spreads, depths):
        array.flags.writeable = False
    return shares, spreads, depths
