"""A dry run answers as an ask does in everything but its numbers, touches nothing, and says what it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from defray.core.answer import DRY_RUN, Answer
from defray.errors import (
    BadInput,
    BudgetRefused,
    Cancelled,
    DefrayError,
    Forbidden,
    LedgerError,
)
from defray.session import Session
from tests.strategies import conditions
from tests.tables import open_session, people, write_contract

QUESTIONS = (
    "SELECT COUNT(*) FROM people WHERE age >= 40",
    "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex",
    "SELECT sex, COUNT(*) AS n, SUM(income) AS s FROM people WHERE age > 17 GROUP BY sex",
    "SELECT SUM(income) FROM people WHERE sex = 'F'",
)


def shape(answer: Answer) -> list[Any]:
    return [
        answer.question,
        answer.confidence,
        answer.simultaneous,
        answer.met,
        [(r.group, r.aggregate, r.met, float(f"{r.half_width:.3g}")) for r in answer],
        list(answer.to_pandas().columns),
    ]


def held(session: Session) -> bytes:
    """Everything that the ledger's files hold, but for SQLite's list of who is reading."""
    folder = session.contract.directory
    files = [p for p in sorted(folder.glob("contract.ledger*")) if p.suffix != ".ledger-shm"]
    return b"".join(path.read_bytes() for path in files)


@pytest.mark.parametrize("sql", QUESTIONS)
def test_it_has_the_form_and_the_accuracy_of_the_answer(tmp_path: Path, sql: str):
    within: Any = {"n": 40, "s": 1e6} if "AS s" in sql else 1e6 if "SUM" in sql else 40
    with people(tmp_path, "rho = 50") as session:
        made = session.ask(sql, within=within, dry_run=True)
        real = session.ask(sql, within=within)
    assert shape(made) == shape(real)
    assert [row.value for row in made] != [row.value for row in real]


def test_an_average_is_as_precise_as_it_was_asked(tmp_path: Path):
    sql = "SELECT age, AVG(income) AS m, COUNT(income) FROM people WHERE sex = 'F' GROUP BY age"
    with people(tmp_path, "rho = 0.001") as session:
        made = session.ask(sql, within={"m": 500, "count_income": 3}, dry_run=True)
    assert made.met
    assert all(row.half_width <= 500 for row in made)


@pytest.mark.parametrize(
    "wish", [{"within": "2%"}, {"rho": 0.3}, {"within": 1, "validity": "anytime"}, {"within": 1e-6}]
)
def test_every_kind_of_accuracy_is_met(tmp_path: Path, wish: dict[str, Any]):
    with people(tmp_path, "rho = 0.01\nxi = 0.1\nm_floor = 10") as session:
        assert session.ask(QUESTIONS[0], **wish, dry_run=True).met


def test_nothing_is_written_and_nothing_is_known_afterwards(tmp_path: Path):
    with people(tmp_path) as session:
        session.ask(QUESTIONS[0], within=100)
        price = session.quote(QUESTIONS[1], within=50)
        before = held(session), session.history(), session.balance(by="sex")
        made = session.ask(QUESTIONS[1], within=50, dry_run=True)
        assert (held(session), session.history(), session.balance(by="sex")) == before
        assert session.quote(QUESTIONS[1], within=50) == price
        assert made.remaining_rho == pytest.approx(session.balance()["answer"]["remaining_rho"])
    assert (made.charged_rho, made.reused_rho, made.items, made.releases) == (0, 0, (), 0)
    assert {row.id for row in made} == {""}


def test_it_is_the_same_every_time_and_knows_nothing_of_the_data(tmp_path: Path):
    found = []
    for rows in (10, 10_000):
        folder = tmp_path / str(rows)
        folder.mkdir()
        with people(folder, rows=rows) as session:
            found += [session.ask(QUESTIONS[1], rho=0.1, dry_run=True).rows for _ in range(2)]
    assert found[0] == found[1] == found[2] == found[3]


def test_it_works_before_there_is_any_data(tmp_path: Path):
    with open_session(write_contract(tmp_path)) as session:
        made = session.ask(QUESTIONS[1], within=20, dry_run=True)
        assert len(session.ask_all(QUESTIONS[:2], within=20, dry_run=True)) == 2
        with pytest.raises(DefrayError):
            session.ask(QUESTIONS[1], within=20)
    assert len(made) == 3


def test_a_closed_contract_and_an_empty_budget_do_not_stop_it(tmp_path: Path):
    with people(tmp_path, "rho = 0.001") as session:
        session.ask(QUESTIONS[0], rho=0.001)
        with pytest.raises(BudgetRefused):
            session.ask(QUESTIONS[1], within=5)
        assert session.ask(QUESTIONS[1], within=5, dry_run=True).met
        session.end()
        with pytest.raises(LedgerError):
            session.ask(QUESTIONS[1], within=50)
        assert session.ask(QUESTIONS[1], within=5, dry_run=True, max_rho=1e-9).met


@pytest.mark.parametrize(
    ("sql", "arguments"),
    [
        ("SELECT COUNT(*) FROM peple", {"within": 5}),
        ("SELECT COUNT(*) FROM people WHERE age > 'x'", {"within": 5}),
        ("SELECT MEDIAN(age) FROM people", {"within": 5}),
        (QUESTIONS[0], {}),
        (QUESTIONS[0], {"within": -5}),
        (QUESTIONS[0], {"within": 5, "confidence": 2}),
        (QUESTIONS[0], {"within": 5, "max_rho": "much"}),
        (QUESTIONS[0], {"within": 5, "timeout": -1}),
        (QUESTIONS[0], {"within": 5, "among": QUESTIONS[0]}),
        (QUESTIONS[0], {"within": 5, "among": ["SELECT"]}),
        (QUESTIONS[0], {"within": 5, "validity": "always"}),
        (17, {"within": 5}),
    ],
)
def test_mistakes_are_told_as_those_of_an_ask(tmp_path: Path, sql: Any, arguments: dict[str, Any]):
    with people(tmp_path) as session:
        with pytest.raises(BadInput) as asked:
            session.ask(sql, **arguments)
        with pytest.raises(BadInput) as tried:
            session.ask(sql, **arguments, dry_run=True)
    assert tried.type is asked.type
    assert tried.value.to_dict() == asked.value.to_dict()


def test_what_is_no_flag_is_refused(tmp_path: Path):
    with people(tmp_path) as session, pytest.raises(BadInput, match="dry_run"):
        session.ask(QUESTIONS[0], within=5, dry_run="no")  # type: ignore[arg-type]


def test_it_can_be_cancelled(tmp_path: Path):
    with people(tmp_path) as session, pytest.raises(Cancelled):
        session.ask(QUESTIONS[0], within=5, dry_run=True, cancelled=lambda: True)


def test_every_face_says_what_it_is(tmp_path: Path):
    with people(tmp_path) as session:
        made = session.ask(QUESTIONS[1], within=5, dry_run=True)
        real = session.ask(QUESTIONS[1], within=500)
    assert made.dry_run and made.to_dict()["dry_run"] is True
    assert not real.dry_run and real.to_dict()["dry_run"] is False
    assert DRY_RUN in made._repr_html_() and DRY_RUN not in real._repr_html_()
    assert DRY_RUN in repr(made) and DRY_RUN in made.notes
    assert all(DRY_RUN in note for note in made.to_pandas()["note"])


SMALL_COLUMNS = """
[columns.a]
type = "integer"
min = 0
max = 4
bounds = [0, 4]
unit_step = 1

