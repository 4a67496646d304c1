"""The scarcity seam: who decides how much of a residual is granted when budget is short.

A gate sees public numbers only: the residual's price and what is left.  ``greedy`` is the feasible
regime of the paper (step 3): grant the whole residual while it fits, refuse past the end.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Protocol


class Gate(Protocol):
    def grant(self, price: Fraction, available: Fraction) -> Fraction:
        """How much rho, between 0 and ``min(price, available)``, is spent on a residual of ``price``."""


class Greedy:
    """All of it while it fits, else nothing."""

    def grant(self, price: Fraction, available: Fraction) -> Fraction:
        return price if price <= available else Fraction(0)
