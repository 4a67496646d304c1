"""Tokens of an issuer: who comes in by one, and who does not."""

from __future__ import annotations

import base64
import hashlib
import hmac
import io
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from defray.core.principals import SCOPES
from defray.errors import Unauthorized
from defray.service import logs
from defray.service.oidc.keys import Keys
from defray.service.oidc.tokens import MOST_BYTES, Verifier
from tests.service.browsing import Visitor
from tests.service.conftest import EASY, House
from tests.service.issuer import Issuer, private_key, public_jwk, segment
from tests.tables import people


class Clock:
    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer().up() as up:
        up.publish("one")
        yield up


@contextmanager
def at(folder: Path, verifier: Verifier) -> Iterator[House]:
    with people(folder, "rho = 1", 500) as session:
        house = House(session, EASY, verifier)
        with house.client:
            yield house


@pytest.fixture
def house(tmp_path: Path, issuer: Issuer) -> Iterator[House]:
    with at(tmp_path, issuer.verifier()) as opened:
        yield opened


@pytest.fixture
def written(logging_kept: None) -> io.StringIO:
    stream = io.StringIO()
    logs.to(stream)
    return stream


def shown(house: House, token: str) -> Any:
    house.tokens["bearer"] = token
    return house.get("bearer", "/me")


def told(response: Any) -> dict[str, Any]:
    """A problem, but for the id of its request."""
    return {name: value for name, value in response.json().items() if name != "request_id"}


def reasons(written: io.StringIO) -> list[str]:
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    return [line["reason"] for line in lines if line["event"] == "request" and "reason" in line]


# -- who comes in -----------------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["ana", "cat"])
def test_a_token_of_the_issuer_is_as_good_as_one_of_defray(house: House, issuer: Issuer, who: str):
    own, theirs = house.get(who, "/me"), shown(house, issuer.token(who))
    assert theirs.status_code == 200
    assert theirs.json() == own.json()


@pytest.mark.parametrize("algorithm", ["RS256", "PS256", "ES256", "ES384", "ES512", "EdDSA"])
def test_every_kind_of_signature_is_checked(tmp_path: Path, algorithm: str):
    with Issuer().up() as issuer:
        issuer.publish("mine", algorithm)
        with at(tmp_path, issuer.verifier(algorithms=[algorithm])) as house:
            good = issuer.token()
            assert shown(house, good).status_code == 200
            issuer.signing["mine"] = algorithm, private_key(algorithm, 1)
            forged = issuer.token()
            assert shown(house, forged).status_code == 401
            head, body, _ = good.split(".")
            assert shown(house, ".".join((head, body, forged.split(".")[2]))).status_code == 401


def test_what_holds_of_good_tokens(house: House, issuer: Issuer):
    now = time.time()
    good = (
        issuer.token(aud=["other", "defray"]),
        issuer.token(headers={"typ": "at+JWT"}),
        issuer.token(headers={"typ": "application/at+jwt"}),
        issuer.token(kid=None),
        issuer.token(iat=now + 5),
        issuer.token(nbf=now + 5),
        issuer.token(lasting=-5),
        issuer.token(without="iat"),
        issuer.token(exp=now + 0.5 + 60),
    )
    assert [shown(house, token).status_code for token in good] == [200] * len(good)


def test_tokens_of_defray_are_taken_as_before(house: House, issuer: Issuer):
    assert house.get("ana", "/me").status_code == 200
    assert issuer.asked == []


# -- who does not -----------------------------------------------------------------------------------


def _confused(issuer: Issuer, form: tuple[Encoding, PublicFormat]) -> str:
    """Signed with what everybody knows: the public key, taken as a secret."""
    secret = issuer.signing["one"][1].public_key().public_bytes(*form)
    head = segment({"alg": "HS256", "kid": "one"})
    signed = f"{head}.{issuer.token().split('.')[1]}"
    return f"{signed}.{segment(hmac.digest(secret, signed.encode(), hashlib.sha256))}"


