"""What others pay for the same questions: no reuse, exact repeats, rank-one top-ups; the least of any plan.

All in precision (twice the rho).  ``total`` adds every release up, ``cell`` is the dearest cell's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from defray.support.view.plan import listed, saddle

Floats = NDArray[np.float64]

UNKNOWN = 1e6
"""Variance of a cell before the first release, in units of the tightest target."""


class Paid(NamedTuple):
    total: float
    cell: float


def no_reuse(questions: Floats, variances: Floats) -> Paid:
    """Every question from scratch."""
    return Paid(
        float((1 / variances).sum()), float((questions / variances[:, None]).sum(axis=0).max())
    )


def exact_repeats(questions: Floats, variances: Floats) -> Paid:
    """The same question pays only what a tighter target adds."""
    best: dict[bytes, float] = {}
    paid, total = np.zeros(questions.shape[1]), 0.0
    for q, v in zip(questions, variances.tolist(), strict=True):
        key = q.tobytes()
        more = max(0.0, 1 / v - best.get(key, 0.0))
        best[key] = max(best.get(key, 0.0), 1 / v)
        total += more
        paid += more * q * q
    return Paid(total, float(paid.max()))


def rank_one(questions: Floats, variances: Floats) -> Paid:
    """Each question is measured itself, as well as the best estimate from earlier ones leaves it short."""
    cells = questions.shape[1]
    covariance = np.eye(cells) * UNKNOWN * float(variances.min())
    paid, total = np.zeros(cells), 0.0
    for q, v in zip(questions, variances.tolist(), strict=True):
        image = covariance @ q
        now = float(q @ image)
        if now <= v * (1 + 1e-9):
            continue
        more = 1 / v - 1 / now
        total += more
        paid += more * q * q
        covariance -= np.outer(image, image) * (more / (1 + more * now))
    return Paid(total, float(paid.max()))


def least(questions: Floats, variances: Floats, rounds: int = 200) -> float:
    """What the dearest cell pays under any plan that knows all questions beforehand: a proved lower bound."""
    scaled = np.unique(questions / np.sqrt(variances)[:, None], axis=0)
    scaled = scaled[np.abs(scaled).max(axis=1) > 0]
    if not len(scaled):
        return 0.0
    size = float(np.abs(scaled).max())
    return saddle(listed(scaled / size), questions.shape[1], rounds=rounds).least * size * size


def by_cone(questions: Floats) -> float:
    """The optimum itself for targets of variance 1, by a general solver; for small problems only."""
    import cvxpy as cp

    cells = questions.shape[1]
    precision = cp.Variable((cells, cells), PSD=True)
    top = cp.Variable()
    limits = [cp.matrix_frac(q, precision) <= 1 for q in questions]
    problem = cp.Problem(cp.Minimize(top), [cp.diag(precision) <= top, *limits])
    problem.solve(solver=cp.CLARABEL)
    return float(problem.value)


def answered_with_repeats(
    questions: Sequence[Floats], variances: Floats, groups: Sequence[str], cap: float
) -> int:
    """How many are answered under a cap where only the same question is credited; groups are views with
    cells of their own, whose dearest cells add up."""
    paid: dict[str, Floats] = {}
    best: dict[tuple[str, bytes], float] = {}
    worst: dict[str, float] = {}
    answered = 0
    for q, v, group in zip(questions, variances.tolist(), groups, strict=True):
        key = group, q.tobytes()
        more = max(0.0, 1 / v - best.get(key, 0.0))
        after = paid.get(group, np.zeros(len(q))) + more * q * q
        elsewhere = sum(w for name, w in worst.items() if name != group)
        if float(after.max()) + elsewhere > cap:
            continue
        answered += 1
        if more:
            paid[group], worst[group] = after, float(after.max())
            best[key] = 1 / v
    return answered


def answered_by_histograms(
    sizes: Sequence[int], variances: Floats, groups: Sequence[str], cap: float
) -> int:
    """How many are answered where every view is one histogram, topped up as far as the next question needs:
    a sum of k bins has k times the variance of one."""
    held: dict[str, float] = {}
    answered = 0
    for size, v, group in zip(sizes, variances.tolist(), groups, strict=True):
        wanted = max(held.get(group, 0.0), size / v)
        if sum(held.values()) - held.get(group, 0.0) + wanted > cap:
            continue
        held[group] = wanted
        answered += 1
    return answered
