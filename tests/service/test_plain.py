"""What was said a moment ago is said again, as long as nothing it follows from has changed."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from threading import Event
from typing import Any

import pytest
from starlette.testclient import TestClient

from defray.access import Access
from defray.data import fingerprint
from defray.data.fingerprint import Fingerprint
from defray.ledger.sqlite import SqliteLedger
from defray.service import logs
from defray.service.app import build
from defray.service.plain import MOST_BYTES
from defray.session import Session
from tests.service.conftest import COUNT, EASY, House
from tests.tables import write_people

FEMALE = COUNT + " WHERE sex = 'F'"


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that were just written are believed to stay as they are."""
    monkeypatch.setattr(fingerprint, "YOUNG_NS", 0)


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The questions that reached the contract."""
    reached: list[str] = []

    def counting(method: Callable[..., Any]) -> Callable[..., Any]:
        def counted(self: Session, sql: str, **rest: Any) -> Any:
            reached.append(sql)
            return method(self, sql, **rest)

        return counted

    for method in (Session.known, Session.quote, Session.ask):
        monkeypatch.setattr(Session, method.__name__, counting(method))
    return reached


def test_a_price_and_an_answer_are_said_again(house: House, looked: list[str]):
    paid = house.ask("ana").json()
    free = house.ask("ana")
    quote = house.send("ana", "POST", "/quote", {"sql": COUNT, "within": 50})
    assert len(looked) == 3
    for _ in range(3):
        again = house.ask("ana")
        assert again.content == free.content and again.json()["charged_rho"] == 0
        assert again.headers["content-type"] == free.headers["content-type"]
        assert again.headers["x-request-id"] != free.headers["x-request-id"]
        assert again.headers["cache-control"] == "no-store"
        assert (
            house.send("ana", "POST", "/quote", {"sql": COUNT, "within": 50}).content
            == quote.content
        )
    assert len(looked) == 3
    assert paid["rows"][0]["value"] == free.json()["rows"][0]["value"]


def test_what_was_paid_for_is_not_said_again_as_paid(house: House):
    assert house.ask("ana").json()["charged_rho"] > 0
    assert house.ask("ana").json()["charged_rho"] == 0


def test_what_is_said_again_is_counted_as_free_and_told_in_its_request_line(
    house: House, logging_kept: None
):
    stream = io.StringIO()
    logs.to(stream)
    for _ in range(4):
        house.ask("ana")
    logged = [json.loads(line) for line in stream.getvalue().splitlines()]
    events = [line for line in logged if line["event"] == "ask"]
    assert [e["outcome"] for e in events] == ["paid", "free"]
    assert {e["principal"] for e in events} == {"ana"}
    requests = [line for line in logged if line["event"] == "request"]
    assert {line["route"] for line in requests} == {"/v1/ask"}
    assert {line["principal"] for line in requests} == {"ana"}
    assert [line.get("again", False) for line in requests] == [False, False, True, True]
    text = house.get("cat", "/metrics").text
    assert 'defray_asks_total{outcome="free"} 3' in text


def test_nothing_is_said_again_once_the_log_moved(house: House, looked: list[str]):
    body = {"sql": FEMALE, "within": 50}
    house.session.quote_all([COUNT], within=50)  # what has not been read yet goes the long way
    dear = house.send("ana", "POST", "/quote", body).json()
    assert house.send("ana", "POST", "/quote", body).json() == dear
    house.ask("ana", FEMALE, 60)
    cheap = house.send("ana", "POST", "/quote", body).json()
    assert cheap["charged_rho"] < dear["charged_rho"]
    house.access.set_share("ben", "1/8")  # any entry will do
    house.send("ana", "POST", "/quote", body)
    assert len(looked) == 4


def test_nobody_is_told_what_was_said_to_another(house: House, looked: list[str]):
    body = {"sql": COUNT, "within": 50}
    house.ask("ana")
    prices = [house.send(who, "POST", "/quote", body).json() for who in ("ana", "ben") * 2]
    assert prices[:2] == prices[2:]
    assert prices[0] != prices[1]  # what ana paid for is free to both, and counts in ben's account
    assert len(looked) == 3


def test_a_token_that_works_no_more_is_told_nothing(house: House):
    for _ in range(3):
        house.ask("ana")
    house.access.suspend("ana")
    assert house.ask("ana").status_code == 401
    house.access.resume("ana")
    old = house.tokens["ana"]
    house.ask("ana")
    house.ask("ana")
    house.tokens["ana"], _ = house.access.rotate("ana")
    assert house.ask("ana").status_code == 200
    house.tokens["ana"] = old
    assert house.ask("ana").status_code == 401


def test_a_token_without_the_scope_is_told_nothing(house: House):
    for _ in range(3):
        house.ask("ana")
    house.tokens["ana"], _ = house.access.issue("ana", ["quote"])
    assert house.ask("ana").status_code == 403


def test_the_limits_hold(house: House):
    few = replace(EASY, asks_per_second=1e-3, asks_burst=5)
    client = TestClient(build(house.session, house.access, few))
    house.client = client
    assert [house.ask("ana").status_code for _ in range(7)] == [200] * 5 + [429] * 2


def test_under_a_key_that_was_paid_for_the_paid_answer_is_told(house: House, looked: list[str]):
    key = {"Idempotency-Key": "one"}
    paid = house.ask("ana", **key).json()
    assert paid["charged_rho"] > 0
    for _ in range(3):
        assert house.ask("ana", **key).json() == paid
        assert house.ask("ana").json()["charged_rho"] == 0
        assert house.ask("ana", **{"Idempotency-Key": "two"}).json()["charged_rho"] == 0
    assert looked == [COUNT] * 5  # paid, then under its key each time, then once without
    other = house.ask("ana", FEMALE, 300, **key)
    assert other.status_code == 422 and "Idempotency-Key" in other.json()["detail"]


def test_a_key_of_bad_form_is_told_so_each_time(house: House):
    for _ in range(2):
        house.ask("ana")
    assert house.ask("ana", **{"Idempotency-Key": "a b"}).status_code == 422


@pytest.mark.parametrize(
    ("headers", "query", "status"),
    [
        ({"Prefer": "respond-async"}, "", 202),
        ({}, "?wrong=1", 422),
        ({"Content-Type": "text/plain"}, "", 415),
    ],
)
def test_what_makes_a_request_another_is_seen(
    house: House, headers: dict[str, str], query: str, status: int
):
    for _ in range(3):
        assert house.ask("ana").status_code == 200
    sent = {"Content-Type": "application/json", **headers}
    told = house.client.post(
        "/v1/ask" + query,
        content=house.client.build_request(
            "POST", "/v1/ask", json={"sql": COUNT, "within": 50}
        ).content,
        headers=house.headers("ana", **sent),
    )
    assert told.status_code == status


def test_a_body_in_chunks_and_a_large_one_are_answered(house: House):
    body = b'{"sql": "SELECT COUNT(*) FROM people", "within": 50}'
    headers = house.headers("ana", **{"Content-Type": "application/json"})
    values = set()
    for content in (iter([body[:9], body[9:]]), body, body + b" " * MOST_BYTES, body, body):
        told = house.client.post("/v1/ask", content=content, headers=headers)
        values.add(told.json()["rows"][0]["value"])
    assert len(values) == 1


def test_refusals_are_worked_out_each_time(house: House, looked: list[str]):
    for _ in range(3):
        assert house.ask("ana", COUNT, 1e-6).status_code == 409
    assert len(looked) == 3


def test_an_empty_key_is_refused_as_it_is_the_first_time(house: House):
    for _ in range(2):
        assert house.ask("ana").status_code == 200
    assert house.ask("ana", **{"Idempotency-Key": ""}).status_code == 422


def test_a_body_that_outgrows_its_declared_length_is_too_large(house: House):
    headers = house.headers("ana", **{"Content-Type": "application/json", "Content-Length": "5"})
    headers["Transfer-Encoding"] = "chunked"
    body = b" " * (house.limits.body_bytes + 1)
    got = house.client.post("/v1/ask", content=body, headers=headers)
    assert (got.status_code, got.json()["code"]) == (413, "body-too-large")


@contextmanager
def held_up(monkeypatch: pytest.MonkeyPatch, of: type, name: str) -> Iterator[Event]:
    """A method waits, from when it is first called, until this is over."""
    method, called, go = getattr(of, name), Event(), Event()

    def waiting(*args: Any, **named: Any) -> Any:
        called.set()
        assert go.wait(30)
        return method(*args, **named)

    monkeypatch.setattr(of, name, waiting)
    try:
        yield called
    finally:
        go.set()


def test_data_that_changed_is_read_while_others_are_answered(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    for _ in range(3):
        house.ask("ana")
    with ThreadPoolExecutor(1) as pool:
        with held_up(monkeypatch, Fingerprint, "_content") as called:
            write_people(house.session.contract.directory, 3000)
            asked = pool.submit(house.ask, "ana")
            assert called.wait(30)
            assert house.client.get("/v1/health").status_code == 200
            assert not asked.done()
        assert asked.result().json()["data_version"] == 2


def test_a_ledger_in_a_server_is_waited_for_while_others_are_answered(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(SqliteLedger, "version", lambda self: None)
    for _ in range(3):
        house.ask("ana")
    for of, name in ((Access, "authenticate"), (Session, "moment"), (Session, "kept")):
        with ThreadPoolExecutor(1) as pool:
            with held_up(monkeypatch, of, name) as called:
                asked = pool.submit(house.ask, "ana", **{"Idempotency-Key": name})
                assert called.wait(30)
                assert house.client.get("/v1/health").status_code == 200
            assert asked.result().json()["charged_rho"] == 0
