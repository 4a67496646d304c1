"""Signing in, staying in, and being out at once."""

from __future__ import annotations

import io
from http.cookies import SimpleCookie
from pathlib import Path

import pytest

from defray.service import logs
from defray.service.limits import Limits
from defray.service.pages.sessions import MOST, Sessions
from tests.service.browsing import Visitor, hidden, visitor
from tests.service.conftest import House
from tests.tables import people


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def cookies(response) -> SimpleCookie:
    jar: SimpleCookie = SimpleCookie()
    for header in response.headers.get_list("set-cookie"):
        jar.load(header)
    return jar


def test_a_token_becomes_a_cookie_that_no_script_and_no_other_site_can_use(house: House):
    ana = Visitor(house)
    got = ana.sign_in(house.tokens["ana"])
    assert (got.status_code, got.headers["location"]) == (303, "/")
    cookie = cookies(got)["defray"]
    assert cookie["httponly"]
    assert cookie["samesite"] == "strict"
    assert cookie["path"] == "/"
    assert not cookie["secure"]  # on this machine only
    assert house.tokens["ana"] not in str(got.headers)
    assert len(cookie.value) == 43


def test_somebody_who_just_came_has_done_nothing_wrong(house: House):
    stranger = Visitor(house)
    first = stranger.get("/")
    assert first.status_code == 401 and "<h1>Sign in</h1>" in first.text
    assert "not signed in" not in first.text
    stranger.client.cookies.set("defray", "x" * 43)
    assert "not signed in" in stranger.get("/").text


@pytest.mark.parametrize("home", ["https://defray.example", "http://defray.example"])
def test_beyond_this_machine_the_cookie_travels_encrypted_only(house: House, home: str):
    door = Visitor(house, home).get("/sign-in")
    cookie = cookies(door)["__Host-defray-door"]
    assert cookie["secure"] and cookie["httponly"]
    assert ("open it by https" in door.text) == False  # noqa: E712
    if home.startswith("https"):
        signed = cookies(Visitor(house, home).sign_in(house.tokens["ana"]))["__Host-defray"]
        assert signed["secure"] and signed["httponly"] and signed["samesite"] == "strict"


def test_behind_a_proxy_with_tls_the_cookie_is_secure(house: House):
    door = Visitor(house).get("/sign-in", headers={"X-Forwarded-Proto": "https"})
    assert cookies(door)["__Host-defray-door"]["secure"]


def test_a_token_that_does_not_work_is_told_in_place(house: House):
    for token in ("", "dfy_short", "dfy_" + "x" * 43, house.expired("ana")):
        got = Visitor(house).sign_in(token)
        assert got.status_code == 401
        assert "<h1>Sign in</h1>" in got.text and "What to do:" in got.text
        assert not token or token not in got.text
        assert "defray" not in {name for name in cookies(got) if not name.endswith("door")}


def test_nobody_is_signed_in_by_another_site(house: House):
    ana = Visitor(house)
    form = {"token": house.tokens["ana"]}
    assert ana.client.post("/sign-in", data=form).status_code == 403
    door = hidden(ana.get("/sign-in").text, "door")
    assert ana.client.post("/sign-in", data={**form, "door": "x"}).status_code == 403
    other = {"Sec-Fetch-Site": "cross-site"}
    assert (
        ana.client.post("/sign-in", data={**form, "door": door}, headers=other).status_code == 403
    )


def test_signing_out_ends_the_session_and_not_only_the_cookie(house: House):
    ana = visitor(house, "ana")
    kept = ana.client.cookies["defray"]
    got = ana.post("/sign-out", follow_redirects=False)
    assert (got.status_code, got.headers["location"]) == (303, "/sign-in")
    ana.client.cookies.set("defray", kept)
    assert ana.get("/").status_code == 401


def test_revoking_suspending_and_rotating_work_at_once(house: House):
    ana, ben = visitor(house, "ana"), visitor(house, "ben")
    house.access.suspend("ana")
    got = ana.get("/balance")
    assert (got.status_code, "ana is suspended" in got.text) == (401, True)
    house.access.resume("ana")
    assert ana.get("/balance").status_code == 401  # and once out, out
    house.access.rotate("ben")
    assert "was revoked" in ben.get("/").text
    assert ben.post("/quote", {"sql": "SELECT COUNT(*) FROM people"}).status_code == 401


def test_a_session_ends_when_idle(tmp_path: Path):
    with people(tmp_path, rows=100) as session:
        house = House(session, Limits(session_seconds=100))
        clock = Clock()
        house.app.state.service.sessions._clock = clock
        with house.client:
            ana = visitor(house, "ana")
            for _ in range(3):
                clock.now += 99
                assert ana.get("/").status_code == 200
            clock.now += 101
            assert ana.get("/").status_code == 401


def test_sessions_of_one_principal_are_bounded(house: House):
    clock = Clock()
    sessions = Sessions(1e6, clock)
    ana = house.access.authenticate(house.tokens["ana"])
    ben, _ = sessions.begin(house.access.authenticate(house.tokens["ben"]))
    ids = []
    for _ in range(MOST + 2):
        clock.now += 1
        ids.append(sessions.begin(ana)[0])
    assert [sessions.find(id) is not None for id in ids] == [False] * 2 + [True] * MOST
    assert sessions.find(ben) is not None
    assert sessions.find("\ud800") is None


def test_signing_in_again_ends_the_session_before(house: House):
    ana = visitor(house, "ana")
    before = ana.client.cookies["defray"]
    ana.sign_in(house.tokens["ana"])
    assert ana.client.cookies["defray"] != before
    assert house.app.state.service.sessions.find(before) is None


@pytest.mark.usefixtures("logging_kept")
def test_logs_hold_neither_token_nor_cookie_nor_question(house: House):
    written = io.StringIO()
    logs.to(written)
    ana = visitor(house, "ana")
    ana.get("/history?search=secret-word")
    ana.ask("SELECT COUNT(*) FROM people WHERE age < 33")
    text = written.getvalue()
    for secret in (
        house.tokens["ana"],
        ana.client.cookies["defray"],
        ana.csrf,
        "secret-word",
        "33",
    ):
        assert f'"{secret}' not in text and f"{secret} " not in text
    assert '"route": "/history"' in text and '"principal": "ana"' in text
