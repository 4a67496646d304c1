r"""What held precisions say about a marginal, and what it still needs: the marginal support model.

For marginal B and per-cell variance V, every residual that B sees below theta is raised to it, where ``sum
w_A / max(u_A, theta) = V``; this pays ``rho = sum w_A (theta - u_A)_+ / 2`` on every cell, the least among
all Gaussian measurements of that marginal.  A repeat is the paper's rule (nothing to pay, or the residual
of a tighter target); a marginal is free iff its residuals are all held and the variance holds.

*Look-ahead*: with ``tilt`` eta < 1, A is raised to ``theta eta^(-|B\A| / 2)``: more on the small sets that
other marginals share, less on the large ones.  It costs more now and less in the long run, so it is for
slack only: what is feasible is decided with eta = 1 (:meth:`Support.afford`).

Floats plan, exact numbers charge (:mod:`~defray.support.marginal.lattice`).  Plans aim ``SLACK`` below a
variance or a budget, so that no order of summation breaks what was planned and repeats stay free.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from defray.support.marginal.residuals import AttributeSet, Columns, Floats, Marginal
from defray.support.marginal.water import level_for_budget, level_for_variance

LOOK_AHEAD: Final = 0.5
SLACK: Final = 1e-12


@dataclass(frozen=True, slots=True)
class Plan:
    """Precisions to add to residuals.  ``rho`` is what one row pays for them, ``variance`` what the cells of
    the planned marginal then have (of several marginals: the largest, in units of its target)."""

    raises: tuple[tuple[AttributeSet, float], ...]
    rho: float
    variance: float

    def add_to(self, held: MutableMapping[AttributeSet, float]) -> None:
        for attributes, precision in self.raises:
            held[attributes] = held.get(attributes, 0.0) + precision


@dataclass(frozen=True, slots=True)
class Support:
    """Precisions h_A of residuals; what is not in ``held`` is not known.  Only the subsets of the marginal
    that is asked for are ever looked up.

    >>> support = Support(Columns((2, 5)), {})
    >>> plan = support.raise_to((0, 1), 4.0)
    >>> round(plan.rho, 9), round(plan.variance, 9)
    (0.125, 4.0)
    >>> held = dict(plan.raises)
    >>> Support(Columns((2, 5)), held).raise_to((0, 1), 4.0).rho
    0.0
    >>> round(Support(Columns((2, 5)), held).variance((0,)), 9)
    20.0
    """

    columns: Columns
    held: Mapping[AttributeSet, float]

    def variance(self, columns: Iterable[int]) -> float:
        """Of every cell of a marginal, from what is held; inf where a residual is missing."""
        marginal = self.columns.marginal(columns)
        return _variance(marginal.shares, self._seen(marginal))

    def rho(self) -> float:
        """What one row has paid for all that is held, while every charge was for these residuals."""
        return math.fsum(float(self.columns.price(a)) * h for a, h in self.held.items()) / 2

    def raise_to(self, columns: Iterable[int], variance: float, tilt: float = 1.0) -> Plan:
        """The cheapest plan (but for the tilt) after which no cell's variance is above ``variance``."""
        if not 0 < variance < math.inf:
            raise ValueError(f"not a variance: {variance!r}")
        marginal = self.columns.marginal(columns)
        seen = self._seen(marginal)
        if (now := _variance(marginal.shares, seen)) <= variance:
            return Plan((), 0.0, now)
        lean = _lean(marginal, tilt)
        theta = level_for_variance(marginal.shares / lean, seen / lean, variance * (1 - SLACK))
        return self._raised(marginal, seen, theta * lean)

    def within(self, columns: Iterable[int], rho: float, tilt: float = 1.0) -> Plan:
        """The most accurate plan (but for the tilt) that pays at most ``rho``."""
        if not 0 <= rho < math.inf:
            raise ValueError(f"not a budget: {rho!r}")
        marginal = self.columns.marginal(columns)
        seen = self._seen(marginal)
        if rho == 0:
            return Plan((), 0.0, _variance(marginal.shares, seen))
        lean = _lean(marginal, tilt)
        theta = level_for_budget(marginal.shares * lean, seen / lean, rho)
        return self._raised(marginal, seen, theta * (1 - SLACK) * lean)

    def afford(
        self, columns: Iterable[int], variance: float, rho: float, tilt: float = LOOK_AHEAD
    ) -> Plan | None:
        """The plan for a variance within ``rho``: tilted where that fits, cheapest where only that does,
        None where neither does."""
        attributes = tuple(columns)
        for lean in dict.fromkeys((tilt, 1.0)):
            if (plan := self.raise_to(attributes, variance, lean)).rho <= rho:
                return plan
        return None

    def _seen(self, marginal: Marginal) -> Floats:
        """u_A of every residual of the marginal."""
        get = self.held.get
        return np.array([get(a, 0.0) for a in marginal.sets]) * marginal.spreads

    def _raised(self, marginal: Marginal, seen: Floats, wanted: Floats) -> Plan:
        level = np.maximum(seen, wanted)
        added = level - seen
        precisions = (added / marginal.spreads).tolist()
        return Plan(
            tuple((a, h) for a, h in zip(marginal.sets, precisions, strict=True) if h > 0),
            float(marginal.shares @ added) / 2,
            _variance(marginal.shares, level),
        )


def _variance(shares: Floats, seen: Floats) -> float:
    if not seen.all():
        return math.inf
    return float((shares / seen).sum())


def _lean(marginal: Marginal, tilt: float) -> Floats:
    """r_A = tilt^(-|B\\A| / 2)."""
    if not 0 < tilt <= 1:
        raise ValueError(f"a tilt lies in (0, 1], not {tilt!r}")
    lean: Floats = tilt ** (-marginal.depths / 2)
    return lean
