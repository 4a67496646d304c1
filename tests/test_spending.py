"""What was spent after each ask, as the balance said it then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from defray.access import Access
from tests.tables import open_session, people, write_contract, write_people

ASKS = (
    ("SELECT COUNT(*) FROM people", 50),
    ("SELECT sex, COUNT(*) FROM people WHERE age <= 40 GROUP BY sex", 30),
    ("SELECT COUNT(*) FROM people WHERE age > 60", 20),
    ("SELECT AVG(income) AS m FROM people WHERE age < 50", 3000),
)


@pytest.mark.parametrize("support", ["linear", "exact"])
def test_it_is_what_the_balance_said_after_each(tmp_path: Path, support: str):
    said: list[float] = []
    for version in (
        1,
        2,
    ):  # a row may move between versions: what was paid apart is then paid by all
        write_people(tmp_path, 2_000 * version)
        top = f'rho = 1\nsupport = "{support}"'
        with open_session(write_contract(tmp_path, top)) as session:
            for sql, within in ASKS:
                session.ask(sql, within=within / version)
                said.append(session.balance()["answer"]["spent_rho"])
            told = session.spending()
            assert [one["spent_rho"] for one in told] == said
            assert [one["id"] for one in told] == [one["id"] for one in session.history()]
            assert {one["data_version"] for one in told} == set(range(1, version + 1))


def test_of_an_analyst_it_is_the_account(tmp_path: Path):
    with people(tmp_path, rows=2_000) as session:
        access = Access(session._engine.ledger)
        access.add("ana", share="1/2")
        access.add("ben", share="1/4")
        access.add("cat", "curator")
        said: dict[str, list[Any]] = {"ana": [], "ben": []}
        for sql, within in ASKS[:3]:
            for name in said:
                bound = session.on_behalf_of(name)
                if bound.ask(sql, within=within / (1 if name == "ana" else 2)).charged_rho:
                    said[name].append(bound.balance()["account"]["spent_rho"])
        for name, spent in said.items():
            found = session.on_behalf_of(name).spending()
            assert [one["spent_rho"] for one in found] == spent
        everything = session.on_behalf_of("cat").spending()
        assert everything == session.spending()
        assert everything[-1]["spent_rho"] == session.balance()["answer"]["spent_rho"]


def test_where_nothing_was_asked_nothing_was_spent(tmp_path: Path):
    with people(tmp_path, rows=100) as session:
        assert session.spending() == []
