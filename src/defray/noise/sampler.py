"""What every noise source does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Sampler(Protocol):
    """Draws discrete Gaussian noise ``P(X = x) ~ exp(-x^2 / (2 s^2))`` over all integers, exactly, from
    operating-system randomness."""

    def draw(self, scales: Sequence[float]) -> list[int]:
        """One independent draw per scale, centred at 0.  Scales are positive, finite and < 2**50
        (ValueError otherwise: a scale of 0 would release the exact value)."""
