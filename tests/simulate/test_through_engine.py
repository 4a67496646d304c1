"""The real engine charges what the accounting says: to 1e-9 of every demand, whatever the gate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from defray.books import run_audit
from defray.controller.goals import Wish
from defray.core.amounts import QUANTA, quanta_up, support_of
from defray.core.column import Column
from defray.core.contract import Contract, SourceSpec, Unit
from defray.core.domain import Domain
from defray.core.shapes import Anything, Whole
from defray.core.target import precision_for, two_sided
from defray.engine import Engine
from defray.ledger.memory import MemoryLedger
from defray.noise.opendp_sampler import OpenDPSampler
from defray.policy.choices import GATES
from defray.simulate.chance import generator
from defray.simulate.on_table import Gating
from defray.simulate.run import Budget, run
from defray.simulate.schemes import SCHEMES
from defray.simulate.tables import synthetic
from defray.simulate.through_engine import half_width, run_through_engine
from defray.simulate.workload import Workload
from defray.transcript import terms_of

Z = two_sided(0.05)


def workload(keys: Sequence[int], demands: Sequence[float], truths: Any = None) -> Workload:
    count = len(keys)
    truths = np.full(count, 1000.0) if truths is None else truths
    return Workload(
        "w", np.array(keys, np.int64), np.array(demands, float), truths, np.zeros(count, np.int64)
    )


def counts(asks: int, questions: int, seed: int = 1) -> Workload:
    """Independent asks of counts within 5, 10, 20 or 30 rows, of questions that repeat if they are fewer."""
    chance = generator(seed)
    distinct = questions >= asks
    keys = (
        chance.permutation(questions)[:asks] if distinct else chance.integers(questions, size=asks)
    )
    within = chance.choice([5.0, 10.0, 20.0, 30.0], asks)
    truths = np.rint(chance.uniform(0, 5000, questions))[keys]
    return workload(keys.tolist(), (Z**2 / (2 * within**2)).tolist(), truths)


def test_in_the_feasible_regime_every_charge_is_that_of_the_accounting() -> None:
    asked, budget = counts(60, 20), Budget(1.0)
    real, accounted = run_through_engine(asked, budget), run(asked, SCHEMES["refuse"], budget)
    quantum = 1.0 / QUANTA
    assert (accounted.granted == 0).any() and (accounted.granted > 0).sum() > 20  # repeats, top-ups
    assert ((real.granted == 0) == (accounted.granted == 0)).all()
    assert (abs(real.granted - accounted.granted) <= 1e-9 * accounted.granted + quantum).all()
    assert (abs(real.support - accounted.support) <= 1e-9 * accounted.support).all()
    assert real.met.all() and accounted.met.all()
    assert not real.diagnostic.any()
    assert real.spent == pytest.approx(real.granted.sum(), rel=1e-12)


demands = st.floats(1e-6, 0.05)
asks = st.lists(st.tuples(st.integers(0, 3), demands), min_size=1, max_size=12)


@settings(max_examples=40)
@given(asked=asks)
def test_the_total_is_the_sum_of_the_dearest_of_each_question(
    asked: list[tuple[int, float]],
) -> None:
    """Theorem 7, in quanta: a charge is rounded up by less than one, its sigma down to a double."""
    keys, prices = zip(*asked, strict=True)
    real = run_through_engine(workload(keys, prices), Budget(1.0))
    dearest: dict[int, Fraction] = {}
    for key, demand in asked:
        least = support_of(precision_for(half_width(demand), Z), Fraction(1))
        dearest[key] = max(dearest.get(key, Fraction(0)), least)
    owed = sum(dearest.values(), Fraction(0)) * QUANTA
    releases = int((real.granted > 0).sum())
    assert owed <= real.spent * QUANTA < owed * (1 + Fraction(1, 2**50)) + releases
    # Held against the demands themselves, each price is off by less than 1e-9 of it.
    accounted = run(workload(keys, prices), SCHEMES["refuse"], Budget(1.0))
    off = abs(real.granted - accounted.granted)
    assert (off <= 2e-9 * np.array(prices) + 1.0 / QUANTA).all()


@pytest.mark.parametrize("gate", sorted(GATES))
def test_under_scarcity_every_gate_decides_as_in_the_accounting(gate: str) -> None:
    """Each question once: what is repeated unmet is one arrival here and two there."""
    asked = counts(60, 60)
    budget = Budget(0.1, horizon=60, forecast=(0.05, 0.01))
    real = run_through_engine(asked, budget, Gating(gate))
    accounted = run(asked, SCHEMES[gate], budget)
    assert not accounted.met.all() and accounted.granted.any()
    assert real.granted == pytest.approx(accounted.granted, rel=1e-9, abs=4.0 / QUANTA)
    assert (real.met == accounted.met).all()
    assert real.spent <= budget.rho


def test_gates_differ() -> None:
    """The twin of the test above: it would notice a gate that is not the contract's."""
    asked, budget = counts(60, 60), Budget(0.1, horizon=60)
    told = {gate: tuple(run(asked, SCHEMES[gate], budget).granted.round(9)) for gate in GATES}
    assert len(set(told.values())) == len(GATES)


