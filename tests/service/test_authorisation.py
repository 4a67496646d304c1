"""Who may do what: every route, every kind of token; and that analysts see nothing of one another."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.service.conftest import COUNT, House
from tests.service.issuer import Issuer
from tests.service.routes import ROUTES, Route
from tests.tables import people

pytestmark = pytest.mark.xdist_group("service")  # they share a house
NEEDING = [route for route in ROUTES if route.scope != ""]
SCOPES = ("quote", "ask", "read")
OIDC = ("sue", "eve", "expired", "elsewhere", "forged", "unsigned")
"""Tokens of an issuer that do not work."""


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A house with a token of every kind, and an answer of ana's."""
    folder: Path = tmp_path_factory.mktemp("house")
    with Issuer().up() as issuer, people(folder, rows=2_000) as session:
        issuer.publish("one")
        house = House(session, verifier=issuer.verifier())
        add, issue = house.access.add, house.access.issue
        add("sue")
        for scope in SCOPES:
            house.tokens[scope], _ = issue("ben", [scope])
        house.tokens["sue"], _ = issue("sue")
        house.access.suspend("sue")
        house.tokens["revoked"], token = issue("ben")
        house.access.revoke(token.id)
        house.tokens["unknown"] = "dfy_" + "x" * 43
        house.tokens["expired"] = house.expired("ben")
        for scope in SCOPES:
            house.tokens[f"oidc {scope}"] = issuer.token("ben", scope=f"openid defray:{scope}")
        house.tokens |= {f"oidc {who}": issuer.token(who) for who in ("ana", "cat", "sue", "eve")}
        house.tokens["oidc expired"] = issuer.token("ana", lasting=-60)
        house.tokens["oidc elsewhere"] = issuer.token("ana", aud="elsewhere")
        house.tokens["oidc forged"] = issuer.token("ana") + "A"
        house.tokens["oidc unsigned"] = issuer.token("ana").rpartition(".")[0] + "."
        with house.client:
            assert house.ask("ana").status_code == 200
            yield house


def status(house: House, route: Route, headers: dict[str, str]) -> int:
    got = house.client.request(route.method, route.at, json=route.json, headers=headers)
    if got.status_code >= 400:
        assert got.headers["content-type"] == "application/problem+json"
        assert got.json()["status"] == got.status_code
    if got.status_code == 401:
        assert got.headers["www-authenticate"] == "Bearer"
        assert got.json()["code"] == "unauthorized"
    return int(got.status_code)


def test_the_routes_are_all_that_there_are(busy: House):
    paths = busy.app.openapi()["paths"]
    assert {(r.method, r.template) for r in ROUTES} == {
        (method.upper(), path) for path, methods in paths.items() for method in methods
    }


def test_health_needs_no_token(busy: House):
    assert busy.client.get("/v1/health").json()["status"] == "ok"
    assert busy.client.head("/v1/health").status_code == 200


@pytest.mark.parametrize("route", NEEDING, ids=lambda r: f"{r.method} {r.template}")
def test_no_route_answers_without_a_token_that_works(busy: House, route: Route):
    malformed = ("", "Bearer", "Bearer ", "Bearer dfy_short", "Basic YTpi", "dfy_" + "x" * 43)
    bad = [{}, *({"Authorization": text} for text in malformed)]
    bad += [busy.headers(name) for name in ("unknown", "expired", "revoked", "sue")]
    bad += [busy.headers(f"oidc {name}") for name in OIDC]
    bad.append({"Authorization": busy.headers("ana")["Authorization"].upper()})
    assert [status(busy, route, headers) for headers in bad] == [401] * len(bad)


@pytest.mark.parametrize("route", NEEDING, ids=lambda r: f"{r.method} {r.template}")
def test_a_token_allows_what_its_scopes_say(busy: House, route: Route):
    for scope in SCOPES:
        for name in (scope, f"oidc {scope}"):
            got = status(busy, route, busy.headers(name))
            assert (got == 403) == (route.scope not in (None, scope)), name
            assert got != 401
    for who, may in (("ana", SCOPES), ("cat", (*SCOPES, "curate"))):
        for name in (who, f"oidc {who}"):
            got = status(busy, route, busy.headers(name))
            assert (got == 403) == (route.scope not in (None, *may)), name
            assert got != 401


def test_a_refusal_names_the_scope(busy: House):
    problem = busy.client.get("/v1/audit", headers=busy.headers("ana")).json()
    assert problem["code"] == "forbidden"
    assert "curate" in problem["hint"] + problem["detail"]


