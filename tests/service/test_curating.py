"""What the curator does over HTTP."""

from __future__ import annotations

import pytest

from tests.service.conftest import COUNT, House


def test_an_analyst_is_let_in_and_asks(house: House):
    made = house.send("cat", "POST", "/analysts", {"name": "dan", "share": 0.25})
    assert (made.status_code, made.headers["location"]) == (201, "/v1/analysts/dan")
    assert made.json() == {
        "name": "dan",
        "role": "analyst",
        "share": 0.25,
        "active": True,
        "tokens": [],
    }
    issued = house.send("cat", "POST", "/analysts/dan/tokens", {"scopes": ["ask"], "days": 1})
    assert issued.status_code == 201
    house.tokens["dan"] = issued.json()["token"]
    assert house.ask("dan").status_code == 200
    assert house.get("dan", "/balance").status_code == 403
    listed = house.get("cat", "/analysts")
    assert [a["name"] for a in listed.json()["analysts"]] == ["ana", "ben", "cat", "dan"]
    assert listed.json()["unassigned_share"] == 0
    told = listed.json()["analysts"][-1]["tokens"][0]
    assert told == {k: v for k, v in issued.json().items() if k != "token"}
    assert house.tokens["dan"] not in listed.text


def test_a_share_may_be_a_fraction_and_is_changed(house: House):
    assert house.send("cat", "PATCH", "/analysts/ben", {"share": "1/3"}).json()["share"] == 1 / 3
    assert house.get("ben", "/me").json()["share"] == 1 / 3
    assert house.send("cat", "PATCH", "/analysts/ben", {"share": 2}).status_code == 422


def test_suspending_and_resuming(house: House):
    assert house.send("cat", "PATCH", "/analysts/ana", {"active": False}).json()["active"] is False
    assert house.ask("ana").status_code == 401
    assert house.send("cat", "PATCH", "/analysts/ana", {"active": True}).json()["active"] is True
    assert house.ask("ana").status_code == 200


def test_rotating_revokes_the_others(house: House):
    fresh = house.send("cat", "POST", "/analysts/ana/tokens", {"rotate": True}).json()
    assert house.ask("ana").status_code == 401
    house.tokens["ana"] = fresh["token"]
    assert house.ask("ana").status_code == 200


def test_revoking_one(house: House):
    second = house.send("cat", "POST", "/analysts/ana/tokens", {}).json()
    assert house.send("cat", "DELETE", f"/tokens/{second['id']}").status_code == 204
    house.tokens["second"] = second["token"]
    assert house.ask("second").status_code == 401
    assert house.ask("ana").status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/analysts", {"name": "ana"}, 422),
        ("POST", "/analysts", {"name": "Ana"}, 422),
        ("POST", "/analysts", {"name": "x" * 65}, 422),
        ("POST", "/analysts", {"name": "eve", "share": "a lot"}, 422),
        ("POST", "/analysts", {"name": "eve", "role": "owner"}, 422),
        ("PATCH", "/analysts/ana", {}, 422),
        ("PATCH", "/analysts/eve", {"active": False}, 404),
        ("POST", "/analysts/eve/tokens", {}, 404),
        ("POST", "/analysts/ana/tokens", {"scopes": ["curate"]}, 422),
        ("POST", "/analysts/ana/tokens", {"scopes": ["fly"]}, 422),
        ("POST", "/analysts/ana/tokens", {"days": 0}, 422),
        ("DELETE", "/tokens/00000000", None, 404),
    ],
)
def test_mistakes_are_told(calm: House, method: str, path: str, body: object, status: int):
    got = calm.send("cat", method, path, body)
    assert (got.status_code, got.json()["status"]) == (status, status)


def test_the_audit_replays(house: House):
    house.ask("ana")
    told = house.get("cat", "/audit").json()
    assert told["ok"]
    assert told["releases"] == 1


def test_metrics_count_requests_and_asks(house: House):
    house.ask("ana")
    house.ask("ana")
    house.ask("ana", "SELECT 1")
    house.get("ana", "/nothing/here")
    told = house.get("cat", "/metrics")
    assert told.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = told.text.splitlines()
    assert 'defray_requests_total{method="POST",route="/v1/ask",status="200"} 2' in lines
    assert 'defray_requests_total{method="GET",route="unknown",status="404"} 1' in lines
    assert 'defray_asks_total{outcome="paid"} 1' in lines
    assert 'defray_asks_total{outcome="free"} 1' in lines
    assert 'defray_asks_total{outcome="query-refused"} 1' in lines
    assert 'defray_request_seconds_count{route="/v1/ask"} 3' in lines
    assert f"defray_spent_rho {house.session.balance()['spent_rho']!r}" in lines
    assert "ana" not in told.text.replace("analysts", "")
    assert COUNT not in told.text
