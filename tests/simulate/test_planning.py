"""Budgets that are planned are the least that do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from defray.core.zcdp import epsilon_for
from defray.errors import BadInput
from defray.simulate.optimum import feasible_cost
from defray.simulate.planning import (
    FACTORS,
    TOLERANCES,
    longer_by,
    required,
    sensitivity,
    tolerant,
)
from defray.simulate.run import Budget, run
from defray.simulate.schemes import SCHEMES
from defray.simulate.workload import Workload


def workload(seed: int = 0, n: int = 40, questions: int = 15) -> Workload:
    chance = np.random.default_rng(seed)
    return Workload(
        "test",
        chance.integers(0, questions, n),
        np.exp(chance.normal(-3, 1, n)),
        np.exp(chance.normal(7, 1, n)),
        chance.integers(0, 3, n),
    )


def share(asked: Workload, name: str, rho: float, xi: float = 0.0) -> float:
    scheme = SCHEMES[name]
    budget = Budget(rho, xi if scheme.diagnoses else 0.0, horizon=len(asked))
    return float(run(asked, scheme, budget).met.mean())


@settings(max_examples=50)
@given(st.integers(0, 10**6), st.integers(1, 30))
def test_all_targets_need_the_offline_cost_and_no_less(seed: int, n: int) -> None:
    asked = workload(seed, n, 8)
    for name in ("refuse", "greedy", "paper", "reuse-only"):
        found = required(asked, name)
        assert found.exact and found.reached == 1
        assert found.rho == pytest.approx(feasible_cost(asked), rel=1e-9)
        assert share(asked, name, found.rho) == 1
        assert share(asked, name, found.rho * (1 - 1e-6)) < 1


@pytest.mark.parametrize("name", ["SA", "AC", "BP", "dual", "fluid", "satisfy", "zcl", "aon_fluid"])
def test_a_bisected_budget_does_and_a_little_less_does_not(name: str) -> None:
    asked = workload()
    for part in (0.8, 1.0):
        found = required(asked, name, share=part)
        assert not found.exact and found.reached >= part
        assert share(asked, name, found.rho) == found.reached
        assert share(asked, name, found.rho * (1 - 2e-4)) < part


def test_without_credit_more_is_needed_and_in_parts_most() -> None:
    asked = workload()
    credited, scratch, parted = (required(asked, name).rho for name in ("refuse", "SA", "BP"))
    # SA may stop paying for repeats that it has answered well enough before.
    assert credited < scratch <= asked.demands.sum() * (1 + 1e-9)
    assert scratch < parted


def test_diagnostics_gross_the_budget_up() -> None:
    asked = workload()
    found = required(asked, "qif_refuse", xi=0.2)
    assert found.rho == pytest.approx(feasible_cost(asked) / 0.8)
    assert found.reached == 1 and found.xi == 0.2 and not found.exact
    assert required(asked, "refuse", xi=0.2).rho == pytest.approx(feasible_cost(asked))


def test_a_scheme_that_draws_is_planned_over_seeds() -> None:
    asked = workload(n=20)
    one, many = (required(asked, "qif_dual", share=0.7, xi=0.1, seeds=s) for s in (1, 8))
    assert one.rho != many.rho
    assert many.reached >= 0.7


def test_a_requirement_speaks_epsilon() -> None:
    found = required(workload(), "refuse")
    assert found.epsilon(1e-6) == epsilon_for(found.rho, 1e-6)


@pytest.mark.parametrize("part", [0.0, 1.1])
def test_a_share_is_a_part(part: float) -> None:
    with pytest.raises(BadInput):
        required(workload(), "refuse", share=part)


def test_an_unknown_scheme_is_named() -> None:
    with pytest.raises(BadInput, match="no scheme 'wish'"):
        required(workload(), "wish")


def test_sensitivity_tells_what_more_and_less_would_do() -> None:
    asked = workload()
    names = ["refuse", "SA", "dual", "qif_dual"]
    found = sensitivity(asked, names, feasible_cost(asked), xi=0.05, seeds=3)
    for name in names:
        rows = [row for row in found.budgets if row.scheme == name]
        assert [row.factor for row in rows] == list(FACTORS)
        assert all(row.rho == pytest.approx(row.factor * feasible_cost(asked)) for row in rows)
        assert rows[0].shortfall > rows[-1].shortfall
        assert rows[0].satisfied < rows[-1].satisfied
        needs = [row for row in found.needs if row.scheme == name]
        assert [row.tolerance for row in needs] == [*TOLERANCES, 1.0]
        assert needs[-1].longer == 0.1
    refuse = {row.factor: row for row in found.budgets if row.scheme == "refuse"}
    assert refuse[1.0].satisfied == 1 and refuse[1.0].shortfall == 0 and refuse[0.75].satisfied < 1


def test_rho_goes_with_the_inverse_square_of_the_tolerance() -> None:
    asked = workload()
    needs = sensitivity(asked, ["refuse", "SA", "dual"], 1.0, seeds=1).needs
    for row in needs:
        if not row.longer:
            scaled = required(tolerant(asked, row.tolerance), row.scheme).rho
            assert row.rho == pytest.approx(scaled, rel=3e-4)
            assert row.change == pytest.approx(row.tolerance**-2)


def test_a_longer_workload_asks_new_questions() -> None:
    asked = workload()
    grown = longer_by(asked, 0.1)
    assert len(grown) == 44
    assert not set(grown.keys[40:]) & set(grown.keys[:40])
    assert (grown.demands[:40] == asked.demands).all() and (grown.keys[:40] == asked.keys).all()
    last = sensitivity(asked, ["refuse"], 1.0).needs[-1]
    assert last.rho == pytest.approx(feasible_cost(grown)) and last.change > 1
