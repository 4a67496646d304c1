r"""Residual releases in a view: what a view over attribute set B takes over from the marginals inside B.

A view is a fold of releases, information ``P = sum b b' / v`` and ``r = sum b y / v`` over its cells.  The
residual releases of all A in B are such releases: together ``P0 = sum h_A Z_A' Z_A`` and ``r0 = sum h_A
Z_A' z_A``, with ``Z_A = kron over B of (I - 11'/n_i in A, 1' outside)``.  Each release is folded once into
every view that holds its columns; a question is answered from one view, so nothing is counted twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from defray.support.marginal.certificate import centre, spread
from defray.support.marginal.residuals import AttributeSet, Columns, Floats


def information(
    columns: Columns, view: Iterable[int], held: Mapping[AttributeSet, float]
) -> Floats:
    """P0 as a matrix over the view's cells.  On the residuals of A it multiplies by ``h_A n_{B\\A}``."""
    attributes = columns.reduced(view)
    cells = columns.cells(attributes)
    total = np.zeros((cells, cells))
    for a in columns.marginal(attributes).sets:
        if not held.get(a):
            continue
        block = np.full((1, 1), held[a])
        for i in attributes:
            n = columns.atoms[i]
            block = np.kron(block, np.eye(n) - 1 / n if i in a else np.ones((n, n)))
        total += block
    return total


def applied(
    columns: Columns, view: Iterable[int], held: Mapping[AttributeSet, float], x: Floats
) -> Floats:
    """``P0 x`` for a table x over the view's cells, without the matrix."""
    attributes = columns.reduced(view)
    table = x.reshape(columns.shape(attributes))
    parts: dict[AttributeSet, Floats] = {}
    for a in columns.marginal(attributes).sets:
        if held.get(a):
            lost = tuple(axis for axis, i in enumerate(attributes) if i not in a)
            parts[a] = held[a] * centre(np.asarray(table.sum(axis=lost)))
    return spread(columns, attributes, parts)


def weighted(
    columns: Columns,
    view: Iterable[int],
    held: Mapping[AttributeSet, float],
    residuals: Mapping[AttributeSet, Floats],
) -> Floats:
    """r0 over the view's cells, from the fused (centred) residuals of those that are held."""
    attributes = columns.reduced(view)
    sets = columns.marginal(attributes).sets
    return spread(columns, attributes, {a: held[a] * residuals[a] for a in sets if held.get(a)})
