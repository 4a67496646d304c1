"""What is measured for a question: never more than it needs, never above a cap, nothing where it is known."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from defray.support.view.certificate import exact_variance, exactly, known
from defray.support.view.limit import best_variance
from defray.support.view.metric import Scaled, barrier, metric
from defray.support.view.offer import AIM, Free, Offer, offer
from defray.support.view.state import SLACK, Row, State
from tests.strategies import asked
from tests.support.view.workloads import N_MAX, Floats, Z, line, play, ranges, single, subsets

Case = tuple[Floats, Floats]


def ask(state: State, q: Floats, variance: float, cap: Floats | float = np.inf, **more: bool):
    cells = len(q)
    return offer(
        state,
        q,
        variance,
        np.broadcast_to(np.asarray(cap, dtype=float), cells),
        line(cells),
        half_width=Z * math.sqrt(variance),
        **more,
    )


@settings(max_examples=50)
@given(asked(), st.sampled_from([np.inf, 3.0, 0.1]))
def test_an_offer_is_unbiased_and_as_precise_as_it_says(case: Case, cap: float) -> None:
    """In exact arithmetic, from the certificate alone."""
    for step in play(*case, cap=cap):
        if not isinstance(step.found, Offer):
            continue
        said, release = step.found.certificate, step.found.release
        rows = np.vstack([step.before.rows, step.found.b])
        left = exactly(rows, step.q, [*said.weights, said.own])
        allowed = SLACK * Z * math.sqrt(step.variance) / N_MAX
        assert max(map(abs, left)) <= Fraction(said.deviation)
        assert said.deviation <= allowed
        variances = [*map(Fraction, step.before.variances.tolist()), 1 / release.precision]
        variance = exact_variance(variances, [*said.weights, said.own])
        assert variance <= Fraction(said.variance)
        assert said.variance <= step.variance


@settings(max_examples=50)
@given(asked(), st.sampled_from([3.0, 0.1, 0.01]))
def test_no_cell_is_ever_charged_above_its_cap(case: Case, cap: float) -> None:
    for step in play(*case, cap=cap):
        if isinstance(step.found, Offer):
            assert (step.found.charge <= step.cap).all()
        assert (step.after.charges <= cap * (1 + 1e-12)).all()
    # in exact arithmetic
    paid = [Fraction(0)] * len(case[0][0])
    for step in play(*case, cap=cap):
        if isinstance(step.found, Offer):
            paid = [p + rho for p, rho in zip(paid, step.found.release.rho(1), strict=True)]
    assert max(paid) <= Fraction(cap) / 2 * (1 + Fraction(1, 10**12))


@settings(max_examples=50)
@given(asked())
def test_a_question_that_was_answered_is_free(case: Case) -> None:
    """Also after everything else, also when its target was one in a billion of another's."""
    q, v = case
    *_, last = play(q, v)
    for question, variance in zip(q, v, strict=True):
        found = ask(last.after, question, variance)
        assert isinstance(found, Free)
        assert isinstance(ask(last.after, question, variance * 1.5), Free)


@settings(max_examples=50)
@given(asked())
def test_free_if_and_only_if_history_says_so(case: Case) -> None:
    for step in play(*case):
        held = known(step.before, step.q)
        enough = held.variance <= step.variance * (
            1 + 1e-9
        ) and held.deviation * N_MAX <= SLACK * Z * math.sqrt(step.variance)
        assert isinstance(step.found, Free) == enough
        assert step.found is not None  # without a cap nothing is refused


@settings(max_examples=50)
@given(asked())
def test_never_dearer_than_from_scratch(case: Case) -> None:
    """By the metric it is chosen by."""
    for step in play(*case):
        if not isinstance(step.found, Offer) or step.found.why != "the dense metric":
            continue
        before = step.before
        soft = max(before.loosest, step.variance) <= 100 * min(before.tightest, step.variance)
        scale = barrier(before.charges, step.cap, step.variance, soft=soft)
        g = Scaled(line(before.cells), scale)
        price = np.square(g.whiten(step.found.b)).sum() / step.found.variance
        assert price <= np.square(g.whiten(step.q)).sum() / step.variance * (1 + 1e-6)


@pytest.mark.parametrize("factor", [0.999, 0.5, 1e-3])
def test_on_one_functional_it_is_the_papers_residual(factor: float) -> None:
    q = np.array([1.0, 1, 0, 1])
    state = State.empty(4, N_MAX)
    first = ask(state, q, 8.0)
    assert isinstance(first, Offer)
    assert first.charge == pytest.approx(q / 8, rel=1e-7)
    state = state.add(Row(1, first.b, first.variance))
    assert isinstance(ask(state, q, 8.0), Free)
    second = ask(state, q, 8 * factor)
    assert isinstance(second, Offer)
    assert second.charge == pytest.approx(q * (1 / factor - 1) / 8, rel=1e-4)


