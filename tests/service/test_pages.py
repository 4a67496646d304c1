"""What holds of all pages: who may see them, what browsers are told, what they never say."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from fastapi.routing import APIRoute

from defray.service.pages.assets import VERSION
from tests.service.browsing import PAGES, SIGNED_IN, Page, Visitor, visitor
from tests.service.conftest import House
from tests.tables import people

pytestmark = pytest.mark.xdist_group("service")
SCOPES = ("quote", "ask", "read")


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A house with a token of every scope, and an answer of ana's."""
    with people(tmp_path_factory.mktemp("pages"), rows=2_000) as session:
        house = House(session)
        for scope in SCOPES:
            house.tokens[scope], _ = house.access.issue("ben", [scope])
        with house.client:
            assert house.ask("ana").status_code == 200
            yield house


@pytest.fixture(scope="module")
def guests(busy: House) -> dict[str, Visitor]:
    return {who: visitor(busy, who) for who in (*SCOPES, "ana", "cat")}


def paths(app: object) -> set[tuple[str, str]]:
    found: set[tuple[str, str]] = set()
    for route in app.routes:  # type: ignore[attr-defined]
        inner = getattr(route, "original_router", None)
        for one in [route] if inner is None else inner.routes:
            page = isinstance(one, APIRoute) and not one.include_in_schema
            if page and not one.path.startswith("/v1"):
                found |= {(method, one.path) for method in one.methods or ()}
    return found


def test_the_pages_are_all_that_there_are(busy: House):
    assert {(page.method, page.template) for page in PAGES} == paths(busy.app)


@pytest.mark.parametrize("page", SIGNED_IN, ids=lambda p: f"{p.method} {p.template}")
def test_no_page_without_signing_in(busy: House, page: Page):
    stranger = Visitor(busy)
    for cookie in ("", "x" * 43, busy.tokens["ana"]):
        if cookie:
            stranger.client.cookies.set("defray", cookie)
        got = stranger.visit(page)
        assert got.status_code == 401
        assert "<h1>Sign in</h1>" in got.text
    bearer = stranger.client.request(page.method, page.at, headers=busy.headers("cat"))
    assert bearer.status_code in (401, 415)  # a token is for /v1, a cookie for pages


@pytest.mark.parametrize(
    "page", [p for p in SIGNED_IN if p.scope], ids=lambda p: f"{p.method} {p.template}"
)
def test_a_page_needs_the_scope_of_its_route(guests: dict[str, Visitor], page: Page):
    for scope in SCOPES:
        assert (guests[scope].visit(page).status_code == 403) == (page.scope != scope), scope
    for who, may in (("ana", SCOPES), ("cat", (*SCOPES, "curate"))):
        got = guests[who].visit(page)
        assert (got.status_code == 403) == (page.scope not in may), who
        assert got.status_code not in (401, 500)


@pytest.mark.parametrize(
    "page", [p for p in SIGNED_IN if p.method == "POST"], ids=lambda p: p.template
)
def test_a_form_is_of_its_own_session_and_site(busy: House, guests: dict[str, Visitor], page: Page):
    cat = guests["cat"]
    for csrf in ("", "x", guests["ana"].csrf):
        got = cat.client.post(page.at, data={**page.form, "csrf": csrf}, follow_redirects=False)
        assert (got.status_code, "not of your session" in got.text) == (403, True)
    for headers in (
        {"Sec-Fetch-Site": "cross-site"},
        {"Origin": "https://elsewhere.example"},
        {"Origin": "http://[::1"},
    ):
        got = cat.post(page.at, page.form, headers=headers, follow_redirects=False)
        assert (got.status_code, "by another site" in got.text) == (403, True)
    assert cat.get("/").status_code == 200  # still signed in
    json = cat.client.post(page.at, json={**page.form, "csrf": cat.csrf})
    assert json.status_code == 415


def test_browsers_are_told_what_a_page_may_do(guests: dict[str, Visitor]):
    for page in PAGES:
        if page.method == "GET" and not page.template.endswith(("csv", "words", "progress")):
            got = guests["cat"].visit(page)
            policy = dict(
                part.strip().split(" ", 1)
                for part in got.headers["content-security-policy"].split(";")
            )
            assert policy["default-src"] == "'self'", page
            assert policy["frame-ancestors"] == "'none'"
            assert "script-src" not in policy and "style-src" not in policy
            assert got.headers["referrer-policy"] == "no-referrer"
            assert got.headers["x-frame-options"] == "DENY"
            assert got.headers["x-content-type-options"] == "nosniff"
            assert got.headers["cache-control"] == "no-store"


def test_pages_hold_no_script_no_style_and_nothing_from_elsewhere(guests: dict[str, Visitor]):
    for page in PAGES:
        if page.method == "GET":
            text = guests["cat"].visit(page).text
            assert not re.search(r"<script(?![^>]*\bsrc=)", text), page
            assert not re.search(r"\s(on[a-z]+|style)=", text), page
            assert not re.search(r"(src|href|action)=\"(?!/|#)", text), page


def test_no_token_is_in_any_page(busy: House, guests: dict[str, Visitor]):
    secrets = [*busy.tokens.values(), *(v.client.cookies["defray"] for v in guests.values())]
    for guest in guests.values():
        for page in PAGES:
            if page.method == "GET":
                text = guest.visit(page).text
                assert not any(secret in text for secret in secrets), page
                assert "dfy_" not in text.replace("It begins with dfy_", "")


def test_what_is_not_there_is_a_page_for_browsers_only(busy: House, guests: dict[str, Visitor]):
    got = guests["ana"].get("/nothing")
    assert (got.status_code, "<h1>That did not work</h1>" in got.text) == (404, True)
    assert guests["ana"].get("/v1/nothing").json()["code"] == "not-found"
    assert busy.client.get("/nothing").json()["code"] == "not-found"
    assert guests["ana"].client.delete("/history").status_code == 405
    assert "<h1>" in guests["ana"].get("/answers/none").text


def test_static_files_may_be_kept(busy: House):
    text = Visitor(busy).get("/sign-in").text
    for path in re.findall(r'(?:href|src)="(/static/[^"]+)"', text):
        got = busy.client.get(path)
        assert got.status_code == 200
        assert "immutable" in got.headers["cache-control"]
    for path in (
        f"/static/{VERSION}/none.css",
        f"/static/{VERSION}/..%2Fapp.py",
        "/static/x/defray.css",
    ):
        assert busy.client.get(path).status_code == 404


def test_a_fault_is_a_page_and_an_incident(busy: House, monkeypatch: pytest.MonkeyPatch):
    ana = visitor(busy, "ana")
    monkeypatch.setattr("defray.service.pages.books.schema_document", lambda _: 1 // 0)
    got = ana.get("/schema")
    assert (got.status_code, "incident" in got.text) == (500, True)
    assert "division" not in got.text
    assert got.headers["content-security-policy"]