[columns.b]
type = "boolean"

[columns.c]
type = "string"
values = ["x", "o'y", "z"]
other = "cell"

[columns.d]
type = "date"
min = 2024-02-28
max = 2024-03-01
null = "drop"

[columns.e]
type = "float"
min = 0
max = 1.5
step = 0.5

[columns.free]
type = "integer"
bounds = [-50, 900]
unit_step = 10
"""


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(condition=conditions)
def test_whatever_can_be_asked_can_be_tried(tmp_path: Path, condition: str):
    contract = write_contract(tmp_path, columns=SMALL_COLUMNS)
    sql = f"SELECT b, c, COUNT(*), AVG(free), AVG(a) FROM people WHERE {condition} GROUP BY b, c"
    with open_session(contract) as session:
        made = session.ask(sql, within={"count": 3, "avg_free": 9, "avg_a": 0.25}, dry_run=True)
    assert made.met and len(made) == 3 * 3 * 5


def test_what_remains_is_the_callers_and_nobody_else_may(tmp_path: Path):
    from defray.access import Access

    with people(tmp_path, "rho = 1", 2_000) as session:
        Access(session._engine.ledger).add("ana", share="1/4")
        whole = session.ask(QUESTIONS[0], within=50, dry_run=True).remaining_rho
        ana = session.on_behalf_of("ana").ask(QUESTIONS[0], within=50, dry_run=True)
        assert whole == pytest.approx(0.75) and ana.remaining_rho == pytest.approx(0.25)
        with pytest.raises(Forbidden):
            session.on_behalf_of("nobody").ask(QUESTIONS[0], within=50, dry_run=True)
