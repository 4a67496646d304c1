"""What every validity costs, credits and refuses, on the pure controller."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from defray.controller.best import best_fit
from defray.controller.plan import plan, price
from defray.controller.present import Bought, answer_of
from defray.controller.rules import rules_of
from defray.core.amounts import QUANTA
from defray.core.target import two_sided
from defray.core.validity import anytime_width
from defray.errors import TargetError, TooManyLooks
from tests.controller.bench_table import INCOME, SEX, Desk, adults, contract, make_ask, question

COUNT, SUM, AVG = question("COUNT"), question("SUM:income"), question("AVG:income")
ROWS = question("COUNT:income")
TRUTH = {"count": [5000.0], "sum:income": [2.5e6], "centred:income": [-1000.0]}


def scratch(within: float) -> float:
    """rho_min of a count at 95 %."""
    return 1.959963984540054**2 / (2 * within**2)


def half_width(desk: Desk, q=COUNT, **wish: object) -> float:
    ask = make_ask(q, desk.terms, **wish)
    return rules_of(ask)[0].estimate(0, desk.held(ask)).half_width


# -- anytime ------------------------------------------------------------------------------------------


def test_anytime_costs_2_4_times_as_much_from_scratch():
    desk = Desk()
    paid = desk.rho(desk.ask(COUNT, within=10, validity="anytime"))
    assert paid / scratch(10) == pytest.approx(2.398, abs=5e-4)
    assert desk.ask(COUNT, within=10, validity="anytime") == 0
    assert half_width(desk, within=10, validity="anytime") == pytest.approx(10, rel=1e-11)


@pytest.mark.parametrize(("times", "factor"), [(10, "2.75"), (100, "3.3"), (1000, "3.9")])
def test_the_more_is_known_beyond_the_first_release_the_dearer_is_anytime(times, factor):
    desk = Desk(contract(10**6))
    desk.ask(COUNT, within=100)
    ask = make_ask(COUNT, desk.terms, within=100)
    (held,) = desk.held(ask).known[0]
    within = anytime_width(times * held.precision, held.first, 0.05)
    total = scratch(100) + desk.rho(desk.ask(COUNT, within=within, validity="anytime"))
    digits = len(factor.partition(".")[2])
    assert f"{total / scratch(within):.{digits}f}" == factor


def test_what_any_release_of_the_count_said_is_credited():
    desk, other = Desk(), Desk()
    first = desk.ask(COUNT, within=20)
    more = desk.ask(COUNT, within=20, validity="anytime")
    assert first + more == pytest.approx(
        other.ask(COUNT, within=20, validity="anytime"), rel=0.04
    )  # eta is 0.12 of a smaller first release, so a little more in all
    assert desk.ask(COUNT, within=20) == 0
    assert desk.ask(COUNT, within=14) == 0  # what anytime bought is good for more, fixed


@settings(max_examples=200)
@given(
    asks=st.lists(
        st.tuples(st.floats(0.5, 500), st.sampled_from(["fixed", "anytime"])),
        min_size=1,
        max_size=5,
    ),
    confidence=st.sampled_from([0.5, 0.95, 0.999]),
    q=st.sampled_from([COUNT, SUM]),
)
def test_anytime_buys_what_its_width_needs_and_no_more(asks, confidence, q):
    desk = Desk(contract(10**9))
    unit = 10**4 if q is SUM else 1
    for within, validity in asks:
        wish = {"within": within * unit, "validity": validity, "confidence": confidence}
        ask = make_ask(q, desk.terms, **wish)
        step = plan(ask, desk.held(ask), desk.funds())
        assert desk.ask(q, **wish) == step.charge
        assert desk.ask(q, **wish) == 0
        assert half_width(desk, q, **wish) <= within * unit * (1 + 1e-15)
        if step.purchases and validity == "anytime":
            (purchase,) = step.purchases
            (known,) = desk.held(ask).known[purchase.block]
            less = known.precision - purchase.precisions[0] / 10**6
            first = known.first if known.releases > 1 else less
            assert anytime_width(less, first, ask.gamma) > within * unit / float(
                ask.compiled.blocks[purchase.block].unit
            )


def test_anytime_credits_and_shows_a_sum_by_its_own_releases_only():
    fixed, anytime = Desk(contract(10**6)), Desk(contract(10**6))
    for desk in (fixed, anytime):
        desk.ask(AVG, TRUTH, within=500)  # a centred sum and a count: a way round to the sum
        desk.ask(ROWS, TRUTH, within=1)
    fresh = Desk(contract(10**6))
    assert fixed.ask(SUM, TRUTH, within=1e6) < fresh.ask(SUM, TRUTH, within=1e6)
    for wish in ({"validity": "anytime"}, {"validity": "looks=3"}):
        alone = Desk(contract(10**6))
        expected = alone.ask(SUM, TRUTH, within=1e6, **wish)
        helped = replace(anytime, known=dict(anytime.known), spent=anytime.spent)
        assert helped.ask(SUM, TRUTH, within=1e6, **wish) == expected
        assert half_width(helped, SUM, within=1e6, **wish) <= 1e6


def test_a_spend_under_anytime_buys_the_same_and_shows_a_wider_interval():
    fixed, anytime = Desk(), Desk()
    assert fixed.ask(COUNT, rho="0.1") == anytime.ask(COUNT, rho="0.1", validity="anytime")
    widths = [
        half_width(fixed, rho="0.1", validity=v)
        for v in ("fixed", "looks=5", "anytime", "looks=99")
    ]
    assert widths == sorted(widths)
    assert widths[2] / widths[0] == pytest.approx(math.sqrt(2.398), rel=1e-3)


def test_anytime_prices_every_cell_by_its_own_history():
    desk = Desk(contract(100))
    women = question("COUNT", region=women_only())
    desk.ask(women, within=200)
    grouped = question("COUNT", by=(SEX,))
    ask = make_ask(grouped, desk.terms, within=10, validity="anytime")
    (purchase,) = plan(ask, desk.held(ask), desk.funds()).purchases
    assert purchase.charges[0] > purchase.charges[1] == purchase.charges[2]
    assert desk.ask(grouped, within=10, validity="anytime") == purchase.charge
    assert desk.ask(women, within=10, validity="anytime") == 0


def women_only():
    from tests.controller.bench_table import REGIONS

    return REGIONS.where(SEX, ((0, 1),))


@pytest.mark.parametrize(
    ("q", "within"), [(AVG, 500), (COUNT, "2%"), (SUM, "2%"), (AVG, "2%")], ids=str
)
def test_anytime_is_not_for_averages_and_percentages(q, within):
    terms = contract(m_floor=Fraction(10))
    with pytest.raises(TargetError, match="COUNT and SUM") as caught:
        make_ask(q, terms, within=within, validity="anytime")
    assert 'validity="looks=5"' in caught.value.hint
    assert 'validity="confirm"' in caught.value.hint
    for validity in ("looks=5", "confirm", "fixed"):
        make_ask(q, terms, within=within, validity=validity)


def test_the_best_anytime_that_fits_fits():
    desk = Desk(contract(1))
    desk.ask(question("COUNT", region=women_only()), within=200)
    ask = make_ask(question("COUNT", by=(SEX,)), desk.terms, within=2, validity="anytime")
    left = desk.funds(answer=Fraction(1, 1000))
    best = best_fit(ask, desk.held(ask), left, lambda rho: rho <= left.spendable)
    assert price(best, desk.held(ask), left).high <= QUANTA // 1000
    closer = best.scaled(Fraction(98, 100))
    assert price(closer, desk.held(ask), left).high > QUANTA // 1000


# -- looks --------------------------------------------------------------------------------------------


def test_looks_cost_the_quantile_at_a_share_of_gamma():
    for looks in (1, 2, 5, 50):
        paid = Desk().ask(COUNT, within=10, validity=f"looks={looks}")
        ratio = (two_sided(0.05 / looks) / two_sided(0.05)) ** 2
        assert paid / QUANTA == pytest.approx(scratch(10) * ratio, rel=1e-8)


def test_looks_are_refused_beyond_those_declared_and_cost_nothing():
    desk = Desk(contract(100))
    for within in (30, 20, 10):
        assert desk.ask(COUNT, within=within, validity="looks=3") > 0
    spent = desk.spent
    assert desk.ask(COUNT, within=10, validity="looks=3") == 0  # looking again is no new look
    with pytest.raises(TooManyLooks) as caught:
        desk.ask(COUNT, within=5, validity="looks=3")
    error = caught.value
    assert "released 3 times already, and this would be one look more" in error.message
    assert (error.context["looks"], error.context["asks"]) == (3, 3)
    assert 'validity="anytime"' in error.hint
    assert 'validity="looks=8"' in error.hint
    assert desk.spent == spent
    assert desk.ask(COUNT, within=5, validity="looks=8") > 0
    assert desk.ask(COUNT, within=10, validity="looks=4") == 0
    with pytest.raises(TooManyLooks, match="released 4 times already; looks=3 allows for 3"):
        desk.ask(COUNT, within=30, validity="looks=3")  # free, but more was looked at


def test_other_asks_are_looks_too():
    desk = Desk(contract(100))
    desk.ask(COUNT, within=30)
    desk.ask(COUNT, within=20, validity="anytime")
    with pytest.raises(TooManyLooks, match="released 2 times"):
        desk.ask(COUNT, within=10, validity="looks=2")
    assert desk.ask(COUNT, within=10, validity="looks=3") > 0


def test_one_group_that_was_looked_at_too_often_stops_the_table():
    desk = Desk(contract(100))
    for within in (40, 30, 20):
        desk.ask(question("COUNT", region=women_only()), within=within)
    grouped = question("COUNT", by=(SEX,))
    with pytest.raises(TooManyLooks):
        desk.ask(grouped, within=10, validity="looks=3")
    with pytest.raises(TooManyLooks):
        desk.ask(grouped, within=25, validity="looks=2")
    assert desk.ask(grouped, within=10, validity="looks=4") > 0


@pytest.mark.parametrize("within", [500, "5%"])
def test_the_steps_of_one_average_are_one_look(within):
    desk = Desk(contract(10**4))
    assert desk.ask(AVG, TRUTH, within=within, validity="looks=2") > 0
    ask = make_ask(AVG, desk.terms, within=within)
    held = desk.held(ask)
    assert sum(k.releases for row in held.known for k in row) > 2
    assert desk.ask(AVG, TRUTH, within=within, validity="looks=2") == 0
    assert desk.ask(AVG, TRUTH, within=200, validity="looks=2") > 0
    with pytest.raises(TooManyLooks) as caught:
        desk.ask(AVG, TRUTH, within=100, validity="looks=2")
    assert "anytime" not in caught.value.hint


def test_looks_at_parts_of_an_average_are_counted_once_each():
    """Count, average (which reads that count), count again: three asks behind the average."""
    desk = Desk(contract(10**4))
    desk.ask(ROWS, TRUTH, within=50)
    desk.ask(AVG, TRUTH, within=500)
    desk.ask(ROWS, TRUTH, within=1)
    ask = make_ask(AVG, desk.terms, within=500)
    held = desk.held(ask)
    row = answer_of(ask, Bought(held, held, ()), desk.funds(), 1, desk.terms.unit).only
    assert row.asks == 3
    assert row.releases > 3


def test_a_percentage_may_be_looked_at_and_repeated():
    desk = Desk(contract(100, m_floor=Fraction(10)))
    assert desk.ask(COUNT, TRUTH, within="10%", validity="looks=2") > 0
    assert desk.ask(COUNT, TRUTH, within="10%", validity="looks=2") == 0
    assert desk.ask(COUNT, TRUTH, within="2%", validity="looks=2") > 0
    with pytest.raises(TooManyLooks):
        desk.ask(COUNT, TRUTH, within="1%", validity="looks=2")


# -- confirm ------------------------------------------------------------------------------------------


def test_a_confirmation_is_one_release_at_the_full_price_and_then_free():
    desk = Desk(contract(100))
    for within in (40, 30, 20):
        desk.ask(COUNT, within=within)
    ask = make_ask(COUNT, desk.terms, within=20, validity="confirm")
    assert not desk.held(ask).known[0][0].releases
    paid = desk.ask(COUNT, within=20, validity="confirm")
    assert paid / QUANTA * 100 == pytest.approx(scratch(20), rel=1e-8)
    assert desk.ask(COUNT, within=20, validity="confirm") == 0
    (alone,) = desk.held(ask).known[0]
    assert alone.releases == 1
    (own,) = desk.held(make_ask(COUNT, desk.terms, within=20)).known[0]
    assert own.releases == 4
    assert half_width(desk, within=20, validity="confirm") == 20


def test_a_confirmation_is_credited_to_all_later_asks():
    desk = Desk(contract(100))
    desk.ask(COUNT, within=20, validity="confirm")
    assert desk.ask(COUNT, within=20) == 0
    other = Desk(contract(100))
    other.ask(COUNT, within=20)
    assert desk.ask(COUNT, within=10) == other.ask(COUNT, within=10)
    assert desk.ask(COUNT, within=10, validity="confirm") > desk.ask(COUNT, within=9)


def test_a_confirmation_is_one_for_each_question_and_target():
    desk = Desk(contract(1000))
    grouped, women = question("COUNT", by=(SEX,)), question("COUNT", region=women_only())
    first = desk.ask(grouped, within=20, validity="confirm")
    assert desk.ask(women, within=20, validity="confirm") == first  # picked: confirmed anew
    assert desk.ask(women, within=30, validity="confirm") > 0
    assert desk.ask(women, within=20, confidence=0.9, validity="confirm") > 0
    assert desk.ask(grouped, within=20, validity="confirm", simultaneous=True) > first
    assert desk.ask(women, rho="0.01", validity="confirm") > 0
    for q, wish in (
        (grouped, {"within": 20}),
        (women, {"within": 20}),
        (women, {"within": 30}),
        (women, {"within": 20, "confidence": 0.9}),
        (grouped, {"within": 20, "simultaneous": True}),
        (women, {"rho": "0.01"}),
    ):
        assert desk.ask(q, validity="confirm", **wish) == 0
    assert desk.ask(question("COUNT", "COUNT:income", by=(SEX,)), within=20) == first


def test_a_confirmed_average_does_not_use_a_confirmed_count():
    """Their parts are the same functional under the same target."""
    desk = Desk(contract(10**5))
    desk.ask(ROWS, TRUTH, within=500, validity="confirm")
    ask = make_ask(AVG, desk.terms, within=500, validity="confirm")
    assert not any(k.releases for row in desk.held(ask).known for k in row)
    assert desk.ask(AVG, TRUTH, within=500, validity="confirm") > 0
    assert desk.ask(AVG, TRUTH, within=500, validity="confirm") == 0


@pytest.mark.parametrize(
    ("q", "within"), [(SUM, 1e6), (AVG, 500), (AVG, "5%"), (COUNT, "5%"), (SUM, "5%")], ids=str
)
def test_every_aggregate_can_be_confirmed(q, within):
    for seed in range(5):
        desk = Desk(contract(10**5, m_floor=Fraction(10)), seed=seed)
        desk.ask(q, TRUTH, within=within)
        before = desk.spent
        assert desk.ask(q, TRUTH, within=within, validity="confirm") > 0
        assert desk.ask(q, TRUTH, within=within, validity="confirm") == 0
        assert desk.spent > before


def test_names_do_not_make_another_confirmation():
    terms = contract(10)
    q = question("COUNT", "SUM:income")
    renamed = replace(
        q, aggregates=tuple(replace(a, alias=f"other {a.alias}") for a in q.aggregates)
    )
    one = make_ask(q, terms, within={"a0": 5, "a1": 500}, validity="confirm")
    two = make_ask(renamed, terms, within={"other a0": 5, "other a1": 500}, validity="confirm")
    assert one.tag == two.tag
    assert len(one.tag) == 32
    swapped = make_ask(q, terms, within={"a0": 500, "a1": 5}, validity="confirm")
    assert swapped.tag != one.tag


# -- what is told -------------------------------------------------------------------------------------


def test_an_answer_says_how_often_was_asked():
    desk = Desk(contract(100))
    q = question("COUNT", by=(SEX,))
    for within in (30, 20, 10):
        desk.ask(question("COUNT", region=women_only()), within=within)
    desk.ask(q, within=9)
    ask = make_ask(q, desk.terms, within=9, validity="anytime")
    held = desk.held(ask)
    answer = answer_of(ask, Bought(held, held, ()), desk.funds(), 1, desk.terms.unit)
    assert [row.asks for row in answer] == [4, 1, 1]
    assert answer.asks_so_far == answer.to_dict()["asks_so_far"] == 4
    assert "whenever you stop" in answer.validity
    assert not answer.met


@pytest.mark.parametrize("validity", [None, "fixed", "anytime", "looks=7", "confirm"])
@pytest.mark.parametrize("wish", [{"within": 12.5, "simultaneous": True}, {"rho": "0.01"}])
def test_the_accuracy_of_an_ask_is_written_so_that_it_is_read_again(validity, wish):
    from defray.query.sql import parse
    from tests.controller.bench_table import DOMAIN, REGIONS

    q = replace(question("COUNT", by=(INCOME - 1, SEX)), region=adults(30))
    ask = make_ask(q, contract(), validity=validity, confidence="99%", **wish)
    text = f"SELECT age, sex, COUNT(*) FROM people GROUP BY age, sex {ask.accuracy}"
    read = parse(text, DOMAIN, REGIONS, table="people").accuracy
    assert (read.validity is None) == (validity in (None, "fixed"))
    assert read.validity is None or str(read.validity) == validity
    assert read.confidence == Fraction(99, 100)
    assert bool(read.simultaneous) == ask.simultaneous


def test_names_in_an_accuracy_are_quoted_where_they_must_be():
    q = question("COUNT", "SUM:income")
    q = replace(q, aggregates=tuple(replace(a, alias=f"my {a.alias}") for a in q.aggregates))
    ask = make_ask(q, contract(), within={"my a0": 5, "my a1": 500})
    assert ask.accuracy == 'ERROR WITHIN 5 FOR "my a0", 500 FOR "my a1" AT CONFIDENCE 95%'


def test_a_validity_given_twice_is_refused():
    from defray.core.validity import Validity
    from defray.query.descriptor import Accuracy

    q = replace(COUNT, accuracy=Accuracy(validity=Validity("anytime")))
    assert make_ask(q, contract(), within=5).validity == Validity("anytime")
    with pytest.raises(TargetError, match="validity is given twice"):
        make_ask(q, contract(), within=5, validity="anytime")
