"""What overlapping releases say is what least squares over all of them say, and never counted twice."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from defray.support.history import Item
from tests.support.overlapping import CELLS, DOMAIN, ask, dense, told

QUESTIONS = (
    "COUNT(*) FROM people",
    "COUNT(*) FROM people WHERE age < 3",
    "COUNT(*) FROM people WHERE age BETWEEN 2 AND 6 AND sex = 'F'",
    "COUNT(*) FROM people WHERE city IN ('Oslo', 'Rome')",
    "COUNT(*) FROM people WHERE city = 'Bern' OR age = 7",
    "COUNT(*) FROM people GROUP BY sex",
    "COUNT(*) FROM people GROUP BY age",
    "COUNT(*) FROM people GROUP BY sex, city",
    "COUNT(*) FROM people WHERE age > 4 GROUP BY city",
    "COUNT(*) FROM people WHERE sex = 'M'",
)
asked = st.lists(
    st.tuples(st.sampled_from(QUESTIONS), st.sampled_from([20.0, 50.0, 51.0, 200.0])),
    min_size=1,
    max_size=6,
)


def vectors(question: str) -> np.ndarray:
    (block,) = ask(question).compiled.blocks
    return block.grouped.vectors(CELLS, DOMAIN, block.numbers)


@given(asked, st.sampled_from(QUESTIONS))
def test_what_is_known_is_never_more_than_least_squares_over_all_releases(
    sequence, question
) -> None:
    state = told()
    for text, within in sequence:
        state = state.after(ask(text, within))
    rows, variances, _ = dense(state.overlap.history.spaces["count"])
    precision = (rows / variances[:, None]).T @ rows
    pseudo = np.linalg.pinv(precision, rcond=1e-10, hermitian=True)
    for q, found in zip(vectors(question), state.known(ask(question)), strict=True):
        spanned = np.allclose(precision @ pseudo @ q, q, atol=1e-6)
        if found.precision:
            assert spanned
            assert 1 / float(found.precision) >= q @ pseudo @ q * (1 - 1e-6)


@given(asked)
def test_what_was_bought_is_known_and_free(sequence) -> None:
    state = told()
    for text, within in sequence:
        one = ask(text, within)
        state = state.after(one)
        assert not state.step(one).purchases
        for found, need in zip(state.known(one), told().step(one).needs[0], strict=True):
            (wanted,) = need.wants.values()
            assert found.precision >= wanted


@given(asked)
def test_nothing_costs_more_than_measuring_the_question_itself(sequence) -> None:
    state = told()
    for text, within in sequence:
        one = ask(text, within)
        step = state.step(one)
        for purchase in step.purchases:
            if purchase.itself is not None and len(one.compiled.cells) > 1:
                assert purchase.charge <= purchase.itself.charge * 1.5  # looking ahead is for slack
        state = state.after(one)


def test_a_drill_down_and_its_roll_up_are_one_budget() -> None:
    state = told()
    state = state.after(ask("COUNT(*) FROM people GROUP BY age, sex, city"))
    for text in QUESTIONS:
        (found, *_) = state.known(ask(text))
        assert found.precision, text
    one = ask("COUNT(*) FROM people WHERE age = 3 AND sex = 'F' AND city = 'Oslo'")
    assert not state.step(one).purchases


@pytest.mark.parametrize("twice", [False, True])
def test_one_release_in_two_views_counts_once(twice: bool) -> None:
    """A GROUP BY belongs to every view that holds its column: each answers with its variance, not half."""
    state = told()
    state = state.after(ask("COUNT(*) FROM people GROUP BY age"))
    (before, *_) = state.known(ask("COUNT(*) FROM people WHERE age = 3"))
    if twice:
        state = state.after(ask("COUNT(*) FROM people WHERE age < 3 AND city = 'Oslo'"))
        state = state.after(ask("COUNT(*) FROM people WHERE age < 3 AND sex = 'F'"))
    (now, *_) = state.known(ask("COUNT(*) FROM people WHERE age = 3"))
    assert before.precision * (1 - Fraction(1, 10**9)) <= now.precision
    assert now.precision <= before.precision * Fraction(101, 100)


def coverage(items: list[Item], rng: np.random.Generator) -> None:
    """Estimates of all questions from noisy values are unbiased with the stated variance."""
    truth = rng.integers(0, 1000, CELLS.cells).astype(float)
    made = []
    for item in items:
        rows = item.vectors(CELLS)
        values = rows @ truth + rng.normal(size=len(rows)) * np.sqrt(item.variances)
        made.append(valued(item, values))
    state = told(made)
    for text in QUESTIONS:
        for q, found in zip(vectors(text), state.known(ask(text)), strict=True):
            if found.precision:
                z = (float(found.value) - q @ truth) * float(found.precision) ** 0.5
                SCORES.setdefault(text, []).append(z)


TIMES = 150
SCORES: dict[str, list[float]] = {}


def valued(item: Item, values: np.ndarray) -> Item:
    from dataclasses import replace

    from defray.support.marginal.certificate import centre

    fractions = tuple(Fraction(float(v)) for v in values)
    if item.centred is None:
        return replace(item, values=fractions)
    table = values.reshape(item.centred.shape) / len(values)
    return replace(item, values=fractions, centred=centre(table))


@pytest.mark.long
def test_estimates_are_unbiased_and_as_accurate_as_stated() -> None:
    SCORES.clear()
    state = told()
    for text in QUESTIONS[:8]:
        state = state.after(ask(text))
    rng = np.random.default_rng(7)
    for _ in range(TIMES):
        coverage(list(state.overlap.history.spaces["count"]), rng)
    assert len(SCORES) == len(QUESTIONS) - 1  # age by city was not asked
    for text, scores in SCORES.items():
        z = np.array(scores)
        groups = len(z) / TIMES
        assert abs(z.mean()) < 4.5 / TIMES**0.5, text
        # of correlated cells at least TIMES are independent
        assert 0.65 < (z**2).mean() < 1.4, (text, groups, (z**2).mean())


def test_counting_a_release_twice_would_be_noticed() -> None:
    SCORES.clear()
    state = told().after(ask("COUNT(*) FROM people GROUP BY age"))
    state = state.after(ask("COUNT(*) FROM people WHERE age < 3"))
    items = list(state.overlap.history.spaces["count"])
    rng = np.random.default_rng(7)
    for _ in range(TIMES):
        truth = np.full(CELLS.cells, 500.0)
        made = []
        for item in items:
            rows = item.vectors(CELLS)
            made.append(
                valued(item, rows @ truth + rng.normal(size=len(rows)) * np.sqrt(item.variances))
            )
        double = told([*made, *made])
        q = vectors("COUNT(*) FROM people WHERE age < 5")[0]
        (found,) = double.known(ask("COUNT(*) FROM people WHERE age < 5"))
        SCORES.setdefault("twice", []).append(
            (float(found.value) - q @ truth) * float(found.precision) ** 0.5
        )
    assert np.mean(np.square(SCORES["twice"])) > 1.6
