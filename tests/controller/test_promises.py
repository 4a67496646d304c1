"""Do the promises hold?  Joint intervals, percentages and averages over many simulated transcripts."""

from __future__ import annotations

from fractions import Fraction

import pytest
from scipy.stats import binom

from defray.controller.rules import rules_of
from tests.controller.bench_table import SEX, Desk, contract, make_ask, question

ROUNDS = 600


def at_least(confidence: float) -> float:
    """Fewer successes than this of ROUNDS would be seen once in a thousand at that confidence."""
    return float(binom.ppf(0.001, ROUNDS, confidence))


def joint_coverage(simultaneous: bool) -> int:
    q = question("COUNT", "SUM:income", by=(SEX,))
    truth = {"count": [50.0, 60.0, 5.0], "sum:income": [9e4, 8e4, 4e3]}
    wish = {"within": {"a0": 20, "a1": 2_000_000}, "confidence": 0.6, "simultaneous": simultaneous}
    held = 0
    for seed in range(ROUNDS):
        desk = Desk(contract(10**6), seed=seed)
        desk.ask(q, truth, **wish)
        ask = make_ask(q, desk.terms, **wish)
        rules, known = rules_of(ask), desk.held(ask)
        held += all(
            abs(rules[j].estimate(i, known).value - true) <= (20 if j == 0 else 2_000_000)
            for j, true_values in enumerate(
                (truth["count"], [100 * s for s in truth["sum:income"]])
            )
            for i, true in enumerate(true_values)
        )
    return held


def test_simultaneous_intervals_hold_together_over_cells_and_aggregates():
    assert joint_coverage(simultaneous=True) >= at_least(0.6)


def test_intervals_one_by_one_do_not_hold_together():
    """The twin: six intervals at 60 % each hold together far less often."""
    assert joint_coverage(simultaneous=False) < at_least(0.6)


@pytest.mark.parametrize("true", [0, 12, 30, 400])
@pytest.mark.parametrize("xi", [0, Fraction(1, 1000)])
def test_a_percentage_of_a_count_holds(true, xi):
    terms = contract(10**4, xi=xi, m_floor=Fraction(10))
    allowed = 0.2 * max(true, 10)
    right = 0
    for seed in range(ROUNDS):
        desk = Desk(terms, seed=seed)
        wish = {"within": "20%", "confidence": 0.8}
        desk.ask(question("COUNT"), {"count": [float(true)]}, **wish)
        ask = make_ask(question("COUNT"), terms, **wish)
        right += abs(rules_of(ask)[0].estimate(0, desk.held(ask)).value - true) <= allowed
    assert right >= at_least(0.8)


@pytest.mark.parametrize("place", [-490, -200, 0, 450])
@pytest.mark.parametrize("within", [2000, "10%"])
def test_an_average_holds(place, within):
    rows, mean = 800, 50_000 + 100 * place
    truth = {"count": [float(rows)], "centred:income": [float(rows * place)]}
    allowed = 2000 if within == 2000 else 0.1 * max(mean, 1000)
    right = 0
    for seed in range(ROUNDS):
        desk = Desk(contract(10**5), seed=seed)
        wish = {"within": within, "confidence": 0.8}
        desk.ask(question("AVG:income"), truth, **wish)
        ask = make_ask(question("AVG:income"), desk.terms, **wish)
        right += abs(rules_of(ask)[0].estimate(0, desk.held(ask)).value - mean) <= allowed
    assert right >= at_least(0.8)
