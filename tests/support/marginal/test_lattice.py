"""What is drawn and charged for residuals, exactly."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from defray.core.amounts import QUANTA, quanta_down, rho_of
from defray.core.target import MAX_SCALE
from defray.support.marginal.certificate import exact_variance
from defray.support.marginal.lattice import (
    draws,
    draws_within,
    reach_of,
    residual_table,
    with_noise,
)
from defray.support.marginal.residuals import Columns
from defray.support.marginal.support import Plan, Support
from tests.support.marginal.dense import columns, histories, subsets, summed

rhos = st.fractions(Fraction(1, 1000), 100, max_denominator=1000)
reaches = st.sampled_from([Fraction(1), Fraction(3), Fraction(1, 2), Fraction(2500)])


@st.composite
def plans(draw: st.DrawFn):
    columns, held = draw(histories(widest=100))
    b = draw(st.sampled_from(subsets(tuple(range(len(columns.atoms))))))
    support = Support(columns, held)
    variance = draw(st.floats(1e-6, 1e6))
    return support, b, variance, support.raise_to(b, variance)


@given(columns(), st.data())
def test_one_row_moves_an_integer_residual_by_its_reach_in_whatever_cell(columns, data):
    b = tuple(i for i, n in enumerate(columns.atoms) if n > 1)
    a = data.draw(st.sampled_from(subsets(b)))
    counts = data.draw(
        st.lists(st.integers(0, 10**6), min_size=columns.cells(b), max_size=columns.cells(b))
    )
    here = residual_table(columns, b, np.array(counts), a)
    assert here.dtype == np.int64
    assert np.allclose(
        here.ravel(), columns.cells(a) * summed(columns.shape(b), _inside(a, b), "centred") @ counts
    )
    for cell in range(columns.cells(b)):
        more = counts.copy()
        more[cell] += 1
        moved = residual_table(columns, b, np.array(more), a) - here
        assert (moved**2).sum() == columns.squared_reach(a)


def _inside(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(b.index(i) for i in a)


@pytest.mark.parametrize("size", [10**6, 10**17, 10**30])
def test_large_counts_do_not_wrap_around(size):
    columns = Columns((3, 1, 2))
    counts = np.array([size * (i + 1) for i in range(6)], dtype=object)
    if size < 2**62 // 6:
        counts = counts.astype(np.int64)
    table = residual_table(columns, (0, 2), counts, (0,))
    assert table.tolist() == [3 * s - 21 * size for s in (3 * size, 7 * size, 11 * size)]
    assert residual_table(columns, (0, 2), counts, ()).ravel().tolist() == [21 * size]


def test_a_residual_belongs_to_its_marginal():
    with pytest.raises(ValueError, match="not in"):
        residual_table(Columns((3, 2)), (0,), np.arange(3), (1,))


@given(plans(), rhos, reaches)
def test_draws_add_what_was_planned_and_charge_what_it_costs(planned, total, reach):
    support, b, variance, plan = planned
    made = draws(support.columns, plan, total, reach)
    wanted = dict(plan.raises)
    assert [d.attributes for d in made] == list(wanted)
    held = {a: Fraction(h) for a, h in support.held.items()}
    for d in made:
        assert d.precision >= wanted[d.attributes]
        assert d.precision * Fraction(d.sigma) ** 2 <= support.columns.cells(d.attributes) ** 2
        assert d.precision.denominator & (d.precision.denominator - 1) == 0
        assert d.scale <= MAX_SCALE and math.frexp(d.scale)[1] > 28
        true = reach_of(support.columns, d.attributes, reach) / (2 * Fraction(d.sigma) ** 2)
        assert rho_of(d.charge - 1, total) < true <= rho_of(d.charge, total)
        held[d.attributes] = held.get(d.attributes, Fraction(0)) + d.precision
    found = exact_variance(support.columns, b, held)
    assert found is not None and found <= Fraction(variance)
    if all(d.scale < MAX_SCALE / 2 for d in made):
        charged = float(rho_of(sum(d.charge for d in made), total))
        grain = len(made) * float(total) / QUANTA
        assert charged == pytest.approx(float(reach**2) * plan.rho, rel=1e-9, abs=grain)


@given(plans(), rhos, st.floats(0, 1), reaches)
def test_draws_within_a_budget_never_exceed_it(planned, total, share, reach):
    support, b, _, _ = planned
    quanta = quanta_down(Fraction(share) * total, total)
    plan = support.within(b, float(rho_of(quanta, total) / reach**2))
    made = draws_within(support.columns, plan, total, quanta, reach)
    assert sum(d.charge for d in made) <= quanta
    for d in made:
        true = reach_of(support.columns, d.attributes, reach) / (2 * Fraction(d.sigma) ** 2)
        assert true <= rho_of(d.charge, total)
        assert d.precision * Fraction(d.sigma) ** 2 <= support.columns.cells(d.attributes) ** 2
        assert d.precision.denominator & (d.precision.denominator - 1) == 0
    left_out = len(plan.raises) - len(made)
    spent = float(rho_of(sum(d.charge for d in made), total))
    if quanta > 10**9 and plan.raises and not left_out:
        assert spent == pytest.approx(float(total) * quanta / QUANTA, rel=1e-8)


def test_a_unit_of_k_rows_pays_k_squared():
    columns = Columns((4, 5))
    plan = Support(columns, {}).raise_to((0, 1), 9.0)
    one, three = (
        sum(d.charge for d in draws(columns, plan, Fraction(1), Fraction(k))) for k in (1, 3)
    )
    assert three == pytest.approx(9 * one, rel=1e-12)


def test_a_minute_top_up_stays_within_the_sampler():
    made = draws(Columns((10,)), Plan((((0,), 1e-40),), 0.0, 0.0), Fraction(1))
    assert made[0].scale <= MAX_SCALE


def test_noise_meets_the_table_in_lattice_steps():
    columns = Columns((3,))
    (draw,) = draws(columns, Plan((((0,), 0.25),), 0.0, 0.0), Fraction(1), halves=1)
    table = residual_table(columns, (0,), np.array([1, 5, 2]), (0,))  # in half units
    noisy = with_noise(table, draw, [0, 7, -1], halves=1)
    steps = 2 ** (draw.bits - 1)
    assert noisy == (-5 * steps, 7 * steps + 7, -2 * steps - 1)
