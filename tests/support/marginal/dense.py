"""Residuals as dense matrices on small domains: an oracle that knows nothing of the closed forms."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from itertools import combinations

import numpy as np
from hypothesis import strategies as st

from defray.support.marginal.residuals import AttributeSet, Columns


def centring(n: int) -> np.ndarray:
    return np.eye(n) - np.full((n, n), 1 / n)


def kron(factors: list[np.ndarray]) -> np.ndarray:
    return reduce(np.kron, factors, np.ones((1, 1)))


def subsets(attributes: AttributeSet) -> list[AttributeSet]:
    return [a for k in range(len(attributes) + 1) for a in combinations(attributes, k)]


def summed(atoms: tuple[int, ...], attributes: AttributeSet, kept: str) -> np.ndarray:
    """The matrix of a marginal (``kept="all"``) or residual (``"centred"``) over the whole domain's cells."""
    return kron(
        [
            (np.eye(n) if kept == "all" else centring(n)) if i in attributes else np.ones((1, n))
            for i, n in enumerate(atoms)
        ]
    )


def information(atoms: tuple[int, ...], held: Mapping[AttributeSet, float]) -> np.ndarray:
    """P = sum h_A Z_A' Z_A over the cells of the whole domain."""
    size = int(np.prod(atoms))
    total = np.zeros((size, size))
    for a, h in held.items():
        z = summed(atoms, a, "centred")
        total += h * z.T @ z
    return total


def columns(most: int = 3, widest: int = 5) -> st.SearchStrategy[Columns]:
    return st.lists(st.integers(1, widest), min_size=1, max_size=most).map(
        lambda n: Columns(tuple(n))
    )


@st.composite
def histories(
    draw: st.DrawFn, most: int = 4, widest: int = 12
) -> tuple[Columns, dict[AttributeSet, float]]:
    """Columns of at least two atoms, and precisions of some of their residuals."""
    atoms = draw(st.lists(st.integers(2, widest), min_size=1, max_size=most))
    sets = subsets(tuple(range(len(atoms))))
    held = draw(st.dictionaries(st.sampled_from(sets), st.floats(1e-6, 1e3)))
    return Columns(tuple(atoms)), held
