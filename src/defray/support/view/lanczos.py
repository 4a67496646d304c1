"""The search of :mod:`defray.support.view.solve` on large views: one Krylov space serves every lambda.

With ``G = C C'`` the problem is ``A + lambda I``, ``A = C^-1 P C'^-1``, seen from ``C^-1 q``.  Lanczos
replaces A by a small tridiagonal T; Gauss quadrature makes the lambda of T a lower bound of the true one,
and the true price of the vector found, ``b' G^-1 b / v``, follows from T and the last residual, without
touching P again.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dptsv

from defray.support.view.metric import Scaled
from defray.support.view.solve import Trial
from defray.support.view.state import State

Floats = NDArray[np.float64]

STOP: Final = 0.002
"""The Krylov space grows until the price is proved to be within this part of the least."""

MOST: Final = 400
EVERY: Final = 2


def krylov(state: State, q: Floats, geometry: Scaled, variance: float) -> Trial | None:
    """A trial whose cost is within STOP of the least; None where MOST steps do not show that of any."""
    rows, v = state.rows, state.variances
    white = geometry.whiten(q)
    length = float(np.sqrt(white @ white))
    most = min(MOST, state.cells)
    basis = np.empty((most + 1, state.cells))
    basis[0] = white / length
    along, across = np.empty(most), np.empty(most)
    price = 0.0
    for j in range(most):
        x = geometry.colour(basis[j])
        image = state.precision @ x if state.dense else ((rows @ x) / v) @ rows
        step = geometry.whiten(image)
        along[j] = basis[j] @ step
        seen = basis[: j + 1]
        for _ in range(2):
            step = step - (seen @ step) @ seen
        across[j] = np.sqrt(step @ step)
        ended = across[j] <= 1e-12 * along[0] or j + 1 == most
        if j % EVERY == EVERY - 1 or ended:
            price, y = _tridiagonal(along[: j + 1], across[:j], length, variance, price)
            size = float(y @ y)
            left = variance - (length * float(y[0]) - price * size)
            cost = (price**2 * size + (across[j] * y[-1]) ** 2) / left if left > 0 else np.inf
            if cost <= (1 + STOP) * price or ended:
                z = geometry.colour(y @ seen)
                weights = (rows @ z) / v
                spent = float((weights * weights) @ v)
                return Trial(price, spent + price * size, size, weights)
        basis[j + 1] = step / across[j]
    return None


def _tridiagonal(
    along: Floats, across: Floats, length: float, variance: float, price: float
) -> tuple[float, Floats]:
    """The lambda with ``length^2 e' (T + lambda)^-1 e = variance``, and ``length (T + lambda)^-1 e``.

    From a price below it Newton's iterates on the reciprocal rise to it and never pass it.
    """
    first = np.zeros(len(along))
    first[0] = length
    floor = 1e-14 * float(along.max())
    price = max(price, floor)
    while True:
        if len(along) == 1:
            y, info = first / (along + price), 0
        else:
            _, _, y, info = dptsv(along + price, across, first)
        if info:  # T is singular up to rounding
            price *= 10
            continue
        value = length * float(y[0])
        if value <= variance * (1 + 1e-6):
            return price, y
        price -= (1 / value - 1 / variance) * value**2 / float(y @ y)
