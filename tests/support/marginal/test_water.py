"""Levels: they solve their equation, one row or many at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from defray.support.marginal.water import level_for_budget, level_for_variance

positive = st.floats(1e-6, 1e6)


@st.composite
def residuals(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    rows = draw(st.lists(st.tuples(positive, st.just(0.0) | positive), min_size=1, max_size=9))
    shares, held = np.array(rows).T
    return shares / shares.sum(), held


@given(residuals(), positive)
def test_a_level_reaches_its_variance(rows, variance):
    shares, held = rows
    theta = float(level_for_variance(shares, held, variance))
    if theta == 0:
        assert held.all() and (shares / held).sum() <= variance
    else:
        assert (shares / np.maximum(held, theta)).sum() == pytest.approx(variance, rel=1e-9)
        assert theta > held.min() * (1 - 1e-9)


@given(residuals(), positive)
def test_a_level_spends_its_budget(rows, rho):
    shares, held = rows
    theta = float(level_for_budget(shares, held, rho))
    assert theta > held.min()
    spent = shares @ np.maximum(theta - held, 0) / 2
    assert spent == pytest.approx(rho, rel=1e-6, abs=1e-9 * theta)


@given(st.lists(residuals().filter(lambda r: len(r[0]) >= 3), min_size=1, max_size=5), positive)
def test_many_rows_are_levelled_like_one(rows, amount):
    shares = np.stack([w[:3] for w, _ in rows])
    held = np.stack([u[:3] for _, u in rows])
    for level in (level_for_variance, level_for_budget):
        together = level(shares, held, np.full(len(rows), amount))
        alone = [float(level(w, u, amount)) for w, u in zip(shares, held, strict=True)]
        assert together.tolist() == alone


def test_ties_and_zeros():
    half = np.array([0.5, 0.5])
    assert level_for_variance(half, np.array([0.0, 0.0]), 0.25) == 4
    assert level_for_variance(half, np.array([4.0, 4.0]), 0.25) == 0
    assert level_for_budget(half, np.array([4.0, 4.0]), 1.0) == 6
