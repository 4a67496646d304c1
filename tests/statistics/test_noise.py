"""The noise has the distribution it is said to have; each test has a twin that must fail.

A true test fails by chance less than once in a million runs, a twin passes about as rarely.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import pytest
from scipy.stats import chi2, norm

from defray.noise.opendp_sampler import OpenDPSampler
from tests.noise import oracle

pytestmark = [pytest.mark.statistics, pytest.mark.long]

RARE = 1e-6
DRAWS = 12_000


def pmf(scale: float) -> dict[int, float]:
    """The discrete Gaussian, by summation of the exact weights until they vanish."""
    far = math.ceil(40 * scale) + 1
    weights = {x: math.exp(-x * x / (2 * scale * scale)) for x in range(-far, far + 1)}
    total = math.fsum(weights.values())
    return {x: w / total for x, w in weights.items()}


def bins(expected: dict[int, float], count: int) -> list[set[int]]:
    """Consecutive integers, grouped so that each group expects at least 200 draws."""
    groups: list[set[int]] = []
    group: set[int] = set()
    held = 0.0
    for x in sorted(expected):
        group.add(x)
        held += expected[x] * count
        if held >= 200:
            groups.append(group)
            group, held = set(), 0.0
    groups[-1] |= group
    return groups


def fit(drawn: Sequence[int], scale: float) -> float:
    """The p-value of chi-square against the discrete Gaussian of that scale."""
    expected = pmf(scale)
    seen = Counter(drawn)
    statistic = 0.0
    groups = bins(expected, len(drawn))
    place = {x: i for i, group in enumerate(groups) for x in group}
    counts = [0] * len(groups)
    for x, n in seen.items():
        counts[place.get(x, 0 if x < 0 else -1)] += n
    for group, observed in zip(groups, counts, strict=True):
        mean = math.fsum(expected[x] for x in group) * len(drawn)
        statistic += (observed - mean) ** 2 / mean
    return float(chi2.sf(statistic, len(groups) - 1))


def same(a: Sequence[int], b: Sequence[int], scale: float) -> float:
    """The p-value of a two-sample chi-square on equally many draws."""
    groups = bins(pmf(scale), len(a))
    place = {x: i for i, group in enumerate(groups) for x in group}
    tables = []
    for drawn in (a, b):
        counts = [0] * len(groups)
        for x in drawn:
            counts[place.get(x, 0 if x < 0 else -1)] += 1
        tables.append(counts)
    statistic = sum((m - n) ** 2 / (m + n) for m, n in zip(*tables, strict=True) if m + n)
    return float(chi2.sf(statistic, len(groups) - 1))


SCALES = [0.4, 0.75, 1.0, 3.7, 25.0, 120.0]


@pytest.mark.parametrize("scale", SCALES)
def test_the_exact_distribution(scale: float) -> None:
    assert fit(OpenDPSampler().draw([scale] * DRAWS), scale) > RARE


@pytest.mark.parametrize("wrong", [0.9, 1.1])
@pytest.mark.parametrize("scale", SCALES)
def test_twin_a_scale_ten_per_cent_off_is_seen(scale: float, wrong: float) -> None:
    assert fit(OpenDPSampler().draw([scale * wrong] * DRAWS), scale) < RARE


def deciles(scale: float, against: float) -> float:
    drawn = OpenDPSampler().draw([scale] * 2 * DRAWS)
    counts = Counter(min(9, int(norm.cdf(x / against) * 10)) for x in drawn)
    mean = len(drawn) / 10
    return float(chi2.sf(sum((counts[i] - mean) ** 2 / mean for i in range(10)), 9))


@pytest.mark.parametrize("scale", [1e6, 2.0**40 / 3, 2.0**49.9])
def test_a_large_scale_is_the_normal_distribution(scale: float) -> None:
    """Above 10**6 the two differ by less than 10**-6 in any decile."""
    assert deciles(scale, scale) > RARE


@pytest.mark.parametrize("wrong", [0.9, 1.1])
def test_twin_a_large_scale_ten_per_cent_off_is_seen(wrong: float) -> None:
    assert deciles(1e9 * wrong, 1e9) < RARE


@pytest.mark.parametrize("scale", [0.6, 3.3, 20.0])
def test_another_sampler_agrees(scale: float) -> None:
    """Canonne, Kamath and Steinke's rejection sampler, written from the paper."""
    other = [oracle.gaussian(scale) for _ in range(DRAWS)]
    assert fit(other, scale) > RARE
    assert same(OpenDPSampler().draw([scale] * DRAWS), other, scale) > RARE


@pytest.mark.parametrize("scale", [0.6, 3.3, 20.0])
def test_twin_another_sampler_at_twenty_per_cent_more_does_not(scale: float) -> None:
    other = [oracle.gaussian(scale * 1.2) for _ in range(DRAWS)]
    assert same(OpenDPSampler().draw([scale] * DRAWS), other, scale) < RARE


def test_cells_of_one_call_are_independent() -> None:
    """Neighbouring cells of a vector, of equal and of unequal scales, are not correlated."""
    drawn = OpenDPSampler().draw([30.0, 30.0, 50.0] * (DRAWS // 4))
    rows = [drawn[i : i + 3] for i in range(0, len(drawn), 3)]
    for i, j, scale in ((0, 1, 30.0 * 30.0), (0, 2, 30.0 * 50.0), (1, 2, 30.0 * 50.0)):
        mean = sum(r[i] * r[j] for r in rows) / len(rows) / scale
        assert abs(mean) < 5 / math.sqrt(len(rows))
