"""Several marginals at once: feasible, certified, and what a conic solver finds."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from defray.support.marginal.joint import _Problem, joint, raise_all
from defray.support.marginal.residuals import Columns
from defray.support.marginal.support import Support
from tests.support.marginal.dense import histories, information, subsets, summed


@st.composite
def batches(draw: st.DrawFn):
    columns, held = draw(histories())
    sets = subsets(tuple(range(len(columns.atoms))))
    wish = st.tuples(st.sampled_from(sets), st.floats(1e-2, 1e2))
    return Support(columns, held), draw(st.lists(wish, max_size=8))


def after(support: Support, plan) -> Support:
    held = dict(support.held)
    plan.add_to(held)
    return Support(support.columns, held)


@given(batches())
def test_every_wish_is_met_and_none_twice(batch):
    support, wishes = batch
    for plan in (joint(support, wishes).plan, raise_all(support, wishes)):
        then = after(support, plan)
        assert all(then.variance(b) <= v for b, v in wishes)
        assert plan.rho == pytest.approx(then.rho() - support.rho(), abs=1e-9 * (then.rho() + 1e-9))
        assert raise_all(then, wishes).raises == ()
        worst = max((then.variance(b) / v for b, v in wishes), default=0.0)
        assert plan.variance == pytest.approx(worst)


@given(batches())
def test_the_bound_is_below_every_plan(batch):
    support, wishes = batch
    bound = joint(support, wishes).bound
    tolerance = 1e-9 * (support.rho() + bound)
    assert bound <= raise_all(support, wishes).rho + tolerance
    held, paid = support, 0.0
    for b, v in wishes:
        step = held.raise_to(b, v)
        held, paid = after(held, step), paid + step.rho
    assert bound <= paid + tolerance


@given(batches())
def test_more_rounds_never_lower_the_bound(batch):
    support, wishes = batch
    wanted = {}
    for b, v in wishes:
        wanted[b] = min(v, wanted.get(b, math.inf))
    problem = _Problem.of(support, wanted)
    y, last = problem.start, -math.inf
    for _ in range(6 if len(y) else 0):
        s = problem.gathered(y)
        value = problem.value(s, y)
        assert value >= last - 1e-9 * (abs(value) + problem.prices @ problem.held + y.sum())
        last = value
        y = y * problem.scales(s) ** 2


@given(batches())
@settings(max_examples=40)
def test_bound_and_plan_meet(batch):
    support, wishes = batch
    found = joint(support, wishes, gap=1e-3)
    assert found.bound >= found.plan.rho * (1 - 1e-2) - 1e-9 * support.rho()


def test_one_marginal_is_the_closed_form():
    support = Support(Columns((4, 5, 3)), {(0,): 0.3, (1, 2): 2.0, (): 1e-3})
    closed = support.raise_to((0, 1, 2), 2.0).rho
    found = joint(support, [((0, 1, 2), 2.0)], gap=1e-9)
    assert found.plan.rho == pytest.approx(closed, rel=1e-8)
    assert found.bound == pytest.approx(closed, rel=1e-8)
    assert raise_all(support, [((2, 1, 0), 2.0)]).rho == pytest.approx(closed)


@pytest.mark.parametrize("spread", [1.0, 30.0])
def test_together_is_cheaper_than_one_after_the_other(spread):
    support, rng = Support(Columns((2,) * 10), {}), np.random.default_rng(0)
    sets = [b for k in range(4) for b in combinations(range(10), k)]
    wishes = [(sets[i], float(spread ** rng.random())) for i in rng.permutation(len(sets))]
    held, paid = support, 0.0
    for b, v in wishes:
        step = held.raise_to(b, v)
        held, paid = after(held, step), paid + step.rho
    plan = raise_all(support, wishes)
    assert plan.rho < 0.9 * paid
    assert plan.rho <= 1.0002 * joint(support, wishes, gap=1e-6).bound


def test_of_wishes_for_one_marginal_the_strictest_counts():
    support = Support(Columns((3, 4)), {})
    twice = raise_all(support, [((0,), 5.0), ((0,), 2.0), ((0,), 9.0)])
    assert twice.rho == support.raise_to((0,), 2.0).rho


def test_nothing_wished_costs_nothing():
    support = Support(Columns((3, 4)), {(): 1.0})
    assert raise_all(support, []).raises == () == joint(support, []).plan.raises
    assert joint(support, [((), 2.0)]).bound == 0


def test_a_variance_is_positive():
    for plan in (joint, raise_all):
        with pytest.raises(ValueError, match="not a variance"):
            plan(Support(Columns((2,)), {}), [((0,), 0.0)])


@pytest.mark.parametrize("seed", range(12))
def test_a_conic_solver_finds_the_same(seed):
    """In units of the strictest target, as solvers want it."""
    cp = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(seed)
    columns = Columns(tuple(int(n) for n in rng.integers(2, 20, int(rng.integers(2, 5)))))
    sets = subsets(tuple(range(len(columns.atoms))))
    held = {a: float(10 ** rng.uniform(-4, 0)) for a in sets if rng.random() < 0.5}
    wishes = {sets[i]: float(10 ** rng.uniform(0, 1)) for i in rng.integers(0, len(sets), 6)}
    support = Support(columns, held)
    found = joint(support, list(wishes.items()), gap=1e-7, rounds=4000)
    prices = np.array([float(columns.price(a)) for a in sets])
    base = np.array([held.get(a, 0.0) for a in sets])
    g = cp.Variable(len(sets))
    meets = [g >= base]
    for b, variance in wishes.items():
        at = [sets.index(a) for a in subsets(b)]
        n = columns.cells(b)
        c = np.array(
            [float(columns.price(sets[i])) * (columns.cells(sets[i]) / n) ** 2 for i in at]
        )
        meets.append(c @ cp.inv_pos(g[at]) <= variance)
    problem = cp.Problem(cp.Minimize(prices @ (g - base)), meets)
    problem.solve(solver="CLARABEL")
    assert problem.status == "optimal"
    assert found.plan.rho == pytest.approx(problem.value / 2, rel=1e-4, abs=1e-6)
    assert found.bound == pytest.approx(problem.value / 2, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("asked", [((0, 1),), ((0,), (0, 1)), ((0,), (1,))])
def test_no_gaussian_release_of_any_kind_is_cheaper(asked):
    """A semidefinite program over every measurement of a 2 x 3 table, marginals or not."""
    cp = pytest.importorskip("cvxpy")
    columns, rng = Columns((2, 3)), np.random.default_rng(5)
    support = Support(columns, {a: float(10 ** rng.uniform(-1.5, 0.5)) for a in subsets((0, 1))})
    wishes = [(b, 0.3 * support.variance(b)) for b in asked]
    extra, dearest = cp.Variable((6, 6), PSD=True), cp.Variable()
    known = information(columns.atoms, support.held)
    meets = [cp.diag(extra) <= dearest]
    for b, variance in wishes:
        for row in summed(columns.atoms, b, "all"):
            corner = np.array([[variance]])
            meets.append(cp.bmat([[known + extra, row[:, None]], [row[None, :], corner]]) >> 0)
    problem = cp.Problem(cp.Minimize(dearest / 2), meets)
    problem.solve(solver="CLARABEL")
    assert joint(support, wishes, gap=1e-7).plan.rho == pytest.approx(problem.value, rel=1e-4)
