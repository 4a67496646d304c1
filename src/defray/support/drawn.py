"""What is drawn for a question beside its own functionals: its weights as the log spells them, its noise, and
how the exact numbers of a view's cells become what the noise is added to.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from defray.core.amounts import dyadic_up
from defray.core.contract import Purse
from defray.core.domain import Domain
from defray.core.target import Lattice, sigma_at_most
from defray.query.descriptor import Measure
from defray.support.axes import Axes
from defray.support.history import Item, cells_item, residual_item
from defray.support.marginal.lattice import Draw, draw_of, residual_table, with_noise
from defray.support.marginal.residuals import Columns
from defray.support.weights import charge_for, squared_weight


@dataclass(frozen=True, eq=False)
class CellsDraw:
    """One functional ``steps * 2**-bits`` on the cells of a view, with a discrete Gaussian of ``sigma``
    (units) that adds ``precision``; ``aim`` is the variance it was bought for."""

    axes: Axes
    steps: NDArray[np.int64]
    fine: int
    sigma: float
    precision: Fraction
    reach: Fraction
    halves: int
    aim: float
    rho: Fraction

    @property
    def columns(self) -> tuple[int, ...]:
        return self.axes.columns

    @property
    def bits(self) -> int:
        """The lattice that is drawn on: ``2**-bits`` units."""
        return self.fine + self.halves

    @cached_property
    def weights(self) -> dict[str, Any]:
        return {
            "kind": "cells",
            "classes": [None if s is None else list(s) for s in self.axes.starts],
            "bits": self.fine,
            "steps": self.steps.tolist(),
        }

    @cached_property
    def charge(self) -> int:
        """Quanta of the dearest cell."""
        return charge_for(self.reach**2 * squared_weight(self.weights), self.sigma, self.rho)

    @property
    def scales(self) -> list[float]:
        """The standard deviations to draw, in lattice steps."""
        return [math.ldexp(self.sigma, self.bits)]

    def part(self, share: float) -> CellsDraw:
        """The same functional, at this share of the precision."""
        wanted = dyadic_up(self.precision * Fraction(share))
        sigma, precision = sigma_at_most(wanted, Lattice(self.bits))
        return replace(self, sigma=sigma, precision=precision)

    def noisy(self, cells: Sequence[int], noise: Sequence[int]) -> tuple[int, ...]:
        """The release in lattice steps, from the exact numbers of the view's cells in units of
        ``2**-halves``.  They belong to the private side."""
        return (sum(w * x for w, x in zip(self.steps.tolist(), cells, strict=True)) + noise[0],)

    def item(self, measure: Measure, domain: Domain, seq: int, ask: str, purse: Purse) -> Item:
        """As a release whose value is not known."""
        return cells_item(
            measure, self.axes, self.steps.tolist(), self.fine, seq=seq, ask=ask, step=self.bits, value=0,
            precision=self.precision, aim=self.aim, purse=purse,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class ResidualDraw:
    """The residual of an attribute set (:mod:`defray.support.marginal.lattice`)."""

    draw: Draw
    of: Columns
    reach: Fraction
    halves: int
    aim: float
    rho: Fraction

    @property
    def columns(self) -> tuple[int, ...]:
        return self.draw.attributes

    @property
    def bits(self) -> int:
        return self.draw.bits

    @property
    def sigma(self) -> float:
        return self.draw.sigma

    @property
    def precision(self) -> Fraction:
        return self.draw.precision

    @property
    def charge(self) -> int:
        return self.draw.charge

    @cached_property
    def weights(self) -> dict[str, Any]:
        return {"kind": "residual", "atoms": list(self.of.shape(self.draw.attributes))}

    @property
    def scales(self) -> list[float]:
        return [self.draw.scale] * self.of.cells(self.draw.attributes)

    def part(self, share: float) -> ResidualDraw:
        """The same residual, at this share of the precision."""
        wanted = self.precision * Fraction(share)
        draw = draw_of(self.of, self.columns, wanted, self.rho, self.reach, self.halves)
        return replace(self, draw=draw)

    def noisy(
        self, cells: Sequence[int], order: tuple[int, ...], noise: Sequence[int]
    ) -> tuple[int, ...]:
        """The release in lattice steps, from the exact numbers of a marginal's cells in units of
        ``2**-halves``, row-major in ``order``, the columns as they were written."""
        table = np.array(cells, object).reshape([self.of.atoms[c] for c in order])
        ascending = table.transpose(np.argsort(order)) if order else table
        marginal = self.of.reduced(order)
        exact = residual_table(self.of, marginal, ascending, self.draw.attributes)
        return with_noise(exact, self.draw, noise, self.halves)

    def item(self, measure: Measure, domain: Domain, seq: int, ask: str, purse: Purse) -> Item:
        cells = self.of.cells(self.draw.attributes)
        return residual_item(
            domain, measure, self.draw.attributes, seq=seq, ask=ask, step=self.bits,
            values=[0] * cells, precision=self.precision, aim=self.aim,
        )  # fmt: skip


Drawn = CellsDraw | ResidualDraw


def total_charge(draws: Sequence[Drawn]) -> int:
    """Quanta of several releases, each at its dearest cell."""
    return sum(d.charge for d in draws)


def described(weights: Mapping[str, Any]) -> str:
    """What a release measured, in a word."""
    return {"region": "the question itself", "residual": "a part that marginals share"}.get(
        weights["kind"], "a mixture of cells"
    )