def test_disjoint_questions_do_not_add() -> None:
    """Each of the cells alone: the dearest pays for one question, and what looking ahead costs (1 %)."""
    *_, last = play(np.eye(6), np.full(6, 2.0))
    assert (last.after.charges >= 0.5 * (1 - 1e-9)).all()
    assert last.after.charges.max() <= 0.5 * 1.02


def test_a_total_of_known_parts_is_free_at_the_sum_of_their_variances() -> None:
    *_, last = play(np.eye(3), [1.0, 2.0, 3.0])
    q = np.ones(3)
    assert isinstance(ask(last.after, q, 6.0), Free)
    found = ask(last.after, q, 4.0)
    assert isinstance(found, Offer) and found.charge.max() < 0.5 / 4


def test_an_empty_region_is_zero_and_free() -> None:
    for count in (0, 3):
        state = State.empty(4, N_MAX)
        if count:
            *_, last = play(ranges(4, count, np.random.default_rng(1)), np.ones(count))
            state = last.after
        found = ask(state, np.zeros(4), 1.0, 0.0)
        assert isinstance(found, Free)
        assert (found.certificate.variance, found.certificate.deviation) == (0, 0)


@pytest.mark.parametrize("seed", range(5))
def test_a_record_loses_what_its_cell_was_charged(seed: int) -> None:
    """Brute force on a small domain: the Renyi divergence of order 2 between the transcripts with and without
    a record of cell c, by summing the discrete Gaussian, is twice the charged rho."""
    rng = np.random.default_rng(seed)
    n = 4
    lost = np.zeros(n)
    charged = np.zeros(n)
    for step in play(subsets(n, 6, rng), rng.uniform(20, 60, 6)):
        if not isinstance(step.found, Offer):
            continue
        release = step.found.release
        charged += [float(rho) for rho in release.rho(1)]
        for c in range(n):
            lost[c] += renyi(release.b[c] / release.sigma)
    assert lost == pytest.approx(2 * charged, rel=1e-6)
    assert charged.max() > 0


def renyi(shift: float) -> float:
    """D_2(N(shift, 1) || N(0, 1)) = log integral p^2/q, on a grid fine enough for 10^-9."""
    x = np.linspace(-40, 40, 400_001)
    log_p, log_q = -((x - shift) ** 2) / 2, -(x**2) / 2
    return math.log(np.exp(2 * log_p - log_q).sum() * (x[1] - x[0]) / math.sqrt(2 * math.pi))


def test_tried_in_order() -> None:
    """Where the dense release does not pass its caps, q itself is; where that does not, the barrier."""
    state = State.empty(4, N_MAX)
    for i, q in enumerate(np.array([[1.0, 1, 1, 0], [0, 1, 1, 1]])):
        found = ask(state, q, 1.0)
        assert isinstance(found, Offer)
        state = state.add(Row(i, found.b, found.variance, 0, 1.0))
    q = np.array([0.0, 1, 1, 0])
    dense = ask(state, q, 1.0)
    assert isinstance(dense, Offer) and dense.why == "the dense metric"
    assert dense.charge[0] > 0  # it measures cells that q does not mention
    itself = ask(state, q, 1.0, np.array([0, 1.001, 1.001, 0]))
    assert isinstance(itself, Offer) and itself.why == "the question itself"
    assert itself.charge.tolist() == pytest.approx([0, 1, 1, 0], rel=1e-6)
    assert ask(state, q, 1.0, 0.01) is None


def test_what_fits_is_found_last_and_missing_it_means_there_is_none() -> None:
    rng = np.random.default_rng(3)
    met = {True: 0, False: 0}
    for _ in range(60):
        n = 8
        *_, last = play(ranges(n, 6, rng), np.ones(6))
        q, cap = ranges(n, 1, rng)[0], 10.0 ** rng.uniform(-1.5, 0, n)
        if isinstance(ask(last.after, q, 0.7), Free):
            continue
        found = ask(last.after, q, 0.7, cap, whatever_fits=True)
        limit = best_variance(last.after, q, cap)
        assert limit is not None
        if found is None:
            assert limit.least > 0.7 * (1 - 1e-3)
        else:
            assert isinstance(found, Offer)
            assert (found.charge <= cap).all()
            assert limit.least <= 0.7
            if found.why == "what fits":
                assert ask(last.after, q, 0.7, cap) is None
        met[found is None] += 1
    assert min(met.values()) > 5


def test_a_cell_without_room_is_not_measured() -> None:
    """History knows cell 0; the total of all can be had without touching it."""
    *_, last = play(np.eye(3)[:1], [0.1])
    found = ask(last.after, np.ones(3), 2.0, np.array([0.0, 1, 1]), whatever_fits=True)
    assert isinstance(found, Offer)
    assert found.charge[0] == 0 and found.charge[1:].max() <= 0.6


