"""What one asker can do to the others under a scarce budget: ask for far too much, again and again, or in
other words."""

from __future__ import annotations

from pathlib import Path

import pytest

from defray.errors import MaxRhoRefused, Refused
from defray.session import Session
from tests.engine.test_scarcity import arrivals, asked, count, price
from tests.tables import people

PACED = ("fluid", "steady", "dual", "satisfy", "modest", "generous", "paper")
PARTIAL = ("fluid", "steady", "dual", "generous", "paper")


def contract(folder: Path, gate: str, more: str, rows: int = 300) -> Session:
    return people(folder, f'gate = "{gate}"\nsupport = "exact"\n{more}', rows=rows)


def charged(session: Session, sql: str, within: object) -> float:
    try:
        return float(session.ask(sql, within=within).charged_rho)
    except Refused:
        return 0.0


@pytest.mark.parametrize("xi", [0.0, 0.05])
@pytest.mark.parametrize("within", ["1", "1e-8", "1e-50"])
@pytest.mark.parametrize("gate", ["fluid", "steady"])
def test_an_ask_that_cannot_be_met_blocks_nobody(
    tmp_path: Path, gate: str, within: str, xi: float
) -> None:
    with contract(
        tmp_path, gate, f"rho = 0.2\nxi = {xi}\nm_floor = 20\nhorizon = 100\n"
    ) as session:
        for age in range(3):
            assert charged(session, count(age), 20) > 0
        assert charged(session, count(99), within) < 0.2 * 0.35
        later = [charged(session, count(age), 20) for age in range(10, 30)]
        assert all(rho > 0 for rho in later)
        assert sum(later) > 20 * 0.2 / 100 / 4


def test_what_was_asked_for_too_much_in_older_arrivals_blocks_nobody_either(tmp_path: Path) -> None:
    """The arrivals stand in the ledger as they were: readers make them harmless."""
    with contract(tmp_path, "fluid", "rho = 0.2\nhorizon = 100\n") as session:
        charged(session, count(1), 20)
        charged(session, count(99), "1e-50")
        assert arrivals(session)[-1].residual > 1e90
    with contract(tmp_path, "fluid", "rho = 0.2\nhorizon = 100\n") as session:
        assert charged(session, count(2), 20) > 0


@pytest.mark.parametrize("gate", ["dual", "steady"])
def test_the_price_rises_by_what_was_spent(tmp_path: Path, gate: str) -> None:
    """A caller who pays for the diagnostic alone leaves the price to fall, not to rise."""
    more = "rho = 0.1\nxi = 0.05\nm_floor = 20\nhorizon = 12\n"
    with contract(tmp_path, gate, more, rows=3000) as session:
        session.ask(count(1), within=6)
        before = arrivals(session)[-1].price
        assert before > 0
        quote = session.quote(count(2), within=5)
        answer = session.ask(count(2), within=5, max_rho=quote.first_rho * 1.01)
        assert not answer.met
        newest = arrivals(session)[-1]
        assert newest.granted <= quote.first_rho * 0.02
        assert newest.price < before


@pytest.mark.parametrize("gate", ["satisfy", "modest"])
def test_asking_again_unlocks_no_other_share(tmp_path: Path, gate: str) -> None:
    within = 12 / 0.95**0.5
    with contract(tmp_path, gate, f"rho = {price(12)}\nhorizon = 8\n") as session:
        for age in range(6):
            assert charged(session, count(age), within) == 0 or gate == "modest"
        seen = session.balance()["scarcity"]["arrivals"]
        first = [charged(session, count(age), within) for age in range(6)]
        assert session.balance()["scarcity"]["arrivals"] == seen
        assert first == [0.0] * 6  # six eighths are unlocked, and no seventh


def test_the_last_share_is_not_unlocked_by_a_repeat(tmp_path: Path) -> None:
    within = 12 / 0.95**0.5
    with contract(tmp_path, "satisfy", f"rho = {price(12)}\nhorizon = 2\n") as session:
        assert [charged(session, count(1), within) for _ in range(4)] == [0.0] * 4
        assert charged(session, count(2), within) > 0


@pytest.mark.parametrize("xi", [0.0, 0.05])
@pytest.mark.parametrize("gate", PARTIAL)
def test_asking_again_and_again_takes_one_share(tmp_path: Path, gate: str, xi: float) -> None:
    more = f"rho = 0.1\nxi = {xi}\nm_floor = 20\nhorizon = 20\n"
    with contract(tmp_path, gate, more) as session:
        for age in range(3):
            charged(session, count(age), 9)
        first = charged(session, count(50), 2.2)
        assert first > 0 or gate == "paper"
        again = sum(charged(session, count(50), 2.2) for _ in range(30))
        assert again <= max(first, 0.1 / 20) * 0.5
        assert session.balance()["scarcity"]["arrivals"] == 4


SPELLED = (
    "SELECT COUNT(*) FROM people WHERE age = 1",
    "SELECT COUNT(*) AS a FROM people WHERE age = 1",
    "SELECT COUNT(*) AS c FROM people WHERE age = 1 LIMIT 5",
    "SELECT COUNT(age) AS c FROM people WHERE age = 1",
    "SELECT COUNT(*) AS d, COUNT(*) AS e FROM people WHERE age = 1",
    "SELECT COUNT(*) FROM people WHERE age = 1 HAVING COUNT(*) > 2",
    "SELECT COUNT(*) n FROM people WHERE age = 1 ORDER BY n",
)


def test_one_question_arrives_once_however_it_is_spelled(tmp_path: Path) -> None:
    with contract(tmp_path, "satisfy", "rho = 0.1\nhorizon = 1000\n") as session:
        for sql in SPELLED:
            asked(session, sql, within=5)
            assert session.balance()["scarcity"]["arrivals"] == 1, sql
        others = (
            {"within": 4},
            {"within": 5, "confidence": 0.9},
            {"within": 5, "validity": "looks=2"},
        )
        for n, wish in enumerate(others, 2):
            asked(session, SPELLED[0], **wish)
            assert session.balance()["scarcity"]["arrivals"] == n
        asked(session, "SELECT sex, COUNT(*) FROM people WHERE age = 1 GROUP BY sex", within=5)
        assert session.balance()["scarcity"]["arrivals"] == 5


def test_a_caller_who_would_not_pay_is_no_arrival(tmp_path: Path) -> None:
    with contract(tmp_path, "fluid", "rho = 0.1\nhorizon = 20\n") as session:
        for _ in range(3):
            with pytest.raises(MaxRhoRefused):
                session.ask(count(1), within=5, max_rho=0)
        assert session.balance()["scarcity"]["arrivals"] == 0


@pytest.mark.parametrize("gate", PACED)
def test_a_list_that_repeats_is_priced_as_it_is_charged(tmp_path: Path, gate: str) -> None:
    with contract(tmp_path, gate, "rho = 0.05\nhorizon = 8\n") as session:
        listed = [count(n % 5) for n in range(15)]
        quotes = session.quote_all(listed, within=9)
        for sql, quote in zip(listed, quotes, strict=True):
            assert charged(session, sql, 9) == pytest.approx(quote.charged_rho, abs=1e-15)
