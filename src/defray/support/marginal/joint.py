r"""Several marginals in one plan: the cheapest precisions, with a certified bound.

Minimise ``sum p_A (g_A - h_A) / 2`` over ``g >= h`` with ``sum over A in B of c_BA / g_A <= 1`` for every
marginal B, where ``c_BA = p_A / (n_{B\A}^2 V_B)``.  For multipliers y >= 0 and ``s = C'y`` the Lagrangian
is least at ``g_A = max(h_A, sqrt(s_A / p_A))``, and its value there bounds from below what any plan pays:
any y certifies.

The multipliers rise by minorisation.  The dual is a sum of concave functions of s_A; by Jensen each is at
least the mixture, with weights ``c_BA y_B / s_A``, of its values where one y_B alone is scaled.  The best
scale q_B^2 of each y_B solves ``sum_A c_BA / max(h_A, q_B t_A) = 1`` with ``t_A = sqrt(s_A / p_A)``: one
water-filling per marginal (where nothing is held: q_B = the variance B now has, in units of its target).
So no step lowers the bound.  A plan follows from any y by raising every residual as its neediest marginal
wants; the two meet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from defray.support.marginal.residuals import AttributeSet, Columns, Floats
from defray.support.marginal.support import SLACK, Plan, Support
from defray.support.marginal.water import level_for_variance

GAP: Final = 1e-4
ROUNDS: Final = 400
LEAST: Final = 1e-250
"""Multipliers do not fall to 0: what no marginal wants would have no level."""

Wish = tuple[Iterable[int], float]
"""A marginal's columns and the variance wanted of its cells."""


@dataclass(frozen=True, slots=True)
class Joint:
    """A plan for several marginals, and the least rho that any plan must pay for them."""

    plan: Plan
    bound: float


def raise_all(support: Support, wishes: Sequence[Wish]) -> Plan:
    """The cheaper of the joint plan and of planning one wish after the other, by the variance of the sum of
    a marginal's cells: what wants shared residuals most goes first."""
    wanted = _strictest(support.columns, wishes)
    held = _relevant(support, wanted)
    running = Support(support.columns, held)
    added: dict[AttributeSet, float] = {}
    rho = 0.0
    order = sorted(wanted.items(), key=lambda w: (w[1] * support.columns.cells(w[0]), w[0]))
    for attributes, variance in order:
        step = running.raise_to(attributes, variance)
        rho += step.rho
        step.add_to(held)
        step.add_to(added)
    one_by_one = Plan(tuple(sorted(added.items())), rho, _worst(running, wanted))
    if len(wanted) < 2 or not added:
        return one_by_one
    together = joint(support, wishes).plan
    return together if together.rho < one_by_one.rho else one_by_one


def joint(
    support: Support, wishes: Sequence[Wish], gap: float = GAP, rounds: int = ROUNDS
) -> Joint:
    """The cheapest plan up to the relative ``gap`` between its rho and the bound, or after ``rounds``."""
    wanted = _strictest(support.columns, wishes)
    problem = _Problem.of(support, wanted)
    if not problem.start.size:
        return Joint(Plan((), 0.0, _worst(support, wanted)), 0.0)
    y = problem.start
    bound, cost, precisions = 0.0, np.inf, problem.held
    for done in range(1, rounds + 1):
        s = problem.gathered(y)
        bound = max(bound, problem.value(s, y))
        if done & (done - 1) == 0 or done % 8 == 0 or done == rounds:
            plan = problem.feasible(s)
            if (now := problem.cost(plan)) < cost:
                cost, precisions = now, plan
            if cost - bound <= gap * cost:
                break
        y = np.maximum(y * problem.scales(s) ** 2, LEAST)
    added = precisions - problem.held
    raises = tuple((a, h) for a, h in zip(problem.sets, added.tolist(), strict=True) if h > 0)
    after = _relevant(support, wanted)
    plan_ = Plan(raises, float(cost) / 2, 0.0)
    plan_.add_to(after)
    worst = _worst(Support(support.columns, after), wanted)
    return Joint(replace(plan_, variance=worst), bound / 2)


def _strictest(columns: Columns, wishes: Sequence[Wish]) -> dict[AttributeSet, float]:
    wanted: dict[AttributeSet, float] = {}
    for names, variance in wishes:
        if not 0 < variance < np.inf:
            raise ValueError(f"not a variance: {variance!r}")
        attributes = columns.reduced(names)
        wanted[attributes] = min(variance, wanted.get(attributes, np.inf))
    return wanted


