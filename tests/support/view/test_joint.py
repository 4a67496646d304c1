"""Several questions at once: every one has its target, the caps hold for all together."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from defray.support.view.certificate import known
from defray.support.view.joint import offer_all
from defray.support.view.state import SLACK, State
from tests.strategies import asked
from tests.support.view.workloads import N_MAX, Floats, Z, line, play, ranges


def widths(variances: Floats) -> Floats:
    return Z * np.sqrt(variances)


@settings(max_examples=40)
@given(asked(), st.sampled_from([np.inf, 2.0, 0.3]))
def test_all_or_none(case: tuple[Floats, Floats], cap: float) -> None:
    q, v = case
    *_, last = play(q[:6], v[:6])
    state, caps = last.after, np.full(q.shape[1], cap)
    plan = offer_all(state, q[6:14], v[6:14], caps, line(q.shape[1]), half_widths=widths(v[6:14]))
    if plan is None:
        assert cap < np.inf
        return
    assert (plan.charge <= cap * (1 + 1e-12)).all()
    assert plan.after.count == state.count + len(plan.offers)
    total = sum((o.charge for o in plan.offers), np.zeros(q.shape[1]))
    assert np.allclose(total, plan.charge)
    for question, variance in zip(q[6:14], v[6:14], strict=True):
        said = known(plan.after, question)
        assert said.variance <= variance * (1 + 1e-9)
        assert said.deviation * N_MAX <= SLACK * Z * math.sqrt(variance)


def test_the_cells_of_a_group_by_cost_one_question() -> None:
    """Disjoint and never seen before: exactly the price of one."""
    q = np.kron(np.eye(6), np.ones((1, 3)))
    plan = offer_all(
        State.empty(18, N_MAX), q, [4.0] * 6, np.full(18, np.inf), line(18), half_widths=[4.0] * 6
    )
    assert plan is not None and len(plan.offers) == 6
    assert np.allclose(plan.charge, 0.25, rtol=1e-12)


def test_what_is_known_is_credited() -> None:
    """After ranges over the same cells the groups cost less than from scratch, and a repeat nothing."""
    *_, last = play(ranges(16, 30, np.random.default_rng(2)), np.ones(30))
    q = np.kron(np.eye(4), np.ones((1, 4)))
    caps = np.full(16, np.inf)
    plan = offer_all(last.after, q, [1.0] * 4, caps, line(16), half_widths=[Z] * 4)
    assert plan is not None and plan.charge.max() < 0.6
    again = offer_all(plan.after, q, [1.0] * 4, caps, line(16), half_widths=[Z] * 4)
    assert again is not None and again.offers == () and not again.charge.any()


def test_planning_leaves_the_state_alone() -> None:
    *_, last = play(ranges(8, 5, np.random.default_rng(1)), np.ones(5))
    before = last.after.rows.copy()
    offer_all(last.after, np.eye(8), [0.1] * 8, np.full(8, np.inf), line(8), half_widths=[1.0] * 8)
    assert last.after.count == len(before)
    assert np.array_equal(last.after.rows, before)
