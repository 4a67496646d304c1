"""A view that takes over residual releases knows exactly what the marginals inside it know."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from defray.support.marginal.certificate import centre, reconstruct
from defray.support.marginal.fold import applied, information, weighted
from defray.support.marginal.residuals import Columns
from defray.support.marginal.support import Support
from tests.support.marginal import dense
from tests.support.marginal.dense import subsets, summed

ATOMS = (3, 4, 1, 2)
COLUMNS = Columns(ATOMS)
VIEW = (0, 1, 3)
precisions = st.floats(0.1, 10)


@given(st.dictionaries(st.sampled_from(subsets(VIEW)), precisions), st.sampled_from(subsets(VIEW)))
def test_information_is_that_of_the_releases_inside(held, view):
    inside = {tuple(view.index(i) for i in a): h for a, h in held.items() if set(a) <= set(view)}
    p = information(COLUMNS, view, held)
    assert np.allclose(p, dense.information(COLUMNS.shape(view), inside))
    x = np.arange(len(p)) ** 2 + 1.0
    assert np.allclose(applied(COLUMNS, view, held, x).ravel(), p @ x)


@given(st.tuples(*[precisions] * 8), st.sampled_from(subsets(VIEW)), st.integers(0, 99))
def test_a_view_answers_its_marginals_as_the_marginal_model_does(levels, b, seed):
    held = dict(zip(subsets(VIEW), levels, strict=True))
    rng = np.random.default_rng(seed)
    residuals = {a: centre(rng.normal(size=COLUMNS.shape(a))) for a in held}
    p, r = information(COLUMNS, VIEW, held), weighted(COLUMNS, VIEW, held, residuals)
    q = summed(COLUMNS.shape(VIEW), tuple(VIEW.index(i) for i in b), "all")
    z = np.linalg.solve(p, q.T)
    assert np.diag(q @ z) == pytest.approx(Support(COLUMNS, held).variance(b))
    assert np.allclose(z.T @ r.ravel(), reconstruct(COLUMNS, b, residuals).ravel())
