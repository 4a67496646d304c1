"""Asks in SQL, put to the real engine over a table: what a run says is what the books and the answers say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from defray.core.amounts import QUANTA
from defray.core.column import Column
from defray.core.contract import Contract, SourceSpec, Unit, Weighing
from defray.core.domain import Domain
from defray.core.shapes import Anything, Values, Whole
from defray.data.counted import CountedSource
from defray.data.source import Control, Exact, Scan
from defray.noise.opendp_sampler import OpenDPSampler
from defray.policy.choices import GATES
from defray.simulate import truths
from defray.simulate.on_table import Gating, OnTable, choices, run_on_table, shared, under, wish_of
from defray.simulate.pricing import Prices
from defray.simulate.results import simulate
from defray.simulate.run import Budget, Run, run
from defray.simulate.schemes import SCHEMES
from defray.simulate.tables import synthetic
from defray.simulate.truths import ScannedOnce, truth_of
from defray.simulate.workload import Workload, Written

DOMAIN = Domain(
    (
        Column("age", "integer", Whole(0, 59), null="drop", other="drop"),
        Column("income", "integer", Anything(), bounds=(Fraction(0), Fraction(1000)),
               unit_step=Fraction(10)),
        Column("sex", "string", Values(("F", "M")), null="drop", other="drop"),
    )
)  # fmt: skip
COUNT = "SELECT COUNT(*) FROM people WHERE age = {}"


def contract(rho: float, **terms: Any) -> Contract:
    budget = Fraction(str(rho))
    terms.setdefault("support", "exact")  # as the accounting credits
    return Contract("people", budget, Unit(), SourceSpec("csv"), DOMAIN, Path(), **terms)


def table(rows: int = 6000) -> CountedSource:
    return synthetic(DOMAIN, rows, seed=5)


def workload(asks: Sequence[Written], terms: Contract) -> Workload:
    """What the accounting knows of the asks: the descriptor and the price of each from scratch."""
    prices = Prices(terms)
    keys: dict[bytes, int] = {}
    at, demands = [], []
    for ask in asks:
        found = prices.question(ask.sql) if ask.rho else None
        priced = None if found else prices.of(ask.sql, ask.within or None, ask.confidence or None)
        descriptor = found[0] if found else priced.descriptor if priced else b""
        at.append(keys.setdefault(descriptor, len(keys)))
        demands.append(float(ask.rho) if ask.rho else priced.low if priced else 0.0)
    ones = np.ones(len(asks))
    who = np.zeros(len(asks), np.int64)
    return Workload("w", np.array(at), np.array(demands), 100 * ones, who, asks=tuple(asks))


def asked(asks: Sequence[Written], terms: Contract, gate: str = "refuse", **arguments: Any) -> Run:
    source = arguments.pop("source", None) or table()
    return run_on_table(asks, workload(asks, terms), terms, source, Gating(gate), **arguments)


class Shifted:
    """Noise that is not random: so many standard deviations, always."""

    def __init__(self, deviations: float) -> None:
        self.deviations = deviations

    def draw(self, scales: Sequence[float]) -> list[int]:
        return [round(self.deviations * scale) for scale in scales]


class Watched:
    """Counts what is done to a source."""

    def __init__(self, source: CountedSource) -> None:
        self.source = source
        self.scans = self.closed = 0
        self.name = "one"

    def fingerprint(self) -> str:
        return self.name

    def scan(self, scan: Scan, control: Control | None = None) -> Exact:
        self.scans += 1
        return self.source.scan(scan, control)

    def close(self) -> None:
        self.closed += 1


# -- against the accounting ------------------------------------------------------------------------

widths = st.sampled_from(["4", "6", "10", "25"])
counts = st.lists(st.tuples(st.integers(0, 59), widths), min_size=1, max_size=25, unique=True)


@pytest.mark.parametrize("gate", sorted(GATES))
@settings(max_examples=8)
@given(wanted=counts, rho=st.sampled_from([0.02, 0.1, 0.3]))
def test_the_engine_and_the_accounting_agree_on_absolute_counts(
    gate: str, wanted: list[tuple[int, str]], rho: float
) -> None:
    """Repeats at other accuracies included: credit is the same in both."""
    asks = [Written(COUNT.format(age), within) for age, within in wanted]
    terms = contract(rho, horizon=len(asks))
    known = workload(asks, terms)
    real = run_on_table(asks, known, terms, table(), Gating(gate))
    accounted = run(known, SCHEMES[gate], Budget(rho, horizon=len(asks)))
    slack = 4.0 * rho / QUANTA
    assert real.scheme == gate
    assert real.granted == pytest.approx(accounted.granted, rel=1e-9, abs=slack + 1e-9 * rho)
    assert real.support == pytest.approx(accounted.support, rel=1e-9, abs=slack + 1e-9 * rho)
    assert real.met.tolist() == accounted.met.tolist()
    assert (real.weights == 1).all()
    assert not real.diagnostic.any()
    assert real.spent == pytest.approx(real.granted.sum(), rel=1e-12)


def test_the_twin_another_gate_is_noticed() -> None:
    asks = [Written(COUNT.format(age), "6") for age in range(30)]
    terms = contract(0.3, horizon=30)
    accounted = run(workload(asks, terms), SCHEMES["dual"], Budget(0.3, horizon=30))
    assert asked(asks, terms, "dual").granted == pytest.approx(accounted.granted, rel=1e-9)
    assert asked(asks, terms, "greedy").granted != pytest.approx(accounted.granted, rel=1e-2)


# -- every kind of ask -----------------------------------------------------------------------------

KINDS = {
    "count": Written("SELECT COUNT(*) FROM people WHERE age < 30", "20"),
    "count of a column": Written("SELECT COUNT(income) FROM people WHERE sex = 'F'", "20"),
    "groups": Written("SELECT sex, COUNT(*) FROM people GROUP BY sex", "20"),
    "sum": Written("SELECT SUM(income) FROM people", "20000"),
    "average": Written("SELECT AVG(income) FROM people", "20"),
    "both": Written("SELECT COUNT(*) AS n, AVG(income) AS m FROM people "
                    "ERROR WITHIN 30 FOR n, 5% FOR m"),
    "percentage": Written("SELECT COUNT(*) FROM people WHERE age >= 30", "5%", "90%"),
    "having": Written("SELECT age, COUNT(*) AS n FROM people GROUP BY age HAVING n > 1 LIMIT 3", "50"),
    "spend": Written("SELECT SUM(income) FROM people WHERE age < 9", rho="0.125"),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_asked(kind: str) -> None:
    ask = KINDS[kind]
    terms = contract(50, m_floor=Fraction(10), n_max=10_000)
    found = asked([ask, ask], terms)
    assert found.answered is not None and found.errors is not None
    assert found.met.all()
    assert found.granted[0] > 0
    assert (found.granted[1], found.diagnostic[1]) == (0, 0)  # known by now
    assert (found.support >= found.demands * (1 - 1e-9)).all()
    if kind == "average":
        assert np.isnan(found.errors).all()
    else:
        assert (found.errors >= 0).all() and (found.errors < 0.5).all()
        assert found.errors[0] == found.errors[1]  # the same answer


def test_diagnostics_are_from_their_own_purse_and_weigh() -> None:
    asks = [Written(COUNT.format(age), "6") for age in range(20)]
    terms = contract(0.2, xi=Fraction(1, 10), horizon=20)
    heavy = Gating("dual", Weighing(alpha=Fraction(2)))
    known = workload(asks, terms)
    counted = synthetic(DOMAIN, 6000, 5, {"age": [1.0 + 20 * (a % 2) for a in range(60)]})
    found = run_on_table(asks, known, terms, counted, heavy)
    assert found.diagnostic.sum() == pytest.approx(0.02, rel=1e-6)
    assert len(set(found.weights.tolist())) > 3
    assert found.weights[::2].mean() > found.weights[1::2].mean()  # even ages are few, so hard
    assert found.granted.sum() <= 0.18 * (1 + 1e-12)


# -- what is not granted ---------------------------------------------------------------------------


def test_refused_where_nothing_is_known() -> None:
    for ask in (KINDS["count"], KINDS["groups"], KINDS["sum"]):
        found = asked([ask], contract(1e-6))
        assert (found.support[0], found.granted[0], found.spent) == (0, 0, 0)
        assert not found.met[0]
        assert found.errors is not None and found.errors[0] == 1


@pytest.mark.parametrize("kind", ["groups", "sum"])
def test_refused_where_something_is_known(kind: str) -> None:
    """Of several functionals: what the refusal says is lacking."""
    rough = KINDS[kind]
    fine = replace(rough, within=str(int(rough.within) // 4))
    terms = contract(1)
    first, second = workload([rough, fine], terms).demands
    terms = contract(round(2 * first, 9))
    found = asked([rough, fine], terms)
    assert found.met.tolist() == [True, False]
    assert found.granted[1] == 0
    assert found.support == pytest.approx([first, first], rel=1e-6)
    assert found.shortfall[1] == pytest.approx(second - first, rel=1e-6)


@pytest.mark.parametrize("kind", ["count", "groups", "sum"])
def test_a_part_is_granted(kind: str) -> None:
    ask = KINDS[kind]
    demand = workload([ask], contract(1)).demands[0]
    rho = round(demand / 4, 9)
    found = asked([ask, ask], contract(rho), "greedy")
    assert found.met.tolist() == [False, False]
    assert found.granted == pytest.approx([rho, 0], rel=1e-9, abs=1e-15)
    assert found.support == pytest.approx([rho, rho], rel=1e-6)


def test_too_few_rows_is_a_refusal_that_may_have_cost() -> None:
    ask = Written("SELECT AVG(income) FROM people WHERE age = 3 AND sex = 'F'", "0.5")
    found = asked([ask], contract(0.5))
    assert not found.met[0]
    assert found.granted[0] == found.spent > 0
    assert 0 <= found.support[0] <= found.demands[0]


# -- errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["count", "sum", "groups", "count of a column"])
def test_errors_are_against_the_true_values(kind: str) -> None:
    """The twin: an error that ignored the noise, or the truth, would not move with both."""
    ask, terms = KINDS[kind], contract(50)
    still = asked([ask], terms, sampler=Shifted(0)).errors
    moved = asked([ask], terms, sampler=Shifted(2)).errors
    small = asked([ask], terms, sampler=Shifted(2), source=table(1500)).errors
    assert still is not None and moved is not None and small is not None
    assert still[0] == pytest.approx(0, abs=1e-12)
    assert moved[0] > 1e-3
    assert small[0] == pytest.approx(4 * moved[0], rel=0.25)  # a quarter of the rows
    if kind == "count":
        rows = sum(table().counts[table().atoms("age") < 30].tolist())
        sigma = 1 / math.sqrt(2 * workload([ask], terms).demands[0])
        assert moved[0] == pytest.approx(2 * sigma / rows, rel=1e-6)


def test_no_row_at_all_counts_as_one() -> None:
    ask, terms = Written(COUNT.format(3), "10"), contract(50)
    empty = asked([ask], terms, sampler=Shifted(0.1), source=table(0)).errors
    assert empty is not None
    sigma = 1 / math.sqrt(2 * workload([ask], terms).demands[0])
    assert empty[0] == pytest.approx(0.1 * sigma, rel=1e-6)


def test_magnitudes_are_in_units_of_what_one_row_can_change() -> None:
    prices, counted = Prices(contract(50, m_floor=Fraction(10))), table()
    ages, incomes = counted.atoms("age"), counted.units("income")  # in tens, 100 at most

    def magnitude(kind: str) -> float:
        ask = KINDS[kind]
        return truth_of(prices.ask(ask.sql, wish_of(ask)), counted).magnitude

    assert magnitude("count") == (ages < 30).sum()
    assert magnitude("sum") == pytest.approx(incomes.sum() / 100)
    assert magnitude("average") == 6000
    assert magnitude("having") == np.median(np.bincount(ages, minlength=60))
    ask = KINDS["average"]
    assert repr(truth_of(prices.ask(ask.sql, wish_of(ask)), counted)).startswith("<")


# -- sources ---------------------------------------------------------------------------------------


def test_the_source_is_left_open_and_the_ledger_is_new_every_time() -> None:
    source, asks = Watched(table()), [KINDS["count"]]
    one, other = (asked(asks, contract(1), source=source) for _ in range(2))
    assert source.closed == 0
    assert one.granted[0] == other.granted[0] > 0


def test_what_was_scanned_is_not_scanned_again() -> None:
    watched = Watched(table())
    once = ScannedOnce(watched)
    asks = [KINDS["count"], KINDS["groups"], replace(KINDS["count"], within="10")]
    plain, kept = (asked(asks, contract(1), source=s) for s in (table(), once))
    assert kept.granted.tolist() == plain.granted.tolist()
    assert watched.scans == 2
    asked(asks, contract(1), source=once)
    assert watched.scans == 2
    watched.name = "two"  # the data is another now
    asked(asks, contract(1), source=once)
    assert watched.scans == 4
    once.close()
    assert not watched.closed


def test_what_is_kept_of_scans_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(truths, "MOST_KEPT", 1)
    watched = Watched(table())
    once = ScannedOnce(watched)
    found = [once.scan(Scan(True)) for _ in range(2)]
    assert watched.scans == 1
    groups = Prices(contract(1)).ask(KINDS["groups"].sql, wish_of(KINDS["groups"]))
    for _ in range(2):
        truth_of(groups, once)
    assert watched.scans == 3
    assert found[0].rows == found[1].rows == [6000]


# -- a comparison ----------------------------------------------------------------------------------


def test_a_comparison_has_the_magnitudes_and_the_table_of_each_seed() -> None:
    asks = [KINDS["count"], KINDS["groups"]]
    terms = contract(0.5, horizon=2)
    opened: list[int] = []

    def source_of(seed: int) -> CountedSource:
        if seed not in opened:
            opened.append(seed)
        return sources[seed]

    sources = [synthetic(DOMAIN, 1000, seed) for seed in range(3)]
    runner = OnTable(workload(asks, terms), terms, source_of)
    told: list[tuple[int, int]] = []
    first = runner.workload(0, lambda done, total: told.append((done, total)))
    assert told == [(1, 2), (2, 2)]
    assert first.truths.tolist() == [(sources[0].atoms("age") < 30).sum(), 500]
    assert runner.workload(0) is first
    assert runner.workload(1).truths[0] == (sources[1].atoms("age") < 30).sum()
    schemes = [SCHEMES[name] for name in choices(0)]
    found = simulate(runner.workload, schemes, Budget(0.5, horizon=2), 3, runner=runner)
    assert opened == [0, 1, 2]
    assert {row["scheme"] for row in found.totals} == set(GATES)
    assert all(0 < row["relerr"] < 0.2 for row in found.totals if row["satisfied"] == 2)


def test_averages_alone_have_no_relative_error() -> None:
    terms = contract(50, m_floor=Fraction(10))
    runner = OnTable(workload([KINDS["average"]], terms), terms, lambda seed: source)
    source = table()
    found = simulate(runner.workload, [SCHEMES["refuse"]], Budget(50), 1, runner=runner)
    assert found.totals[0]["relerr"] is None
    assert found.totals[0]["satisfied"] == 1


def test_what_a_contract_can_choose() -> None:
    assert choices(0) == list(GATES)
    weighed = choices(0.1)
    assert {"refuse", "satisfy", "qif_dual", "qif_fluid", "qif_paper"} <= set(weighed)
    assert not {"dual", "fluid", "qif_refuse", "paper"} & set(weighed)
    assert all(name in SCHEMES for name in weighed)


def test_another_budget_is_taken_and_the_same_stays_exact() -> None:
    terms = contract(0.1, xi=Fraction(1, 3), horizon=7)
    same = under(terms, Budget(0.1, xi=1 / 3, horizon=7))
    assert same == terms
    other = under(terms, Budget(0.25, xi=0.0, horizon=3))
    assert (other.rho, other.xi, other.horizon) == (Fraction(1, 4), 0, 3)


def test_questions_that_share_what_is_bought() -> None:
    terms = contract(1)
    one = Written("SELECT COUNT(*) FROM people WHERE sex = 'F'", "30")

    def share(*asks: Written) -> bool:
        return shared(workload(asks, terms), terms)

    assert share(one, KINDS["groups"])
    assert share(KINDS["sum"], KINDS["average"])
    assert not share(one, replace(one, within="10"), KINDS["count"])
    assert not share()


def test_a_shared_group_is_bought_once() -> None:
    """Where questions share, the engine needs less than the sum of their prices."""
    asks = [KINDS["groups"], Written("SELECT COUNT(*) FROM people WHERE sex = 'F'", "20")]
    found = asked(asks, contract(1))
    assert found.granted[1] == 0
    assert found.met.all()
    assert found.spent < found.demands.sum() * 0.6


def test_the_sampler_is_the_products_own() -> None:
    """Unless a test gives another: answers differ from run to run."""
    found = {float(asked([KINDS["count"]], contract(1)).errors[0]) for _ in range(4)}  # type: ignore[index]
    given = {float(asked([KINDS["count"]], contract(1), sampler=OpenDPSampler()).errors[0])}  # type: ignore[index]
    assert len(found | given) > 2