def test_a_token_works_until_it_expires_or_its_principal_is_suspended(house: House):
    house.tokens["new"], token = house.access.issue("ana", expires=dt.timedelta(hours=1))
    me = house.get("new", "/me").json()
    assert (me["principal"], me["role"], me["share"]) == ("ana", "analyst", 0.5)
    house.access.suspend("ana")
    assert house.get("new", "/me").status_code == 401
    house.access.resume("ana")
    assert house.get("new", "/me").status_code == 200
    house.access.revoke(token.id)
    assert house.get("new", "/me").status_code == 401
    assert house.get("ana", "/me").status_code == 200


def test_analysts_see_nothing_of_one_another(house: House):
    secret = "SELECT sex, COUNT(*) FROM people WHERE age <= 47 GROUP BY sex"
    later = house.ask("ana", secret, Prefer="respond-async")
    job = house.followed("ana", later.headers["Location"])
    id = house.get("ana", "/history").json()["asks"][0]["id"]
    row = job["answer"]["rows"][0]["id"]
    mine = (f"/answers/{id}", f"/answers/{row}", f"/answers/{id}/explain", f"/jobs/{job['id']}")
    assert [house.get("ana", path).status_code for path in mine] == [200] * 4
    seen = [house.get("ben", path) for path in (*mine, "/answers/999999", "/jobs/" + "0" * 24)]
    assert [got.status_code for got in seen] == [404] * 6
    details = [{k: v for k, v in got.json().items() if k != "request_id"} for got in seen]
    assert details[0] == details[1] == details[2] == details[4]  # as where there is nothing
    assert details[3] == details[5]
    assert house.send("ben", "DELETE", f"/jobs/{job['id']}").status_code == 404
    assert house.get("ben", "/history").json() == {"asks": [], "next": None}
    # what ben asks rests on ana's release, and does not tell what she asked
    own = house.ask("ben", "SELECT COUNT(*) FROM people WHERE age <= 47", within=20).json()
    assert own["reused_rho"] > 0
    asked = house.get("ben", "/history").json()["asks"]
    assert len(asked) == 1
    told = house.get("ben", f"/answers/{asked[0]['id']}/explain")
    assert id in {release["id"] for release in told.json()["releases"]}
    assert all(release["ask"] in (None, asked[0]["id"]) for release in told.json()["releases"])
    paths = ("/history", "/history?refresh=true", "/balance", f"/answers/{asked[0]['id']}", "/me")
    for got in (told, *(house.get("ben", path) for path in paths)):
        assert got.status_code == 200
        assert "sex" not in got.text
        assert '"ana"' not in got.text
    # the curator sees both
    asks = house.get("cat", "/history").json()["asks"]
    assert [ask["id"] for ask in asks] == [asked[0]["id"], id]
    assert house.get("cat", f"/answers/{id}/explain").json()["releases"][0]["ask"] == id


def test_a_token_in_the_query_is_no_token(house: House):
    for name in ("access_token", "token"):
        got = house.client.get("/v1/me", params={name: house.tokens["ana"]})
        assert (got.status_code, got.json()["code"]) == (401, "unauthorized")


@pytest.mark.parametrize(
    ("who", "path", "body"),
    [
        ("ana", "/v1/ask", {"sql": COUNT, "within": 90}),
        ("ana", "/v1/quotes", {"questions": [COUNT], "within": 90}),
        ("cat", "/v1/analysts/cat/tokens", {}),
    ],
)
def test_a_token_that_is_revoked_while_its_body_comes_works_no_more(
    house: House, who: str, path: str, body: dict[str, object]
):
    (token,) = house.access.tokens(who)
    told: list[dict[str, Any]] = []
    parts = iter([b"", json.dumps(body).encode()])

    async def receive() -> dict[str, Any]:
        part = next(parts)
        if part:  # the headers were seen by then
            house.access.revoke(token.id)
        return {"type": "http.request", "body": part, "more_body": not part}

    async def send(message: Any) -> None:
        told.append(message)

    headers = house.headers(who, **{"Content-Type": "application/json"})
    headers["Transfer-Encoding"] = "chunked"
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": b"",
        "headers": [(name.lower().encode(), text.encode()) for name, text in headers.items()],
    }
    asyncio.run(house.app(scope, receive, send))
    assert told[0]["status"] == 401
    assert len(house.access.tokens(who)) == 1
    assert house.session.history() == []


@pytest.mark.parametrize("path", ["/v1/ask", "/v1/quote", "/v1/me"])
def test_a_token_without_its_scheme_is_no_token(house: House, path: str):
    method = "GET" if path == "/v1/me" else "POST"
    body = None if method == "GET" else {"sql": COUNT, "within": 90}
    shown = {"Authorization": house.tokens["ana"]}
    assert house.client.request(method, path, json=body, headers=shown).status_code == 401
