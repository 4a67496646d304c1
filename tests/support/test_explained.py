"""A certificate makes exactly the question, and its variance is what is claimed: from the weights alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from defray.support.explained import Explained, Term, deviation_of, explained, of_own
from defray.support.history import PLACES, Item
from defray.support.view.certificate import exactly
from defray.support.view.state import Row
from tests.support.overlapping import CELLS, DOMAIN, Told, ask, told
from tests.support.test_overlap import QUESTIONS, asked

LARGEST = 10**6
"""The declared bound on the rows of the table."""


def certificates(state: Told, question: str) -> list[Explained]:
    """Of every cell of a question of which something is known by others than its own releases."""
    one = ask(question)
    (block,) = one.compiled.blocks
    held = state.held(one)
    found = []
    for i, known in enumerate(held.known[0]):
        if known.precision and held.by_overlap(0, i):
            made = explained(block, i, known, (), state.overlap, wide=True)
            assert made is not None
            found.append(made)
    return found


def rows_of(items: list[Item]) -> Mapping[tuple[int, int], Row]:
    return {divmod(r.id, PLACES): r for item in items for r in item.rows(CELLS)}


def made_of(one: Explained, items: list[Item], cell: int, marginal: tuple[int, ...]) -> np.ndarray:
    """The weights on all cells of the table that the terms add up to, written out."""
    rows, shape = rows_of(items), CELLS.shape
    total = np.zeros(shape).reshape(-1)
    for term in one.terms:
        if term.place is not None:
            total += float(term.weight) * rows[term.seq, term.place].b
            continue
        # A residual counts in the cell of its table that the marginal's cell lies in, centred.
        (item,) = [i for i in items if i.seq == term.seq]
        axes = {c: k for k, c in enumerate(CELLS.columns)}
        sizes = [shape[axes[c]] for c in marginal]
        at = dict(zip(marginal, np.unravel_index(cell, sizes), strict=True))
        part = np.ones(shape)
        for c in item.columns:
            n = shape[axes[c]]
            along = -np.ones(n) / n
            along[at[c]] += 1
            part = part * along.reshape([n if k == axes[c] else 1 for k in range(len(shape))])
        total += float(term.weight) * part.reshape(-1)
    return total


@given(asked, st.sampled_from(QUESTIONS))
def test_the_weights_make_the_question_and_bear_its_precision(sequence, question) -> None:
    state = told()
    for text, within in sequence:
        state = state.after(ask(text, within))
    one = ask(question)
    (block,) = one.compiled.blocks
    vectors = block.grouped.vectors(CELLS, DOMAIN, block.numbers)
    items = state.overlap.history.spaces["count"]
    held = state.held(one)
    for i, known in enumerate(held.known[0]):
        if not (known.precision and held.by_overlap(0, i)):
            continue
        made = explained(block, i, known, (), state.overlap, wide=True)
        assert made is not None
        assert made.stands
        total = made_of(made, items, i, block.marginal or ())
        assert np.abs(total - vectors[i]).max() <= float(made.deviation) + 1e-9
        assert float(made.variance) <= 1 / float(known.precision) * (1 + 1e-9)


@pytest.mark.long
@given(asked)
def test_a_certificate_with_another_weight_does_not_stand(sequence) -> None:
    state = told()
    for text, within in sequence:
        state = state.after(ask(text, within))
    for question, _ in sequence:
        for made in certificates(state, question):
            worse = replace(
                made, terms=tuple(replace(t, variance=t.variance * 2) for t in made.terms)
            )
            assert not worse.stands
            assert not replace(made, deviation=Fraction(1, 100), rows=Fraction(LARGEST)).stands
            assert not replace(made, precision=made.precision * Fraction(1001, 1000)).stands


@given(st.data())
def test_the_deviation_is_exact(data) -> None:
    k, m = data.draw(st.integers(0, 4)), data.draw(st.integers(1, 5))
    floats = st.floats(-1e6, 1e6, allow_subnormal=False)
    rows = np.array([[data.draw(floats) for _ in range(m)] for _ in range(k)]).reshape(k, m)
    q = np.array([data.draw(floats) for _ in range(m)])
    weights = np.array([data.draw(floats) for _ in range(k)])
    assert deviation_of(rows, q, weights) == max(map(abs, exactly(rows, q, weights)))


@given(st.lists(st.fractions(Fraction(1, 1000), 1000), min_size=1, max_size=5))
def test_releases_of_the_question_itself_are_fused_by_precision(precisions) -> None:
    total = sum(precisions)
    made = of_own([(i, 0, p) for i, p in enumerate(precisions)], total)
    assert sum(t.weight for t in made.terms) == 1
    assert made.variance == 1 / total
    assert made.stands
    assert made.releases == tuple(range(len(precisions)))


def test_scaled_terms_scale_the_variance_by_the_square() -> None:
    made = of_own([(1, 0, Fraction(2)), (2, 0, Fraction(3))], Fraction(5))
    variance = sum(t.share for t in made.scaled(Fraction(3)))
    assert variance == 9 * made.variance
    assert Term(1, 0, Fraction(2), Fraction(5)).share == 20