def test_what_other_views_took_makes_cells_dear() -> None:
    *_, last = play(ranges(6, 2, np.random.default_rng(0)), np.ones(2))
    q = np.ones(6)
    elsewhere = np.array([0, 0, 0, 0, 0, 50.0])
    plain, shy = (
        offer(last.after, q, 0.2, np.full(6, np.inf), line(6), half_width=1.0, elsewhere=e)
        for e in (0.0, elsewhere)
    )
    assert isinstance(plain, Offer) and isinstance(shy, Offer)
    assert shy.charge[5] < plain.charge[5]


@pytest.mark.parametrize(("cells", "sizes"), [(64, (8, 8)), (64, (64,)), (300, (300,))])
def test_products_and_large_views_meet_their_targets(cells: int, sizes: tuple[int, ...]) -> None:
    """With more than one attribute, and on the Krylov path (300 cells, more than 128 rows)."""
    rng = np.random.default_rng(cells)
    base = metric(sizes, (True,) * len(sizes))
    q = np.array([1.0])[None]
    for size in sizes:
        q = np.einsum("ti,tj->tij", np.broadcast_to(q, (170, q.shape[1])), ranges(size, 170, rng))
        q = q.reshape(170, -1)
    for step in play(q, np.ones(170), base=base):
        said = known(step.after, step.q)
        assert said.variance <= 1 + 1e-9
        assert said.deviation * N_MAX <= SLACK * Z
        assert step.found is not None


def test_a_history_of_single_cells_answers_ranges_for_less() -> None:
    rng = np.random.default_rng(8)
    *_, last = play(single(10, 40, rng), np.ones(40))
    scratch = 0
    for q in ranges(10, 20, rng):
        found = ask(last.after, q, 1.0)
        if isinstance(found, Offer):
            assert found.charge.max() <= 1.0
            scratch += found.charge.max() < 0.9
    assert scratch > 10


@settings(max_examples=30)
@given(asked(), st.integers(0, 2**32 - 1))
def test_offers_are_a_function_of_the_fold(case: Case, seed: int) -> None:
    """To the last bit: another fold of the same rows, beside another line of descent, offers the same."""
    *_, last = play(*case)
    state, rng = last.after, np.random.default_rng(seed)
    assume(state.count > 0)
    rows = [
        Row(int(i), b.copy(), float(v), 0.0, step.variance)
        for i, b, v, step in zip(
            state.ids,
            state.rows,
            state.variances,
            [step for step in play(*case) if isinstance(step.found, Offer)],
            strict=True,
        )
    ]
    other = State.fold(state.cells, N_MAX, rows[:-1])
    other.add(Row(99, rng.normal(size=state.cells), 1.0))
    other = other.add(rows[-1])
    q = subsets(state.cells, 1, rng)[0]
    mine, theirs = ask(state, q, 0.3), ask(other, q, 0.3)
    assert type(mine) is type(theirs)
    assert mine is not None and theirs is not None
    assert np.array_equal(mine.certificate.weights, theirs.certificate.weights)
    if isinstance(mine, Offer) and isinstance(theirs, Offer):
        assert np.array_equal(mine.release.steps, theirs.release.steps)
        assert mine.release.sigma == theirs.release.sigma


def test_releases_aim_a_hair_below_the_target() -> None:
    found = ask(State.empty(2, N_MAX), np.ones(2), 3.0)
    assert isinstance(found, Offer)
    assert found.variance == pytest.approx(3, rel=1e-14)  # q itself: exactly as well as asked
    state = State.empty(2, N_MAX).add(Row(0, found.b, found.variance, 0.0, 3.0))
    other = ask(state, np.array([1.0, 0]), 3.0)
    assert isinstance(other, Offer)
    assert 3 * AIM * (1 - 1e-12) <= other.certificate.variance <= 3 * AIM * (1 + 1e-12)


def test_a_partial_grant_reaches_what_fits() -> None:
    """Where the target is out of reach, the least variance that fits is one that can be asked for."""
    rng = np.random.default_rng(9)
    partial = 0
    for _ in range(40):
        n = 10
        *_, last = play(ranges(n, 8, rng), np.ones(8))
        q, cap = ranges(n, 1, rng)[0], 10.0 ** rng.uniform(-2, 0, n)
        limit = best_variance(last.after, q, cap)
        assert limit is not None
        held = known(last.after, q)
        if held.deviation < 1e-9 and held.variance <= limit.reached * 1.0001:
            continue
        found = ask(last.after, q, limit.reached * 1.0001, cap, whatever_fits=True)
        assert isinstance(found, Offer)
        assert (found.charge <= cap).all()
        assert found.certificate.variance <= limit.reached * 1.0001
        assert ask(last.after, q, limit.least * 0.99, cap, whatever_fits=True) is None
        partial += 1
    assert partial > 20
