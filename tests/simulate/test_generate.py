"""Workloads made to order: their shape, their distributions, and the texts that ask for them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from defray.errors import BadInput
from defray.simulate.generate import GENERATORS, Spec, read_spec
from defray.simulate.pricing import least_rho, residuals
from defray.simulate.workload import Workload

seeds = st.integers(0, 2**32)
SIZED = [name for name, found in GENERATORS.items() if "n" in found.parameters]
ALONE = 1e-4
"""How unlikely a right generator may look."""


def same(one: Workload, other: Workload) -> bool:
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("keys", "demands", "truths", "analysts")
    )


def half_widths(workload: Workload) -> np.ndarray:
    return math.sqrt(least_rho(1)) / np.sqrt(workload.demands)


@pytest.mark.parametrize("name", GENERATORS)
@given(seed=seeds)
def test_equal_seeds_give_equal_workloads(name: str, seed: int) -> None:
    spec = read_spec(name)
    one, other = spec(seed), spec(seed)
    assert same(one, other)
    assert name in ("two_query", "w_a", "w_b") or not same(one, spec(seed + 1))
    for key in np.unique(one.keys):  # a question has one truth
        assert len(set(one.truths[one.keys == key].tolist())) == 1


@pytest.mark.parametrize("name", SIZED)
@given(n=st.integers(1, 300), seed=seeds)
def test_the_number_of_asks(name: str, n: int, seed: int) -> None:
    assert len(read_spec(f"{name}:n={n}")(seed)) == n + (name == "w_b")


@given(n=st.integers(1, 300), overlap=st.floats(0, 1), seed=seeds)
def test_repeats_are_as_many_as_asked_and_free(n: int, overlap: float, seed: int) -> None:
    workload = read_spec(f"repeats:n={n},overlap={overlap!r}")(seed)
    expected = math.floor(overlap * (n - 1))
    assert workload.questions == n - expected
    assert int((residuals(workload) == 0).sum()) == expected
    first = np.unique(workload.keys, return_index=True)[1]
    assert (np.diff(first) > 0).all()  # new questions are numbered as they come


@given(n=st.integers(2, 300), seed=seeds)
def test_orders_are_orders_of_the_same_asks(n: int, seed: int) -> None:
    plain, first, last, small = (
        read_spec(f"{name}:n={n}")(seed)
        for name in ("iid", "heavy_first", "heavy_last", "small_is_hard")
    )
    assert (np.diff(first.demands) <= 0).all()
    assert (np.diff(last.demands) >= 0).all()
    assert (np.diff(small.truths) <= 0).all()
    pairs = [sorted(zip(w.demands, w.truths, strict=True)) for w in (plain, first, last, small)]
    assert pairs[0] == pairs[1] == pairs[2] == pairs[3]


@given(n=st.integers(3, 300), factor=st.floats(0.1, 100), seed=seeds)
def test_a_burst_is_the_last_third(n: int, factor: float, seed: int) -> None:
    plain = read_spec(f"iid:n={n}")(seed)
    burst = read_spec(f"burst:n={n},factor={factor!r}")(seed)
    ratio = burst.demands / plain.demands
    assert ratio[: 2 * n // 3] == pytest.approx(1)
    assert ratio[2 * n // 3 :] == pytest.approx(factor)


def test_the_papers_own_workloads() -> None:
    two = read_spec("two_query")(0)
    assert residuals(two) == pytest.approx([0.7, 0.3])
    one, many = read_spec("w_a")(0), read_spec("w_b:n=20")(0)
    assert one.demands.tolist() == [1]
    assert many.demands[0] == 1
    assert many.demands[1:] == pytest.approx(np.full(20, 1 / 20))
    assert many.questions == 21


@pytest.mark.statistics
def test_demands_and_truths_have_their_distributions() -> None:
    workload = read_spec("iid:n=20000")(3)
    widths, truths = np.log(half_widths(workload)), workload.truths
    low, high = math.log(3), math.log(60)

    def uniform(x: np.ndarray) -> float:
        return float(stats.kstest(x, "uniform", args=(low, high - low)).pvalue)

    def lognormal(x: np.ndarray, spread: float) -> float:
        inner = np.log(x[x > 5])
        cut = (math.log(5) - math.log(1500)) / spread
        law = stats.truncnorm(cut, np.inf, loc=math.log(1500), scale=spread)
        return float(stats.kstest(inner, law.cdf).pvalue)

    assert low <= widths.min() <= widths.max() <= high
    assert truths.min() == 5
    assert uniform(widths) > ALONE
    assert lognormal(truths, 1.5) > ALONE
    assert abs(stats.spearmanr(widths, truths).statistic) < 0.03
    # The same tests see a half-width that is uniform itself, and a slightly wider spread.
    assert uniform(np.log(np.linspace(3, 60, 20000))) < ALONE
    assert lognormal(truths, 1.6) < ALONE


@pytest.mark.statistics
def test_popularity_is_zipfs() -> None:
    def fits(workload: Workload, exponent: float) -> float:
        counts = np.bincount(workload.keys, minlength=50)
        share = np.arange(1, 51.0) ** -exponent
        return float(stats.chisquare(counts, share / share.sum() * len(workload)).pvalue)

    for exponent in (0.0, 1.0, 1.3):
        workload = read_spec(f"zipf:n=50000,distinct=50,exponent={exponent}")(5)
        assert fits(workload, exponent) > ALONE
        assert fits(workload, exponent + 0.05) < ALONE  # the twin


@pytest.mark.statistics
def test_analysts_are_as_busy_and_share_questions() -> None:
    workload = read_spec("mixed_analysts:n=20000,analysts=4,distinct=30")(2)
    counts = np.bincount(workload.analysts)
    assert len(counts) == workload.crowd == 4
    assert stats.chisquare(counts).pvalue > ALONE
    assert stats.chisquare(counts + np.array([600, -200, -200, -200])).pvalue < ALONE  # the twin
    for who in range(4):
        assert len(np.unique(workload.keys[workload.analysts == who])) == 30


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no generator called nothing"),
        ("zpf", "did you mean zipf?"),
        ("no such thing at all", "one of iid"),
        ("iid:", "no parameter nothing"),
        ("iid:n", "no parameter n"),
        ("iid:m=5", "write iid:n=1000"),
        ("two_query:n=5", "write two_query alone"),
        ("iid:n=5,n=6", "given twice"),
        ("iid:n=0", "from 1 to 10,000,000, not 0"),
        ("iid:n=2.5", "a whole number"),
        ("iid:n=nan", "not nan"),
        ("iid:n=1e400", "not 1e400"),
        ("iid:n=", "not nothing"),
        ("iid:n=10000001", "10,000,000"),
        ("repeats:overlap=1.01", "from 0.0 to 1.0"),
        ("zipf:exponent=x", "not x"),
        ("burst:factor=0", "factor must be"),
        ("mixed_analysts:analysts=0", "analysts must be"),
    ],
)
def test_specs_that_ask_for_nothing(text: str, said: str) -> None:
    with pytest.raises(BadInput) as error:
        read_spec(text)
    assert said in str(error.value)
    assert error.value.hint


def test_specs() -> None:
    spec = read_spec(" zipf : n = 1e3 , distinct=7,exponent=0.5 ")
    assert isinstance(spec, Spec)
    assert spec.text == "zipf:n=1000,distinct=7,exponent=0.5"
    assert same(spec(4), read_spec(spec.text)(4))
    for name, found in GENERATORS.items():
        assert found.meaning
        assert all(p.meaning and p.low <= p.default <= p.high for p in found.parameters.values())
        assert read_spec(name).text.startswith(name)
