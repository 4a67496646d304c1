"""Marginals from releases: certificates say what they are worth, and answers agree with each other."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from defray.support.marginal.certificate import (
    Certificate,
    Release,
    centre,
    certify,
    exact_variance,
    reconstruct,
)
from defray.support.marginal.residuals import Columns
from tests.support.marginal.dense import information, subsets, summed

ATOMS = (3, 4, 2)
COLUMNS = Columns(ATOMS)
ALL = (0, 1, 2)


@st.composite
def logs(draw: st.DrawFn) -> list[Release]:
    """One to three releases of every residual, with made-up values."""
    made: list[Release] = []
    for a in subsets(ALL):
        for _ in range(draw(st.integers(1, 3))):
            values = draw(
                st.lists(
                    st.integers(-(10**9), 10**9),
                    min_size=COLUMNS.cells(a),
                    max_size=COLUMNS.cells(a),
                )
            )
            precision = Fraction(draw(st.integers(1, 2**20)), 2**10)
            made.append(Release(len(made) + 1, a, 8, precision, np.array(values)))
    return made


@given(logs(), st.sampled_from(subsets(ALL)))
def test_a_certificate_is_unbiased_and_as_precise_as_least_squares(log, b):
    releases = {r.id: r for r in log}
    certificate = certify(COLUMNS, b, log)
    assert certificate is not None and certificate.unbiased(COLUMNS, releases)
    held: dict[tuple[int, ...], Fraction] = {}
    for r in log:
        held[r.attributes] = held.get(r.attributes, Fraction(0)) + r.precision
    variance = certificate.variance(COLUMNS, releases)
    assert variance == exact_variance(COLUMNS, b, held)
    m = summed(ATOMS, b, "all")
    p = information(ATOMS, {a: float(h) for a, h in held.items()})
    assert float(variance) == pytest.approx((m @ np.linalg.solve(p, m.T)).diagonal().max())


@given(logs(), st.sampled_from(subsets(ALL)))
def test_the_answer_is_generalised_least_squares(log, b):
    """From the centred tables of all releases, by dense algebra."""
    releases = {r.id: r for r in log}
    p, info = np.zeros((24, 24)), np.zeros(24)
    for r in log:
        z = summed(ATOMS, r.attributes, "centred")
        p += float(r.precision) * z.T @ z
        info += float(r.precision) * z.T @ (r.values / 2**r.bits / COLUMNS.cells(r.attributes))
    certificate = certify(COLUMNS, b, log)
    assert certificate is not None
    answer = certificate.answer(COLUMNS, releases)
    assert np.allclose(
        answer.ravel(), summed(ATOMS, b, "all") @ np.linalg.solve(p, info), atol=1e-3
    )


@given(logs(), st.data())
def test_a_parent_is_the_sum_of_its_children(log, data):
    b = data.draw(st.sampled_from(subsets(ALL)))
    a = data.draw(st.sampled_from(subsets(b)))
    releases = {r.id: r for r in log}
    child, parent = certify(COLUMNS, b, log), certify(COLUMNS, a, log)
    assert child is not None and parent is not None
    drop = tuple(axis for axis, i in enumerate(b) if i not in a)
    assert np.allclose(
        child.answer(COLUMNS, releases).sum(axis=drop), parent.answer(COLUMNS, releases), atol=1e-3
    )


@given(logs(), st.sampled_from(subsets(ALL)), st.data())
def test_changed_weights_are_noticed(log, b, data):
    releases = {r.id: r for r in log}
    certificate = certify(COLUMNS, b, log)
    assert certificate is not None
    i = data.draw(st.sampled_from(sorted(certificate.weights)))
    weights = {**certificate.weights, i: certificate.weights[i] + Fraction(1, 10**9)}
    assert not Certificate(b, weights).unbiased(COLUMNS, releases)
    others = [r.id for r in log if r.attributes not in subsets(b)]
    if others:
        stray = {**certificate.weights, others[0]: Fraction(0)}
        assert not Certificate(b, stray).unbiased(COLUMNS, releases)


@given(st.lists(st.integers(0, 1000), min_size=24, max_size=24), st.sampled_from(subsets(ALL)))
def test_exact_residuals_give_the_exact_marginal(counts, b):
    x = np.array(counts, np.float64).reshape(ATOMS)
    tables = {a: centre(x.sum(axis=tuple(i for i in ALL if i not in a))) for a in subsets(ALL)}
    true = x.sum(axis=tuple(i for i in ALL if i not in b))
    assert np.allclose(reconstruct(COLUMNS, b, tables), true)


def test_a_missing_residual_leaves_a_marginal_unknown():
    log = [
        Release(1, (), 0, Fraction(1), np.array([10])),
        Release(2, (0,), 0, Fraction(1), np.zeros(3)),
    ]
    assert certify(COLUMNS, (0,), log) is not None
    assert certify(COLUMNS, (0, 1), log) is None
    assert exact_variance(COLUMNS, (0, 1), {(): Fraction(1), (0,): Fraction(1)}) is None


def test_a_wide_table_gives_its_small_marginals():
    wide = Columns((10,) * 100)
    log = [
        Release(n, a, 0, Fraction(1), np.zeros(wide.cells(a), np.int64))
        for n, a in enumerate(subsets((5, 77)), start=1)
    ]
    certificate = certify(wide, (77, 5), log)
    assert certificate is not None
    assert certificate.answer(wide, {r.id: r for r in log}).shape == (10, 10)
