"""The keys of an issuer: when they are fetched, how often at most, and what becomes of trouble."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from defray.errors import Unreachable
from defray.service import logs
from defray.service.oidc import keys
from defray.service.oidc.keys import FRESH, PAUSE, USABLE, Keys, fetch
from tests.service.conftest import EASY, House
from tests.service.issuer import DISCOVERY, JWKS, Issuer, segment
from tests.tables import people


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer().up() as up:
        up.publish("one")
        yield up


@contextmanager
def at(folder: Path, issuer: Issuer, clock: Clock) -> Iterator[House]:
    with people(folder, "rho = 1", 200) as session:
        house = House(session, EASY, issuer.verifier(clock))
        with house.client:
            yield house


@pytest.fixture
def house(tmp_path: Path, issuer: Issuer, clock: Clock) -> Iterator[House]:
    with at(tmp_path, issuer, clock) as opened:
        yield opened


def shown(house: House, token: str) -> int:
    house.tokens["bearer"] = token
    return int(house.get("bearer", "/me").status_code)


def made_up(number: int) -> str:
    head = segment({"alg": "ES256", "kid": f"made-up-{number}"})
    return f"{head}.{segment({'sub': 'ana'})}.{segment(b'x' * 64)}"


def test_they_are_fetched_when_first_needed_and_then_kept(house: House, issuer: Issuer):
    assert issuer.asked == []
    assert shown(house, "no.token") == 401
    assert shown(house, f"{segment({'alg': 'HS256'})}.{segment({})}.{segment(b'x')}") == 401
    assert issuer.asked == []  # the issuer is not asked about what has not even the form
    assert {shown(house, issuer.token(jti=str(n))) for n in range(5)} == {200}
    assert issuer.asked == [DISCOVERY, JWKS]


def test_made_up_keys_do_not_make_the_server_hammer_the_issuer(
    house: House, issuer: Issuer, clock: Clock
):
    assert {shown(house, made_up(n)) for n in range(50)} == {401}
    assert len(issuer.asked) == 2
    for minute in range(3):
        for n in range(60):
            clock.now += 1
            assert shown(house, made_up(1000 * minute + n)) == 401
    assert len(issuer.asked) <= 2 * (1 + 180 / PAUSE)
    assert shown(house, issuer.token()) == 200


def test_a_new_key_is_taken_and_one_that_was_withdrawn_is_not(
    house: House, issuer: Issuer, clock: Clock
):
    old = issuer.token(kid="one")
    assert shown(house, old) == 200
    issuer.publish("two", "EdDSA")
    new = issuer.token(kid="two")
    assert shown(house, new) == 401  # the issuer was asked a moment ago
    clock.now += PAUSE
    assert (shown(house, new), shown(house, old)) == (200, 200)
    issuer.withdraw("one")
    clock.now += FRESH + 1
    assert (shown(house, new), shown(house, old)) == (200, 401)  # though it was verified before


def test_an_issuer_that_is_down_at_first(tmp_path: Path, clock: Clock, logging_kept: None):
    stream = io.StringIO()
    logs.to(stream)
    issuer = Issuer()
    issuer.publish("one")
    with issuer.up():
        pass  # it has a port now, and nobody answers there
    with at(tmp_path, issuer, clock) as house:
        token = issuer.token()
        house.tokens["bearer"] = token
        for _ in range(3):
            got = house.get("bearer", "/me")
            problem = got.json()
            assert (got.status_code, problem["code"]) == (503, "unreachable")
            assert 1 <= int(got.headers["retry-after"]) <= PAUSE
            assert "operator" in problem["detail"]
            assert str(issuer.port) not in got.text and "refused" not in got.text
        assert house.ask("bearer").status_code == 503
        assert house.get("ana", "/me").status_code == 200  # tokens of Defray need no issuer
        told = [json.loads(line) for line in stream.getvalue().splitlines()]
        troubles = [line for line in told if line["event"] == "issuer"]
        assert len(troubles) == 1 and troubles[0]["level"] == "warning"
        assert f"{issuer.url}{DISCOVERY}: Connection refused" in troubles[0]["reason"]
        with issuer.up():
            assert shown(house, token) == 503  # asked a moment ago
            clock.now += PAUSE
            assert shown(house, token) == 200


def test_without_the_issuer_its_keys_are_relied_on_for_an_hour_and_no_longer(
    tmp_path: Path, clock: Clock
):
    issuer = Issuer()
    issuer.publish("one")
    with issuer.up():
        pass
    with at(tmp_path, issuer, clock) as house:
        with issuer.up():
            token = issuer.token()
            assert shown(house, token) == 200
        for passed, status in ((FRESH + 1, 200), (USABLE, 200), (USABLE + 1, 503)):
            clock.now = 1000 + passed
            assert shown(house, token) == status
        with issuer.up():
            clock.now += PAUSE
            assert shown(house, token) == 200


def test_many_at_once_ask_the_issuer_once_and_nobody_else_waits(
    tmp_path: Path, issuer: Issuer, clock: Clock
):
    keeping, asked = threading.Event(), threading.Event()

    def held_up() -> None:
        asked.set()
        keeping.wait(30)

    issuer.before = held_up
    kept = Keys(issuer.provider(), clock)

    async def at_once() -> list[Any]:
        waiting = [asyncio.create_task(kept.current()) for _ in range(100)]
        while not asked.is_set():
            await asyncio.sleep(0.001)  # and the loop goes on meanwhile
        keeping.set()
        return await asyncio.gather(*waiting)

    got = asyncio.run(at_once())
    assert len({found.version for found in got}) == 1
    assert issuer.asked == [DISCOVERY, JWKS]


def test_who_has_keys_does_not_wait_for_newer_ones(issuer: Issuer, clock: Clock):
    keeping, asked = threading.Event(), threading.Event()
    kept = Keys(issuer.provider(), clock)

    async def meanwhile() -> tuple[Any, Any, Any]:
        first = await kept.current()
        clock.now += FRESH + 1
        issuer.publish("two")
        issuer.before = lambda: (asked.set(), keeping.wait(30))
        waits = asyncio.create_task(kept.current())
        while not asked.is_set():
            await asyncio.sleep(0.001)
        second = await kept.current()
        keeping.set()
        return first, second, await waits

    first, second, third = asyncio.run(meanwhile())
    assert first is second
    assert len(third.keys) == 2


def test_an_issuer_that_does_not_answer_is_not_waited_for_for_long(
    issuer: Issuer, clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    keeping = threading.Event()
    issuer.before = lambda: keeping.wait(30)
    try:
        for name in ("TIMEOUT", "PATIENCE"):
            with monkeypatch.context() as patched:
                patched.setattr(keys, name, 0.05)
                with pytest.raises(Unreachable, match="no answer in time"):
                    asyncio.run(Keys(issuer.provider(), clock).current())
    finally:
        keeping.set()


@pytest.mark.parametrize(
    ("path", "answer", "why"),
    [
        (DISCOVERY, (404, b""), "HTTP 404"),
        (DISCOVERY, (302, b""), "HTTP 302"),
        (DISCOVERY, (200, b"<html>"), "something else than a JSON object"),
        (DISCOVERY, (200, b"[" * 100_000), "something else than a JSON object"),
        (DISCOVERY, (200, b"[]"), "something else than a JSON object"),
        (DISCOVERY, (200, b"{}"), "it names another issuer, None"),
        (JWKS, (200, b'{"keys": []}'), "no key there"),
        (JWKS, (200, b'{"keys": 5}'), "no key there"),
        (JWKS, (200, b"{}"), "no key there"),
        (JWKS, (500, b'{"keys": []}'), "HTTP 500"),
        (JWKS, (200, b" " * (keys.MOST_BYTES + 1)), "more than 262,144 bytes"),
    ],
)
def test_what_an_issuer_may_not_say(issuer: Issuer, path: str, answer: tuple[int, bytes], why: str):
    issuer.answers[path] = answer
    with pytest.raises(Unreachable, match=why) as caught:
        fetch(issuer.provider())
    assert path in str(caught.value)


@pytest.mark.parametrize(
    ("described", "why"),
    [
        ({"issuer": "https://elsewhere.example"}, "another issuer"),
        ({"jwks_uri": "http://elsewhere.example/keys"}, "no address by https"),
        ({"jwks_uri": "file:///etc/passwd"}, "no address by https"),
        ({"jwks_uri": None}, "no address by https"),
        ({"jwks_uri": "https://a b/"}, "no address by https"),
    ],
)
def test_what_an_issuer_may_not_name(issuer: Issuer, described: dict[str, Any], why: str):
    issuer.described = described
    with pytest.raises(Unreachable, match=why):
        fetch(issuer.provider())
    assert JWKS not in issuer.asked


def test_a_server_whose_certificate_nobody_vouches_for_is_not_believed(
    tmp_path: Path, issuer: Issuer
):
    with secured(issuer, tmp_path) as port:
        issuer.described = {"jwks_uri": f"https://localhost:{port}{JWKS}"}
        with pytest.raises(Unreachable, match="certificate is not trusted"):
            fetch(issuer.provider())
    assert JWKS not in issuer.asked


@contextmanager
def secured(issuer: Issuer, folder: Path) -> Iterator[int]:
    """The issuer by TLS as well, with a certificate it made for itself."""
    import datetime as dt
    import ssl

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization

    from tests.service.issuer import private_key

    private, now = private_key("ES256"), dt.datetime.now(dt.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    made = (
        x509.CertificateBuilder(name, name, private.public_key(), 1, now, now + dt.timedelta(1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(private, hashes.SHA256())
    )
    pem = folder / "server.pem"
    kind = serialization.PrivateFormat.PKCS8
    pem.write_bytes(
        made.public_bytes(serialization.Encoding.PEM)
        + private.private_bytes(serialization.Encoding.PEM, kind, serialization.NoEncryption())
    )
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pem)
    other = Issuer(jwks=issuer.jwks)
    with other.up(tls):
        yield other.port