def test_diagnostics_are_charged_to_their_own_purse_and_weigh() -> None:
    asked, budget = counts(40, 40), Budget(0.5, xi=0.1, horizon=40)
    real = run_through_engine(asked, budget, Gating("dual"))
    each = budget.rho * budget.xi / 40 * (1 - 2.0**-29)  # room for charges that are rounded up
    bought = real.diagnostic[real.diagnostic > 0]
    assert len(bought) > 5
    assert bought == pytest.approx(np.full(len(bought), each), rel=1e-9)
    assert len(set(real.weights.tolist())) > 5
    assert real.spent == pytest.approx(real.granted.sum() + real.diagnostic.sum(), rel=1e-12)
    assert real.spent <= budget.rho


def test_the_noise_does_not_move_what_is_charged() -> None:
    asked, budget = counts(30, 10), Budget(0.2)
    one, other = (run_through_engine(asked, budget) for _ in range(2))
    assert (one.granted == other.granted).all()


def test_every_kind_of_question_can_be_asked_of_a_made_table() -> None:
    income = Column("income", "integer", Anything(), bounds=(Fraction(0), Fraction(1000)),
                    unit_step=Fraction(1))  # fmt: skip
    domain = Domain((Column("age", "integer", Whole(0, 9), null="drop"), income))
    contract = Contract("people", Fraction(100), Unit(), SourceSpec("csv"), domain, Path())
    table, ledger = synthetic(domain, 10_000, seed=1), MemoryLedger(terms_of(contract))
    engine = Engine(contract, ledger, table, OpenDPSampler())
    ages, incomes = table.atoms("age"), table.units("income")
    answer = engine.ask(
        "SELECT age, COUNT(*) AS n, SUM(income) AS s, AVG(income) AS m FROM people GROUP BY age",
        Wish.of({"n": 10, "s": 9000, "m": 20}, None, None, None, None),
    )
    assert answer.met
    assert len(answer.rows) == 3 * 10
    for row in answer.rows:
        mine = incomes[ages == row.group["age"]]
        truth = {"n": len(mine), "s": mine.sum(), "m": mine.mean()}[row.aggregate]
        assert row.value is not None
        assert abs(row.value - truth) < 4 * row.half_width
    assert run_audit(ledger).ok


def test_an_empty_workload_spends_nothing() -> None:
    real = run_through_engine(workload([], []), Budget(1.0))
    assert (len(real.granted), real.spent) == (0, 0.0)


@given(demand=st.floats(1e-12, 1e6))
def test_a_half_width_asks_for_its_demand(demand: float) -> None:
    price = support_of(precision_for(half_width(demand), Z), Fraction(1))
    assert abs(price - Fraction(demand)) < Fraction(demand) / 10**9
    assert math.isclose(float(half_width(demand)), Z / math.sqrt(2 * demand), rel_tol=1e-9)


def test_whole_half_widths_are_hit_exactly() -> None:
    for within in (1, 5, 10, 50, 1000):
        assert half_width(Z**2 / (2 * within**2)) == within


def test_quanta_up_is_what_a_first_release_is_charged() -> None:
    demand = Z**2 / 200
    real = run_through_engine(workload([0], [demand]), Budget(1.0))
    price = support_of(precision_for(Fraction(10), Z), Fraction(1))
    assert real.granted[0] * QUANTA == quanta_up(price, Fraction(1))
