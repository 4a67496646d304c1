"""Between zCDP and (epsilon, delta): both directions, never on the unsafe side.

A mechanism that satisfies rho-zCDP satisfies (epsilon, delta)-DP for every order ``a > 1`` with

    delta = exp((a - 1) (a rho - epsilon)) / (a - 1) * (1 - 1/a)^a

(Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy", 2020, Proposition 12).
With ``t = a - 1 > 0`` and ``L = ln(1/delta)``, solved for either side:

    epsilon(t)  = (1 + t) rho + L/t - ln(1 + 1/t) - ln(1 + t)/t
    ln delta(t) = t (1 + t) rho - t epsilon - t ln(1 + 1/t) - ln(1 + t)

Each has one minimum over t, where its derivative changes sign once:

    rho t^2 + ln(1 + t) = L                  (for epsilon)
    (1 + 2t) rho - ln(1 + 1/t) = epsilon     (for delta)

*Any* t gives a valid guarantee, so the minimiser is found in floats, and only the value at that t
is computed with care: in 60 decimal digits, plus a margin above every rounding error, then rounded
up to a float. The excess over the true minimum is second order in the error of t, about 1e-26
relative, far below one float step; results are therefore the tight ones rounded up, and monotone.

>>> epsilon_for(0.5, 1e-6)
5.221534444530169
>>> rho_for(1, 1e-6) < rho_for(1, 1e-5)
True
"""

from __future__ import annotations

import math
import struct
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from typing import Final

__all__ = ["delta_for", "epsilon_for", "rho_for"]

_CONTEXT: Final = Context(prec=60, Emax=MAX_EMAX, Emin=MIN_EMIN)
_MARGIN: Final = Decimal("1e-40")  # relative; the terms below are exact to better than 1e-44
_SMALLEST: Final = math.ulp(0.0)


def epsilon_for(rho: Fraction | float, delta: Fraction | float) -> float:
    """The smallest epsilon that rho-zCDP is proven to give at this delta, rounded up to a float.

    ``delta = 0`` gives infinity unless ``rho = 0``; ``delta >= 1`` gives 0.

    >>> epsilon_for(0, 0), epsilon_for(1, 0), epsilon_for(1, 1)
    (0.0, inf, 0.0)
    """
    spent = _exact(rho, "rho")
    failure = _exact(delta, "delta")
    if spent == 0 or failure >= 1:
        return 0.0
    if failure == 0:
        return math.inf
    with localcontext(_CONTEXT):
        return max(0.0, _round_up(_epsilon_bound(_decimal(spent), -_decimal(failure).ln())))


def delta_for(rho: Fraction | float, epsilon: Fraction | float) -> float:
    """The smallest delta that rho-zCDP is proven to give at this epsilon, rounded up to a float.

    ``rho = 0`` gives 0; otherwise the result lies in (0, 1].

    >>> delta_for(0, 0), delta_for(1, 0) < 1, delta_for(1, 5) < delta_for(1, 4)
    (0.0, True, True)
    """
    spent = _exact(rho, "rho")
    bound = _exact(epsilon, "epsilon")
    if spent == 0:
        return 0.0
    with localcontext(_CONTEXT):
        log_delta = _log_delta_bound(_decimal(spent), _decimal(bound))
        if log_delta >= 0:
            return 1.0
        if log_delta < -1000:
            return _SMALLEST
        return min(1.0, _round_up(log_delta.exp() * (1 + _MARGIN)))


def rho_for(epsilon: Fraction | float, delta: Fraction | float) -> Fraction:
    """The largest float rho, as an exact fraction, with ``epsilon_for(rho, delta) <= epsilon``.

    The next larger float exceeds epsilon: nothing is given away, nothing is overspent.
    ``delta = 0`` allows only ``rho = 0`` and ``delta >= 1`` is refused, since it limits nothing.

    >>> rho = rho_for(5, 1e-6)
    >>> epsilon_for(rho, 1e-6) <= 5 < epsilon_for(math.nextafter(float(rho), math.inf), 1e-6)
    True
    """
    bound = _exact(epsilon, "epsilon")
    failure = _exact(delta, "delta")
    if failure >= 1:
        raise ValueError(f"delta must be below 1 to limit rho, not {delta!r}")
    # Floats >= 0 are ordered as their bit patterns are: bisect over those, not over values.
    safe, unsafe = 0, _bits(math.inf)
    while unsafe - safe > 1:
        middle = (safe + unsafe) // 2
        if epsilon_for(_float(middle), failure) <= bound:
            safe = middle
        else:
            unsafe = middle
    return Fraction(_float(safe))


