"""Plans answer every question of their class, and are proved to be nearly the cheapest."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from defray.support.view.plan import INVERTIBLE, Kind, class_plan, listed, saddle
from tests.support.view.workloads import Floats, ranges


def every(size: int, kind: Kind) -> Floats:
    """All questions of a class, written out."""
    sets: list[list[int]]
    if kind == "ranges":
        sets = [list(range(i, j + 1)) for i in range(size) for j in range(i, size)]
    elif kind == "subsets":
        sets = [list(s) for t in range(1, size + 1) for s in combinations(range(size), t)]
    elif kind == "cells":
        sets = [[c] for c in range(size)]
    else:
        sets = [list(range(size))]
    return np.array([[float(c in some) for c in range(size)] for some in sets])


def worst(questions: Floats, precision: Floats) -> float:
    return float(np.einsum("ij,ij->i", questions, np.linalg.solve(precision, questions.T).T).max())


@pytest.mark.parametrize(
    ("sizes", "kinds"),
    [
        ((9,), ("ranges",)),
        ((7,), ("subsets",)),
        ((5,), ("cells",)),
        ((5,), ("whole",)),
        ((1,), ("ranges",)),
        ((2,), ("subsets",)),
        ((6, 3), ("ranges", "subsets")),
        ((3, 4, 2), ("cells", "ranges", "whole")),
    ],
)
def test_a_plan_answers_its_whole_class(sizes: tuple[int, ...], kinds: tuple[Kind, ...]) -> None:
    plan = class_plan(sizes, kinds)
    questions = np.ones((1, 1))
    for size, kind in zip(sizes, kinds, strict=True):
        questions = np.kron(questions, every(size, kind))
    assert worst(questions, plan.precision) <= 1 + 1e-9
    assert plan.least <= plan.charge <= plan.least * (1.005 + INVERTIBLE)


@pytest.mark.parametrize(
    ("size", "kind", "charge"),
    [
        (16, "ranges", 3.65),
        (64, "ranges", 6.21),
        (128, "ranges", 7.86),
        (8, "subsets", 3.64),
        (256, "cells", 1.0),
    ],
)
def test_what_classes_cost(size: int, kind: Kind, charge: float) -> None:
    """In units of one question; 7.86 is known to be 1 % above the optimum."""
    found = class_plan((size,), (kind,)).charge
    assert charge * 0.985 <= found <= charge + 0.005


def test_charges_of_products_multiply() -> None:
    one, two = class_plan((6,), ("ranges",)), class_plan((4,), ("subsets",))
    both = class_plan((6, 4), ("ranges", "subsets"))
    assert both.charge == pytest.approx(one.charge * two.charge)
    assert both.least == pytest.approx(one.least * two.least)


@pytest.mark.parametrize("seed", range(3))
def test_the_bound_is_below_the_optimum_of_a_semidefinite_programme(seed: int) -> None:
    cp = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(seed)
    questions = ranges(6, 8, rng) / np.sqrt(rng.uniform(0.5, 2, 8))[:, None]
    plan = saddle(listed(questions), 6)
    x, most = cp.Variable((6, 6), PSD=True), cp.Variable()
    meets = [cp.bmat([[x, q[:, None]], [q[None], np.ones((1, 1))]]) >> 0 for q in questions]
    problem = cp.Problem(cp.Minimize(most), [*meets, cp.diag(x) <= most])
    problem.solve(solver="CLARABEL")
    assert plan.least * (1 - 1e-5) <= problem.value <= plan.charge * (1 + 1e-5)
    assert worst(questions, plan.precision) <= 1 + 1e-9
    assert plan.charge <= 1.02 * problem.value


def test_structured_classes_are_the_listed_ones() -> None:
    for kind in ("ranges", "subsets"):
        mine, written = class_plan((6,), (kind,)), saddle(listed(every(6, kind)), 6)
        assert mine.charge == pytest.approx(written.charge, rel=5e-3)
