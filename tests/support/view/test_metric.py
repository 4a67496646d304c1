"""The metric is the power of a second moment, and its transforms are exact."""

from __future__ import annotations

import numpy as np
import pytest

from defray.support.view.metric import FLOOR, Metric, Scaled, _fast, barrier, identity, metric


def second_moment(size: int, *, ordered: bool) -> np.ndarray:
    """By counting: the share of all ranges (or subsets) that hold both cells i and j, mean diagonal 1."""
    if ordered:
        sets = [range(i, j + 1) for i in range(size) for j in range(i, size)]
    else:
        sets = [[c for c in range(size) if s >> c & 1] for s in range(2**size)]
    w = np.zeros((size, size))
    for some in sets:
        w[np.ix_(list(some), list(some))] += 1
    return w * size / np.trace(w)


@pytest.mark.parametrize(
    ("sizes", "ordered", "power"),
    [
        ((9,), (True,), 0.2),
        ((6,), (False,), 0.2),
        ((1, 7, 1), (False, True, True), 0.2),
        ((5, 4), (True, False), 0.15),
        ((2, 3, 4), (False, True, False), 0.15),
    ],
)
def test_it_is_the_power_of_the_second_moment_of_random_questions(
    sizes: tuple[int, ...], ordered: tuple[bool, ...], power: float
) -> None:
    w = np.ones((1, 1))
    for size, is_ordered in zip(sizes, ordered, strict=True):
        w = np.kron(w, second_moment(size, ordered=is_ordered))
    e, u = np.linalg.eigh(w)
    assert np.allclose(
        metric(sizes, ordered).dense, (u * np.maximum(e, FLOOR * e[-1]) ** power) @ u.T
    )


def test_the_floor_is_felt_where_eigenvalues_spread_further() -> None:
    roots = metric((3000,), (True,)).roots
    assert roots.min() / roots.max() == pytest.approx(FLOOR ** (0.2 / 2))


@pytest.mark.parametrize(
    "base", [metric((4, 3), (True, False)), metric((300,), (True,)), identity(7)]
)
def test_whitening_takes_the_metric_to_the_identity(base: Metric) -> None:
    rng = np.random.default_rng(5)
    g = Scaled(base, rng.uniform(0.1, 1, base.cells))
    x, y = rng.normal(size=(2, base.cells))
    solved = np.linalg.solve(g.dense, y)
    assert g.whiten(x) @ g.whiten(y) == pytest.approx(x @ solved)
    assert np.allclose(g.colour(g.whiten(y)), solved)


def test_many_at_once_are_each_alone() -> None:
    base = metric((4, 3), (True, False))
    x = np.random.default_rng(1).normal(size=(5, 12))
    assert np.allclose(base.forth(x), [base.forth(row) for row in x])
    assert np.allclose(base.back(base.forth(x)), x)


@pytest.mark.parametrize("ordered", [True, False])
def test_a_transform_as_a_matrix_is_the_fast_one(ordered: bool) -> None:
    x = np.random.default_rng(2).normal(size=(3, 40))
    base = metric((40,), (ordered,))
    assert np.allclose(base.forth(x), _fast(x, 1, is_ordered=ordered, back=False))
    assert np.allclose(base.back(x), _fast(x, 1, is_ordered=ordered, back=True))


def test_the_barrier_rises_where_cells_have_paid() -> None:
    charges = np.array([0.0, 1.0, 2.0, 4.0])
    soft = barrier(charges, np.full(4, np.inf), 1.0)
    assert soft[0] == 1 and (np.diff(soft) < 0).all()
    assert soft[3] ** 2 == pytest.approx(1 - 4 / 5.3)  # cap' = 1.2 * 4 + 0.5
    hard = barrier(charges, np.array([1.0, 2.0, 2.0, 5.0]), 1.0, soft=False)
    assert (hard**2).tolist() == pytest.approx([1, 0.5, 1e-4, 0.2])
    assert (barrier(charges, np.full(4, np.inf), 1.0, soft=False) == 1).all()
