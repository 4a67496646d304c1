"""A contract afar answers as one at hand does, whatever happens on the way."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import defray
from defray.errors import (
    BadInput,
    BudgetRefused,
    Cancelled,
    DefrayError,
    LedgerError,
    NotFound,
    QueryError,
    TargetError,
    Unreachable,
)
from defray.remote import Client, transport
from defray.session import Session
from tests.remote.standin import TOKEN, StandIn, hang_up, says, served, sleeps
from tests.tables import people, slow_session, write_contract, write_people

COUNT = "SELECT COUNT(*) FROM people WHERE age >= 40"
BY_SEX = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"


@pytest.fixture
def house(tmp_path: Path) -> Iterator[StandIn]:
    with people(tmp_path, "rho = 1", 1000) as session, served(session) as stand_in:
        yield stand_in


@pytest.fixture
def client(house: StandIn, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setattr(transport, "FIRST_PAUSE", 0.001)
    with defray.connect(house.url, TOKEN) as connected:
        yield connected


def test_quotes_and_answers_are_those_of_the_session(house: StandIn, client: Client):
    session = house.session
    assert client.quote(COUNT, within=30) == session.quote(COUNT, within=30)
    both = [COUNT, BY_SEX]
    for together in (False, True):
        prices = session.quote_all(both, within=30, together=together)
        assert client.quote_all(both, within=30, together=together) == prices
    bought = client.ask(BY_SEX, within={"n": 30}, confidence=0.9, max_rho=1, simultaneous=True)
    assert bought.charged_rho > 0
    again = client.ask(BY_SEX, within={"n": 30}, confidence=0.9, max_rho=1, simultaneous=True)
    assert again == session.ask(BY_SEX, within=30, confidence=0.9, simultaneous=True)
    assert [a.charged_rho for a in client.ask_all(both, within=40)][1:] == [0]
    tried = client.ask(BY_SEX, within=1, dry_run=True)
    assert tried == session.ask(BY_SEX, within=1, dry_run=True)


def test_the_books_are_those_of_the_session(house: StandIn, client: Client):
    session = house.session
    for age in range(5):
        client.ask(f"SELECT COUNT(*) FROM people WHERE age > {age}", within=90 - 9 * age)
    assert client.history() == session.history()
    assert len(client.history()) == 5
    assert client.history(refresh=True) == session.history(refresh=True)
    assert client.balance() == session.balance()
    assert client.balance(within=5, by="sex") == session.balance(within=5, by="sex")
    assert client.explain(3) == session.explain(3)
    assert client.audit() == session.audit().to_dict()


@pytest.mark.parametrize("method", ["quote", "quote_all", "ask", "ask_all", "history", "balance"])
def test_the_methods_take_what_those_of_a_session_take(method: str):
    local = inspect.signature(getattr(Session, method)).parameters
    afar = inspect.signature(getattr(Client, method)).parameters
    names = set(local) - {"key", "request"}  # of an ask afar these are the client's own
    assert names <= set(afar)
    assert all(afar[name].default == local[name].default for name in names)


@pytest.mark.parametrize(
    ("sql", "arguments", "kind"),
    [
        ("SELECT COUNT(*) FROM people WHERE height > 3", {"within": 5}, QueryError),
        ("SELECT COUNT(*)\nFROM people\nWHERE age > 'x'", {"within": 5}, QueryError),
        (COUNT, {"within": -5}, TargetError),
        (COUNT, {"within": float("nan")}, TargetError),
        (COUNT, {}, TargetError),
        (COUNT, {"within": 0.01}, BudgetRefused),
        (17, {"within": 5}, BadInput),
        (COUNT, {"within": 5, "timeout": 0}, BadInput),
    ],
)
@pytest.mark.parametrize("followed", [False, True])
def test_errors_are_those_of_the_session(
    house: StandIn, client: Client, sql: Any, arguments: Any, kind: Any, followed: bool
):
    with pytest.raises(kind) as local:
        house.session.ask(sql, **arguments)
    more: Any = {"progress": lambda _: None} if followed else {}
    with pytest.raises(kind) as afar:
        client.ask(sql, **arguments, **more)
    assert type(afar.value) is type(local.value)
    assert str(afar.value) == str(local.value)  # with its caret
    told = afar.value.to_dict()
    told.pop("request_id", None)
    assert told == local.value.to_dict()


def test_a_caret_stands_under_the_question_that_is_wrong(client: Client):
    with pytest.raises(QueryError) as error:
        client.quote_all([COUNT, "SELECT COUNT(*) FROM people WHERE size = 3"], within=5)
    assert error.value.text.endswith("size = 3")
    with pytest.raises(NotFound):
        client.explain("../balance")


def test_numbers_of_all_kinds_are_understood(house: StandIn, client: Client):
    price = house.session.quote(COUNT, within=30)
    for thirty in (30, 30.0, "30", Decimal("30.0"), np.float64(30), Fraction(30), np.int64(30)):
        assert client.quote(COUNT, within=thirty) == price


@pytest.mark.parametrize(
    "trouble",
    [
        hang_up,
        says(429, {"code": "throttled", "detail": "wait", "hint": ""}, Retry_After="0"),
        says(503, {"code": "ledger-busy", "detail": "wait", "hint": ""}, Retry_After="0"),
        says(503, b"<html>"),
        says(502, b"bad gateway"),
        says(504),
    ],
)
@pytest.mark.parametrize("where", ["before", "after"])
def test_a_retried_ask_is_answered_and_paid_once(
    house: StandIn, client: Client, trouble: Any, where: str
):
    getattr(house, where).extend([trouble, trouble])
    answer = client.ask(COUNT, within=40)
    assert answer.charged_rho > 0  # the first answer, not a free repeat of it
    assert len(house.session.history()) == 1
    assert len(house.keys()) == 3 and len(set(house.keys())) == 1
    client.ask(COUNT, within=39)
    assert len(set(house.keys())) == 2


def test_a_lost_answer_can_be_asked_for_again(house: StandIn, client: Client):
    house.after.extend([hang_up] * 5)
    with pytest.raises(Unreachable) as lost:
        client.ask(COUNT, within=40)
    assert len(house.seen) == 5
    answer = client.ask(COUNT, within=40, idempotency_key=lost.value.context["idempotency_key"])
    assert answer.charged_rho > 0
    assert len(house.session.history()) == 1
    with pytest.raises(BadInput, match="another request"):
        client.ask(COUNT, within=30, idempotency_key=lost.value.context["idempotency_key"])


@pytest.mark.parametrize(
    "settled",
    [
        says(503, {"code": "source-unavailable", "detail": "later", "hint": ""}),
        says(429, {"code": "throttled", "detail": "later", "hint": ""}, Retry_After="86400"),
        says(500, {"code": "internal-error", "detail": "incident 1", "hint": "", "incident": "1"}),
        says(302, Location="https://elsewhere.example"),
        says(200, {"nothing": "of a quote"}),
        says(200, b"<html>"),
        says(404, b"<html>"),
    ],
)
def test_what_does_not_help_is_not_done(house: StandIn, client: Client, settled: Any):
    house.before.append(settled)
    with pytest.raises(DefrayError):
        client.quote(COUNT, within=40)
    assert len(house.seen) == 1


def test_retries_and_waiting_have_an_end(house: StandIn, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(transport, "FIRST_PAUSE", 0.001)
    with defray.connect(house.url, TOKEN, timeout=0.05, retries=1) as client:
        house.before.extend([sleeps(0.3)] * 2)
        with pytest.raises(Unreachable, match="in time"):
            client.quote(COUNT, within=40)
        assert len(house.seen) == 2
    with (
        defray.connect("http://127.0.0.1:9", TOKEN, retries=0) as nobody,
        pytest.raises(Unreachable),
    ):
        nobody.quote(COUNT, within=40)


def test_a_connection_that_was_closed_meanwhile_costs_no_try(house: StandIn):
    with defray.connect(house.url, TOKEN, retries=0) as client:
        client.quote(COUNT, within=40)
        house.before.append(hang_up)  # as a server does with one that was idle for long
        client.quote(COUNT, within=40)


def test_progress_is_told_and_an_ask_can_be_stopped(tmp_path: Path):
    write_people(tmp_path, 1000)
    told: list[float] = []
    session = slow_session(write_contract(tmp_path), 0.2)
    with session, served(session) as house, defray.connect(house.url, TOKEN) as client:
        answer = client.ask(COUNT, within=40, progress=told.append)
        assert answer.charged_rho > 0 and told == sorted(told) and told[-1] == 1
        asked = len(session.history())
        with pytest.raises(Cancelled):
            client.ask(BY_SEX, within=40, cancelled=lambda: True)
        assert len(session.history()) == asked
        with pytest.raises(BadInput, match="cancelled function raised"):
            client.ask(BY_SEX, within=40, cancelled=lambda: bool(1 / 0))
        assert len(session.history()) == asked  # its scan was stopped
        with pytest.raises(BadInput, match="progress function raised") as late:
            client.ask(BY_SEX, within=40, progress=lambda _: 1 / 0)
        paid = len(session.history()) > asked
        assert paid == ("paid" in late.value.hint)


def test_a_job_that_went_with_its_service_is_asked_for_again(house: StandIn, client: Client):
    class Forgetful(dict[str, Any]):
        def get(self, *_: Any) -> Any:
            return None

    house.jobs = Forgetful()
    answer = client.ask(COUNT, within=40, cancelled=lambda: False)
    assert answer.met
    assert len(house.session.history()) == 1
    assert len(set(house.keys())) == 1


def test_a_closed_contract_and_a_wrong_token(house: StandIn, client: Client):
    house.session.end()
    with pytest.raises(LedgerError):
        client.ask(COUNT, within=40)
    with defray.connect(house.url, "dfy_other") as stranger, pytest.raises(DefrayError) as no:
        stranger.quote(COUNT, within=40)
    assert no.value.message == "no token"


def test_a_function_gives_the_token_of_each_request(house: StandIn, client: Client):
    house.before += [hang_up, says(503)]
    given = iter(["first", "second", TOKEN])
    with defray.connect(house.url, lambda: next(given)) as renewing:
        assert renewing.quote(COUNT, within=40).fits
    shown = [headers["authorization"].split()[1] for _, _, headers, _ in house.seen]
    assert shown == ["first", "second", TOKEN]


@pytest.mark.parametrize("given", [None, "", "two\nlines", 5])
def test_a_function_that_gives_no_token_leaves_the_key_of_an_ask(house: StandIn, given: Any):
    with defray.connect(house.url, lambda: given) as client, pytest.raises(Unreachable) as lost:
        client.ask(COUNT, within=40)
    assert "the function that gives the token" in str(lost.value)
    with defray.connect(house.url, lambda: 1 // 0) as client, pytest.raises(Unreachable) as lost:
        client.ask(COUNT, within=40)
    assert "raised ZeroDivisionError" in str(lost.value)
    assert lost.value.context["idempotency_key"]
    assert house.seen == []


@pytest.mark.parametrize(
    ("url", "token"),
    [
        ("ftp://stats.example", TOKEN),
        ("stats.example", TOKEN),
        ("https://ana:secret@stats.example", TOKEN),
        ("https://stats.example?token=1", TOKEN),
        ("https://stats.example:99999", TOKEN),
        ("https://[", TOKEN),
        (17, TOKEN),
        ("https://stats.example", ""),
        ("https://stats.example", "dfy_x\r\nHost: elsewhere"),
        ("http://stats.example", TOKEN),
    ],
)
def test_addresses_and_tokens_are_checked(url: Any, token: Any):
    with pytest.raises(BadInput):
        defray.connect(url, token)


def test_a_token_in_the_clear_needs_a_word(house: StandIn):
    assert (
        defray.connect("http://stats.example", TOKEN, insecure=True).url == "http://stats.example"
    )
    told = repr(defray.connect("https://stats.example/defray/", TOKEN))
    assert told == "<contract at https://stats.example/defray>"
