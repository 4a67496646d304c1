"""A promised class is never refused, whatever is asked; and no cell exceeds its cap."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from defray.support.view.metric import metric
from defray.support.view.offer import PROMISED, Free, Offer
from defray.support.view.plan import Kind, Plan, class_plan
from defray.support.view.promise import MARGIN, SLACK, Promise
from defray.support.view.state import State
from tests.support.view.workloads import N_MAX, Floats, Step, play, ranges, single, subsets


def holds_back(promise: Promise) -> bool:
    """R is positive semidefinite, up to what counts as rounding."""
    return bool(np.linalg.eigvalsh(promise.reserve)[0] >= -3 * promise.tiny)


def holds(steps: list[Step], plan: Plan, variance: float, cap: float) -> None:
    """What must hold after every step; the shadow is folded anew from the releases."""
    promise = Promise.of(plan, variance)
    for step in steps:
        if isinstance(step.found, Offer):
            promise = promise.after(step.found.b, step.found.variance)
            assert step.found.promise is not None
            assert np.array_equal(promise.reserve, step.found.promise.reserve)
        assert holds_back(promise)
        assert (step.after.charges + np.diag(promise.reserve)).max() <= cap
        shadow = step.after.precision + promise.reserve
        assert np.linalg.eigvalsh(shadow - plan.precision / variance)[0] >= -1e-9 * cap
        assert step.after.charges.max() <= cap


classes: list[tuple[tuple[int, ...], tuple[Kind, ...]]] = [
    ((12,), ("ranges",)),
    ((6,), ("subsets",)),
    ((5, 3), ("ranges", "subsets")),
]


def member(sizes: tuple[int, ...], kinds: tuple[Kind, ...], rng: np.random.Generator) -> Floats:
    q = np.ones(1)
    for size, kind in zip(sizes, kinds, strict=True):
        if kind == "ranges":
            one = ranges(size, 1, rng)[0]
        else:
            one = subsets(size, 1, rng)[0]
            one[rng.integers(size)] = 1
        q = np.kron(q, one)
    return q


@settings(max_examples=25)
@given(
    st.sampled_from(classes),
    st.sampled_from([1.001, 1.05, 1.5]),
    st.integers(0, 2**32 - 1),
)
def test_no_question_of_the_class_is_refused(
    which: tuple[tuple[int, ...], tuple[Kind, ...]], spare: float, seed: int
) -> None:
    """Between questions of the class come others, tighter than promised, that try to use up the cap."""
    sizes, kinds = which
    rng = np.random.default_rng(seed)
    plan = class_plan(sizes, kinds)
    cap = plan.charge * spare / 2.0  # V0 = 2
    cells = int(np.prod(sizes))
    q, v, inside = [], [], []
    for _ in range(60):
        mine = bool(rng.random() < 0.6)
        inside.append(mine)
        q.append(member(sizes, kinds, rng) if mine else subsets(cells, 1, rng)[0])
        v.append(2.0 if mine else 2.0 * 10 ** rng.uniform(-2, 0.5))
    promise = Promise.of(plan, 2.0)
    base = metric(sizes, tuple(kind == "ranges" for kind in kinds))
    steps = list(play(q, v, cap, base=base, promise=promise))
    for step, mine in zip(steps, inside, strict=True):
        assert step.found is not None or not mine
    holds(steps, plan, 2.0, cap)


def test_without_the_promise_some_are_refused() -> None:
    """The twin: the same questions, the same cap."""
    cap = class_plan((64,), ("ranges",)).charge * 1.015
    q = ranges(64, 400, np.random.default_rng(3))
    plain = [s.found is None for s in play(q, np.ones(400), cap)]
    plan = class_plan((64,), ("ranges",))
    kept = [s.found is None for s in play(q, np.ones(400), cap, promise=Promise.of(plan, 1.0))]
    assert sum(plain) > 20
    assert sum(kept) == 0


def test_an_analyst_who_uses_the_room_up_leaves_what_is_promised() -> None:
    """First tight questions until nothing more is granted, then the whole class."""
    plan = class_plan((10,), ("ranges",))
    promise, cap = Promise.of(plan, 1.0), plan.charge * 1.2
    rng = np.random.default_rng(0)
    greedy = single(10, 40, rng)
    every = np.array(
        [[float(i <= c <= j) for c in range(10)] for i in range(10) for j in range(i, 10)]
    )
    q = np.vstack([greedy, every[rng.permutation(len(every))]])
    v = np.concatenate([10.0 ** rng.uniform(-3, 0, 40), np.ones(len(every))])
    steps = list(play(q, v, cap, promise=promise))
    assert any(step.found is None for step in steps[:40])
    assert all(step.found is not None for step in steps[40:])
    holds(steps, plan, 1.0, cap)


def test_with_twice_the_charge_the_promise_costs_little() -> None:
    plan = class_plan((32,), ("ranges",))
    q = ranges(32, 150, np.random.default_rng(2))
    *_, plain = play(q, np.ones(150), 2 * plan.charge)
    *_, kept = play(q, np.ones(150), 2 * plan.charge, promise=Promise.of(plan, 1.0))
    assert kept.after.charges.max() <= 1.15 * plain.after.charges.max()


def test_the_least_variance_is_what_was_promised() -> None:
    plan = class_plan((9,), ("ranges",))
    promise = Promise.of(plan, 5.0)
    for q in ranges(9, 20, np.random.default_rng(1)):
        assert promise.least(State.empty(9, N_MAX), q) <= 5 / (1 + MARGIN) * (1 + 1e-9)
    assert promise.held.max() == pytest.approx(plan.charge * (1 + MARGIN) * (1 + SLACK) / 5)


def test_what_a_release_says_comes_out_of_the_reserve() -> None:
    """Within it all of it; beyond it what is left has no less trace than it needs."""
    promise = Promise.of(class_plan((6,), ("ranges",)), 1.0)
    b = np.array([0.0, 1, 1, 0, 0, 0])
    g = b @ np.linalg.solve(promise.reserve, b)
    said = np.outer(b, b)
    assert np.allclose(promise.after(b, 1.01 * g).reserve, promise.reserve - said / (1.01 * g))
    beyond = promise.after(b, 0.1)
    design = promise.reserve - said / g  # min(1, v/g) bb'/v
    assert np.trace(beyond.reserve) <= np.trace(design)


def test_a_reserve_that_is_singular_still_falls() -> None:
    """After a question of the class at full price, another that overlaps it."""
    promise = Promise.of(class_plan((8,), ("ranges",)), 1.0)
    one, two = np.array([[1.0, 1, 1, 1, 1, 0, 0, 0], [0, 1, 1, 1, 1, 1, 0, 0]])
    first = promise.after(one, 0.5)
    second = first.after(two, 0.5)
    assert np.linalg.eigvalsh(first.reserve)[0] <= 1e-9
    assert second.held[1:6].max() <= first.held[1:6].max() * 0.9


@given(st.integers(0, 2**32 - 1))
def test_tables_come_out_of_the_reserve_and_leave_the_promise(seed: int) -> None:
    """``R' >= R - said`` and ``R' >= 0``, at no more trace than R had."""
    rng = np.random.default_rng(seed)
    promise = Promise.of(class_plan((7,), ("ranges",)), 1.0)
    tiny = 1e-8 * promise.held.max()
    for _ in range(3):
        rows = rng.normal(size=(int(rng.integers(1, 9)), 7))
        variances = 10 ** rng.uniform(-3, 2, len(rows))
        others = bool(rng.random() < 0.5)
        fold = promise.after_others if others else promise.after_offered
        after = fold(rows, variances)
        said = (rows / variances[:, None]).T @ rows
        rounding = tiny + 1e-11 * np.trace(said)
        assert np.linalg.eigvalsh(after.reserve)[0] >= -rounding
        assert np.linalg.eigvalsh(after.reserve - (promise.reserve - said))[0] >= -rounding
        assert np.trace(after.reserve) <= np.trace(promise.reserve) + rounding
        assert not others or (after.held <= promise.held * (1 + 1e-12)).all()
        promise = after


def test_the_room_is_used_where_the_cap_is_close() -> None:
    plan = class_plan((16,), ("ranges",))
    steps = list(
        play(
            ranges(16, 120, np.random.default_rng(6)),
            np.ones(120),
            plan.charge * 1.003,
            promise=Promise.of(plan, 1.0),
        )
    )
    whys = {step.found.why for step in steps if isinstance(step.found, Offer)}
    assert PROMISED in whys
    assert any(isinstance(step.found, Free) for step in steps)


def test_many_questions_near_the_cap() -> None:
    """Four thousand questions, a third of the class: lifts for rounding stay within the reserve."""
    plan = class_plan((16,), ("ranges",))
    cap = plan.charge * 1.002
    rng = np.random.default_rng(11)
    inside = rng.random(4_000) < 0.34
    q = np.where(inside[:, None], ranges(16, 4_000, rng), subsets(16, 4_000, rng))
    v = np.where(inside, 1.0, 10.0 ** rng.uniform(-2, 1, 4_000))
    promise = Promise.of(plan, 1.0)
    for step, mine in zip(play(q, v, cap, promise=promise), inside, strict=True):
        assert step.found is not None or not mine
        assert step.after.charges.max() <= cap
