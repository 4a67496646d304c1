"""The file of a server's settings, and every mistake in it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from defray.errors import BadInput, MissingExtra
from defray.service.authenticator import verifier_of
from defray.service.limits import Limits
from defray.service.oidc.provider import ALGORITHMS, USUAL, Provider
from defray.service.settings import Settings

OIDC = """
[oidc]
issuer = "https://login.example.org/realms/research"
audience = "defray"
"""


def read(folder: Path, text: str) -> Settings:
    file = folder / "server.toml"
    file.write_text(text)
    return Settings.read(file)


def test_limits_are_read_from_a_file(tmp_path: Path):
    settings = read(tmp_path, "[server]\nscans = 2\nask_seconds = 1.5\n")
    assert settings == Settings(Limits(scans=2, ask_seconds=1.5), None)


def test_what_is_left_out_is_as_it_is_by_default(tmp_path: Path):
    assert read(tmp_path, "# nothing yet") == Settings() == Settings(Limits(), None)
    found = read(tmp_path, OIDC).oidc
    assert found == Provider("https://login.example.org/realms/research", "defray")
    assert (found.claim, found.principals, found.algorithms) == ("sub", None, USUAL)


def test_an_issuer_is_read_from_a_file(tmp_path: Path):
    text = (
        OIDC
        + """
claim = "email"
algorithms = ["ES256"]
leeway = 0
[oidc.principals]
"Ana.Smith@example.org" = "ana"
[server]
scans = 3
"""
    )
    settings = read(tmp_path, text)
    assert settings.limits.scans == 3
    assert settings.oidc == Provider(
        "https://login.example.org/realms/research",
        "defray",
        "email",
        {"Ana.Smith@example.org": "ana"},
        ["ES256"],
        0,
    )


@pytest.mark.parametrize(
    ("issuer", "place"),
    [
        ("https://a.example", "https://a.example/.well-known/openid-configuration"),
        ("https://a.example/", "https://a.example/.well-known/openid-configuration"),
        ("https://a.example:444/r/x", "https://a.example:444/r/x/.well-known/openid-configuration"),
        ("http://localhost:8080/r", "http://localhost:8080/r/.well-known/openid-configuration"),
    ],
)
def test_where_an_issuer_describes_itself(issuer: str, place: str):
    assert Provider(issuer, "defray").discovery == place


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("scans = 2", "[server]"),
        ("server = 2", "[server]"),
        ("[oidcc]", "oidcc is none"),
        ("[server]\nscan = 2", "did you mean scans?"),
        ("[server]\nscans = 0", "above 0"),
        ("[server]\nscans = 1.5", "whole number"),
        ("[server]\nscans = true", "whole number"),
        ("[server]\nask_seconds = inf", "above 0"),
        ("[server]\nask_seconds = '5'", "number"),
        ("[server", "cannot read"),
        ("[oidc]", "there is no issuer"),
        ("[oidc]\nissuer = 'https://a.example'", "there is no audience"),
        (OIDC + "audiance = 'x'", "did you mean audience?"),
        (OIDC + "secret = 'x'", "there are issuer, audience, claim"),
        ("[oidc]\nissuer = 'http://a.example'\naudience = 'x'", "https://HOST"),
        ("[oidc]\nissuer = 'https://a.example?x=1'\naudience = 'x'", "https://HOST"),
        ("[oidc]\nissuer = 'https://u:p@a.example'\naudience = 'x'", "https://HOST"),
        ("[oidc]\nissuer = 'https://a.example:99999'\naudience = 'x'", "https://HOST"),
        ("[oidc]\nissuer = 'https://'\naudience = 'x'", "https://HOST"),
        ("[oidc]\nissuer = 'login'\naudience = 'x'", "https://HOST"),
        ("[oidc]\nissuer = ''\naudience = 'x'", "issuer of [oidc] must be a text"),
        ("[oidc]\nissuer = 'https://a.example'\naudience = ['x']", "audience of [oidc]"),
        (OIDC + "claim = 5", "claim of [oidc]"),
        (OIDC + "algorithms = ['none']", "'none' is no algorithm"),
        (OIDC + "algorithms = ['ES256', 'HS256']", "'HS256' is no algorithm"),
        (OIDC + "algorithms = []", "[] is no algorithm"),
        (OIDC + "algorithms = 'ES256'", "is no algorithm"),
        (OIDC + "algorithms = [['ES256']]", "is no algorithm"),
        (OIDC + "leeway = 61", "from 0 to 60 seconds"),
        (OIDC + "leeway = -1", "from 0 to 60 seconds"),
        (OIDC + "leeway = nan", "from 0 to 60 seconds"),
        (OIDC + "leeway = true", "from 0 to 60 seconds"),
        (OIDC + "principals = ['ana']", "must be a table"),
        (OIDC + "principals = { x = 'Ana Smith' }", "no name of a principal"),
        (OIDC + "principals = { x = 5 }", "no name of a principal"),
    ],
)
def test_mistakes_of_that_file_are_named(tmp_path: Path, text: str, told: str):
    with pytest.raises(BadInput) as caught:
        read(tmp_path, text)
    assert told in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path):
    with pytest.raises(BadInput, match="cannot read"):
        Settings.read(tmp_path / "none.toml")


def test_no_secret_makes_a_signature_that_is_taken():
    assert not [name for name in ALGORITHMS if name.startswith("HS") or name == "none"]


@pytest.mark.parametrize("package", ["jwt", "cryptography.hazmat.primitives.asymmetric.rsa"])
def test_without_its_packages_it_says_what_to_install(
    package: str, monkeypatch: pytest.MonkeyPatch
):
    for module in ("keys", "tokens"):
        monkeypatch.delitem(sys.modules, f"defray.service.oidc.{module}", raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra) as caught:
        verifier_of(Provider("https://a.example", "defray"))
    assert "pip install 'defray[oidc]'" in str(caught.value)
