"""``defray serve``: the contract of a file, over HTTP."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import httpx2 as httpx
import pytest

import defray
from defray.cli import main
from tests.service.issuer import Issuer
from tests.tables import write_contract, write_people


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    write_people(tmp_path, 100)
    return write_contract(tmp_path)


def test_a_contract_is_served_until_it_is_stopped(
    contract: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["analyst", "add", "cat", "--role", "curator", "-c", str(contract), "--json"]) == 0
    token = json.loads(capsys.readouterr().out)["token"]["text"]
    command = [sys.executable, "-m", "defray", "serve", str(contract), "--port", "0", "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        try:
            url = json.loads("".join(iter(server.stdout.readline, "}\n")) + "}")["url"]
            headers = {"Authorization": f"Bearer {token}"}
            assert url.startswith("http://127.0.0.1:")
            assert httpx.get(f"{url}/v1/health").json()["status"] == "ok"
            terms = httpx.get(f"{url}/v1/contract", headers=headers).json()
            assert (terms["table"], terms["rho"]) == ("people", 1)
            assert httpx.get(f"{url}/v1/audit", headers=headers).json()["ok"]
            server.send_signal(signal.SIGTERM)
            _, logged = server.communicate(timeout=60)
        finally:
            server.kill()
    assert server.returncode == 0
    events = [json.loads(line)["event"] for line in logged.splitlines()]
    assert events == ["started", "request", "request", "request", "stopping", "stopped"]
    assert token not in logged


def test_tokens_of_an_issuer_are_taken_where_the_settings_name_it(
    contract: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["analyst", "add", "ana", "--share", "0.5", "-c", str(contract), "--json"]) == 0
    own = json.loads(capsys.readouterr().out)["token"]["text"]
    settings = contract.parent / "server.toml"
    with Issuer().up() as issuer:
        issuer.publish("one", "RS256")
        settings.write_text(
            f'[server]\nscans = 2\n\n[oidc]\nissuer = "{issuer.url}"\naudience = "defray"\n'
            'claim = "preferred_username"\nprincipals = { "a.smith" = "ana" }\n'
        )
        token = issuer.token("8c1f", preferred_username="a.smith", scope="openid profile")
        command = [sys.executable, "-m", "defray", "serve", str(contract), "--port", "0", "--json"]
        with subprocess.Popen(
            [*command, "--limits", str(settings)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as server:
            assert server.stdout is not None
            try:
                url = json.loads("".join(iter(server.stdout.readline, "}\n")) + "}")["url"]
                body = {"sql": "SELECT COUNT(*) FROM people", "within": 50}
                got = [
                    httpx.post(f"{url}/v1/ask", json=body, headers={"Authorization": f"Bearer {t}"})
                    for t in (token, own, token, token + "A")
                ]
                with defray.connect(url, lambda: token) as client:
                    me, asked = client.me(), client.history()
                server.send_signal(signal.SIGTERM)
                _, logged = server.communicate(timeout=60)
            finally:
                server.kill()
    assert [answer.status_code for answer in got] == [200, 200, 200, 401]
    assert [answer.json()["charged_rho"] > 0 for answer in got[:3]] == [True, False, False]
    assert (me["principal"], me["share"], len(asked)) == ("ana", 0.5, 1)
    assert server.returncode == 0
    assert not [word for word in (token, "a.smith", "8c1f", "eyJ") if word in logged]
    assert "no signed JWT" not in logged and "its signature is wrong" in logged


def test_without_its_packages_it_says_what_to_install(
    contract: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    settings = contract.parent / "server.toml"
    settings.write_text('[oidc]\nissuer = "https://a.example"\naudience = "defray"\n')
    for module in ("keys", "tokens"):
        monkeypatch.delitem(sys.modules, f"defray.service.oidc.{module}", raising=False)
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "jwt", None)
        assert main(["serve", str(contract), "--limits", str(settings)]) == 6
    assert "pip install 'defray[oidc]'" in capsys.readouterr().err
    monkeypatch.delattr("defray.service.run", raising=False)
    monkeypatch.setitem(sys.modules, "defray.service.run", None)
    assert main(["serve", str(contract)]) == 6
    assert "pip install 'defray[server]'" in capsys.readouterr().err


@pytest.mark.parametrize("package", ["fastapi", "uvicorn", "starlette", "jinja2"])
def test_without_one_of_its_packages_a_new_process_says_what_to_install(
    contract: Path, package: str
):
    program = (
        f"import sys; sys.modules[{package!r}] = None; from defray.cli import main; "
        "sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", program, "serve", str(contract), "--port", "0"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (told.returncode, told.stdout) == (6, "")
    assert "pip install 'defray[server]'" in told.stderr


@pytest.mark.usefixtures("logging_kept")
def test_mistakes_are_told_before_anything_is_served(
    contract: Path, capsys: pytest.CaptureFixture[str]
):
    limits = contract.parent / "server.toml"
    limits.write_text("[server]\nscan = 2\n")
    assert main(["serve", str(contract), "--limits", str(limits)]) == 2
    assert "did you mean scans?" in capsys.readouterr().err
    assert main(["serve", str(contract.parent / "none.toml")]) == 2
    assert main(["serve", str(contract), "--host", "no.such.host.invalid"]) == 2
    told = capsys.readouterr().err
    assert "cannot listen on no.such.host.invalid" in told
    assert "unless a proxy in front speaks TLS" in told
    assert "nobody may ask yet" in told
