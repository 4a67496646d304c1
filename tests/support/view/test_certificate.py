"""What is claimed of weights is true of exactly these floats, whoever chose them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from defray.support.view.certificate import certify, exact_variance, exactly, known
from defray.support.view.state import Row, State
from tests.strategies import asked
from tests.support.view.workloads import N_MAX, play


@settings(max_examples=60)
@given(st.integers(1, 12), st.integers(0, 15), st.integers(0, 2**32 - 1))
def test_the_bounds_hold_for_any_weights(cells: int, count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    spread = 10.0 ** rng.uniform(-8, 8, (count, cells))
    b = rng.normal(size=(count, cells)) * spread
    v = 10.0 ** rng.uniform(-6, 6, count)
    state = State.fold(cells, N_MAX, [Row(i, b[i], v[i]) for i in range(count)])
    w = rng.normal(size=count) * 10.0 ** rng.uniform(-9, 9, count)
    q, new, own = rng.normal(size=cells), rng.normal(size=cells), rng.normal()
    said = certify(state, q, w, own, new, 2.0)
    left = exactly(np.vstack([b, new]), q, [*w, own])
    variance = exact_variance([*map(Fraction, v), Fraction(2)], [*w, own])
    assert max(map(abs, left)) <= Fraction(said.deviation)
    assert variance <= Fraction(said.variance)
    # and they are no more than rounding above
    scale = np.abs(w) @ state.peaks + abs(own) * np.abs(new).max() + np.abs(q).max()
    assert said.deviation - float(max(map(abs, left))) <= 1e-14 * scale
    assert said.variance <= float(variance) * (1 + 1e-13)


@settings(max_examples=60)
@given(asked())
def test_what_history_says_is_the_least_squares_estimate(
    case: tuple[np.ndarray, np.ndarray],
) -> None:
    """Against a pseudo-inverse in the space of the rows: same variance, same part left unexplained."""
    *_, last = play(*case)
    state = last.after
    scaled = state.rows / np.sqrt(state.variances)[:, None]
    _u, s, vt = np.linalg.svd(scaled, full_matrices=False)
    keep = s > 1e-3 * s[0]  # directions well apart from rounding, and from what the ridge may leave
    if s[~keep].any() and s[~keep].max() > 1e-12 * s[0]:
        return
    for q in case[0]:
        said = known(state, q)
        inside = vt[keep] @ q
        assert np.abs(said.residue - (q - inside @ vt[keep])).max() <= 1e-8 * np.abs(q).max(
            initial=1
        )
        assert said.variance <= float(np.square(inside / s[keep]).sum()) * (1 + 1e-9)
        assert said.variance >= float(np.square(inside / s[keep]).sum()) * (1 - 1e-6)


@settings(max_examples=60)
@given(asked())
def test_every_question_asked_stays_answered_within_its_target(
    case: tuple[np.ndarray, np.ndarray],
) -> None:
    steps = list(play(*case))
    state = steps[-1].after
    for step in steps:
        said = known(state, step.q)
        assert said.variance <= step.variance * (1 + 1e-9)
        assert said.deviation * 1e5 <= 2e-3 * np.sqrt(step.variance)


def test_an_empty_history_says_nothing_and_an_empty_region_is_zero() -> None:
    said = known(State.empty(3, N_MAX), np.array([1.0, 0, 1]))
    assert (said.deviation, said.variance) == (1, 0)
    nothing = known(State.empty(3, N_MAX), np.zeros(3))
    assert (nothing.deviation, nothing.variance) == (0, 0)
