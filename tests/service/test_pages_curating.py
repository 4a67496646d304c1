"""The curator in a browser."""

from __future__ import annotations

import re

from tests.service.browsing import Visitor, visitor
from tests.service.conftest import House

TOKEN = re.compile(r"dfy_[A-Za-z0-9_-]{43}")


def test_a_newcomers_token_is_shown_once_and_works(house: House):
    cat = visitor(house, "cat")
    got = cat.post("/analysts", {"name": "dan", "share": "1/5", "days": "30"})
    assert got.status_code == 200
    (token,) = TOKEN.findall(got.text)
    assert house.access.authenticate(token).principal.name == "dan"
    assert not TOKEN.findall(cat.get("/analysts").text)
    assert Visitor(house).sign_in(token).status_code == 303
    assert house.access.tokens("dan")[0].expires is not None


def test_a_mistake_is_told_in_place_and_nobody_is_let_in(house: House):
    cat = visitor(house, "cat")
    for wrong in (
        {"name": "Dan"},
        {"name": ""},
        {"name": "dan", "share": "0.9"},
        {"name": "dan", "share": "much"},
        {"name": "dan", "days": "x"},
        {"name": "dan", "days": "-1"},
        {"name": "dan", "role": "king"},
        {"name": "ana"},
    ):
        got = cat.post("/analysts", wrong)
        assert got.status_code == 422, wrong
        assert "What to do:" in got.text and "<h1>Analysts</h1>" in got.text
        assert not TOKEN.findall(got.text)
    assert [one.name for one in house.access.analysts()] == ["ana", "ben", "cat"]


def test_shares_are_changed_and_analysts_suspended_and_resumed(house: House):
    cat = visitor(house, "cat")
    assert "40 %" in cat.post("/analysts/ana", {"share": "0.4"}).text
    assert cat.post("/analysts/ana", {"share": "2"}).status_code == 422
    assert cat.post("/analysts/ana").status_code == 422
    assert "analyst, suspended" in cat.post("/analysts/ana", {"active": "no"}).text
    assert house.get("ana", "/me").status_code == 401
    assert "suspended" not in cat.post("/analysts/ana", {"active": "yes"}).text
    assert house.get("ana", "/me").status_code == 200
    assert cat.post("/analysts/nobody", {"active": "no"}).status_code == 404


def test_tokens_are_rotated_issued_and_revoked(house: House):
    cat = visitor(house, "cat")
    (issued,) = TOKEN.findall(cat.post("/analysts/ana/tokens", {"do": "issue"}).text)
    assert house.get("ana", "/me").status_code == 200
    (rotated,) = TOKEN.findall(cat.post("/analysts/ana/tokens", {"do": "rotate"}).text)
    assert house.get("ana", "/me").status_code == 401
    house.tokens |= {"issued": issued, "rotated": rotated}
    assert house.get("issued", "/me").status_code == 401
    assert house.get("rotated", "/me").status_code == 200
    id = house.access.authenticate(rotated).token_id
    assert cat.post(f"/tokens/{id}/revoke").status_code == 200
    assert house.get("rotated", "/me").status_code == 401
    assert cat.post("/tokens/000000000000/revoke").status_code == 404
    assert cat.post("/analysts/nobody/tokens", {"do": "rotate"}).status_code == 404


def test_a_token_is_shown_to_who_made_it_only(house: House):
    house.access.add("dot", "curator")
    house.tokens["dot"], _ = house.access.issue("dot")
    cat, dot = visitor(house, "cat"), visitor(house, "dot")
    cat.post("/analysts/ana/tokens", {"do": "issue"}, follow_redirects=False)
    assert not TOKEN.findall(dot.get("/analysts").text)
    assert TOKEN.findall(cat.get("/analysts").text)


def test_the_audit_says_whether_all_is_in_order(house: House):
    house.ask("ana")
    text = visitor(house, "cat").get("/audit").text
    assert "In order" in text
    assert house.get("cat", "/audit").json()["head"] in text
