"""Answers are exact sums over releases, consistent with each other, and as wide as they have to be."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from defray.support.view.answer import answer, by_release, combined, half_width, settled
from defray.support.view.certificate import known
from defray.support.view.offer import Offer
from defray.support.view.state import SLACK, State
from tests.strategies import asked
from tests.support.view.workloads import N_MAX, Floats, Z, play, ranges


def told(state: State, x: list[int], seed: int, *, noise: bool = True) -> list[Fraction]:
    """Exact values of a state's releases on a table with those cell counts."""
    rng = np.random.default_rng(seed)
    return [
        sum((Fraction(w) * c for w, c in zip(row, x, strict=True)), Fraction(0))
        + (Fraction(int(rng.normal(0, math.sqrt(v)) * 2**20), 2**20) if noise else 0)
        for row, v in zip(state.rows.tolist(), state.variances.tolist(), strict=True)
    ]


@settings(max_examples=40)
@given(asked(), st.integers(0, 2**32 - 1))
def test_without_noise_the_answer_is_off_by_the_deviation_at_most(
    case: tuple[Floats, Floats], seed: int
) -> None:
    """In exact arithmetic, on a table of n_max rows anywhere."""
    *_, last = play(*case)
    state, rng = last.after, np.random.default_rng(seed)
    x = [int(c) for c in rng.multinomial(int(N_MAX), rng.dirichlet(np.ones(state.cells)))]
    values = told(state, x, seed, noise=False)
    for q in [*case[0], *ranges(state.cells, 3, rng)]:
        said = answer(state, q, values)
        truth = sum((Fraction(w) * c for w, c in zip(q.tolist(), x, strict=True)), Fraction(0))
        assert abs(said.value - truth) <= Fraction(said.certificate.deviation) * int(N_MAX)


@settings(max_examples=40)
@given(st.integers(2, 40), st.integers(0, 60), st.integers(0, 2**32 - 1))
def test_a_parent_is_the_sum_of_its_children(cells: int, count: int, seed: int) -> None:
    """Once every cell was asked, any question has an answer; they fit together to a part in 10^9."""
    rng = np.random.default_rng(seed)
    q = np.vstack([np.eye(cells), ranges(cells, count, rng)])[rng.permutation(cells + count)]
    *_, last = play(q, rng.uniform(0.5, 2, len(q)) * 1e4)
    state = last.after
    values = told(state, [int(c) for c in rng.integers(0, 10**6, cells)], seed)
    for whole in ranges(cells, 5, rng):
        part = (rng.random(cells) < 0.5) * whole
        said = answer(state, whole, values).value
        pieces = answer(state, part, values).value + answer(state, whole - part, values).value
        assert abs(said - pieces) <= Fraction(1, 10**9) * max(abs(v) for v in values)


def test_a_sum_by_release_id_is_the_sum_by_row() -> None:
    rng = np.random.default_rng(5)
    *_, last = play(ranges(6, 8, rng), np.ones(8))
    state = last.after
    values = told(state, [1, 2, 3, 4, 5, 6], 1)
    by_id = {int(i): v for i, v in zip(state.ids, values, strict=True)}
    by_id[999] = Fraction(7)  # other releases are no matter
    q = np.array([0.0, 1, 1, 0, 0, 0])
    said = answer(state, q, by_id)
    assert said.value == answer(state, q, values).value
    weights = by_release(state, said.certificate)
    assert said.value == sum(Fraction(w) * by_id[i] for i, w in weights.items())


@given(
    st.lists(
        st.tuples(st.floats(-1e6, 1e6), st.fractions(min_value=-(10**9), max_value=10**9)),
        max_size=12,
    )
)
def test_sums_are_exact(terms: list[tuple[float, Fraction]]) -> None:
    weights = np.array([w for w, _ in terms])
    values = [v for _, v in terms]
    assert combined(weights, values) == sum((Fraction(w) * v for w, v in terms), Fraction(0))


def test_half_widths() -> None:
    *_, last = play(np.eye(2), [4.0, 9.0])
    said = answer(last.after, np.array([1.0, 0]), told(last.after, [5, 6], 3))
    assert said.half_width(Z, N_MAX) == half_width(said.certificate, Z, N_MAX)
    assert said.half_width(Z, N_MAX) == pytest.approx(2 * Z, rel=2e-3)
    empty = answer(State.empty(2, N_MAX), np.ones(2), [])
    assert (empty.value, empty.half_width(Z, N_MAX)) == (0, N_MAX)  # nothing is known


@settings(max_examples=40)
@given(asked())
def test_what_was_bought_is_what_is_answered(case: tuple[Floats, Floats]) -> None:
    for step in play(*case):
        if not isinstance(step.found, Offer):
            continue
        allowed = SLACK * Z * math.sqrt(step.variance) / N_MAX
        said = settled(step.after, step.q, step.found.certificate, allowed)
        assert len(said.weights) == step.after.count
        assert said.variance <= step.variance * (1 + 1e-9)
        assert said.deviation <= allowed


def test_where_least_squares_lose_the_direction_the_offer_answers() -> None:
    """An offer that claims more than the state can: its own weights are used."""
    *_, last = play([np.array([1.0, 1, 0]), np.array([1.0, 0, 1])], [1.0, 1.0])
    assert isinstance(last.found, Offer)
    kept = last.found.certificate
    plain = known(last.after, last.q)
    assert settled(last.after, last.q, kept, 1.0).weights.tolist() == plain.weights.tolist()
    impossible = type(kept)(kept.weights, kept.residue, kept.deviation, kept.variance / 2, kept.own)
    own = settled(last.after, last.q, impossible, 1.0)
    assert own.weights.tolist() == [*kept.weights, kept.own]
    assert own.variance == pytest.approx(kept.variance)
