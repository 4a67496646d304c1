"""Marginals answered from drawn residuals are unbiased and as precise as stated, through overlapping asks
and a top-up.  Each test has a twin that must fail."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2, norm

from defray.noise.opendp_sampler import OpenDPSampler
from defray.support.marginal.certificate import Release, centre, certify, reconstruct
from defray.support.marginal.lattice import draws, residual_table, with_noise
from defray.support.marginal.residuals import Columns
from defray.support.marginal.support import Support

pytestmark = pytest.mark.statistics

COLUMNS = Columns((3, 4, 2))
ASKS = [((0, 1), 400.0, 1.0), ((1, 2), 100.0, 0.5), ((0, 1), 50.0, 1.0), ((), 30.0, 1.0)]
ROUNDS = 4000
RARE = 1e-6
TRUE = np.arange(24).reshape(3, 4, 2) ** 2

Centring = Callable[[np.ndarray], np.ndarray]


def logs() -> list[Release]:
    """The asks in order; values have one more axis, of independent rounds."""
    held: dict[tuple[int, ...], float] = {}
    made: list[Release] = []
    for b, variance, tilt in ASKS:
        plan = Support(COLUMNS, held).raise_to(b, variance, tilt)
        counts = TRUE.sum(axis=tuple(i for i in range(3) if i not in b))
        for draw in draws(COLUMNS, plan, Fraction(1)):
            a = draw.attributes
            cells = COLUMNS.cells(a)
            table = np.tile(residual_table(COLUMNS, b, counts, a).ravel(), ROUNDS)
            noise = OpenDPSampler().draw([draw.scale] * (cells * ROUNDS))
            values = np.array(with_noise(table, draw, noise)).reshape(ROUNDS, cells)
            made.append(Release(len(made) + 1, a, draw.bits, draw.precision, values))
            held[a] = held.get(a, 0.0) + float(draw.precision)
    return made


LOGS: list[list[Release]] = []


def log() -> list[Release]:
    if not LOGS:
        LOGS.append(logs())
    return LOGS[0]


def answers(b: tuple[int, ...], centring: Centring) -> tuple[np.ndarray, float]:
    """The answers of all rounds, and the stated variance."""
    certificate = certify(COLUMNS, b, log())
    assert certificate is not None
    releases = {r.id: r for r in log()}
    variance = certificate.variance(COLUMNS, releases)
    rounds = []
    for n in range(ROUNDS):
        tables = {}
        for a in COLUMNS.marginal(b).sets:
            fused = np.zeros(COLUMNS.shape(a))
            held = sum(r.precision for r in log() if r.attributes == a)
            for r in (r for r in log() if r.attributes == a):
                z = np.ldexp(r.values[n].reshape(COLUMNS.shape(a)) / COLUMNS.cells(a), -r.bits)
                fused += float(r.precision / held) * centring(z)
            tables[a] = fused
        rounds.append(reconstruct(COLUMNS, b, tables))
    return np.array(rounds), float(variance)


def fits(b: tuple[int, ...], centring: Centring = centre, share: float = 1.0) -> bool:
    """Whether no cell's mean and variance are further off than one in a million sets would be;
    ``share``: of the variance that is stated."""
    found, variance = answers(b, centring)
    variance *= share
    true = TRUE.sum(axis=tuple(i for i in range(3) if i not in b))
    tail = RARE / (2 * true.size)
    z = (found.mean(0) - true) / np.sqrt(variance / ROUNDS)
    q = ((found - true) ** 2).sum(0) / variance
    low, high = chi2.ppf([tail, 1 - tail], ROUNDS)
    return bool((np.abs(z) < norm.isf(tail)).all() and (low < q).all() and (q < high).all())


@pytest.mark.long
@pytest.mark.parametrize("b", [(0, 1), (1, 2), (1,), (0,), ()])
def test_marginals_are_unbiased_with_the_stated_variance(b):
    assert fits(b)
    releases = {r.id: r for r in log()}
    certificate = certify(COLUMNS, b, log())
    assert certificate is not None and certificate.unbiased(COLUMNS, releases)


@pytest.mark.parametrize("b", [(0, 1), (1, 2)])
def test_noise_that_is_not_centred_again_is_noticed(b):
    assert not fits(b, centring=lambda z: z)


@pytest.mark.parametrize("b", [(0, 1), (1,), ()])
def test_a_variance_stated_a_fifth_too_small_is_noticed(b):
    assert not fits(b, share=0.8)


@pytest.mark.long
def test_fusing_two_answers_as_if_they_were_independent_is_noticed():
    """Summed over their other column, (0, 1) and (1, 2) both answer (1,), from the same releases: averaging
    the two and halving the variance claims what is not there."""
    left, _ = answers((0, 1), centre)
    right, _ = answers((1, 2), centre)
    _, variance = answers((1,), centre)
    both = (left.sum(axis=1) + right.sum(axis=2)) / 2
    squares = ((both - TRUE.sum(axis=(0, 2))) ** 2).sum(0)
    low, high = chi2.ppf([RARE / 8, 1 - RARE / 8], ROUNDS)
    assert ((low < squares / variance) & (squares / variance < high)).all()
    assert (squares / (variance / 2) > high).all()
