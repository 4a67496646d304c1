"""Do 95 % intervals hold 95 % of the time?  Fresh ledgers, real engine, binomial limits.

Each ledger answers a COUNT, a SUM, an AVG and a GROUP BY once; the truth is computed by DuckDB from the
same file.  The faulty twin draws noise 10 % too wide, which must be noticed.
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path

import duckdb
import pytest
from scipy.stats import binom

from defray.config.opening import open_source
from defray.config.reader import read_contract
from defray.engine import Engine
from defray.ledger.memory import MemoryLedger
from defray.noise.opendp_sampler import OpenDPSampler
from defray.noise.sampler import Sampler
from defray.session import Session
from defray.transcript import terms_of
from tests.tables import write_contract, write_people

QUESTIONS = {
    "count": ("SELECT COUNT(*) FROM people WHERE age >= 40", 20),
    "sum": ("SELECT SUM(income) FROM people WHERE age < 40", 2_000_000),
    "avg": ("SELECT AVG(income) FROM people WHERE sex = 'F'", 1500),
    "group": ("SELECT sex, COUNT(*) FROM people GROUP BY sex", 30),
}


class Wider:
    """A faulty build: noise 10 % wider than it is charged for."""

    def __init__(self, sampler):
        self.sampler = sampler

    def draw(self, scales):
        return self.sampler.draw([s * 1.1 for s in scales])


def truths(path: Path) -> dict[str, list[float]]:
    """The questions on the table as the contract declares it: incomes are rounded to 100."""

    def ask(sql: str) -> list[float]:
        return [float(r[-1]) for r in duckdb.sql(sql.replace("people", f"'{path}'")).fetchall()]

    rounded = "round(income / 100) * 100"
    return {
        "count": ask(QUESTIONS["count"][0]),
        "sum": ask(QUESTIONS["sum"][0].replace("income", rounded)),
        "avg": ask(QUESTIONS["avg"][0].replace("income", rounded)),
        "group": ask("SELECT sex, COUNT(*) FROM people GROUP BY sex ORDER BY sex NULLS LAST"),
    }


def run(rounds: int, *, faulty: bool, folder: Path) -> tuple[Counter[str], Counter[str]]:
    covered: Counter[str] = Counter()
    within: Counter[str] = Counter()
    truth = truths(write_people(folder, 4000))
    contract = read_contract(write_contract(folder, "rho = 10"))
    sampler: Sampler = OpenDPSampler()
    if faulty:
        sampler = Wider(sampler)
    with closing(open_source(contract, MemoryLedger(terms_of(contract)))) as source:
        for n in range(rounds):
            ledger = MemoryLedger(terms_of(contract))
            session = Session(Engine(contract, ledger, source, sampler))
            for name, (sql, tolerance) in QUESTIONS.items():
                row = session.ask(sql, within=tolerance).rows[n % len(truth[name])]
                true = truth[name][n % len(truth[name])]
                covered[name] += row.low <= true <= row.high
                within[name] += abs(row.value - true) <= tolerance
    return covered, within


RARE = 1e-5
"""How often a check of a build without faults may fail."""


def check(rounds: int, folder: Path) -> None:
    covered, within = run(rounds, faulty=False, folder=folder)
    low = binom.ppf(RARE, rounds, 0.95)
    for name in QUESTIONS:
        # An average is priced by a lower bound of its count, so it may cover more, never less.
        assert covered[name] >= low, (name, covered)
        assert within[name] >= low, (name, within)
    high = binom.isf(RARE, rounds, 0.95)
    for name in ("count", "sum", "group"):
        assert covered[name] <= high, (name, covered)


@pytest.mark.long
@pytest.mark.statistics
def test_intervals_cover_100_fresh_ledgers(tmp_path: Path):
    check(100, tmp_path)


@pytest.mark.slow
@pytest.mark.statistics
def test_intervals_cover_2000_fresh_ledgers(tmp_path: Path):
    check(2000, tmp_path)


@pytest.mark.slow
@pytest.mark.statistics
def test_noise_a_tenth_too_wide_is_noticed(tmp_path: Path):
    rounds, names = 2000, ("count", "sum", "group")
    covered, _ = run(rounds, faulty=True, folder=tmp_path)
    low = binom.ppf(RARE, rounds * len(names), 0.95)
    assert sum(covered[name] for name in names) < low, covered
