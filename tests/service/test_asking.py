"""Prices and answers over HTTP are those of the library; a request under a key is answered once."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from defray.service import documents
from tests.service.conftest import COUNT, House

BY_SEX = "SELECT sex, COUNT(*) AS n, AVG(income) AS m FROM people GROUP BY sex"


def test_an_answer_is_the_librarys(house: House):
    told = house.ask("ana").json()
    again = house.session.ask(COUNT, within=50)
    assert again.charged_rho == 0
    assert told["rows"][0]["value"] == again.value
    assert told.keys() == again.to_dict().keys()
    assert told["rows"][0].keys() == again[0].to_dict().keys()


def test_a_quote_is_the_charge_and_free(house: House):
    quote = house.send("ana", "POST", "/quote", {"sql": COUNT, "within": 50}).json()
    assert house.get("ana", "/balance").json()["spent_rho"] == 0
    assert quote["exact"]
    assert house.ask("ana").json()["charged_rho"] == quote["charged_rho"]


def test_a_dry_run_is_marked_and_spends_nothing(calm: House):
    body = {"sql": COUNT, "within": 50, "dry_run": True}
    told = calm.send("ana", "POST", "/ask", body).json()
    assert told == calm.session.on_behalf_of("ana").ask(COUNT, within=50, dry_run=True).to_dict()
    assert told["dry_run"] and told["charged_rho"] == 0
    assert calm.get("ana", "/balance").json()["spent_rho"] == 0


def test_lists_are_priced_in_order_and_together(house: House):
    tables = [
        f"SELECT {by}, COUNT(*) FROM people GROUP BY {by}" for by in ("sex", "age", "sex, age")
    ]
    body: dict[str, Any] = {"questions": tables, "within": 40}
    alone = house.send("ana", "POST", "/quotes", body).json()["quotes"]
    joint = house.send("ana", "POST", "/quotes", {**body, "together": True}).json()["quotes"]
    assert [q["question"] for q in alone] == [q["question"] for q in joint]
    assert sum(q["charged_rho"] for q in joint) < sum(q["charged_rho"] for q in alone)
    one = {"sql": tables[0], "within": 40, "among": tables}
    assert house.send("ana", "POST", "/quote", one).json()["charged_rho"] == joint[0]["charged_rho"]
    assert house.send("ana", "POST", "/ask", one).json()["charged_rho"] == joint[0]["charged_rho"]


@pytest.mark.parametrize(
    ("sql", "more", "told"),
    [
        (
            BY_SEX,
            {"within": {"n": 40, "m": "20%"}, "confidence": 0.9},
            "WITHIN 40 FOR n, 20% FOR m",
        ),
        (BY_SEX, {"within": {"n": "40", "m": 9e3}, "simultaneous": True}, "SIMULTANEOUS"),
        (COUNT, {"rho": 0.01}, "rho 0.01"),
        (COUNT + " ERROR WITHIN 50 AT CONFIDENCE 95%", {}, "WITHIN 50"),
    ],
)
def test_all_ways_of_saying_how_accurate(calm: House, sql: str, more: dict[str, Any], told: str):
    quote = calm.send("ana", "POST", "/quote", {"sql": sql, **more}).json()
    assert told in quote["question"]


@pytest.mark.parametrize(
    ("validity", "told"), [("anytime", "whenever"), ("looks=5", "5"), ("confirm", "")]
)
def test_validities(house: House, validity: str, told: str):
    body = {"sql": COUNT, "within": 50, "validity": validity}
    assert told in house.send("ana", "POST", "/ask", body).json()["validity"]


def test_the_documents_are_described_by_all_of_their_fields(house: House):
    answer, quote = (
        house.ask("ana").json(),
        house.send("ana", "POST", "/quote", {"sql": COUNT, "within": 5}).json(),
    )
    for document, model in (
        (answer, documents.Answer),
        (answer["rows"][0], documents.Row),
        (answer["items"][0], documents.Item),
        (quote, documents.Quote),
        (house.get("ana", "/me").json(), documents.Me),
        (house.get("ana", "/contract").json(), documents.Terms),
        (house.get("ana", "/schema").json(), documents.Schema),
        (house.get("ana", "/schema").json()["columns"][0], documents.Column),
        (house.get("cat", "/analysts").json()["analysts"][0], documents.Analyst),
    ):
        assert document.keys() == set(model.model_fields)


# -- idempotency -------------------------------------------------------------------------------------

KEY = {"Idempotency-Key": "key-1"}


def test_a_request_under_its_key_is_answered_as_before(house: House):
    first = house.ask("ana", **KEY)
    house.ask("ana", within=20)  # more is known now, but the answer under the key stays
    again = house.ask("ana", **KEY)
    assert again.json() == first.json()
    assert len(house.get("ana", "/history").json()["asks"]) == 2


def test_a_key_stands_for_one_request(house: House):
    house.ask("ana", **KEY)
    told = house.ask("ana", within=40, **KEY)
    assert (told.status_code, told.json()["code"]) == (422, "bad-input")
    assert "Idempotency-Key" in told.json()["detail"]
    assert house.ask("ben", within=40, **KEY).status_code == 200  # a key is its principal's own


def test_the_spelling_of_json_does_not_matter(house: House):
    headers = house.headers("ana", **KEY, **{"content-type": "application/json"})
    texts = (
        '{"sql": "SELECT COUNT(*) FROM people", "within": 50}',
        '{ "within":50, "rho": null, "sql":"SELECT COUNT(\\u002a) FROM people" }',
    )
    first, second = (house.client.post("/v1/ask", content=t, headers=headers) for t in texts)
    assert first.json() == second.json()


@pytest.mark.parametrize("key", ["", " ", "a b", "x" * 129, "é"])
def test_keys_that_are_none(calm: House, key: str):
    got = calm.client.post(
        "/v1/ask",
        json={"sql": COUNT, "within": 50},
        headers={**calm.headers("ana"), "Idempotency-Key": key.encode("latin-1")},
    )
    assert (got.status_code, got.json()["code"]) == (422, "bad-input")


def test_identical_requests_at_once_pay_once(slow_house: House):
    with ThreadPoolExecutor(6) as pool:
        asked = [pool.submit(slow_house.ask, "ana", **KEY) for _ in range(6)]
        answers = [future.result() for future in asked]
    assert {got.status_code for got in answers} == {200}
    assert len({got.text for got in answers}) == 1
    history = slow_house.get("ana", "/history").json()["asks"]
    assert [ask["charged_rho"] for ask in history] == [answers[0].json()["charged_rho"]]


def test_another_request_under_a_key_at_work_is_refused(slow_house: House):
    later = slow_house.ask("ana", **KEY, Prefer="respond-async")
    assert later.status_code == 202
    assert slow_house.ask("ana", within=10, **KEY).status_code == 422
    same = slow_house.ask("ana", **KEY, Prefer="respond-async")
    assert same.headers["location"] == later.headers["location"]
    assert (
        slow_house.ask("ana", **KEY).json()
        == slow_house.followed("ana", later.headers["location"])["answer"]
    )


def test_a_refusal_is_not_kept_under_its_key(house: House):
    body = {"sql": COUNT, "within": 50, "max_rho": 1e-9}
    assert house.send("ana", "POST", "/ask", body, **KEY).status_code == 409
    assert house.send("ana", "POST", "/ask", body, **KEY).status_code == 409
    assert house.ask("ana", within=50).status_code == 200
    assert house.send("ana", "POST", "/ask", body, **KEY).json()["charged_rho"] == 0


def test_whoever_is_waited_for_no_longer_is_told_to_send_it_again(slow_house: House):
    body = json.dumps({"sql": COUNT, "within": 50}).encode()
    headers = slow_house.headers("ana", **{"Content-Type": "application/json"})
    headers["Content-Length"] = str(len(body))
    told: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        told.append(message)

    async def stopped_at_work() -> None:
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/v1/ask",
            "query_string": b"",
            "headers": [(name.lower().encode(), text.encode()) for name, text in headers.items()],
        }
        asking = asyncio.create_task(slow_house.app(scope, receive, send))
        while not slow_house.app.state.service.jobs.running():
            await asyncio.sleep(0.01)
        asking.cancel()
        await asking

    asyncio.run(stopped_at_work())
    assert told[0]["status"] == 429
    assert json.loads(told[1]["body"])["code"] == "throttled"
    assert {b"x-request-id", b"retry-after"} <= {name for name, _ in told[0]["headers"]}
