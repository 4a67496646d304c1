"""What history alone says about a question: generalised least squares, as weights over its releases."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

Floats = NDArray[np.float64]

RIDGE: Final = 1e-8
"""The ridge, as a part of P's mean diagonal; refinement takes its bias away."""

REFINEMENTS: Final = 8

EXACT: Final = 1e-14
"""A residue of this part of q's largest weight is rounding."""


class Fit:
    """The least-squares weights of a state: ``w(q) = V^-1 B P^+ q``, without an inverse of what is singular.

    A ridge and refinements stand for the pseudo-inverse, so that ``w`` is *linear* in q up to rounding (the
    answers of one state add up) and never claims q where it is not in the span of the rows: the part of q
    outside it stays in the certificate's residue.  The normal equations are solved on the cells where P is
    given, else on the rows.
    """

    __slots__ = ("factor", "on_cells", "rows", "variances")

    def __init__(self, rows: Floats, variances: Floats, precision: Floats | None) -> None:
        self.rows, self.variances = rows, variances
        ridge = RIDGE * float((1 / variances) @ (rows * rows).mean(axis=1))
        self.on_cells = precision is not None
        if precision is not None:
            matrix = precision.copy()
            diagonal: Floats | float = ridge
        else:
            matrix = rows @ rows.T
            diagonal = ridge * variances
        matrix.flat[:: len(matrix) + 1] += diagonal
        self.factor: Any = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)

    def weights(self, q: Floats) -> Floats:
        total = self._step(q)
        enough = EXACT * float(np.abs(q).max())
        before = np.inf
        for _ in range(REFINEMENTS):
            residue = q - total @ self.rows
            size = float(np.abs(residue).max())
            if size <= enough or size > 0.9 * before:
                break
            total, before = total + self._step(residue), size
        return total

    def _step(self, q: Floats) -> Floats:
        if self.on_cells:
            z = cho_solve(self.factor, q, check_finite=False)
            return np.asarray((self.rows @ z) / self.variances)
        return np.asarray(cho_solve(self.factor, self.rows @ q, check_finite=False))
