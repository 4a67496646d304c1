"""Price figures of the design, and the laws of credit and charge, on the pure controller."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from defray.controller.best import best_fit
from defray.controller.plan import plan, price
from defray.core.amounts import QUANTA
from tests.controller.bench_table import AGE, SEX, Desk, adults, contract, make_ask, question

COUNT = question("COUNT")


def test_price_figures_of_the_design():
    desk = Desk()
    assert f"{desk.rho(desk.ask(COUNT, within=10)):.6f}" == "0.019207"
    assert desk.ask(COUNT, within=10) == 0
    assert f"{desk.rho(desk.ask(COUNT, within=5)):.6f}" == "0.057622"


def test_two_query_illustration():
    """0.7 is spent on a question; a target that needs 1.0 then costs 0.3 (paper, example)."""
    desk = Desk(contract(2))
    assert desk.rho(desk.ask(COUNT, rho="0.7")) == pytest.approx(0.7, abs=1e-12)
    within = 1.959963984540054 / math.sqrt(2)
    assert desk.rho(desk.ask(COUNT, within=within)) == pytest.approx(0.3, abs=1e-8)


def test_ten_spends_of_a_tenth_fit_exactly():
    desk = Desk()
    for age in range(10):
        desk.ask(question("COUNT", region=adults(age + 1)), rho="0.1")
    assert desk.spent <= QUANTA
    assert QUANTA - desk.spent < 10


@pytest.mark.parametrize("parts", [3, 7, 11, 49])
def test_equal_parts_of_a_budget_are_all_spendable(parts):
    desk = Desk(contract(Fraction(3, 10)))
    for age in range(parts):
        charged = desk.ask(
            question("COUNT", region=adults(age + 1)), rho=str(Fraction(3, 10) / parts)
        )
        assert charged > 0
    assert QUANTA - parts <= desk.spent <= QUANTA


@given(
    within=st.floats(1e-3, 1e6),
    factor=st.floats(1.0000001, 1e3),
    confidence=st.floats(0.5, 0.999999),
)
def test_price_strictly_decreases_in_the_tolerance(within, factor, confidence):
    terms = contract(10**9)
    prices = []
    for u in (within, within * factor):
        ask = make_ask(COUNT, terms, within=u, confidence=confidence)
        (purchase,) = plan(ask, Desk(terms).held(ask), Desk(terms).funds()).purchases
        prices.append(1 / Fraction(purchase.sigmas[0]) ** 2)
    assert prices[0] > prices[1]


@given(
    targets=st.lists(st.integers(1, 400), min_size=1, max_size=8),
    rows=st.sampled_from([1, 3]),
    seed=st.integers(0, 2**31),
)
def test_feasible_exact_repeats_cost_the_largest_price_only(targets, rows, seed):
    """Theorem 7: total = the largest rho_min asked of a question, whatever the order."""
    terms = contract(10**4, rows)
    desk = Desk(terms, seed=seed)
    total = sum(desk.ask(COUNT, within=u) for u in targets)
    alone = Desk(terms).ask(COUNT, within=min(targets))
    assert alone <= total <= alone + 2 * len(targets)


@given(st.permutations([5, 9, 9, 14, 30]))
def test_the_same_questions_cost_the_same_in_any_order(order):
    desk = Desk(contract(100))
    total = sum(desk.ask(question("COUNT", region=adults(u)), within=u) for u in order)
    other = Desk(contract(100))
    again = sum(other.ask(question("COUNT", region=adults(u)), within=u) for u in sorted(order))
    assert total == again


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 100)), max_size=30))
def test_no_path_exceeds_the_contract(asks):
    desk = Desk(contract(Fraction(1, 50)))
    for age, within in asks:
        try:
            desk.ask(question("COUNT", region=adults(age)), within=within)
        except OverflowError:
            pass  # refused: what matters is what was spent
        assert desk.spent <= QUANTA


@given(known=st.integers(2, 1000), asked=st.integers(1, 1000))
def test_residual_is_minimal(known, asked):
    """No smaller release meets the target after inverse-variance fusion."""
    desk = Desk(contract(10**4))
    desk.ask(COUNT, within=known)
    ask = make_ask(COUNT, desk.terms, within=asked)
    step = plan(ask, desk.held(ask), desk.funds())
    (held,) = desk.held(ask).known[0]
    if not step.purchases:
        assert known <= asked
        return
    (purchase,) = step.purchases
    precision = held.precision + purchase.precisions[0]
    z = 1.959963984540054
    assert z / math.sqrt(precision) <= asked * (1 + 1e-12)
    smaller = held.precision + purchase.precisions[0] * Fraction(999_999, 10**6)
    assert z / math.sqrt(smaller) > asked * (1 - 1e-6) or known <= asked


def test_group_by_charges_the_largest_residual_and_credits_each_cell():
    desk = Desk(contract(100))
    female = question("COUNT", region=desk_region("F"))
    paid = desk.ask(female, within=10)
    grouped = question("COUNT", by=(SEX,))
    assert desk.ask(grouped, within=10) == paid  # M and NULL are fresh, F is free
    assert desk.ask(grouped, within=10) == 0
    assert desk.ask(question("COUNT", region=desk_region("M")), within=10) == 0


def desk_region(value):
    from tests.controller.bench_table import REGIONS

    return REGIONS.where(SEX, ((0, 1),) if value == "F" else ((1, 2),))


def test_units_of_k_rows_cost_k_squared():
    one, three = Desk(contract(1000)), Desk(contract(1000, 3))
    a, b = one.ask(COUNT, within=10), three.ask(COUNT, within=10)
    assert 9 * (a - 1) <= b <= 9 * a  # both rounded up to quanta


def test_an_empty_region_is_free():
    desk = Desk()
    assert desk.ask(question("COUNT", region=False), within=10) == 0
    assert desk.ask(question("SUM:income", region=False), within=10) == 0


def test_counts_credit_sums_and_averages():
    truth = {"count": [5000.0], "centred:income": [-1000.0], "sum:income": [2.5e6]}
    fresh, helped = Desk(contract(100)), Desk(contract(100))
    average = question("AVG:income", region=adults(30))
    rows = question("COUNT:income", region=adults(30))
    alone = fresh.ask(average, truth, within=500)
    first = helped.ask(rows, truth, within=20)
    assert helped.ask(average, truth, within=500) < alone
    assert first > 0
    total = question("SUM:income", region=adults(30))
    scratch = Desk(contract(10**6)).ask(total, truth, within=100_000)
    credited = Desk(contract(10**6))
    credited.ask(rows, truth, within=20)
    assert credited.ask(total, truth, within=100_000) < scratch
    assert credited.ask(total, truth, within=100_000) == 0


def test_average_repeats_are_free_and_quotes_match():
    truth = {"count": [5000.0], "centred:income": [-1000.0]}
    for seed in range(20):
        desk = Desk(contract(100), seed=seed)
        average = question("AVG:income", region=adults(30))
        ask = make_ask(average, desk.terms, within=500)
        first = price(ask, desk.held(ask), desk.funds())
        assert not first.exact
        charged = desk.ask(average, truth, within=500)
        assert first.low <= charged <= first.high
        tighter = make_ask(average, desk.terms, within=250)
        quote = price(tighter, desk.held(tighter), desk.funds())
        assert quote.exact
        assert desk.ask(average, truth, within=250) == quote.low
        assert desk.ask(average, truth, within=500) == 0


def test_relative_targets_use_and_credit_the_diagnostic():
    terms = contract(10, xi=Fraction(1, 200), m_floor=Fraction(10))
    desk = Desk(terms)
    charged = desk.ask(COUNT, {"count": [5000.0]}, within="2%")
    z = 2.2414027276049446  # the answer's half of gamma
    closed_form = z**2 / (2 * (0.02 * 5000) ** 2)
    assert desk.rho(charged) == pytest.approx(closed_form, rel=0.4)
    assert desk.ask(COUNT, {"count": [5000.0]}, within="2%") == 0


def test_relative_repeats_are_free_for_every_seed():
    terms = contract(10, xi=Fraction(1, 10**5), m_floor=Fraction(10))
    for seed in range(200):
        desk = Desk(terms, seed=seed)
        desk.ask(COUNT, {"count": [500.0]}, within="2%")
        assert desk.ask(COUNT, {"count": [500.0]}, within="2%") == 0


@settings(max_examples=50)
@given(within=st.floats(0.01, 50), left=st.fractions(Fraction(1, 10**4), Fraction(1, 100)))
def test_the_best_that_fits_fits_and_is_nearly_the_best(within, left):
    terms = contract(1)
    ask = make_ask(COUNT, terms, within=within)
    desk = Desk(terms)
    funds = desk.funds(answer=left)
    if price(ask, desk.held(ask), funds).high <= left * QUANTA:
        return
    best = best_fit(ask, desk.held(ask), funds, lambda rho: rho <= funds.spendable)
    assert best is not None
    assert price(best, desk.held(best), funds).high <= left * QUANTA
    closer = best.scaled(Fraction(98, 100))
    assert price(closer, desk.held(closer), funds).high > left * QUANTA


@pytest.mark.parametrize("place", [-400, -100, 0, 300])
def test_relative_averages_are_priced_by_their_magnitude(place):
    """5 % of an average: the whole costs at most twice what it would if count and place were known."""
    rows, half, z = 3000, 500, 2.64
    truth = {"count": [float(rows)], "centred:income": [float(rows * place)]}
    average = question("AVG:income", region=adults(30))
    within = 0.05 * (half + place)
    known = (half + abs(place)) ** 2 * z**2 / (2 * (within * rows) ** 2)
    paid = []
    for seed in range(30):
        desk = Desk(contract(100), seed=seed)
        paid.append(desk.rho(desk.ask(average, truth, within="5%")))
        assert desk.ask(average, truth, within="5%") == 0
    assert sorted(paid)[15] < 2 * known


def test_looser_relative_repeats_are_free():
    terms = contract(10, m_floor=Fraction(20))
    for seed in range(60):
        desk = Desk(terms, seed=seed)
        truth = {"count": [500.0], "centred:income": [5e4]}
        for q in (COUNT, question("AVG:income")):
            assert desk.ask(q, truth, within="15%", confidence=0.8) > 0
            assert desk.ask(q, truth, within="15.01%", confidence=0.8) == 0
            assert desk.ask(q, truth, within="15%", confidence=0.79) == 0


def test_an_average_near_a_bound_does_not_eat_the_contract():
    truth = {"count": [3000.0], "centred:income": [3000.0 * -450]}  # 5,000 of 0 .. 100,000
    average = question("AVG:income")
    for seed in range(20):
        desk = Desk(contract(10), seed=seed)
        absolute = Desk(contract(10), seed=seed)
        spent = desk.ask(average, truth, within="10%")
        assert spent <= 4 * absolute.ask(average, truth, within=500)


def test_best_fit_is_the_same_for_one_cell_and_for_many_alike():
    terms = contract(1)
    left = Fraction(1, 1000)
    one = make_ask(COUNT, terms, within=5)
    many = make_ask(question("COUNT", by=(AGE, SEX)), terms, within=5)
    desk = Desk(terms)
    funds = desk.funds(answer=left)
    best = [best_fit(a, desk.held(a), funds, lambda rho: rho <= left) for a in (one, many)]
    assert best[0].goals == best[1].goals
