"""Exact amounts: what is spent, what is known, and the integers the ledger counts in.

* **rho** -- a zCDP charge or budget, an exact :class:`~fractions.Fraction`.
* **quanta** -- integers; one quantum is ``rho_tot / 2**50``.  Ten spends of 0.1 fit in 1.0, and no sum
  ever rounds.  A charge that follows from a target is rounded *up* to quanta; a charge that is given is
  rounded *down* and the noise made to fit it.
* **precision** -- the reciprocal of a variance, in 1/units^2, kept on a dyadic grid (``m * 2**e``) so
  that precision-weighted sums stay short exact rationals.
* **support** -- what an estimate of precision P is worth in rho: ``S = (k*Delta)**2 * P / 2`` with k rows
  a unit and sensitivity Delta a row (design: rho spent on q itself buys support rho).

Floats enter only through :func:`exact`, which takes the number that was written.

>>> exact(0.1) * 10 == 1
True
>>> quanta_up(Fraction(1, 7), Fraction(1)) - quanta_down(Fraction(1, 7), Fraction(1))
1
"""

from __future__ import annotations

import math
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Final

QUANTA: Final = 2**50
"""Quanta in a whole contract."""

PRECISION_BITS: Final = 53


def exact(number: int | float | str | Decimal | Fraction) -> Fraction:
    """The number that was written, exactly: ``0.1`` is one tenth, ``"1/7"`` a seventh.

    Raises ValueError for nan, infinities, numbers beyond 10**±400 and anything that is no number.
    """
    if isinstance(number, bool):
        raise ValueError(f"not a number: {number!r}")
    if isinstance(number, Fraction | int):
        return Fraction(number)
    try:
        if isinstance(number, str) and "/" in number:
            return Fraction(number)
        decimal = number if isinstance(number, Decimal) else Decimal(str(number).strip())
    except (InvalidOperation, ValueError, ZeroDivisionError) as error:
        raise ValueError(f"not a number: {number!r}") from error
    if not decimal.is_finite():
        raise ValueError(f"not a finite number: {number!r}")
    if decimal and abs(decimal.adjusted()) > 400:
        raise ValueError(f"out of range: {number!r}")
    return Fraction(decimal)


def quanta_up(rho: Fraction, total: Fraction) -> int:
    """The least number of quanta that covers ``rho`` out of a contract of ``total``."""
    return math.ceil(rho * QUANTA / total)


def quanta_down(rho: Fraction, total: Fraction) -> int:
    """The largest number of quanta that ``rho`` covers."""
    return math.floor(rho * QUANTA / total)


def rho_of(quanta: int, total: Fraction) -> Fraction:
    return quanta * total / QUANTA


def dyadic_up(x: Fraction, bits: int = PRECISION_BITS) -> Fraction:
    """The least ``m * 2**e`` >= x with ``m <= 2**bits``."""
    return _dyadic(x, bits, up=True)


def dyadic_down(x: Fraction, bits: int = PRECISION_BITS) -> Fraction:
    """The largest ``m * 2**e`` <= x with ``m <= 2**bits``."""
    return _dyadic(x, bits, up=False)


def _dyadic(x: Fraction, bits: int, *, up: bool) -> Fraction:
    if x <= 0:
        if x == 0:
            return x
        raise ValueError(f"not positive: {x}")
    # The grid depends on floor(log2 x) alone, so that rounding is monotone and grid points stay put.
    magnitude = x.numerator.bit_length() - x.denominator.bit_length()
    if x < Fraction(2) ** magnitude:
        magnitude -= 1
    shift = bits - 1 - magnitude
    scaled = x * Fraction(2) ** shift
    m = math.ceil(scaled) if up else math.floor(scaled)
    return m / Fraction(2) ** shift


def float_down(x: Fraction) -> float:
    """The largest float <= x."""
    f = float(x)
    return math.nextafter(f, -math.inf) if Fraction(f) > x else f


def root(x: Fraction) -> float:
    """The square root of a positive number to 15 digits, also of a number that is beyond the floats."""
    half = (x.numerator.bit_length() - x.denominator.bit_length()) // 2
    return math.ldexp(math.sqrt(float(x / Fraction(4) ** half)), half)


def support_of(precision: Fraction, reach: Fraction) -> Fraction:
    """Support, in rho, of an estimate of that precision; ``reach`` = k * Delta."""
    return reach * reach * precision / 2


def precision_of(support: Fraction, reach: Fraction) -> Fraction:
    """The precision that a support (or a spend on the question itself) of that many rho buys."""
    return 2 * support / (reach * reach)
