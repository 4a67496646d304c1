"""What is drawn and charged for a residual, exactly.

The table ``t_A = kron_i (n_i I - 11') x_A = n_A z_A`` is integer where the marginal x_A is, and one row
moves it by exactly ``prod n_i (n_i - 1)``, squared, in whatever cell it is.  Released is t_A plus
independent discrete Gaussian noise on its lattice; dividing by n_A and centring again is post-processing.
Noise of standard deviation sigma on t_A gives the residual precision ``n_A^2 / sigma^2`` and costs ``rho =
reach^2 prod n_i (n_i - 1) / (2 sigma^2)``, which is ``p_A h_A / 2``.

Only the centred table meets noise.  A noisy *uncentred* marginal, even if it were centred afterwards, would
cost up to 1/p_A times more, so none is ever made.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from defray.core.amounts import QUANTA, dyadic_down, dyadic_up, rho_of
from defray.core.target import LATTICE_BITS, MAX_SCALE, Lattice, sigma_at_most
from defray.support.marginal.residuals import AttributeSet, Columns
from defray.support.marginal.support import Plan

FINEST: Final = LATTICE_BITS - 28
"""Lattice steps are at most 2**-28 of a sigma, as for every release."""

Integers = NDArray[Any]
"""int64 where all values fit, Python integers in an object array where they do not."""


@dataclass(frozen=True, slots=True)
class Draw:
    """Noise for one residual: ``sigma`` (units of t_A) on a lattice of ``2**-bits`` units adds ``precision``
    (a dyadic rational, at most n_A^2 / sigma^2) for ``charge`` quanta of the contract."""

    attributes: AttributeSet
    bits: int
    sigma: float
    precision: Fraction
    charge: int

    @property
    def scale(self) -> float:
        """Sigma in lattice steps."""
        return math.ldexp(self.sigma, self.bits)


def draws(
    columns: Columns, plan: Plan, total: Fraction, reach: Fraction = Fraction(1), halves: int = 0
) -> tuple[Draw, ...]:
    """The draws that add at least what a plan wants: sigmas rounded down, charges up.

    ``reach`` is k times the sensitivity of a cell to a row, in units; ``halves`` is 1 where true values
    may be half units; ``total`` is the contract's rho.
    """
    return tuple(draw_of(columns, a, Fraction(h), total, reach, halves) for a, h in plan.raises)


def draw_of(
    columns: Columns,
    attributes: AttributeSet,
    precision: Fraction,
    total: Fraction,
    reach: Fraction,
    halves: int,
) -> Draw:
    """The draw that adds at least this precision to one residual."""
    cells = columns.cells(attributes)
    wanted = dyadic_up(precision / cells**2)
    lattice = _lattice(1 / math.sqrt(wanted), halves)
    sigma, got = sigma_at_most(wanted, lattice)
    charge = charge_of(columns, attributes, reach, sigma, total)
    return Draw(attributes, lattice.bits, sigma, got * cells**2, charge)


def draws_within(
    columns: Columns,
    plan: Plan,
    total: Fraction,
    quanta: int,
    reach: Fraction = Fraction(1),
    halves: int = 0,
) -> tuple[Draw, ...]:
    """The draws of a plan for a budget: together they charge at most ``quanta``, shared as the plan does and
    rounded down, each sigma fitted to its charge and rounded up.  What is too little to draw is left out."""
    prices = [columns.price(a) * Fraction(h) for a, h in plan.raises]
    whole = sum(prices, Fraction(0))
    made = []
    for (attributes, _), price in zip(plan.raises, prices, strict=True):
        charge = math.floor(quanta * price / whole)
        if charge < 1:
            continue
        sigma = _sigma_for(columns, attributes, reach, rho_of(charge, total))
        lattice = _lattice(sigma, halves)
        if math.ldexp(sigma, lattice.bits) > MAX_SCALE:
            continue
        precision = dyadic_down(1 / Fraction(sigma) ** 2) * columns.cells(attributes) ** 2
        made.append(Draw(attributes, lattice.bits, sigma, precision, charge))
    return tuple(made)


def residual_table(
    columns: Columns, marginal: AttributeSet, counts: Integers, attributes: AttributeSet
) -> Integers:
    """t_A from the exact counts (or sums, as integers of whatever unit) of a marginal that contains A.  It
    belongs to the private side: there is no noise in it yet."""
    table = counts.reshape(columns.shape(marginal))
    drop = tuple(axis for axis, i in enumerate(marginal) if i not in attributes)
    if len(drop) + len(attributes) != len(marginal):
        raise ValueError(f"{attributes} is not in {marginal}")
    largest = float(np.asarray(np.abs(table)).sum(dtype=np.float64)) * 2.0 ** len(attributes)
    if largest * columns.cells(attributes) >= 2.0**62:
        table = table.astype(object)
    table = np.asarray(table.sum(axis=drop))
    for axis, n in enumerate(columns.shape(attributes)):
        table = n * table - table.sum(axis=axis, keepdims=True)
    return np.asarray(table)


def with_noise(
    table: Integers, draw: Draw, noise: Sequence[int], halves: int = 0
) -> tuple[int, ...]:
    """The release of a residual, in lattice steps, from a table in units of ``2**-halves``.  Noise is
    added in unbounded integers."""
    steps = 2 ** (draw.bits - halves)
    return tuple(int(t) * steps + x for t, x in zip(table.ravel(), noise, strict=True))


def reach_of(columns: Columns, attributes: AttributeSet, reach: Fraction) -> Fraction:
    """How far one unit moves t_A, squared."""
    return reach * reach * columns.squared_reach(attributes)


def charge_of(
    columns: Columns, attributes: AttributeSet, reach: Fraction, sigma: float, total: Fraction
) -> int:
    """The quanta of a residual with noise sigma (units of t_A), rounded up: what an audit computes again."""
    squared = reach_of(columns, attributes, reach)
    top, bottom = sigma.as_integer_ratio()
    # quanta_up(squared / (2 sigma^2), total), in integers because it is on the way of every question
    paid = squared.numerator * bottom**2 * QUANTA * total.denominator
    return -(-paid // (2 * squared.denominator * top**2 * total.numerator))


def _sigma_for(columns: Columns, attributes: AttributeSet, reach: Fraction, rho: Fraction) -> float:
    """The least sigma (rounded up) whose charge is at most rho."""
    squared = reach_of(columns, attributes, reach)
    sigma = math.sqrt(squared / (2 * rho)) * (1 - 2**-52)
    while squared > 2 * rho * Fraction(sigma) ** 2:
        sigma = math.nextafter(sigma, math.inf)
    return sigma


def _lattice(sigma: float, halves: int) -> Lattice:
    return Lattice.fine_enough(Fraction(sigma) * 2**FINEST, halves)
