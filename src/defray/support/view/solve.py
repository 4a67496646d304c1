"""The cheapest new measurement of a question, given history and a metric.

Of all releases that leave q with variance V, the one of least price ``b' G^-1 b / v`` is found from the
lambda with ``f(lambda) = q' (P + lambda G)^-1 q = V``: with ``z = (P + lambda G)^-1 q`` it is ``b = q - P
z`` and ``v = V - z' P z``, and lambda is its price.  1/f is concave, so Newton's iterates on it bound the
least price from below, while every z is a valid release whose price bounds it from above: the search
stops on the gap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from defray.support.view.metric import Scaled
from defray.support.view.state import State

Floats = NDArray[np.float64]

GAP: Final = 1e-5
"""The search for lambda ends where the price is proved to be within this part of the least."""

STEPS: Final = 60


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """One lambda: ``value`` f, ``fall`` -f' = z' G z, ``spent`` = z' P z; weights of P z over the rows.

    ``value = spent + lambda * fall``.
    """

    price: float
    value: float
    fall: float
    weights: Floats

    @property
    def spent(self) -> float:
        return self.value - self.price * self.fall

    def cost(self, variance: float) -> float:
        """The priced cost ``b' G^-1 b / v`` of this z, ``b = lambda G z``."""
        left = variance - self.spent
        return self.price**2 * self.fall / left if left > 0 else np.inf


def search(at: Callable[[float], Trial], top: float, variance: float) -> Trial | None:
    """The trial whose cost is within GAP of the least; ``top`` is the price of q from scratch.

    None where no trial beats measuring q from scratch (numerically singular history).
    """
    low, high, proved = 0.0, top, 0.0
    price, best = 0.3 * top, None
    for _ in range(STEPS):
        try:
            trial = at(price)
        except LinAlgError:  # too small a ridge for this history
            low, price = price, min(10 * price, np.sqrt(price * high))
            if price >= high * (1 - 1e-9):
                break
            continue
        cost = trial.cost(variance)
        if cost < (np.inf if best is None else best.cost(variance)):
            best = trial
        step = price - (1 / trial.value - 1 / variance) * trial.value**2 / trial.fall
        proved = max(proved, step)
        if best is not None and best.cost(variance) <= (1 + GAP) * proved:
            break
        low, high = (max(low, price), high) if trial.value > variance else (low, min(high, price))
        if high <= 1e-12 * top:
            break
        between = float(np.sqrt(low * high)) if low > 0 else 0.01 * high
        price = step if low < step < high else between
    return best


def on_cells(state: State, q: Floats, matrix: Floats) -> Callable[[float], Trial]:
    """Trials by a Cholesky factor of ``P + lambda G``, m x m, for any positive semidefinite G."""

    def at(price: float) -> Trial:
        factor = cho_factor(
            state.precision + price * matrix, lower=True, overwrite_a=True, check_finite=False
        )
        z = cho_solve(factor, q, check_finite=False)
        return Trial(
            price, float(q @ z), float(z @ (matrix @ z)), (state.rows @ z) / state.variances
        )

    return at


def on_rows(state: State, q: Floats, geometry: Scaled) -> Callable[[float], Trial]:
    """Trials by a Cholesky factor of ``B G^-1 B' + lambda diag(v)``, k x k (Woodbury)."""
    rows, white = geometry.whiten(state.rows), geometry.whiten(q)
    gram, image = rows @ rows.T, rows @ white
    diagonal = np.arange(state.count)

    def at(price: float) -> Trial:
        matrix = gram.copy()
        matrix[diagonal, diagonal] += price * state.variances
        factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        weights = cho_solve(factor, image, check_finite=False)
        left = white - weights @ rows  # C^-1 b = lambda C' z
        fall = float(left @ left) / price**2
        spent = float((weights * weights) @ state.variances)
        return Trial(price, spent + price * fall, fall, weights)

    return at
