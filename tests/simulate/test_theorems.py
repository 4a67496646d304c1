"""Every statement of the table holds, would be seen to fail, and is a property of the product."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from defray.controller.plan import plan
from defray.core.amounts import QUANTA, quanta_down, quanta_up, rho_of
from defray.core.target import Spend, Within
from defray.errors import BadInput
from defray.policy.choices import GATES
from defray.policy.demand import Demand, Pace
from defray.policy.gates import Policy, Unpriced
from defray.policy.price import at_price, fluid_price
from defray.policy.research import Hedge
from defray.policy.weights import Weights
from defray.simulate.optimum import feasible_cost
from defray.simulate.run import Budget, run
from defray.simulate.schemes import SCHEMES
from defray.simulate.theorems import (
    CHECKS,
    crediting,
    diagnostics,
    filters,
    impossibility,
    scarcity,
    separations,
    table,
    weighting,
)
from defray.simulate.theorems.desk import Desk
from defray.simulate.theorems.row import Row
from defray.support.known import UNKNOWN

SEQUENCES = 200


def rows(check: Callable[..., Row | list[Row]], **broken: Any) -> list[Row]:
    found = check(SEQUENCES, 5, **broken)
    return found if isinstance(found, list) else [found]


@pytest.mark.long
def test_every_statement_of_the_table_holds() -> None:
    heard: list[tuple[int, int]] = []
    found = table(SEQUENCES, seed=3, progress=lambda done, of: heard.append((done, of)))
    assert [row.statement for row in found if not row.verdict] == []
    assert len({row.statement for row in found}) == len(found) >= 24
    assert all(row.source and row.bound and row.measured for row in found)
    assert heard == [(k, len(CHECKS)) for k in range(1, len(CHECKS) + 1)]
    assert found == table(SEQUENCES, seed=3)


def test_too_few_sequences_are_refused() -> None:
    with pytest.raises(BadInput):
        table(10)


# -- the twins: the same rows, with a product that is broken -------------------------------------


def without_credit(ask: Any, held: Any, funds: Any) -> Any:
    """Sees no transcript."""
    return plan(ask, replace(held, known=[[UNKNOWN] * len(row) for row in held.known]), funds)


def a_little_short(ask: Any, held: Any, funds: Any) -> Any:
    """Buys a thousandth less than is missing."""
    step = plan(ask, held, funds)
    less = Fraction(999, 1000)
    bought = tuple(
        replace(
            p,
            precisions=tuple(x and x * less for x in p.precisions),
            charges=tuple(math.ceil(c * less) for c in p.charges),
        )
        for p in step.purchases
    )
    return replace(step, purchases=bought)


def two_quanta_dear(ask: Any, held: Any, funds: Any) -> Any:
    step = plan(ask, held, funds)
    bought = tuple(replace(p, charges=tuple(c + 2 for c in p.charges)) for p in step.purchases)
    return replace(step, purchases=bought)


@dataclass(frozen=True, slots=True)
class Rule(Unpriced):
    """A policy of one line."""

    rule: Callable[[Demand, Pace], Any]

    name: ClassVar[str] = "rule"
    paced: ClassVar[bool] = False
    partial: ClassVar[bool] = True
    weighted: ClassVar[bool] = True

    def grant(self, demand: Demand, pace: Pace) -> Any:
        return self.rule(demand, pace)


def policy(rule: Callable[[Demand, Pace], Any]) -> Callable[..., Policy]:
    return lambda *_: Rule(rule)


class Fickle:
    """Answers the first ask on the first workload and not on the second: it knows what will come."""

    def __init__(self) -> None:
        self.runs = 0

    def grant(self, demand: Demand, pace: Pace) -> Any:
        if pace.arrivals == 0:
            self.runs += 1
            return demand.residual if self.runs % 2 else Fraction(0)
        return demand.residual if demand.residual <= demand.available else Fraction(0)


def fickle(*_: Any) -> Policy:
    return Rule(Fickle().grant)


def all_fickle(n: int) -> Iterator[Callable[[], Policy]]:
    one = fickle()
    yield lambda: one


BLIND = {
    **SCHEMES,
    "refuse": replace(SCHEMES["refuse"], credits=False),
    "qif_refuse": replace(SCHEMES["qif_refuse"], credits=False),
}
"""The residual schemes, without their residual."""

SEEING = {**SCHEMES, **{name: replace(SCHEMES[name], credits=True) for name in ("SA", "AC", "BP")}}
"""The comparators, crediting: what separates them is gone."""

TWINS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "no filter": (filters.composition, {"fits": lambda charge, left: charge >= 0}),
    "noise half as wide as paid for": (
        filters.composition,
        {"rounding": lambda asked, given: (filters.rounded(asked, given)[0] / 2, asked)},
    ),
    "a policy that overspends": (
        filters.no_overspending,
        {"policies": {"all": policy(lambda demand, pace: demand.residual)}},
    ),
    "a policy that takes back": (
        filters.no_overspending,
        {"policies": {"back": policy(lambda demand, pace: -demand.residual)}},
    ),
    "no credit": (crediting.minimality, {"planner": without_credit}),
    "too small a release": (crediting.minimality, {"planner": a_little_short}),
    "two quanta too dear": (crediting.minimality, {"planner": two_quanta_dear}),
    "a residual without credit": (crediting.minimality, {"credit": lambda wanted, held: wanted}),
    "a residual that falls short": (
        crediting.minimality,
        {"credit": lambda wanted, held: max(Fraction(0), (wanted - held) / 2)},
    ),
    "repeats paid twice": (crediting.one_competitive, {"planner": without_credit}),
    "cheaper than the optimum": (crediting.one_competitive, {"planner": a_little_short}),
    "repeats paid twice, with a purse": (crediting.overhead, {"planner": without_credit}),
    "cheaper than the optimum, with a purse": (crediting.overhead, {"planner": a_little_short}),
    "prices without credit": (crediting.prices, {"planner": without_credit}),
    "prices a little too low": (crediting.prices, {"planner": a_little_short}),
    "a residual scheme without credit, SA and AC": (
        separations.non_crediting,
        {"schemes": BLIND},
    ),
    "SA and AC with credit": (separations.non_crediting, {"schemes": SEEING}),
    "per step without credit": (separations.per_step, {"schemes": BLIND}),
    "the witness without credit": (separations.witness, {"schemes": BLIND}),
    "SA with credit": (separations.witness, {"schemes": SEEING}),
    "a second analyst pays here": (separations.partitioned, {"schemes": BLIND}),
    "BP with credit": (
        separations.partitioned,
        {"schemes": {**SEEING, "BP": replace(SEEING["BP"], analysts=False)}},
    ),
    "two queries without credit": (separations.two_queries, {"planner": without_credit}),
    "two queries, simulated without credit": (separations.two_queries, {"schemes": BLIND}),
    "APEx with credit": (separations.two_queries, {"schemes": SEEING}),
    "diagnostics judged without credit": (diagnostics.amortisation, {"schemes": BLIND}),
    "diagnostics that are not credited": (diagnostics.credited_diagnostics, {"schemes": BLIND}),
    "a policy that knows the future": (impossibility.deterministic, {"policies": all_fickle}),
    "a rule that knows the future": (impossibility.thresholds, {"wrap": fickle}),
    "a fair coin": (
        impossibility.hedged,
        {"hedge": lambda n, coin: Hedge(n, 2 * n / (2 * n - 1) * coin)},
    ),
    "a price of the wrong sign": (
        scarcity.closed_form,
        {"rule": lambda d, mu: min(d.residual + mu / (2 * d.weight), d.available)},
    ),
    "half the price": (scarcity.closed_form, {"rule": lambda d, mu: at_price(d, mu / 2)}),
    "no projection": (
        scarcity.closed_form,
        {"rule": lambda d, mu: d.residual - mu / (2 * d.weight)},
    ),
    "twice the price": (scarcity.differentiation, {"rule": lambda d, mu: at_price(d, mu * 2)}),
    "every weight 1": (
        scarcity.differentiation,
        {"rule": lambda d, mu: at_price(replace(d, weight=1.0), mu)},
    ),
    "a gate that keeps something back": (
        scarcity.last_ask,
        {"gates": {"half": policy(lambda d, pace: min(d.residual, d.available) / 2)}},
    ),
    "a price on plenty": (
        scarcity.feasible_price,
        {"price": lambda *seen: fluid_price(*seen) + 1e-3},
    ),
    "a price too low": (
        scarcity.feasible_price,
        {"price": lambda *seen: fluid_price(*seen) * 0.99},
    ),
    "an influence that falls with v": (
        weighting.monotone,
        {"influence": lambda w, found: 1 / Weights.influence(w, found)},
    ),
    "an influence blind to instability": (
        weighting.monotone,
        {"influence": lambda w, found: Weights.influence(w, replace(found, moved=0.0))},
    ),
    "an influence blind to the bound": (
        weighting.monotone,
        {"influence": lambda w, found: Weights.influence(w, replace(found, sd=0.0))},
    ),
    "a fixed price for weights of any scale": (
        weighting.scale_free,
        {"fluid": policy(lambda d, pace: at_price(d, 0.5))},
    ),
    "less for the heavier": (
        weighting.heavier,
        {"gates": {"odd": policy(lambda d, pace: at_price(replace(d, weight=1 / d.weight), 0.5))}},
    ),
    "the same for all weights": (
        weighting.heavier,
        {"gates": {"flat": policy(lambda d, pace: min(d.residual, d.available))}},
    ),
}


@pytest.mark.parametrize("name", TWINS)
def test_a_broken_product_is_seen(name: str) -> None:
    check, broken = TWINS[name]
    assert all(row.verdict for row in rows(check))
    assert not any(row.verdict for row in rows(check, **broken))


def test_every_check_has_a_twin() -> None:
    assert {check for check, _ in TWINS.values()} == set(CHECKS)


# -- the statements as properties ----------------------------------------------------------------

budgets = st.fractions(Fraction(1, 100), Fraction(100), max_denominator=1000)
sures = st.sampled_from(crediting.SURENESS)
tolerances = st.fractions(Fraction(1, 2), Fraction(500), max_denominator=64)
targets = st.lists(st.tuples(st.integers(0, 3), tolerances, sures), min_size=1, max_size=8)
demands = st.floats(1e-4, 2.0)
workloads = st.lists(
    st.tuples(st.integers(0, 3), demands, st.integers(0, 1)), min_size=1, max_size=10
).map(lambda asks: separations.workload(*(list(column) for column in zip(*asks, strict=True))))


@given(st.lists(st.tuples(st.integers(1, 2 * QUANTA), st.booleans()), max_size=12))
def test_what_is_drawn_never_passes_what_is_charged_nor_the_filter(
    asked: list[tuple[int, bool]],
) -> None:
    """Theorem 1: rho of Gaussian releases adds up, whoever chose them; here exactly."""
    left, drawn = QUANTA, Fraction(0)
    for quanta, is_given in asked:
        sigma, charge = filters.rounded(quanta, is_given)
        rho = 1 / (2 * Fraction(sigma) ** 2)
        assert rho <= rho_of(charge, filters.RHO)
        assert charge <= quanta if is_given else charge <= quanta + 2
        if charge <= left:
            left, drawn = left - charge, drawn + rho
    assert left >= 0 and drawn <= filters.RHO


@given(tolerances, sures, st.booleans())
def test_the_rounding_of_the_filter_row_is_the_controllers(
    within: Fraction, sure: Fraction, is_given: bool
) -> None:
    wanted = crediting.support_for(within, sure)
    rho = filters.RHO * max(1, math.ceil(wanted / filters.RHO))
    goal = Spend(rho_of(quanta_down(wanted, rho), rho)) if is_given else Within(within)
    charged = Desk(rho).ask(0, goal, sure)
    asked = quanta_down(wanted, rho) if is_given else quanta_up(wanted, rho)
    assert charged is not None and asked <= charged <= asked + 1 - is_given


@given(
    st.sampled_from(sorted(filters.POLICIES)),
    st.lists(st.tuples(st.integers(1, 3 * QUANTA), st.floats(1 / 16, 16)), max_size=12),
    st.integers(1, 20),
    st.floats(0, 1, exclude_max=True),
    budgets,
)
def test_no_policy_spends_past_the_cap(
    name: str, asked: list[tuple[int, float]], horizon: int, coin: float, rho: Fraction
) -> None:
    made, pace, left = filters.POLICIES[name](horizon, coin), Pace(), QUANTA
    for quanta, weight in asked:
        demand = Demand(rho_of(quanta, rho), rho_of(left, rho), rho, weight)
        granted = made.grant(demand, pace)
        charge = quanta_down(Fraction(granted), rho)
        assert 0 <= charge <= min(quanta, left)
        pace.advance(float(demand.residual), weight, made.after(demand, granted, pace))
        left -= charge


@given(targets)
def test_a_target_is_met_by_the_least_release(asked: list[tuple[int, Fraction, Fraction]]) -> None:
    desk = Desk(Fraction(10**4))
    for question, within, sure in asked:
        wanted, held = crediting.support_for(within, sure), desk.support(question)
        charge = desk.ask(question, Within(within), sure)
        assert charge is not None and desk.support(question) >= wanted
        least = quanta_up(max(Fraction(0), wanted - held), desk.rho)
        assert least <= charge <= least + 1
        # One quantum less than the least is not enough, whatever it is fused with.
        assert not charge or held + rho_of(least - 1, desk.rho) < wanted


@given(targets, st.fractions(0, Fraction(1, 2), max_denominator=100), st.data())
def test_feasible_repeats_cost_what_the_optimum_costs(
    asked: list[tuple[int, Fraction, Fraction]], xi: Fraction, data: st.DataObject
) -> None:
    """Theorem 7 and Proposition 4, in any order."""
    cost = crediting.offline_cost(asked)
    rho = cost * Fraction(101, 100) / (1 - xi)
    totals = []
    for order in (asked, data.draw(st.permutations(asked))):
        desk = Desk(rho, xi)
        assert all(desk.ask(q, Within(u), s) is not None for q, u, s in order)
        optimum = cost * QUANTA / rho
        assert optimum <= desk.spent <= optimum + desk.releases + 1
        totals.append(desk.spent)
        ratio = (QUANTA - desk.cap + desk.spent) / optimum
        assert float(ratio) == pytest.approx(float(1 + xi * rho / cost), rel=1e-12)
    assert abs(totals[0] - totals[1]) <= len(asked) + 1


@given(workloads)
def test_the_saving_against_non_crediting_covers_satisfied_repeats(asked: Any) -> None:
    before = separations.history(asked)
    again = before >= asked.demands
    residual = separations.ample(asked, SCHEMES["refuse"])
    assert residual.spent == pytest.approx(feasible_cost(asked), rel=1e-12)
    assert not residual.granted[again].any()
    for name in ("SA", "AC", "BP"):
        other = separations.ample(asked, SCHEMES[name])
        assert (other.granted >= asked.demands).all()
        owed = float(asked.demands[again].sum())
        assert other.spent - residual.spent >= owed - 1e-12 * float(asked.demands.sum())
        bound = np.maximum(0.0, 1 - before / asked.demands)
        assert (residual.granted / other.granted <= bound + 1e-12).all()


@given(demands, demands)
def test_a_repeat_costs_what_is_missing(first: float, second: float) -> None:
    """The two-query illustration for any two amounts, in the controller and in the simulator."""
    new = max(0.0, second - first)
    desk = Desk(Fraction(8))
    desk.ask(0, Spend(Fraction(first)))
    paid = float(
        rho_of(desk.ask(0, Within(Fraction(separations.Z / math.sqrt(2 * second)))) or 0, 8)
    )
    assert paid == pytest.approx(new, abs=1e-7)
    asked = separations.workload([0, 0], [first, second], [0, 1])
    for name, expected in (("refuse", new), ("AC", second), ("BP", second)):
        granted = separations.ample(asked, SCHEMES[name]).granted
        assert granted[1] == pytest.approx(expected, rel=1e-12, abs=1e-15), name


@given(workloads, st.floats(0, 0.9), st.floats(1.01, 4))
def test_diagnostics_pay_where_the_overlap_exceeds_their_purse(
    asked: Any, xi: float, plenty: float
) -> None:
    """E.4, and that crediting them makes them free."""
    scratch = separations.ample(asked, SCHEMES["SA"]).spent
    total = plenty * scratch / (1 - xi)
    spent = run(asked, SCHEMES["refuse"], Budget(total * (1 - xi))).spent
    overlap = np.minimum(separations.history(asked), asked.demands).sum() / asked.demands.sum()
    margin = overlap - xi * total / scratch
    if abs(margin) > 1e-9:
        assert (spent + xi * total < scratch) == (margin > 0)
    credited = run(asked, SCHEMES["qif_refuse"], Budget(total, xi, len(asked)))
    assert credited.spent == pytest.approx(feasible_cost(asked), rel=1e-12)


@pytest.mark.long
@given(
    st.integers(1, 12),
    st.lists(st.fractions(0, 1, max_denominator=12), min_size=13, max_size=13),
    st.lists(st.fractions(0, 1, max_denominator=12), min_size=13, max_size=13),
)
def test_no_deterministic_rule_beats_one_nth(
    n: int, cutoffs: list[Fraction], parts: list[Fraction]
) -> None:
    rule = impossibility.Threshold(tuple(cutoffs), tuple(parts))
    assert min(impossibility.ratios(lambda: rule, n)) <= Fraction(1, n)


@given(st.integers(1, 30))
def test_hedge_has_its_ratio_on_both(n: int) -> None:
    cells = 2 * n - 1
    both = [impossibility.ratios(lambda k=k: Hedge(n, (k + 0.5) / cells), n) for k in range(cells)]
    for side in zip(*both, strict=True):
        assert sum(side, Fraction(0)) / cells == Fraction(n, cells)


@given(st.sampled_from(sorted(GATES)), st.integers(2, 30), st.integers(1, 300))
def test_no_gate_beats_one_nth(name: str, n: int, horizon: int) -> None:
    assert min(impossibility.ratios(lambda: GATES[name](horizon), n)) <= Fraction(1, n)


@settings(max_examples=40)
@given(st.floats(0.05, 2), st.floats(0.01, 3), st.floats(1 / 16, 16), st.floats(0, 4))
def test_the_closed_form_is_what_a_convex_solver_finds(
    a: float, available: float, weight: float, mu: float
) -> None:
    import cvxpy as cp

    rho = cp.Variable()
    cost = weight * cp.square(cp.pos(a - rho)) + mu * rho
    solved = cp.Problem(cp.Minimize(cost), [rho >= 0, rho <= available])
    solved.solve(solver=cp.CLARABEL)
    found = float(at_price(Demand(a, available, 4.0, weight), mu))
    there = weight * max(0.0, a - found) ** 2 + mu * found
    assert 0 <= found <= available
    assert there <= solved.value + 1e-6 * (1 + weight)
    if mu > 0.01:
        assert found == pytest.approx(float(rho.value), abs=2e-3)


@given(st.floats(0.05, 2), st.floats(1 / 16, 16), st.floats(1 / 16, 16), st.floats(0.001, 0.999))
def test_equal_residuals_differ_by_their_weights(a: float, t: float, s: float, part: float) -> None:
    mu = part * 2 * a * min(t, s)
    one, two = (float(at_price(Demand(a, 2 * a, 4 * a, w), mu)) for w in (t, s))
    assert a - one == pytest.approx(mu / (2 * t), rel=1e-9, abs=1e-12)
    assert one - two == pytest.approx(mu / 2 * (1 / s - 1 / t), rel=1e-9, abs=1e-12)


@given(
    st.sampled_from(["identity", "sqrt", "log"]),
    st.floats(0.1, 3),
    st.floats(0.1, 3),
    st.tuples(st.floats(5, 300), st.floats(0, 100), st.floats(1.01, 3)),
    st.floats(0, 1),
)
def test_influence_moves_as_its_signals_do(
    growth: str, alpha: float, beta: float, signals: tuple[float, float, float], at: float
) -> None:
    weights = Weights(alpha, beta, growth)
    v, b, more = signals
    lower = 1 + at * (v * v / 3 - 1)
    of = lambda *x: weights.influence(weighting.diagnosis_of(*x, weights.z))  # noqa: E731
    assert of(v, b, lower) < of(v * more, b, lower)
    assert of(v, b, lower) < of(v, b * more + 1, lower)
    assert of(v, b, lower) > of(v, b, lower * more)


@given(tolerances, st.fractions(Fraction(1, 10), Fraction(99, 100), max_denominator=100), sures)
def test_a_price_follows_from_the_target_and_a_repeat_is_free(
    within: Fraction, part: Fraction, sure: Fraction
) -> None:
    desk = Desk(Fraction(10**4))
    z = crediting.two_sided(float(1 - sure))
    price = [z**2 / (2 * float(u) ** 2) for u in (within, within * part)]
    paid = [
        float(rho_of(desk.ask(0, Within(u), sure) or 0, desk.rho))
        for u in (within, within, within * part)
    ]
    assert paid[0] == pytest.approx(price[0], rel=1e-8, abs=1e-10)
    assert paid[1] == 0
    assert paid[2] == pytest.approx(price[1] - price[0], rel=1e-6, abs=1e-9)