def bad_tokens(issuer: Issuer) -> list[tuple[str, str]]:
    """Tokens that do not work, each with the reason that the log tells."""
    now = time.time()
    body = issuer.token().split(".")[1]
    pem = (Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    der = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    claim, named = "its claim names nobody", "nobody active has the name it stands for"
    return [
        (issuer.token(lasting=-60), "it has expired"),
        (issuer.token(without="exp"), "it lacks exp, iss or aud"),
        (issuer.token(exp="soon"), "its claim exp is no time"),
        (issuer.token(exp=True), "its claim exp is no time"),
        (issuer.token(exp=float("inf")), "its claim exp is no time"),
        (issuer.token(exp=float("nan")), "its claim exp is no time"),
        (issuer.token(exp=10**400), "its claim exp is no time"),
        (issuer.token(nbf=now + 60), "it works later"),
        (issuer.token(nbf=None), "its claim nbf is no time"),
        (issuer.token(iat=now + 60), "it works later"),
        (issuer.token(aud="other"), "it is for another audience"),
        (issuer.token(aud=["defray2"]), "it is for another audience"),
        (issuer.token(without="aud"), "it lacks exp, iss or aud"),
        (issuer.token(iss="http://127.0.0.1:1"), "it is of another issuer"),
        (issuer.token(iss=issuer.url + "/"), "it is of another issuer"),
        (issuer.token(without="iss"), "it lacks exp, iss or aud"),
        (issuer.token(headers={"kid": "two"}), "no key of the issuer fits it"),
        (issuer.token(headers={"kid": ["one"]}), "its header asks for something unknown"),
        (issuer.token(headers={"crit": ["b64"], "b64": True}), "its header asks for something unknown"),
        (issuer.token(headers={"typ": "logout+jwt"}), "it is of another type than an access token"),
        (issuer.token(headers={"typ": "dpop+jwt"}), "it is of another type than an access token"),
        (f"{segment({'alg': 'none'})}.{body}.", "it is no signed JWT, or too large"),
        (f"{segment({'alg': 'none'})}.{body}.eA", "its algorithm is not among those of [oidc]"),
        (_confused(issuer, pem), "its algorithm is not among those of [oidc]"),
        (_confused(issuer, der), "its algorithm is not among those of [oidc]"),
        (f"{segment({'alg': ['ES256']})}.{body}.eA", "its algorithm is not among those of [oidc]"),
        (f"{segment([])}.{body}.eA", "its header cannot be read"),
        (f"{segment(b'[' * 9000)}.{body}.eA", "its header cannot be read"),
        (f"{segment(bytes((200, 1)))}.{body}.eA", "its header cannot be read"),
        (f"{body}.{body}", "it is no signed JWT, or too large"),
        (issuer.token(more="x" * MOST_BYTES), "it is no signed JWT, or too large"),
        ("x" * 47, "it is no signed JWT, or too large"),
        (issuer.token(sub="nobody"), named),
        (issuer.token(sub="sue"), named),
        (issuer.token(sub="Ana"), named),
        (issuer.token(sub="ana "), named),
        (issuer.token(sub=["ana"]), "it is no JWT"),
        (issuer.token(without="sub"), claim),
        (issuer.token(scope={"defray:ask": 1}), "its claim scope is no list of words"),
    ]  # fmt: skip


def test_whatever_is_wrong_callers_are_told_the_same_and_the_log_why(
    house: House, issuer: Issuer, written: io.StringIO
):
    house.access.add("sue")
    house.access.suspend("sue")
    bad = bad_tokens(issuer)
    got = [shown(house, token) for token, _ in bad]
    assert [response.status_code for response in got] == [401] * len(bad)
    assert all(told(response) == told(got[0]) for response in got)
    assert got[0].json()["code"] == "unauthorized"
    assert got[0].headers["www-authenticate"] == "Bearer"
    assert reasons(written) == [reason for _, reason in bad]
    for private in ('"sue"', '"nobody"', "eyJ", "defray2", "logout", issuer.url):
        assert private not in written.getvalue()


def test_a_key_is_for_its_algorithm_alone(tmp_path: Path):
    with Issuer().up() as issuer:
        issuer.publish("rsa", "RS256")
        with at(tmp_path, issuer.verifier()) as house:
            assert shown(house, issuer.token()).status_code == 200
            issuer.signing["rsa"] = "PS256", private_key("RS256")
            assert shown(house, issuer.token()).status_code == 401
            assert shown(house, issuer.token(headers={"alg": "RS256"})).status_code == 401


@pytest.mark.parametrize(
    "more",
    [
        {"use": "enc"}, {"alg": "RS512"}, {"key_ops": ["sign"]}, {"kty": "oct"}, {"d": "AQAB"},
        {"kid": 5}, {"n": "!"}, {"n": None},
    ],
)  # fmt: skip
def test_keys_that_are_for_something_else_are_passed_over(tmp_path: Path, more: dict[str, Any]):
    with Issuer().up() as issuer:
        issuer.publish("good")
        issuer.signing["odd"] = "RS256", private_key("RS256")
        issuer.jwks += [
            {**public_jwk("odd", "RS256", private_key("RS256")), **more},
            "no key",
            None,
        ]
        with at(tmp_path, issuer.verifier()) as house:
            assert shown(house, issuer.token(kid="good")).status_code == 200
            assert shown(house, issuer.token(kid="odd")).status_code == 401


def test_short_keys_and_two_of_one_id_are_not_relied_on(tmp_path: Path):
    with Issuer().up() as issuer:
        issuer.publish("good")
        short = private_key("RS256", 5, 1024)
        issuer.signing["short"] = "RS256", short
        issuer.publish("twice", "EdDSA", 1)
        issuer.jwks += [
            public_jwk("short", "RS256", short),
            public_jwk("twice", "EdDSA", private_key("EdDSA", 2)),
        ]
        with at(tmp_path, issuer.verifier()) as house:
            got = [shown(house, issuer.token(kid=kid)).status_code for kid in issuer.signing]
        assert got == [200, 401, 401]


# -- for whom a token speaks ------------------------------------------------------------------------


def test_a_claim_of_choice_names_the_principal(tmp_path: Path, issuer: Issuer):
    with at(tmp_path, issuer.verifier(claim="preferred_username")) as house:
        token = issuer.token("8c1f", preferred_username="ben")
        assert shown(house, token).json()["principal"] == "ben"
        assert shown(house, issuer.token("ana")).status_code == 401


def test_an_email_counts_once_it_is_verified(tmp_path: Path, issuer: Issuer):
    known = {"ana@example.org": "ana"}
    with at(tmp_path, issuer.verifier(claim="email", principals=known)) as house:
        for verified, status in ((True, 200), (False, 401), ("true", 401), (None, 401)):
            token = issuer.token("x", email="ana@example.org", email_verified=verified)
            assert shown(house, token).status_code == status
        assert shown(house, issuer.token("x", email="ana@example.org")).status_code == 401


def test_where_principals_are_listed_nobody_else_comes_in(tmp_path: Path, issuer: Issuer):
    listed = {"8c1f-44": "ana", "cat": "ben", "x": "nobody"}
    with at(tmp_path, issuer.verifier(principals=listed)) as house:
        assert shown(house, issuer.token("8c1f-44")).json()["principal"] == "ana"
        assert shown(house, issuer.token("cat")).json()["principal"] == "ben"
        got = [shown(house, issuer.token(sub)).status_code for sub in ("ana", "ben", "x", "")]
        assert got == [401] * 4


@pytest.mark.parametrize(
    ("scope", "may"),
    [
        (None, {"ask", "quote", "read"}),
        ("openid email", {"ask", "quote", "read"}),
        ("openid defray:read", {"read"}),
        ("defray:quote defray:read openid", {"quote", "read"}),
        (["defray:quote"], {"quote"}),
        ("defray:read defray:curate", {"read"}),
        ("defray:curate", set()),
        ("defray:everything", set()),
        ("defray:", set()),
    ],
)
def test_a_token_may_be_cut_down_to_scopes(house: House, issuer: Issuer, scope: Any, may: set[str]):
    token = issuer.token("ana") if scope is None else issuer.token("ana", scope=scope)
    assert set(shown(house, token).json()["scopes"]) == may
    assert house.get("bearer", "/contract").status_code == (200 if "read" in may else 403)
    assert house.get("bearer", "/audit").status_code == 403
    assert house.ask("bearer").status_code == (200 if "ask" in may else 403)


def test_of_a_curator_a_scope_is_the_curators(house: House, issuer: Issuer):
    assert set(shown(house, issuer.token("cat")).json()["scopes"]) == SCOPES["curator"]
    shown(house, issuer.token("cat", scope="defray:curate"))
    assert house.get("bearer", "/audit").status_code == 200
    assert house.get("bearer", "/history").status_code == 403


def test_who_is_suspended_is_out_at_once_and_nobody_is_let_in_by_a_token(
    house: House, issuer: Issuer
):
    before = house.access.analysts()
    token = issuer.token("dan")
    assert shown(house, token).status_code == 401
    assert house.access.analysts() == before
    house.access.add("dan")
    assert shown(house, token).status_code == 200
    for _ in range(3):  # said again, as long as dan may
        assert house.ask("bearer", within=1000).status_code in (200, 409)
    house.access.suspend("dan")
    assert shown(house, token).status_code == 401
    house.access.resume("dan")
    assert shown(house, token).status_code == 200


def test_what_is_said_again_is_said_to_who_may_hear_it(house: House, issuer: Issuer):
    house.tokens["bearer"] = issuer.token("ana")
    answers = [house.ask("bearer").json() for _ in range(3)]
    assert answers[1]["charged_rho"] == 0
    assert answers[1] == answers[2] == house.ask("ana").json()
    fetched = len(issuer.asked)
    house.access.suspend("ana")
    assert [house.ask("bearer").status_code for _ in range(2)] == [401, 401]
    house.access.resume("ana")
    house.tokens["bearer"] = issuer.token("ana", scope="defray:read")
    assert house.ask("bearer").status_code == 403
    house.tokens["bearer"] = issuer.token("ana", lasting=-60)
    assert house.ask("bearer").status_code == 401
    assert len(issuer.asked) == fetched


def test_the_pages_and_the_ledger_know_tokens_of_defray_alone(house: House, issuer: Issuer):
    token = issuer.token("ana")
    assert shown(house, token).status_code == 200
    grant = house.access.vouched("ana")
    assert grant is not None and grant.token_id is None
    with pytest.raises(Unauthorized):
        house.access.again(grant)
    assert Visitor(house).sign_in(token).status_code == 401
    # a curator may rotate ana's tokens, and what was vouched for elsewhere works on
    house.tokens["curator"] = issuer.token("cat")
    rotated = house.send("curator", "POST", "/analysts/ana/tokens", {"rotate": True})
    assert rotated.status_code == 201
    assert house.get("ana", "/me").status_code == 401
    assert shown(house, token).status_code == 200


# -- time -------------------------------------------------------------------------------------------


def test_a_token_that_was_verified_works_until_it_expires(tmp_path: Path, issuer: Issuer):
    clock, provider = Clock(time.time()), issuer.provider(leeway=2)
    with at(tmp_path, Verifier(provider, Keys(provider), clock)) as house:
        token = issuer.token(lasting=100)
        for passed, status in ((0, 200), (101, 200), (103, 401), (101, 200), (-3, 401)):
            clock.now = json.loads(_body(token))["iat"] + passed
            assert shown(house, token).status_code == status, passed
        assert len(issuer.asked) == 2


def _body(token: str) -> bytes:
    body = token.split(".")[1]
    return base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))


def test_nothing_of_a_token_is_logged(house: House, issuer: Issuer, written: io.StringIO):
    shown(house, issuer.token("ana", name="Ana Smith", jti="id-77", scope="defray:read secret"))
    shown(house, issuer.token("stranger", name="Eve Adams"))
    house.ask("bearer")
    text = written.getvalue()
    for private in ("Smith", "Adams", "stranger", "id-77", "secret", "eyJ", issuer.url):
        assert private not in text
    assert '"principal": "ana"' in text