def _relevant(support: Support, wanted: Mapping[AttributeSet, float]) -> dict[AttributeSet, float]:
    """What is held of the residuals of the wanted marginals."""
    sets = dict.fromkeys(a for b in wanted for a in support.columns.marginal(b).sets)
    return {a: support.held[a] for a in sets if a in support.held}


def _worst(support: Support, wanted: Mapping[AttributeSet, float]) -> float:
    """The largest variance of a wanted marginal, in units of its target."""
    return max((support.variance(a) / v for a, v in wanted.items()), default=0.0)


@dataclass(frozen=True, slots=True)
class _Block:
    """The marginals of one number of columns: ``at`` their rows, ``of[i]`` the places of the residuals of
    the i-th and ``weights[i]`` their c_BA."""

    at: NDArray[np.intp]
    of: NDArray[np.intp]
    weights: Floats


@dataclass(frozen=True, slots=True)
class _Problem:
    """The convex problem of the marginals that do not hold their variance yet.  ``start`` are multipliers
    to start from: twice what each marginal alone costs."""

    sets: tuple[AttributeSet, ...]
    prices: Floats
    held: Floats
    blocks: tuple[_Block, ...]
    start: Floats

    @classmethod
    def of(cls, support: Support, wanted: Mapping[AttributeSet, float]) -> _Problem:
        columns, places = support.columns, dict[AttributeSet, int]()
        grouped: dict[int, list[tuple[int, list[int], Floats]]] = {}
        start: list[float] = []
        for attributes, variance in wanted.items():
            if support.variance(attributes) <= variance:
                continue
            marginal = columns.marginal(attributes)
            of = [places.setdefault(a, len(places)) for a in marginal.sets]
            weights = marginal.shares / (marginal.spreads * variance * (1 - SLACK))
            grouped.setdefault(len(attributes), []).append((len(start), of, weights))
            start.append(1 / variance)
        blocks = tuple(
            _Block(
                np.array([at for at, _, _ in members], np.intp),
                np.array([of for _, of, _ in members], np.intp),
                np.stack([weights for _, _, weights in members]),
            )
            for members in grouped.values()
        )
        sets = tuple(places)
        atoms = np.array(columns.atoms, np.float64)
        prices = np.array([np.prod(1 - 1 / atoms[list(a)]) for a in sets])
        held = np.array([support.held.get(a, 0.0) for a in sets])
        return cls(sets, prices, held, blocks, np.array(start))

    def gathered(self, y: Floats) -> Floats:
        """s = C'y."""
        total = np.zeros(len(self.sets))
        for b in self.blocks:
            terms = b.weights * y[b.at][:, None]
            total += np.bincount(b.of.ravel(), terms.ravel(), len(self.sets))
        return total

    def value(self, s: Floats, y: Floats) -> float:
        """The dual function: a lower bound of ``sum p (g - h)`` over all plans."""
        g = self._least(s)
        return float((self.prices * (g - self.held) + s / g).sum() - y.sum())

    def scales(self, s: Floats) -> Floats:
        """q: what each multiplier's root is to be scaled by."""
        t = np.sqrt(s / self.prices)
        q = np.empty_like(self.start)
        for b in self.blocks:
            tilt, held = t[b.of], self.held[b.of]
            if held.any():
                q[b.at] = level_for_variance(b.weights / tilt, held / tilt, 1.0)
            else:
                q[b.at] = (b.weights / tilt).sum(-1)
        return q

    def feasible(self, s: Floats) -> Floats:
        """Precisions that meet every wish: where a marginal misses its variance by a factor, all its
        residuals rise by that factor."""
        g = self._least(s)
        factors = np.ones(len(self.sets))
        for b in self.blocks:
            missed = (b.weights / g[b.of]).sum(-1)
            np.maximum.at(factors, b.of.ravel(), np.repeat(missed, b.of.shape[1]))
        return g * factors

    def cost(self, precisions: Floats) -> float:
        return float(self.prices @ (precisions - self.held))

    def _least(self, s: Floats) -> Floats:
        return np.maximum(self.held, np.sqrt(s / self.prices))
