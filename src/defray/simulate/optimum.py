"""What an offline planner, who knows the whole workload, could reach at most (paper, section 6.2).

Support adds up and may be bought early, so an offline plan is one amount x_k of support for each question.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from defray.simulate.workload import Workload

Floats = NDArray[np.float64]

TOLERANCE: Final = 1e-9
"""A target counts as met up to this part of it, here and in :attr:`defray.simulate.run.Run.met`."""

DP_CELLS: Final = 200_000_000
"""Up to this size (options x count) the best choice is found exactly."""


@dataclass(frozen=True, slots=True)
class Bound:
    """``value`` can be reached; nothing can exceed ``upper``; ``exact``: they are equal."""

    value: int
    upper: int

    @property
    def exact(self) -> bool:
        return self.value == self.upper


def feasible_cost(workload: Workload) -> float:
    """The least rho that meets every target: the sum over questions of the largest rho_min (Theorem 7)."""
    if not len(workload):
        return 0.0
    order, starts = _by_question(workload.keys, workload.demands)
    return float(workload.demands[order][starts].sum())


def most_satisfied(workload: Workload, rho: float) -> Bound:
    """The most arrivals whose target a budget of rho can meet: a multiple-choice knapsack, since to buy a
    question at some level meets every ask of it up to there.

    Exact where all questions are asked once (the cheapest first), or where the dynamic programme is small;
    else the linear relaxation above and its whole part below.
    """
    room = rho / (1 - TOLERANCE)
    if len(np.unique(workload.keys)) == len(workload):
        fits = int(np.searchsorted(np.cumsum(np.sort(workload.demands)), room, side="right"))
        return Bound(fits, fits)
    menus = list(_menus(workload))
    steps = [step for number, menu in enumerate(menus) for step in _hull(number, menu)]
    steps.sort(key=lambda step: step.cost / step.gain)
    upper = _relaxed(steps, room)
    value = _whole(steps, room)
    options = sum(map(len, menus))
    if value < upper and options * (upper + 1) <= DP_CELLS:
        value = upper = _dynamic(menus, room, upper)
    return Bound(value, upper)


class Step(NamedTuple):
    """From one level of a question to a higher one: ``gain`` more asks are met for ``cost`` more rho."""

    question: int
    gain: int
    cost: float


Menu = list[tuple[int, float]]
"""The levels of one question: how many asks are met, and at which rho; both rise."""


def _menus(workload: Workload) -> Iterator[Menu]:
    order, starts = _by_question(workload.keys, workload.demands)
    demands = workload.demands[order].tolist()
    ends = [*starts[1:].tolist(), len(demands)]
    for start, end in zip(starts.tolist(), ends, strict=True):
        menu: Menu = []
        for place in range(end - 1, start - 1, -1):
            if menu and menu[-1][1] == demands[place]:
                menu.pop()
            menu.append((end - place, demands[place]))
        yield menu


def _hull(question: int, menu: Menu) -> list[Step]:
    """The upper concave hull of a menu: steps whose cost for one more ask rises."""
    steps: list[Step] = []
    met, paid = 0, 0.0
    for count, rho in menu:
        gain, cost = count - met, rho - paid
        while steps and cost * steps[-1].gain <= steps[-1].cost * gain:
            last = steps.pop()
            gain, cost = gain + last.gain, cost + last.cost
        steps.append(Step(question, gain, cost))
        met, paid = count, rho
    return steps


def _relaxed(steps: list[Step], room: float) -> int:
    """The linear relaxation, rounded down since counts are whole: cheapest steps first, part of the last."""
    total = 0.0
    for step in steps:
        if step.cost > room:
            total += step.gain * max(0.0, room) / step.cost
            break
        total, room = total + step.gain, room - step.cost
    return int(total * (1 + 1e-12) + 1e-9)


def _whole(steps: list[Step], room: float) -> int:
    """The same in whole steps; once one did not fit, its question goes no higher."""
    total = 0
    stopped: set[int] = set()
    for step in steps:
        if step.question in stopped:
            continue
        if step.cost <= room:
            total, room = total + step.gain, room - step.cost
        else:
            stopped.add(step.question)
    return total


def _dynamic(menus: list[Menu], room: float, upper: int) -> int:
    """The least rho for each count, question by question; exact."""
    least = np.full(upper + 1, np.inf)
    least[0] = 0.0
    for menu in menus:
        before = least.copy()
        for count, rho in menu:
            if count <= upper:
                np.minimum(least[count:], before[: upper + 1 - count] + rho, out=least[count:])
    return int(np.flatnonzero(least <= room).max())


def least_shortfall(
    demands: Floats, weights: Floats, rho: float, keys: NDArray[np.int64] | None = None
) -> tuple[float, Floats]:
    """The least ``sum_t w_t (a_t - x_k(t))_+^2`` with ``sum_k x_k <= rho`` and x >= 0, and the support x that
    each arrival's question then has.  Weights are above 0.

    At a price mu a question is bought up to the x where ``2 sum_t w_t (a_t - x)_+ = mu``.  That sum is the
    largest of the lines over its i dearest asks, so ``x_k = max_i (S_i - mu/2)/W_i``, never below 0, where S
    sums w a and W sums w.  The total is convex, piecewise linear and falling in mu: Newton's steps from 0 end
    at its root.
    """
    if not len(demands):
        return 0.0, np.zeros(0)
    order, starts = _by_question(np.arange(len(demands)) if keys is None else keys, demands)
    supports = np.empty(len(demands))
    top = demands[order][starts]
    if top.sum() <= rho:
        supports[order] = np.repeat(top, np.diff(starts, append=len(demands)))
        return 0.0, supports
    owner = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(demands)))
    heft, worth = (
        _restarting(weights[order], starts),
        _restarting((weights * demands)[order], starts),
    )
    price = 0.0
    while True:
        levels = (worth - price / 2) / heft
        x = np.maximum.reduceat(levels, starts)
        steepest = np.zeros(len(starts))
        at_top = levels == x[owner]
        steepest[owner[at_top]] = 1 / (2 * heft[at_top])
        active = x > 0
        excess = float(x[active].sum()) - rho
        slope = float(steepest[active].sum())
        if excess <= 1e-13 * rho or not slope or price + excess / slope <= price:
            break
        price += excess / slope
    supports[order] = np.maximum(x, 0.0)[owner]
    return float((weights * np.maximum(0.0, demands - supports) ** 2).sum()), supports


def _by_question(
    keys: NDArray[np.int64], demands: Floats
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """An order by question, the dearest ask of each first, and where each question starts."""
    order = np.lexsort((-demands, keys))
    ranked = keys[order]
    return order, np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]])


def _restarting(values: Floats, starts: NDArray[np.intp]) -> Floats:
    """Cumulative sums that start anew at each question (wide, since large totals cancel)."""
    total = np.cumsum(values, dtype=np.longdouble)
    before = np.concatenate((np.zeros(1, np.longdouble), total))[starts]
    own = total - np.repeat(before, np.diff(starts, append=len(values)))
    return own.astype(np.float64)
