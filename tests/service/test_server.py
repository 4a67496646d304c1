"""A server in a process of its own: over a socket, stopped gently, and killed at the worst moment."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from defray.access import Access
from defray.errors import BadInput
from defray.service import run
from defray.service.app import build
from tests.service.conftest import COUNT
from tests.tables import open_session, write_contract, write_people


@dataclass
class Running:
    """A server's process, its address and its tokens."""

    process: subprocess.Popen[str]
    url: str
    tokens: dict[str, str]
    http: httpx.Client = field(default_factory=lambda: httpx.Client(timeout=60))

    def ask(self, who: str = "ana", sql: str = COUNT, **headers: str) -> httpx.Response:
        return self.http.post(
            f"{self.url}/v1/ask",
            json={"sql": sql, "within": 50},
            headers={"Authorization": f"Bearer {self.tokens[who]}", **headers},
        )

    def said(self) -> dict[str, Any]:
        """The next line that it says."""
        assert self.process.stdout is not None
        line: dict[str, Any] = json.loads(self.process.stdout.readline())
        return line

    def stop(self, how: signal.Signals = signal.SIGTERM) -> tuple[int, list[dict[str, Any]]]:
        """Its exit code, and all that it logged."""
        self.process.send_signal(how)
        _, errors = self.process.communicate(timeout=60)
        return self.process.returncode, [json.loads(line) for line in errors.splitlines()]


@contextmanager
def running(contract: Path, **options: Any) -> Iterator[Running]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.service.server", str(contract), json.dumps(options)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        server = Running(process, "", {})
        said = server.said()
        server.url, server.tokens = said["url"], said["tokens"]
        yield server
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    write_people(tmp_path, 2_000)
    return write_contract(tmp_path)


@pytest.mark.parametrize(
    "how", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_stopping_lets_asks_at_work_end(contract: Path, how: signal.Signals):
    with running(contract, slow=0.7) as server, ThreadPoolExecutor() as pool:
        asked = pool.submit(server.ask)
        while "defray_asks_running 1.0" not in metrics(server):
            pass
        code, logged = server.stop(how)
        assert asked.result().status_code == 200
    assert code == 0
    events = [line["event"] for line in logged]
    assert (events[0], events[-1]) == ("started", "stopped")
    assert {line["event"] for line in logged} == {
        "started",
        "request",
        "stopping",
        "ask",
        "stopped",
    }
    with pytest.raises(httpx.ConnectError):
        server.ask()


@pytest.mark.slow
def test_what_outlasts_the_grace_time_is_cancelled_and_told(contract: Path):
    limits = {"grace_seconds": 0.2}
    with running(contract, slow=1.2, limits=limits) as server, ThreadPoolExecutor() as pool:
        asked = pool.submit(server.ask)
        while "defray_asks_running 1.0" not in metrics(server):
            pass
        code, _ = server.stop()
        assert (asked.result().status_code, asked.result().json()["code"]) == (409, "cancelled")
    assert code == 0
    with open_session(contract) as session:
        assert session.balance()["spent_rho"] == 0


@pytest.mark.slow
def test_what_is_being_written_outlasts_the_server_and_is_told_again(contract: Path):
    limits = {"grace_seconds": 0.2}
    key = {"Idempotency-Key": "monday"}
    with running(contract, linger=8, limits=limits) as server, ThreadPoolExecutor() as pool:
        asked = pool.submit(server.ask, **key)
        assert server.said() == {"committed": True}
        code, logged = server.stop()
        told = asked.result()
    assert code == 0
    assert (told.status_code, told.json()["code"]) == (429, "throttled")
    assert told.headers["content-type"] == "application/problem+json"
    assert int(told.headers["retry-after"]) > 0
    assert {line["event"] for line in logged}.isdisjoint({"fault", "incident"})
    with running(contract) as server:
        again = server.ask(**key).json()
        assert again["charged_rho"] > 0
    with open_session(contract) as session:
        assert session.balance()["spent_rho"] == pytest.approx(again["charged_rho"])


@pytest.mark.long
@pytest.mark.crash
def test_killed_between_commit_and_response_an_ask_is_paid_once(contract: Path):
    key = {"Idempotency-Key": "once"}
    with running(contract, linger=60) as server, ThreadPoolExecutor() as pool:
        asked = pool.submit(server.ask, **key)
        assert server.said() == {"committed": True}
        server.process.kill()
        with pytest.raises(httpx.TransportError):
            asked.result()
    with open_session(contract) as session:
        (paid,) = session.history(refresh=True)
        spent = session.balance()["spent_rho"]
        assert session.audit().ok
    assert spent == paid["charged_rho"] > 0
    with running(contract) as server:
        again = server.ask(**key)
        assert again.json()["rows"][0]["value"] == paid["rows"][0]["then"]["value"]
        assert server.ask(**key).json() == again.json()
        server.stop()
    with open_session(contract) as session:
        assert session.balance()["spent_rho"] == spent


def test_a_port_that_is_taken_is_told():
    with run._bound("127.0.0.1", 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(BadInput, match=f"port {port}"):
            run._bound("127.0.0.1", port)
    with pytest.raises(BadInput, match=r"no\.such\.host"):
        run._bound("no.such.host.invalid", 0)


def test_a_port_that_another_server_listens_on_sooner_is_told(contract: Path):
    with open_session(contract) as session, run._bound("127.0.0.1", 0) as other:
        port = other.getsockname()[1]
        app = build(session, Access(session._engine.ledger))
        with pytest.raises(BadInput, match=f"port {port}"):
            run.serve(app, "127.0.0.1", port, lambda _: None, other.listen)


def metrics(server: Running) -> str:
    headers = {"Authorization": f"Bearer {server.tokens['cat']}"}
    return server.http.get(f"{server.url}/v1/metrics", headers=headers).text