def _epsilon_bound(rho: Decimal, loss: Decimal) -> Decimal:
    """epsilon(t) at (almost) its minimiser; ``loss`` is L = ln(1/delta)."""
    t = Decimal(_epsilon_order(float(rho.ln()), loss)).exp()
    terms = (rho * (1 + t), loss / t, -_log1p(1 / t), -_log1p(t) / t)
    return sum(terms, Decimal(0)) + _MARGIN * sum(map(abs, terms), Decimal(0))


def _epsilon_order(log_rho: float, loss: Decimal) -> float:
    """u = ln t with rho e^(2u) + ln(1 + e^u) = L.

    The left side is convex and increasing in u, and each term alone reaches L no earlier than the
    sum does: Newton's method from there descends to the root without overshooting.
    """
    target = float(loss)
    u = min((math.log(target) - log_rho) / 2, target + math.log(-math.expm1(-target)))
    for _ in range(64):
        quadratic = math.exp(log_rho + 2 * u)
        step = (quadratic + _softplus(u) - target) / (2 * quadratic + _sigmoid(u))
        u -= step
        if step <= 1e-15 * (1 + abs(u)):
            break
    return u


def _log_delta_bound(rho: Decimal, epsilon: Decimal) -> Decimal:
    """ln delta(t) at (almost) its minimiser."""
    t = Decimal(_delta_order(rho, epsilon)).exp()
    terms = (t * (1 + t) * rho, -t * epsilon, -t * _log1p(1 / t), -_log1p(t))
    return sum(terms, Decimal(0)) + _MARGIN * sum(map(abs, terms), Decimal(0))


def _delta_order(rho: Decimal, epsilon: Decimal) -> float:
    """u = ln t with (1 + 2 e^u) rho - ln(1 + e^-u) = epsilon, by bisection.

    The left side increases in u, and has passed epsilon once 2 rho e^u >= epsilon + 1 and u >= 0.
    A root below u = -60 means a delta above 1 - e^-59, which rounds up to 1.
    """
    low, high = -60.0, max(0.0, float(((epsilon + 1) / (2 * rho)).ln()))
    gap, log_twice = float(rho - epsilon), float((2 * rho).ln())
    for _ in range(100):
        middle = (low + high) / 2
        exponent = log_twice + middle
        growth = math.exp(exponent) if exponent < 700 else math.inf
        if gap + growth < _softplus(-middle):
            low = middle
        else:
            high = middle
    return high


def _softplus(u: float) -> float:
    """ln(1 + e^u), without overflow."""
    return max(u, 0.0) + math.log1p(math.exp(-abs(u)))


def _sigmoid(u: float) -> float:
    """The derivative of softplus, without overflow."""
    return 1 / (1 + math.exp(-u)) if u >= 0 else math.exp(u) / (1 + math.exp(u))


def _log1p(x: Decimal) -> Decimal:
    """ln(1 + x) for x > 0, to a relative error below 1e-44 in 60 digits."""
    if x < Decimal("1e-15"):
        return x * (1 - x * (Decimal(1) / 2 - x * (Decimal(1) / 3 - x / 4)))
    return (1 + x).ln()


def _exact(value: Fraction | float, name: str) -> Fraction:
    """The argument as an exact fraction, or a ValueError that names it."""
    try:
        exact = Fraction(value)
    except (ValueError, OverflowError, TypeError):
        raise ValueError(f"{name} must be a finite number, not {value!r}") from None
    if exact < 0:
        raise ValueError(f"{name} must not be negative, not {value!r}")
    return exact


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def _round_up(value: Decimal) -> float:
    """The smallest float that is not below the value."""
    nearest = float(value)
    return math.nextafter(nearest, math.inf) if Decimal(nearest) < value else nearest


def _bits(value: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


def _float(bits: int) -> float:
    return float(struct.unpack("<d", struct.pack("<q", bits))[0])
