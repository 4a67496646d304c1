"""Several analysts with shares of one budget: no one is worse off than alone, and nothing is paid twice."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from defray.controller.ask import Ask
from defray.controller.plan import plan
from defray.core.amounts import rho_of
from tests.controller.several import Several, World
from tests.support.overlapping import ask

HALF = {"ann": Fraction(1, 2), "bob": Fraction(1, 2)}

QUESTIONS = (
    "COUNT(*) FROM people WHERE age < 4",
    "COUNT(*) FROM people WHERE age BETWEEN 2 AND 5",
    "COUNT(*) FROM people WHERE age >= 3",
    "COUNT(*) FROM people WHERE age < 4 AND sex = 'F'",
    "sex, COUNT(*) FROM people GROUP BY sex",
    "sex, COUNT(*) FROM people WHERE age < 4 GROUP BY sex",
    "city, sex, COUNT(*) FROM people GROUP BY city, sex",
    "COUNT(*) FROM people",
    "COUNT(*) FROM people WHERE city IN ('Bern', 'Rome')",
    "SUM(pay) FROM people WHERE age < 4",
    "COUNT(*), SUM(pay) FROM people WHERE sex = 'M'",
)


def asks(within: tuple[float, ...]) -> st.SearchStrategy[Ask]:
    made = st.tuples(st.sampled_from(QUESTIONS), st.sampled_from(within))
    return made.map(lambda m: accurate(*m))


def accurate(text: str, within: float) -> Ask:
    """Sums within as many rows' worth as counts."""
    if text.startswith("COUNT(*), SUM"):
        return ask(f"{text} ERROR WITHIN {within} FOR count, {60 * within} FOR sum_pay", None)
    return ask(text, within * (60 if "SUM" in text else 1))


def sequences(analysts: str, most: int = 9) -> st.SearchStrategy[list[tuple[str, Ask]]]:
    one = st.tuples(st.sampled_from(analysts.split()), asks((2, 3, 5, 9)))
    return st.lists(one, min_size=2, max_size=most)


@pytest.mark.parametrize("surplus", ["none", "partial", "allornothing"])
@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize("gate", ["refuse", "greedy"])
@settings(max_examples=12)
@given(sequences("ann bob eve"))
def test_no_one_is_worse_off_than_alone(linear, surplus, gate, sequence):
    third = {name: Fraction(1, 3) for name in ("ann", "bob", "eve")}
    several = Several(third, linear, gate, surplus)
    for name, asked in sequence:
        several.ask(name, asked)  # checks I1 to I4


def test_one_analyst_alone_is_as_without_shares():
    several = Several({"ann": Fraction(1)})
    world = World(several.cap)
    for i, text in enumerate(QUESTIONS[:9]):
        asked = accurate(text, (3, 5, 9)[i % 3])
        rationed = several.ask("ann", asked)
        step = plan(asked, world.held(asked), world.moment(asked).funds)
        world.take(asked, step)
        assert rationed.price.step.charge == step.charge
    assert several.public.paid.worst() == world.paid.worst()


def test_what_others_know_is_not_paid_again():
    several = Several(HALF)
    asked = ask(QUESTIONS[0], 3)
    assert several.ask("ann", asked).price.step.charge > 0
    assert several.ask("bob", asked).price.step.charge == 0
    closer = ask(QUESTIONS[0], 2)
    once = several.ask("bob", closer).price.step.charge
    assert several.ask("ann", closer).price.step.charge == 0
    assert once < several.shadows["bob"].paid.worst()


@pytest.mark.parametrize("linear", [True, False])
def test_no_one_can_be_lured_into_an_expensive_rest(linear):
    """The trap of the design: bob's half-finished release makes a dear question of ann's look cheap."""
    several = Several(HALF, linear)
    satisfied = 0
    big = several.cap * Fraction(9, 20)

    def costing(text: str, quanta: Fraction) -> Ask:
        rho = float(rho_of(int(quanta), Fraction(1)))
        return ask(text, 1.959963984540054 / (2 * rho) ** 0.5 * (1 + 1e-9))

    several.ask("bob", costing(QUESTIONS[7], big))
    dear = several.ask("ann", costing(QUESTIONS[7], 2 * big))
    satisfied += dear.whole
    for age in range(8):
        for_one = costing(f"COUNT(*) FROM people WHERE age = {age}", several.cap * Fraction(1, 20))
        satisfied += several.ask("ann", for_one).whole
    assert satisfied >= 8
