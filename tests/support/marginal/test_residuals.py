"""Residuals against dense matrices: they are orthogonal, complete, and sum to marginals as stated."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from defray.support.marginal.residuals import Columns
from tests.support.marginal.dense import columns, information, subsets, summed

ATOMS = (3, 4, 5)
ALL = (0, 1, 2)


def test_residuals_are_orthogonal_and_together_say_everything():
    matrices = {a: summed(ATOMS, a, "centred") for a in subsets(ALL)}
    for a, b in itertools.combinations(matrices, 2):
        assert np.allclose(matrices[a] @ matrices[b].T, 0)
    assert np.linalg.matrix_rank(np.vstack(list(matrices.values()))) == 60


@pytest.mark.parametrize("attributes", subsets(ALL))
def test_a_unit_of_precision_costs_every_cell_the_same(attributes):
    charges = np.diag(information(ATOMS, {attributes: 1.0}))
    assert np.allclose(charges, float(Columns(ATOMS).price(attributes)))


@pytest.mark.parametrize("attributes", subsets(ALL))
def test_the_integer_residual_moves_by_its_squared_reach(attributes):
    grown = summed(ATOMS, attributes, "centred") * Columns(ATOMS).cells(attributes)
    assert np.allclose((grown**2).sum(axis=0), Columns(ATOMS).squared_reach(attributes))


@pytest.mark.parametrize("attributes", subsets(ALL))
def test_a_plain_noisy_marginal_is_a_set_of_residuals(attributes):
    matrix = summed(ATOMS, attributes, "all")
    marginal = Columns(ATOMS).marginal(attributes)
    same = {a: 1.7 / n for a, n in zip(marginal.sets, marginal.spreads, strict=True)}
    assert np.allclose(1.7 * matrix.T @ matrix, information(ATOMS, same))


@given(columns(), st.data())
def test_shares_sum_to_one_over_all_subsets(columns, data):
    wanted = data.draw(st.lists(st.integers(0, len(columns.atoms) - 1)))
    marginal = columns.marginal(wanted)
    assert set(marginal.sets) == set(subsets(marginal.attributes))
    assert len(marginal.sets) == len(set(marginal.sets))
    assert marginal.shares.sum() == pytest.approx(1)
    n = columns.cells(marginal.attributes)
    for a, w, u, d in zip(
        marginal.sets, marginal.shares, marginal.spreads, marginal.depths, strict=True
    ):
        assert u == n // columns.cells(a)
        assert w == pytest.approx(float(columns.price(a)) / u)
        assert d == len(marginal.attributes) - len(a)


def test_columns_of_one_atom_are_left_out():
    columns = Columns((1, 3, 1, 2))
    assert columns.reduced((3, 0, 1, 1)) == (1, 3)
    assert columns.marginal((0, 2)).sets == ((),)


def test_a_column_has_atoms():
    with pytest.raises(ValueError, match="without atoms"):
        Columns((2, 0))
