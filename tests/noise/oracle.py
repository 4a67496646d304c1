"""A second exact discrete Gaussian sampler, to hold the first against.

Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy" (2020), algorithms 1 to 3,
in rationals only, on the operating system's randomness.
"""

from __future__ import annotations

import math
import secrets
from fractions import Fraction


def bernoulli(p: Fraction) -> bool:
    return secrets.randbelow(p.denominator) < p.numerator


def bernoulli_exp(gamma: Fraction) -> bool:
    """True with probability exp(-gamma), gamma >= 0."""
    while gamma > 1:
        if not bernoulli_exp(Fraction(1)):
            return False
        gamma -= 1
    k = 1
    while bernoulli(gamma / k):
        k += 1
    return k % 2 == 1


def laplace(t: int) -> int:
    """P(x) ~ exp(-|x| / t)."""
    while True:
        u = secrets.randbelow(t)
        if not bernoulli_exp(Fraction(u, t)):
            continue
        v = 0
        while bernoulli_exp(Fraction(1)):
            v += 1
        size = u + t * v
        if bernoulli(Fraction(1, 2)):
            if size:
                return -size
        else:
            return size


def gaussian(scale: float) -> int:
    """P(x) ~ exp(-x^2 / (2 scale^2))."""
    variance = Fraction(scale) ** 2
    t = math.isqrt(math.floor(variance)) + 1
    while True:
        y = laplace(t)
        if bernoulli_exp((abs(y) - variance / t) ** 2 / (2 * variance)):
            return y
