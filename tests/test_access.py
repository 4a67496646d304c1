"""Principals and tokens as a service and the command line use them, over both ledgers."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from defray.access import FOREVER, Access, Grant
from defray.core.principals import Principal
from defray.errors import BadInput, DefrayError, Forbidden, LedgerError, NotFound, Unauthorized
from defray.ledger.memory import MemoryLedger
from defray.ledger.sqlite import SqliteLedger
from defray.ledger.store import Ledger
from tests.ledger.makers import NOON, terms

DAY = timedelta(days=1)


class Clock:
    def __init__(self) -> None:
        self.time = NOON + timedelta(microseconds=7)

    def __call__(self) -> datetime:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "sqlite"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    made: Any = (
        MemoryLedger(terms())
        if request.param == "memory"
        else SqliteLedger.open(tmp_path / "ledger", terms())
    )
    with made:
        yield made


@pytest.fixture
def access(ledger: Ledger, clock: Clock) -> Access:
    made = Access(ledger, clock)
    made.add("ana", share=0.25)
    made.add("cora", "curator")
    return made


def changed(access: Access) -> int:
    with access._ledger.view() as view:
        return view.seq


def test_a_token_says_who_asks_and_what_is_allowed(access: Access) -> None:
    text, token = access.issue("ana", ["read", "quote"])
    grant = access.authenticate(text)
    assert grant == Grant(
        Principal("ana", "analyst", Fraction(1, 4)), frozenset({"read", "quote"}), token.id
    )
    grant.require("read")
    with pytest.raises(Forbidden, match="does not allow to ask") as caught:
        grant.require("ask")
    assert caught.value.context == {"scope": "ask"}
    assert access.tokens("ana") == access.tokens() == [token]
    assert token.to_dict() == {
        "id": token.id,
        "principal": "ana",
        "scopes": ["quote", "read"],
        "made": "2026-07-01T12:00:00+00:00",
        "expires": None,
        "revoked": None,
    }


def test_the_scopes_of_a_role(access: Access) -> None:
    assert access.issue("ana")[1].scopes == {"quote", "ask", "read"}
    assert access.issue("cora")[1].scopes == {"quote", "ask", "read", "curate"}
    assert access.issue("cora", "curate")[1].scopes == {"curate"}
    for scopes in (["curate"], ["ask", "curate"], ["all"], []):
        with pytest.raises(BadInput, match="no scope"):
            access.issue("ana", scopes)


@pytest.mark.parametrize(
    "text", ["", "dfy_", "dfy_" + "A" * 43, "dfy_" + "é" * 43, "x" * 47, "y" * 10**6, None, b"dfy_"]
)
def test_what_is_no_token_is_unauthorized(access: Access, text: Any) -> None:
    access.issue("ana")
    with pytest.raises(Unauthorized) as caught:
        access.authenticate(text)
    assert caught.value.exit_code == 7
    assert caught.value.hint


def test_one_other_character_is_another_token(access: Access) -> None:
    text, _ = access.issue("ana")
    for i in range(len(text)):
        other = text[:i] + ("A" if text[i] != "A" else "B") + text[i + 1 :]
        with pytest.raises(Unauthorized):
            access.authenticate(other)
    with pytest.raises(Unauthorized):
        access.authenticate(f"{text}\n")
    access.authenticate(text)


def test_tokens_end_when_they_expire_or_are_revoked(access: Access, clock: Clock) -> None:
    short, token = access.issue("ana", expires=DAY)
    long, other = access.issue("ana")
    assert token.expires == NOON + DAY
    clock.time = NOON + DAY - timedelta(seconds=1)
    access.authenticate(short)
    clock.time = NOON + DAY
    with pytest.raises(Unauthorized, match=f"{token.id} has expired"):
        access.authenticate(short)
    access.authenticate(long)
    assert access.revoke(other.id).revoked == NOON + DAY
    clock.time += DAY
    assert access.revoke(other.id).revoked == NOON + DAY  # as before
    with pytest.raises(Unauthorized, match=f"{other.id} was revoked"):
        access.authenticate(long)
    with pytest.raises(NotFound, match="no token"):
        access.revoke("nothing")


def test_a_grant_is_looked_up_again(access: Access, clock: Clock) -> None:
    grants = [access.authenticate(access.issue("ana", expires=DAY * n)[0]) for n in (1, 3, 3)]
    access.set_share("ana", "1/5")
    assert [access.again(grant).principal.share for grant in grants] == [Fraction(1, 5)] * 3
    access.revoke(grants[2].token_id)
    clock.time += 2 * DAY
    for grant, said in ((grants[0], "has expired"), (grants[2], "was revoked")):
        with pytest.raises(Unauthorized, match=said):
            access.again(grant)
    access.suspend("ana")
    with pytest.raises(Unauthorized, match="ana is suspended"):
        access.again(grants[1])
    access.resume("ana")
    assert access.again(grants[1]).token_id == grants[1].token_id
    with pytest.raises(Unauthorized, match="unknown"):
        access.again(Grant(grants[1].principal, grants[1].scopes, "0" * 12))


@pytest.mark.parametrize("expires", [timedelta(0), -DAY, 40_000 * DAY, timedelta(microseconds=9)])
def test_lifetimes_that_cannot_be(access: Access, expires: timedelta) -> None:
    with pytest.raises(BadInput, match="a century"):
        access.issue("ana", expires=expires)
    assert access.tokens() == []


def test_a_suspended_principal_is_not_let_in(access: Access) -> None:
    text, _ = access.issue("ana")
    assert not access.suspend("ana").active
    with pytest.raises(Unauthorized, match="ana is suspended"):
        access.authenticate(text)
    assert access.resume("ana").active
    assert access.authenticate(text).principal.active


def test_nothing_is_written_for_what_is_so_already(access: Access) -> None:
    before = changed(access)
    access.resume("ana")
    access.set_share("ana", "1/4")
    assert changed(access) == before
    access.suspend("ana")
    access.suspend("ana")
    assert changed(access) == before + 1


def test_rotating_replaces_all_tokens_by_one_that_is_no_stronger(
    access: Access, clock: Clock
) -> None:
    ended, _ = access.issue("ana", expires=DAY / 2)
    clock.time += DAY
    old = [access.issue("ana", ["read"], DAY)[0], access.issue("ana", ["quote"], 3 * DAY)[0]]
    curating, _ = access.issue("cora")
    text, token = access.rotate("ana")
    assert (token.scopes, token.expires) == ({"read", "quote"}, NOON + 4 * DAY)
    for each in (*old, ended):
        with pytest.raises(Unauthorized):
            access.authenticate(each)
    assert access.authenticate(text).token_id == token.id
    access.authenticate(curating)
    assert [t.id for t in access.tokens("ana") if t.works(clock.time)] == [token.id]
    assert sum(t.revoked == NOON + DAY for t in access.tokens("ana")) == 2
    _, token = access.rotate("ana", ["ask"], FOREVER)
    assert (token.scopes, token.expires) == ({"ask"}, None)
    assert access.rotate("ana")[1].expires is None
    assert access.rotate("cora", expires=DAY)[1].expires == NOON + 2 * DAY


def test_a_rotation_that_fails_revokes_nothing(access: Access) -> None:
    text, _ = access.issue("ana")
    with pytest.raises(BadInput):
        access.rotate("ana", ["curate"])
    access.authenticate(text)


def test_shares_come_from_the_reserve(access: Access) -> None:
    assert access.reserve() == Fraction(3, 4)
    assert access.add("ben", share="1/3").share == Fraction(1, 3)
    assert access.add("cem").share == 0
    with pytest.raises(BadInput, match=r"0\.5 does not fit: 5/12 can be given"):
        access.set_share("cem", 0.5)
    assert access.set_share("ana", 0).share == 0
    assert access.set_share("cem", 0.5).share == Fraction(1, 2)
    assert access.reserve() == Fraction(1, 6)
    assert [p.name for p in access.analysts()] == ["ana", "cora", "ben", "cem"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("ana",), "already"),
        (("Ben",), "cannot be a name"),
        ((7,), "cannot be a name"),
        (("ben", "owner"), "unknown role"),
        (("ben", "curator", 0.1), "no share"),
        (("ben", "analyst", 1.5), "from 0 to 1"),
        (("ben", "analyst", -1), "from 0 to 1"),
        (("ben", "analyst", float("nan")), "a number from 0 to 1"),
        (("ben", "analyst", True), "a number from 0 to 1"),
        (("ben", "analyst", "half"), "a number from 0 to 1"),
        (("ben", "analyst", "1e-9"), "parts"),
        (("ben", "analyst", 10**5000), "from 0 to 1"),
    ],
    ids=lambda x: str(x)[:40] if not isinstance(x, tuple) else x[0],
)
def test_newcomers_that_cannot_be(access: Access, arguments: tuple[Any, ...], said: str) -> None:
    before = changed(access)
    with pytest.raises(BadInput, match=said):
        access.add(*arguments)
    assert changed(access) == before


def test_whoever_is_not_there_is_not_found(access: Access) -> None:
    for call in (access.suspend, access.resume, access.issue, access.rotate, access.tokens):
        with pytest.raises(NotFound, match="'zoe'"):
            call("zoe")
    with pytest.raises(NotFound):
        access.set_share("zoe", 0)


def test_a_closed_contract_still_lets_its_people_in(access: Access, ledger: Ledger) -> None:
    text, token = access.issue("ana")
    with ledger.transaction() as transaction:
        transaction.end()
    access.authenticate(text)
    calls: list[Any] = [
        lambda: access.suspend("ana"),
        lambda: access.add("ben"),
        lambda: access.set_share("ana", 1),
    ]
    for call in calls:
        with pytest.raises(LedgerError, match="closed"):
            call()
    access.revoke(token.id)
    with pytest.raises(Unauthorized):
        access.authenticate(text)


def test_no_token_is_kept_or_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []
    with SqliteLedger.open(tmp_path / "ledger", terms()) as ledger:
        access = Access(ledger)
        access.add("ana")
        texts = [access.issue("ana")[0] for _ in range(2)]
        texts.append(access.rotate("ana")[0])
        for text in texts:
            try:
                told += [repr(access.authenticate(text))]
            except DefrayError as error:
                told += [str(error), repr(error), str(error.to_dict())]
        told += [repr(access.tokens()), caplog.text]
        with closing(sqlite3.connect(tmp_path / "ledger")) as sql:
            told += list(sql.iterdump())
    secrets = [text.removeprefix("dfy_") for text in texts]
    assert len(set(secrets)) == 3
    for secret in secrets:
        assert not any(secret in text for text in told)
        for file in tmp_path.iterdir():
            assert secret.encode() not in file.read_bytes()


def test_who_is_vouched_for_elsewhere_may_do_what_the_role_and_the_scopes_allow(access: Access):
    ana = next(principal for principal in access.analysts() if principal.name == "ana")
    assert access.vouched("ana") == Grant(ana, frozenset(("ask", "quote", "read")), None)
    for name, scopes, may in (
        ("ana", ["read", "curate", "everything"], {"read"}),
        ("ana", [], set()),
        ("cora", ["curate"], {"curate"}),
    ):
        grant = access.vouched(name, scopes)
        assert grant is not None and grant.scopes == may
    access.suspend("ana")
    assert access.vouched("ana") is None
    assert access.vouched("nobody") is None
    access.resume("ana")
    access.issue("ana")
    grant = access.vouched("ana")
    assert grant is not None
    with pytest.raises(
        Unauthorized
    ):  # it is no token of the ledger's, of which there is a newer one
        access.again(grant)
