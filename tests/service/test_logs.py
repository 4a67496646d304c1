"""The logs say who did what and how it ended; never SQL, a value, a token or a query string."""

from __future__ import annotations

import io
import json
import logging

import pytest

from defray.service import logs
from tests.service.conftest import House


@pytest.fixture
def written(logging_kept: None) -> io.StringIO:
    """What is logged, as in a service that runs."""
    stream = io.StringIO()
    logs.to(stream)
    return stream


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_request_is_one_line_with_its_route_and_principal(house: House, written: io.StringIO):
    house.ask("ana", **{"X-Request-Id": "mine"})
    ask, request = lines(written)
    assert (ask["event"], ask["outcome"]) == ("ask", "paid")
    assert (ask["principal"], ask["request_id"]) == ("ana", "mine")
    assert request.pop("ms") > 0  # type: ignore[operator]
    assert request.pop("at")
    assert request == {
        "level": "info",
        "event": "request",
        "method": "POST",
        "route": "/v1/ask",
        "status": 200,
        "principal": "ana",
        "request_id": "mine",
    }


def test_routes_are_templates_and_unknown_paths_stay_out(house: House, written: io.StringIO):
    house.get("ana", "/answers/123456")
    house.get("ana", "/dfy_secret?token=secret")
    house.client.request("BREW", "/v1/me")
    told = lines(written)
    assert [line["route"] for line in told] == ["/v1/answers/{id}", "unknown", "/v1/me"]
    assert [line.get("code") for line in told[:1]] == ["not-found"]
    assert told[2]["method"] == "other"
    assert "secret" not in written.getvalue()
    assert "123456" not in written.getvalue()


def test_nothing_private_is_logged(house: House, written: io.StringIO):
    sql = "SELECT COUNT(*) FROM people WHERE age <= 87"
    answer = house.ask("ana", sql)
    assert answer.status_code == 200
    house.ask("ana", sql + " AND")
    house.ask("ana", sql, within=1e-5)
    house.ask("ana", sql, within={"no such alias": 5})
    house.ask("ana", sql, Prefer="respond-async", **{"Idempotency-Key": "my-own-key"})
    house.get("ana", "/balance?by=income&within=87")
    house.get("ana", "/history?cursor=bm90aGluZw")
    issued = house.send("cat", "POST", "/analysts/ana/tokens", {}).json()["token"]
    house.client.get("/v1/me", headers={"Authorization": "Bearer dfy_" + "y" * 43})
    house.app.state.service.jobs.close(5)
    text = written.getvalue()
    row = answer.json()["rows"][0]
    for private in (
        "SELECT", "people", "= 87", "alias", "income", "my-own-key", "bm90", issued, "dfy_",
        str(row["value"]), str(row["low"]),
    ):  # fmt: skip
        assert private not in text, private
    assert len(lines(written)) >= 9


def test_an_exception_is_its_kind_and_place(written: io.StringIO):
    try:
        raise ValueError("Mary Jones, 47")
    except ValueError:
        logging.getLogger("uvicorn.error").exception("Mary Jones %s", 47)
    (line,) = lines(written)
    assert (line["event"], line["kind"]) == ("fault", "ValueError")
    assert "Mary" not in written.getvalue()
