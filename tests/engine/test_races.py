"""Many asks at once: the budget holds, from threads and from processes, however long a scan takes."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from defray.errors import BudgetRefused
from tests.tables import people, slow_session, write_contract, write_people

# Room for two counts within 50 at 95% (0.000768 each) and not for a third.
ROOM_FOR_TWO = "rho = 0.0016\nsupport = 'exact'"


def different_questions(n: int) -> list[str]:
    """Questions about overlapping cells: under exact support they all share one budget."""
    return [f"SELECT COUNT(*) FROM people WHERE age >= {a}" for a in range(n)]


def test_sixteen_threads_with_room_for_two_get_two_answers(tmp_path: Path):
    write_people(tmp_path)
    contract = write_contract(tmp_path, ROOM_FOR_TWO)
    with slow_session(contract, 2.0) as session:

        def ask(sql: str) -> str:
            try:
                session.ask(sql, within=50)
            except BudgetRefused as refusal:
                assert refusal.context["asked"] > refusal.context["remaining"]
                return "refused"
            return "answered"

        with ThreadPoolExecutor(16) as pool:
            outcomes = list(pool.map(ask, different_questions(16)))
        assert sorted(outcomes) == ["answered"] * 2 + ["refused"] * 14
        balance = session.balance()
        assert balance["spent_rho"] <= 0.0016
        assert session.audit().ok


WORKER = """
import json, sys
from concurrent.futures import ThreadPoolExecutor
from defray.errors import BudgetRefused
from pathlib import Path
from tests.tables import slow_session

contract, questions = Path(sys.argv[1]), json.loads(sys.argv[2])
session = slow_session(contract, 2.0)

def ask(sql):
    try:
        session.ask(sql, within=50)
    except BudgetRefused:
        return "refused"
    return "answered"

with ThreadPoolExecutor(len(questions)) as pool:
    print(json.dumps(list(pool.map(ask, questions))))
"""


@pytest.mark.long
def test_four_processes_with_room_for_two_get_two_answers(tmp_path: Path):
    write_people(tmp_path)
    contract = write_contract(tmp_path, ROOM_FOR_TWO)
    questions = different_questions(16)
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(contract), json.dumps(questions[n::4])],
            stdout=subprocess.PIPE,
            text=True,
        )
        for n in range(4)
    ]
    outcomes: list[str] = []
    for worker in workers:
        out, _ = worker.communicate(timeout=120)
        assert worker.returncode == 0
        outcomes += json.loads(out)
    assert sorted(outcomes) == ["answered"] * 2 + ["refused"] * 14
    with people(tmp_path, ROOM_FOR_TWO) as session:
        assert session.balance()["spent_rho"] <= 0.0016
        assert session.audit().ok


def test_the_same_question_from_many_threads_is_paid_once(tmp_path: Path):
    with people(tmp_path) as session:
        sql = "SELECT sex, COUNT(*) FROM people GROUP BY sex"
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: session.ask(sql, within=50), range(8)))
        paid = [a.charged_rho for a in answers if a.charged_rho]
        assert len(paid) == 1
        assert len({tuple(r.value for r in a) for a in answers}) == 1


@pytest.mark.parametrize("share", [0.6])
def test_what_was_spent_stays_spent_in_every_process(tmp_path: Path, share: float):
    with people(tmp_path) as first:
        first.ask("SELECT COUNT(*) FROM people", rho=share)
        with people(tmp_path) as second:
            assert second.balance()["remaining_rho"] == pytest.approx(1 - share)
            with pytest.raises(BudgetRefused):
                second.ask("SELECT COUNT(*) FROM people WHERE age > 3", rho=0.5)
            second.ask("SELECT COUNT(*) FROM people WHERE age > 3", rho=0.4)
        with pytest.raises(BudgetRefused):
            first.ask("SELECT COUNT(*) FROM people WHERE age > 4", rho=0.01)
