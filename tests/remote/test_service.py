"""The client and the service, over a socket."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import defray
from defray import dbapi
from defray.errors import (
    BudgetRefused,
    Cancelled,
    Forbidden,
    NotFound,
    QueryError,
    TargetError,
    Unauthorized,
    Unreachable,
)
from defray.remote import Client, transport
from tests.tables import write_contract, write_people

server = pytest.importorskip("tests.service.test_server", exc_type=ImportError)

COUNT = "SELECT COUNT(*) FROM people WHERE age >= 40"
BY_SEX = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("served")
    write_people(folder, 2000)
    easy = {"asks_per_second": 1e6, "asks_burst": 10**6}
    with server.running(write_contract(folder), slow=0.05, limits=easy) as started:
        yield started


@pytest.fixture
def ana(running: Any) -> Iterator[Client]:
    with defray.connect(running.url, running.tokens["ana"]) as client:
        yield client


def test_what_is_asked_is_answered(ana: Client):
    price = ana.quote(COUNT, within=30)
    told: list[float] = []
    answer = ana.ask(COUNT, within=30, progress=told.append)
    assert answer.charged_rho == price.charged_rho > 0
    assert answer.met and round(answer.half_width, 3) == 30
    assert ana.ask(COUNT, within=30).charged_rho == 0
    assert told[-1:] == [1]
    prices = ana.quote_all([BY_SEX, COUNT], within=40, together=True)
    answers = ana.ask_all([BY_SEX, COUNT], within=40)
    assert [a.charged_rho for a in answers] == pytest.approx([p.charged_rho for p in prices])
    made = ana.ask(BY_SEX, within=1e-3, dry_run=True)
    assert made.dry_run and made.met and made.charged_rho == 0
    asks = ana.history()
    assert [ask["id"] for ask in asks] == sorted((ask["id"] for ask in asks), key=int)
    assert ana.explain(asks[-1]["id"])["id"] == asks[-1]["id"]
    assert ana.balance(by="sex")["by"]["column"] == "sex"
    assert ana.me()["principal"] == "ana"
    assert ana.terms()["table"] == ana.schema()["table"] == "people"


def test_what_goes_wrong_is_told_as_at_home(ana: Client, running: Any):
    with pytest.raises(QueryError) as misspelt:
        ana.ask("SELECT COUNT(*)\nFROM people WHERE heigth > 3", within=5)
    assert "heigth" in misspelt.value.caret().splitlines()[0]
    with pytest.raises(BudgetRefused) as dear:
        ana.ask(COUNT, within=0.01)
    assert dear.value.context["best"] is not None
    with pytest.raises(TargetError):
        ana.quote(COUNT, within=-1)
    with pytest.raises(TargetError):
        ana.ask(COUNT, within=float("nan"))
    with pytest.raises(NotFound):
        ana.explain("999999")
    with pytest.raises(Forbidden):
        ana.audit()
    with pytest.raises(Cancelled):
        ana.ask("SELECT COUNT(*) FROM people WHERE age < 9", within=5, cancelled=lambda: True)
    with defray.connect(running.url, "dfy_nobody") as nobody, pytest.raises(Unauthorized):
        nobody.history()
    with defray.connect(running.url, running.tokens["cat"]) as curator:
        assert curator.audit()["ok"]


def test_one_key_is_one_payment(ana: Client):
    sql = "SELECT COUNT(*) FROM people WHERE age BETWEEN 20 AND 30"
    first = ana.ask(sql, within=20, idempotency_key="monday")
    assert ana.ask(sql, within=20, idempotency_key="monday") == first
    with pytest.raises(defray.errors.BadInput, match="another request"):
        ana.ask(sql, within=19, idempotency_key="monday")


@pytest.mark.parametrize("key", ["", "two words", "a\r\nX-Other: b", "\u2603", "x" * 129, 5])
def test_a_key_that_cannot_be_sent_is_refused(ana: Client, key: Any):
    with pytest.raises(defray.errors.BadInput, match="visible ASCII"):
        ana.ask(COUNT, within=50, idempotency_key=key)


def test_a_text_that_is_no_unicode_is_found_nowhere(ana: Client):
    with pytest.raises(NotFound):
        ana.explain("\ud800")
    with pytest.raises(NotFound):
        ana.balance(by="\ud800")


def test_tools_ask_it(ana: Client, running: Any):
    with dbapi.connect(running.url, running.tokens["ben"], within=40) as connection:
        rows = connection.cursor().execute(BY_SEX).fetchall()
    assert [row[0] for row in rows] == ["F", "M", None]
    sa = pytest.importorskip("sqlalchemy")
    sa.dialects.registry.register("defray.http", "defray.dbapi.dialect", "HttpDialect")
    place = running.url.removeprefix("http://")
    engine = sa.create_engine(f"defray+http://:{running.tokens['ben']}@{place}?within=40")
    with engine.connect() as connection:
        again = connection.execute(sa.text(BY_SEX)).all()
    assert [row[:3] for row in again] == [row[:3] for row in rows]
    assert {c["name"] for c in sa.inspect(engine).get_columns("people")} == {"age", "sex", "income"}
    engine.dispose()


def test_a_service_that_is_killed_while_it_answers(tmp_path: Path, monkeypatch: Any):
    monkeypatch.setattr(transport, "FIRST_PAUSE", 0.001)
    write_people(tmp_path, 2000)
    with server.running(write_contract(tmp_path), slow=1) as started:
        with defray.connect(started.url, started.tokens["ana"], retries=2) as client:
            stop = [lambda: started.process.send_signal(signal.SIGKILL)]
            with pytest.raises(Unreachable) as lost:
                client.ask(COUNT, within=30, cancelled=lambda: bool(stop and stop.pop()()))
        assert "idempotency_key" in lost.value.context
