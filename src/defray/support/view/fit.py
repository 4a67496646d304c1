"""What history alone says about a question: generalised least squares, as weights over its releases."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, svd

Floats = NDArray[np.float64]

RIDGE_CELLS: Final = 1e-12
RIDGE_ROWS: Final = 1e-8
"""The least ridge, as a part of P's diagonal; refinement takes its bias away."""

REFINEMENTS: Final = 8

EXACT: Final = 1e-14
"""A residue of this part of q's largest weight is rounding."""

NEAR: Final = 1e-2
"""A residue of less than this part may be a direction that is hardly known, rather than one that is not."""

TELLS: Final = 0.1
"""A residue counts from this part of what an estimate of its noise may have."""


class Fit:
    """The least-squares weights of a state: ``w(q) = V^-1 B P^+ q``, without an inverse of what is singular.

    A ridge and refinements stand for the pseudo-inverse, so that ``w`` is *linear* in q up to rounding (the
    answers of one state add up) and never claims q where it is not in the span of the rows: the part of q
    outside it stays in the certificate's residue.

    With P the normal equations are solved on the cells: whatever z comes out, ``V^-1 B z`` is optimal for
    what it explains.  Without, on the rows (where they are fewer), which suits variances of about one
    size only.
    """

    __slots__ = ("factor", "on_cells", "price", "rough", "rows", "svd", "variances")

    def __init__(
        self,
        rows: Floats,
        variances: Floats,
        precision: Floats | None,
        price: float,
        *,
        rough: bool = False,
    ) -> None:
        self.rows, self.variances, self.price, self.rough = rows, variances, price, rough
        self.svd: tuple[Floats, Floats] | None = None
        if rough:  # what little is not spanned must not be bought dearly from much noisier rows
            return
        self.on_cells = precision is not None
        paid = (1 / variances) @ (rows * rows)
        if precision is not None:
            matrix, ridge = precision, RIDGE_CELLS * float(paid.max()) * np.ones(len(precision))
        else:
            matrix, ridge = rows @ rows.T, RIDGE_ROWS * float(paid.mean()) * variances
        self.factor = _factor(matrix, ridge)

    def weights(self, q: Floats) -> Floats:
        if self.rough:
            return self._through_svd(q)
        total = self._step(q)
        largest = float(np.abs(q).max())
        before = np.inf
        for _ in range(REFINEMENTS):
            residue = q - total @ self.rows
            size = float(np.abs(residue).max())
            if size <= EXACT * largest or size > 0.9 * before:
                break
            total, before = total + self._step(residue), size
        size = min(size, before)
        if EXACT * largest < size < NEAR * largest:
            noise = np.sqrt(self.price * ((total * total) @ self.variances))
            if size > TELLS * noise:
                return self._through_svd(q)
        return total

    def _through_svd(self, q: Floats) -> Floats:
        """The weights of least ``sum w^2 v + |residue|^2 / price``, by the singular values of ``V^-1/2 B``.

        If some weights meet a target V with a residue far below ``sqrt(price V)``, then so do these, with one
        up to there: what was answered once stays answered, however little separates the directions.
        """
        if self.svd is None:
            roots = np.sqrt(self.variances)
            u, s, vt = svd(self.rows / roots[:, None], full_matrices=False, check_finite=False)
            self.svd = (u * (s / (s * s + self.price)) / roots[:, None], vt)
        left, right = self.svd
        return np.asarray(left @ (right @ q))

    def _step(self, q: Floats) -> Floats:
        if self.on_cells:
            z = cho_solve(self.factor, q, check_finite=False)
            return np.asarray((self.rows @ z) / self.variances)
        return np.asarray(cho_solve(self.factor, self.rows @ q, check_finite=False))


def _factor(matrix: Floats, ridge: Floats) -> Any:
    """The Cholesky factor of ``matrix + diag(ridge)``, with the ridge raised until there is one."""
    while True:
        try:
            return cho_factor(
                matrix + np.diag(ridge), lower=True, overwrite_a=True, check_finite=False
            )
        except LinAlgError:
            ridge = 10 * ridge
