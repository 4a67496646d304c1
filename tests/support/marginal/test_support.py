"""What is held says what it says, and plans are the cheapest there are."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from defray.support.marginal.residuals import Columns
from defray.support.marginal.support import Support
from tests.support.marginal.dense import histories, information, subsets, summed

targets = st.floats(1e-3, 1e3)
tilts = st.sampled_from([1.0, 0.5, 0.1])


@st.composite
def asks(draw: st.DrawFn) -> tuple[Support, tuple[int, ...], float, float]:
    columns, held = draw(histories())
    b = draw(st.sampled_from(subsets(tuple(range(len(columns.atoms))))))
    return Support(columns, held), b, draw(targets), draw(tilts)


def after(support: Support, plan) -> Support:
    held = dict(support.held)
    plan.add_to(held)
    return Support(support.columns, held)


def test_variance_is_that_of_least_squares():
    atoms, rng = (3, 4, 2), np.random.default_rng(0)
    held = {a: rng.uniform(0.2, 2) for a in subsets((0, 1, 2))}
    covariance = np.linalg.inv(information(atoms, held))
    for b in held:
        m = summed(atoms, b, "all")
        exact = np.diag(m @ covariance @ m.T)
        assert np.allclose(exact, Support(Columns(atoms), held).variance(b))


@given(asks())
def test_a_plan_reaches_its_target_and_is_not_needed_twice(ask):
    support, b, variance, tilt = ask
    plan = support.raise_to(b, variance, tilt)
    then = after(support, plan)
    assert then.variance(b) <= variance
    assert plan.variance == pytest.approx(then.variance(b))
    assert plan.rho == pytest.approx(then.rho() - support.rho(), abs=1e-9 * then.rho())
    for again in (tilt, 1.0):
        assert then.raise_to(b, variance, again).raises == ()
    assert not plan.raises or tilt < 1 or plan.variance >= variance * (1 - 1e-9)


@given(asks())
def test_free_iff_everything_is_held_and_the_variance_holds(ask):
    support, b, variance, tilt = ask
    free = support.raise_to(b, variance, tilt).raises == ()
    held = all(a in support.held for a in subsets(b))
    assert free == (held and support.variance(b) <= variance)


@given(asks())
def test_a_budget_is_spent_and_never_exceeded(ask):
    support, b, rho, tilt = ask
    plan = support.within(b, rho, tilt)
    then = after(support, plan)
    assert plan.rho <= rho
    assert plan.variance == pytest.approx(then.variance(b))
    level = max(
        h * support.columns.cells(b) / support.columns.cells(a) for a, h in then.held.items()
    )
    assert plan.rho == pytest.approx(rho, rel=1e-6, abs=1e-9 * level)


@given(asks())
def test_target_and_budget_are_two_sides_of_one_plan(ask):
    support, b, variance, tilt = ask
    plan = support.raise_to(b, variance, tilt)
    if plan.rho < 1e-6 * support.rho():
        return  # lost in what is held
    assert support.within(b, plan.rho, tilt).variance == pytest.approx(plan.variance, rel=1e-5)
    assert support.within(b, plan.rho / 2, tilt).variance > variance


@given(asks(), st.floats(0.3, 3), st.data())
def test_no_other_way_to_the_target_is_cheaper(ask, push, data):
    """A residual raised by another amount, and the rest planned: never cheaper (convexity makes this
    local test global)."""
    support, b, variance, _ = ask
    plan = support.raise_to(b, variance)
    if not plan.raises:
        return
    a, h = data.draw(st.sampled_from(plan.raises))
    other = dict(support.held)
    other[a] = other.get(a, 0.0) + h * push
    paid = float(support.columns.price(a)) * h * push / 2
    rest = Support(support.columns, other).raise_to(b, variance)
    assert paid + rest.rho >= plan.rho * (1 - 1e-9)


@given(asks(), st.floats(0.1, 1))
def test_topping_up_a_marginal_costs_what_asking_at_once_would_have(ask, share):
    """The paper's residual rule, on a marginal that was asked before."""
    support, b, variance, _ = ask
    first = support.raise_to(b, variance)
    more = after(support, first).raise_to(b, variance * share)
    whole = support.raise_to(b, variance * share)
    assert first.rho + more.rho == pytest.approx(whole.rho, rel=1e-6, abs=1e-9)


@given(asks(), st.floats(1e-4, 1e4))
def test_what_is_affordable_does_not_depend_on_the_tilt(ask, rho):
    support, b, variance, tilt = ask
    plain = support.raise_to(b, variance)
    plan = support.afford(b, variance, rho, tilt)
    assert (plan is not None) == (
        plain.rho <= rho or support.raise_to(b, variance, tilt).rho <= rho
    )
    if plan is not None:
        assert plan.rho <= rho and after(support, plan).variance(b) <= variance


def test_from_scratch_a_marginal_costs_what_plain_noise_costs():
    support = Support(Columns((7, 5, 3)), {})
    assert support.raise_to((0, 1, 2), 25.0).rho == pytest.approx(0.5 / 25)
    assert support.variance((0,)) == math.inf


def test_a_parent_of_a_known_marginal_is_cheaper_than_from_scratch_and_children_are_not_free():
    support = Support(Columns((10, 4)), {})
    held = dict(support.raise_to((0, 1), 10.0).raises)
    known = Support(support.columns, held)
    assert known.variance((0,)) == pytest.approx(40)
    assert known.raise_to((0,), 40.1).raises == ()
    assert known.raise_to((0,), 10.0).rho == pytest.approx(0.5 / 10 - 0.5 / 40)


def test_columns_of_one_atom_cost_nothing():
    wide = Support(Columns((1, 6, 1)), {})
    plan = wide.raise_to((0, 1, 2), 2.0)
    assert {a for a, _ in plan.raises} == {(), (1,)}
    assert plan.rho == pytest.approx(0.25)


class Watched(dict):  # type: ignore[type-arg]
    """Remembers what was looked up, and may not be walked through."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[tuple[int, ...]] = set()

    def get(self, key, default=None):
        self.seen.add(key)
        return super().get(key, default)

    def __iter__(self):
        raise AssertionError("all precisions were read")

    items = keys = values = __iter__


def test_a_question_on_a_wide_table_reads_its_own_residuals_only():
    held = Watched()
    plan = Support(Columns((10,) * 100), held).raise_to((3, 50, 97), 9.0)
    assert len(plan.raises) == 8
    assert held.seen == set(subsets((3, 50, 97)))


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_a_variance_is_positive(bad):
    with pytest.raises(ValueError, match="not a variance"):
        Support(Columns((2,)), {}).raise_to((0,), bad)


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf])
def test_a_budget_is_not_negative(bad):
    with pytest.raises(ValueError, match="not a budget"):
        Support(Columns((2,)), {}).within((0,), bad)


@pytest.mark.parametrize("bad", [0.0, 1.5, math.nan])
def test_a_tilt_is_a_share(bad):
    with pytest.raises(ValueError, match="tilt"):
        Support(Columns((2,)), {}).raise_to((0,), 1.0, bad)
