"""Quotes say no more than is known: of averages and percentages, of lists, of what is out of reach."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from defray.errors import BudgetRefused, Refused, TooManyLooks
from tests.engine.test_scarcity import count, price
from tests.tables import people

AVG = "SELECT AVG(income) FROM people WHERE age < 40"


def test_a_price_without_an_end_does_not_fit(tmp_path: Path) -> None:
    with people(tmp_path, 'rho = 0.01\nsupport = "exact"\n', rows=3000) as session:
        quote = session.quote(AVG, within=600)
        assert not quote.exact
        assert not quote.fits


def test_a_price_whose_end_is_held_fits_and_is_met(tmp_path: Path) -> None:
    top = 'rho = 50\nsupport = "exact"\nm_floor = 100\nn_max = 10000\n'
    with people(tmp_path, top, rows=3000) as session:
        for sql, within in ((AVG, 4000), ("SELECT COUNT(*) FROM people WHERE age < 50", "5%")):
            quote = session.quote(sql, within=within)
            assert quote.fits and not quote.exact
            assert session.ask(sql, within=within).met
        dear = session.quote(AVG.replace("40", "41"), within=10)
        assert not dear.fits


def test_an_absolute_count_beside_an_average_is_needed_in_any_case(tmp_path: Path) -> None:
    with people(tmp_path, 'rho = 0.01\nsupport = "exact"\n', rows=3000) as session:
        sql = "SELECT COUNT(*), AVG(income) FROM people"
        quote = session.quote(sql, within={"count": 5, "avg_income": 9000})
        assert quote.needs_rho >= price(5) * (1 - 1e-9)
        assert not quote.fits


def test_what_is_hopeless_is_not_said_to_fit(tmp_path: Path) -> None:
    top = 'rho = 1\nsupport = "exact"\nm_floor = 20\nn_max = 10000\n'
    with people(tmp_path, top, rows=3000) as session:
        sql = "SELECT COUNT(*), AVG(income) FROM people WHERE age > 118"
        wish = {"count": 40, "avg_income": 2000}
        first = session.ask(sql, within=wish)
        assert not first.met
        quote = session.quote(sql, within=wish)
        assert not quote.fits
        assert any("too few rows" in note for note in quote.notes)


def test_the_repeat_of_what_may_not_be_met_is_not_said_to_be_free(tmp_path: Path) -> None:
    with people(tmp_path, 'rho = 0.01\nsupport = "exact"\n', rows=3000) as session:
        _, two = session.quote_all([AVG, AVG], within=600)
        assert not two.exact and not two.fits
        assert two.low_rho == 0
        later = session.quote_all([f"{AVG} ERROR WITHIN 600", f"{count(3)} ERROR WITHIN 16"])[1]
        assert not later.exact and not later.fits


def test_the_repeat_of_what_will_be_met_is_free(tmp_path: Path) -> None:
    top = 'rho = 50\nsupport = "exact"\nm_floor = 100\nn_max = 10000\n'
    with people(tmp_path, top, rows=3000) as session:
        _, two, three = session.quote_all(
            [f"{AVG} ERROR WITHIN 4000", f"{AVG} ERROR WITHIN 4000", f"{count(3)} ERROR WITHIN 9"]
        )
        assert two.exact and two.fits and two.charged_rho == 0
        assert three.exact and three.fits  # whatever the average will cost


@pytest.mark.parametrize("within", ["0.000001%", "50%"])
def test_no_percentage_that_cannot_be_asked_is_proposed(tmp_path: Path, within: str) -> None:
    top = 'rho = 0.0000001\nsupport = "exact"\nm_floor = 1\n'
    with people(tmp_path, top, rows=30) as session:
        for _ in range(3):
            try:
                quote = session.quote(count(3), within=within)
                best = quote.best
                session.ask(count(3), within=within)
            except Refused as refused:
                best = refused.context.get("best")
            if best:
                assert float(best["count"].rstrip("%")) < 100


def test_nothing_is_proposed_where_the_looks_are_used_up(tmp_path: Path) -> None:
    with people(tmp_path, f'rho = {price(12)}\nsupport = "exact"\n', rows=300) as session:
        session.ask(count(1), within=40, validity="looks=1")
        with pytest.raises((BudgetRefused, TooManyLooks)) as refused:
            session.ask(count(1), within=1, validity="looks=1")
        assert not refused.value.context.get("best")


def test_an_unmet_answer_says_what_is_lacking(tmp_path: Path) -> None:
    """Several targets, one of them relative, and a purse that is exactly empty."""
    top = 'rho = 0.01\nxi = 0.99\nm_floor = 20\nsupport = "exact"\ngate = "dual"\nhorizon = 3\n'
    with people(tmp_path, top, rows=3000) as session:
        remaining = session.balance()["answer"]["remaining_rho"]
        session.ask(count(1), rho=remaining)
        sql = "SELECT COUNT(*), SUM(income) FROM people WHERE age < 40"
        for _ in range(3):
            answer = session.ask(sql, within={"count": 1, "sum_income": "1%"})
            assert not answer.met
            assert answer.shortfall_rho > 0


def test_ranges_hold_where_little_is_granted(tmp_path: Path) -> None:
    """A grant that is a difference of large numbers lies in its range."""
    chance = random.Random(3)
    top = 'rho = 0.1\nxi = 0.01\nm_floor = 20\nsupport = "exact"\ngate = "dual"\nhorizon = 40\n'
    with people(tmp_path, top, rows=3000) as session:
        for age in range(40):
            within = chance.choice([3, 9, 0.01])
            quote = session.quote(count(age), within=within)
            answer = session.ask(count(age), within=within)
            assert quote.low_rho <= answer.charged_rho <= quote.high_rho
