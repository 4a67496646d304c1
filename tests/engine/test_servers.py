"""Several servers answer under one contract: what one has paid for is known to all, and is paid once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from defray.session import Session
from tests.postgresql.server import ledger_section
from tests.tables import COLUMNS, open_session, write_contract, write_people

COUNT = "SELECT COUNT(*) FROM people WHERE age < {}"


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    write_people(tmp_path, 2000)
    return write_contract(tmp_path, "rho = 1", columns=ledger_section() + COLUMNS)


def test_what_one_server_has_paid_for_all_have(contract: Path) -> None:
    with open_session(contract) as one, open_session(contract) as two:
        first = one.ask(COUNT.format(30), within=40)
        again = two.ask(COUNT.format(30), within=40)
        assert again.value == first.value
        assert first.charged_rho > 0
        assert again.charged_rho == 0
        better = two.ask(COUNT.format(30), within=20)
        assert one.ask(COUNT.format(30), within=20).value == better.value
        assert one.balance()["spent_rho"] == two.balance()["spent_rho"]


def test_servers_that_ask_the_same_at_one_moment_pay_once(contract: Path) -> None:
    ages = [20, 35, 50, 65]
    sessions = [open_session(contract) for _ in range(3)]

    def ask(job: tuple[Session, int]) -> Any:
        session, age = job
        return age, session.ask(COUNT.format(age), within=60)

    jobs = [(session, age) for age in ages for session in sessions for _ in range(2)]
    with ThreadPoolExecutor(len(jobs)) as pool:
        answers = list(pool.map(ask, jobs))
    paid = [answer for _, answer in answers if answer.charged_rho > 0]
    assert len(paid) <= len(ages)
    for age in ages:
        assert len({session.ask(COUNT.format(age), within=60).value for session in sessions}) == 1
    audit = sessions[0].audit()
    assert audit.ok
    assert audit.releases == len(paid)
    for session in sessions:
        session.close()
