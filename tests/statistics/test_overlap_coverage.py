"""Answers that rest on overlapping releases, through the whole engine: unbiased, as accurate as stated."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from defray.controller.goals import Wish
from defray.core.contract import Unit
from defray.engine import Engine
from defray.ledger.memory import MemoryLedger
from defray.noise.opendp_sampler import OpenDPSampler
from defray.noise.sampler import Sampler
from defray.simulate.tables import synthetic
from defray.transcript import terms_of
from tests.support.overlapping import CONTRACT, DOMAIN

pytestmark = pytest.mark.statistics

LEDGERS = 60
QUESTIONS = (
    ("age, COUNT(*) FROM people GROUP BY age", 60),
    ("COUNT(*) FROM people WHERE age < 5", 60),
    ("COUNT(*) FROM people WHERE age < 4 AND sex = 'F'", 60),
    ("COUNT(*) FROM people WHERE age BETWEEN 2 AND 6", 80),
    ("COUNT(*) FROM people WHERE sex = 'F'", 60),
    ("city, COUNT(*) FROM people WHERE age > 2 GROUP BY city", 60),
    ("COUNT(*) FROM people WHERE age > 2 AND city IN ('Oslo', 'Rome')", 60),
    ("SUM(pay) FROM people WHERE age < 5", 4000),
    ("SUM(pay) FROM people WHERE age < 3", 4000),
    ("SUM(pay) FROM people WHERE age BETWEEN 3 AND 4", 5000),
    ("COUNT(*) FROM people WHERE age < 4", 60),
    ("COUNT(*) FROM people", 60),
)


class Wider:
    """Noise that is two fifths wider than it says."""

    def __init__(self) -> None:
        self.sampler = OpenDPSampler()

    def draw(self, scales: list[float]) -> list[int]:
        return self.sampler.draw([1.4 * s for s in scales])


def scores(sampler: Sampler, unit: Unit) -> np.ndarray:
    """By ledger and row, how far an answer is from the truth, in its own standard deviations."""
    table = synthetic(DOMAIN, 3000, 5)
    contract = replace(CONTRACT, unit=unit, rho=Fraction(10))
    found = []
    for _ in range(LEDGERS):
        engine = Engine(contract, MemoryLedger(terms_of(contract)), table, sampler)
        row = []
        for question, within in QUESTIONS:
            sql = f"SELECT {question}"
            answer = engine.ask(sql, Wish(within=within))
            assert answer.met
            truths = true_values(engine, sql, within)
            for got, truth in zip(answer.rows, truths, strict=True):
                assert got.value is not None
                row.append((got.value - truth) / (got.half_width / 1.959964))
        found.append(row)
    return np.array(found)


def true_values(engine: Engine, sql: str, within: float) -> list[float]:
    from defray.scans import scan_of, true_value

    compiled = engine.prepare(sql, Wish(within=within)).compiled
    exact = engine._source.scan(scan_of(compiled))
    (parts,) = compiled.parts
    block = compiled.blocks[parts.get("sum", parts.get("count"))]
    return [true_value(block, exact, i, 0) for i in range(len(compiled.cells))]


@pytest.mark.long
@pytest.mark.parametrize(
    "unit",
    [
        pytest.param(Unit(), marks=pytest.mark.slow, id="rows"),
        pytest.param(Unit("person", 3), id="units of 3"),
    ],
)
def test_answers_are_unbiased_with_the_stated_accuracy(unit: Unit) -> None:
    z = scores(OpenDPSampler(), unit)
    spread = np.sqrt(np.mean(z**2, axis=0))  # of an answer that is better than asked: below one
    assert np.abs(z.mean(axis=0)).max() < 4.5 / LEDGERS**0.5
    assert spread.max() < 1.45
    assert 0.9 < np.median(spread) < 1.08
    covered = (np.abs(z) <= 1.959964).mean()
    assert 0.93 < covered < 0.975


@pytest.mark.long
def test_wider_noise_would_be_noticed() -> None:
    assert (np.abs(scores(Wider(), Unit())) <= 1.959964).mean() < 0.92
