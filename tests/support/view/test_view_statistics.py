"""Answers are unbiased, with the variance they state; twins that are broken on purpose must be seen."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from defray.support.view.certificate import Certificate, known
from defray.support.view.offer import Offer
from defray.support.view.state import State
from tests.support.view.workloads import Floats, line, play, ranges, subsets

pytestmark = pytest.mark.statistics

REPLICATIONS, QUESTIONS, CELLS = 3_000, 150, 32


@dataclass
class Played:
    state: State
    questions: Floats
    said: list[Certificate]
    """What each question was told when it was asked, over the releases so far."""


@pytest.fixture(scope="module")
def played() -> Played:
    """150 questions of two kinds and mixed targets: what is measured does not depend on the noise."""
    rng = np.random.default_rng(20)
    q = np.vstack([ranges(CELLS, 110, rng), subsets(CELLS, 40, rng)])[rng.permutation(QUESTIONS)]
    q[~q.any(axis=1), 0] = 1  # an empty region is 0, without noise
    v = 10.0 ** rng.uniform(2, 4, QUESTIONS)
    steps = list(play(q, v, base=line(CELLS)))
    assert sum(isinstance(step.found, Offer) for step in steps) > 60
    return Played(steps[-1].after, q, [known(step.after, step.q) for step in steps])


def errors(played: Played, seed: int, scale: float = 1.0) -> Floats:
    """Answers minus truths, a row a replication, on one table; the noise is ``scale`` times what is said."""
    rng = np.random.default_rng(seed)
    state = played.state
    x = rng.integers(0, 2_000, CELLS).astype(float)
    noise = rng.normal(size=(REPLICATIONS, state.count)) * np.sqrt(state.variances) * scale
    y = state.rows @ x + noise
    out = np.empty((REPLICATIONS, len(played.said)))
    for j, (q, said) in enumerate(zip(played.questions, played.said, strict=True)):
        out[:, j] = y[:, : len(said.weights)] @ said.weights - q @ x
    return out


def bias_scores(off: Floats) -> Floats:
    return np.asarray(off.mean(axis=0) / (off.std(axis=0, ddof=1) / math.sqrt(len(off))))


def ratios(off: Floats, played: Played) -> Floats:
    return off.var(axis=0, ddof=1) / np.array([c.variance for c in played.said])


def unbiased(off: Floats) -> bool:
    """The scores look standard normal: none above 4.5, and as large on average as they should be.

    They are correlated, so their mean square spreads more than that of 150 independent ones.
    """
    z = bias_scores(off)
    return bool(np.abs(z).max() < 4.5 and 0.4 < np.square(z).mean() < 2.2)


def truthful(off: Floats, played: Played) -> bool:
    found = ratios(off, played)
    return bool(np.quantile(found, 0.02) >= 0.94 and np.quantile(found, 0.98) <= 1.08)


@pytest.mark.parametrize("seed", [1, 2])
def test_answers_are_unbiased_with_the_stated_variance(played: Played, seed: int) -> None:
    off = errors(played, seed)
    assert unbiased(off)
    assert truthful(off, played)
    assert 0.99 < ratios(off, played).mean() < 1.01


@pytest.mark.parametrize("scale", [0.95, 1.05])
def test_twin_noise_five_per_cent_off_is_seen(played: Played, scale: float) -> None:
    off = errors(played, 1, scale)
    assert not truthful(off, played)


def test_twin_a_rounded_weight_that_is_not_accounted_for_is_seen(played: Played) -> None:
    """Weights cut to three digits without a deviation: a bias of many standard errors."""
    cut = [
        Certificate(np.round(c.weights, 3), c.residue, c.deviation, c.variance) for c in played.said
    ]
    assert not unbiased(errors(Played(played.state, played.questions, cut), 1))


@pytest.mark.parametrize("double", [False, True])
def test_coverage_and_the_twin_that_counts_a_release_twice(double: bool) -> None:
    """95 % intervals for the total of 12 cells that were each asked once.

    The twin takes the noisy cells for independent again, as a fold in which each release stands twice would.
    """
    *_, last = play(np.eye(12), np.full(12, 100.0))
    said = known(last.after, np.ones(12))
    rng = np.random.default_rng(4)
    noise = rng.normal(size=(20_000, 12)) * np.sqrt(last.after.variances)
    half = 1.959964 * math.sqrt(said.variance / (2 if double else 1))
    covered = float((np.abs(noise @ said.weights) <= half).mean())
    assert (0.945 < covered < 0.955) != double
    assert covered < 0.86 or not double
