"""A served contract in a process of its own, and the clients that load it: raw connections, so that what is
measured is the server."""

from __future__ import annotations

import json
import random
import re
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import duckdb

from defray.access import Access
from defray.config.opening import open_ledger
from defray.config.reader import read_contract

SHARES = {"ana": 0.3, "ben": 0.3, "cem": 0.3, "dan": 0.001}
"""The last one's runs out on the way."""

CLIENTS = 32
ROWS = 20_000
WITHIN = 200
PATIENCE = 60.0
"""Seconds for which a request is sent again before the run is given up."""

CONTRACT = """version = 1
table = "people"
rho = 1
support = "{support}"

[source]
kind = "parquet"
path = "people.parquet"

[columns.age]
type = "integer"
min = 0
max = 120

[columns.sex]
type = "string"
values = ["F", "M"]
"""
PEOPLE = """COPY (SELECT (i * 7919) % 91 AS age, CASE WHEN i % 2 = 0 THEN 'F' ELSE 'M' END AS sex
    FROM range({rows}) t(i)) TO '{path}'"""
LIMITS = """[server]
asks_per_second = 1e6
asks_burst = 1000000
reads_per_second = 1e6
reads_burst = 1000000
reads_at_once = 1000
asks_at_once = 1000
"""


def prepared(folder: Path, support: str = "exact", ledger: str = "") -> tuple[Path, dict[str, str]]:
    """A contract over made-up people, and a token for each analyst; ``ledger`` is its table of that name."""
    duckdb.sql(PEOPLE.format(rows=ROWS, path=folder / "people.parquet"))
    (folder / "server.toml").write_text(LIMITS)
    contract = folder / "contract.toml"
    contract.write_text(CONTRACT.format(support=support) + ledger)
    tokens = {}
    opened = open_ledger(read_contract(contract))
    access = Access(opened)
    for name, share in SHARES.items():
        access.add(name, share=share)
        tokens[name], _ = access.issue(name)
    opened.close()
    return contract, tokens


class Served:
    """``defray serve`` on one port, which can be killed and started again."""

    def __init__(self, contract: Path) -> None:
        self._contract = contract
        self.port = 0
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        folder = self._contract.parent
        with open(folder / "server.log", "a") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "defray", "serve", "-c", str(self._contract)),
                    *("--port", str(self.port), "--limits", str(folder / "server.toml")),
                ],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/", said)
        if found is None:
            raise RuntimeError(f"the server did not start: {said} (see {folder / 'server.log'})")
        self.port = int(found[1])

    def kill(self) -> None:
        """SIGKILL: nothing is tidied up."""
        assert self._process is not None
        self._process.kill()
        self._process.communicate()

    @contextmanager
    def running(self) -> Iterator[None]:
        self.start()
        try:
            yield
        finally:
            self.kill()


Kind = Literal["fresh", "repeat", "quote"]
KINDS: Sequence[Kind] = ("fresh", "repeat", "quote")


@dataclass(frozen=True, slots=True)
class Request:
    """What one analyst sends; an ask has a key, the same each time it is sent."""

    kind: Kind
    who: str
    sql: str
    key: str = ""

    def bytes(self, token: str) -> bytes:
        body = json.dumps({"sql": self.sql, "within": WITHIN})
        path = "quote" if self.kind == "quote" else "ask"
        key = f"Idempotency-Key: {self.key}\r\n" if self.key else ""
        return (
            f"POST /v1/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
            f"{key}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
        ).encode()


class Client:
    """One connection, kept open and opened again: with the next server where there are several, as a balancer
    would."""

    def __init__(self, servers: Sequence[Served], first: int = 0) -> None:
        self._servers, self._at = servers, first
        self._socket: socket.socket | None = None

    def send(self, sent: bytes) -> tuple[int, bytes]:
        """The status and the body.  OSError where the connection breaks."""
        try:
            if self._socket is None:
                port = self._servers[self._at % len(self._servers)].port
                self._socket = socket.create_connection(("127.0.0.1", port), 30)
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.sendall(sent)
            return self._received(self._socket)
        except OSError:
            self.close()
            self._at += 1
            raise

    def _received(self, connection: socket.socket) -> tuple[int, bytes]:
        got = b""
        while b"\r\n\r\n" not in got:
            got += _some(connection)
        head, _, body = got.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        while len(body) < length:
            body += _some(connection)
        return int(head[9:12]), body

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _some(connection: socket.socket) -> bytes:
    got = connection.recv(65536)
    if not got:
        raise ConnectionResetError("the server is gone")
    return got


@dataclass
class Tally:
    """What all clients saw.  ``answers`` are those of asks, by key, with what was asked, as they came;
    ``seconds`` how long the request took that was answered, ``whole`` with those that broke off before."""

    statuses: Counter[tuple[Kind, int]] = field(default_factory=Counter)
    retries: int = 0
    seconds: dict[Kind, list[float]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    whole: dict[Kind, list[float]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    answers: dict[str, tuple[Request, bytes]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    elapsed: float = 0.0

    @property
    def done(self) -> int:
        return sum(self.statuses.values())

    @property
    def documents(self) -> dict[str, tuple[Request, dict[str, Any]]]:
        """The answers, read."""
        return {key: (asked, json.loads(body)) for key, (asked, body) in self.answers.items()}


def questions(seed: int) -> Iterator[str]:
    """Different questions, each once."""
    whole = [
        f"SELECT COUNT(*) FROM people WHERE age BETWEEN {low} AND {high}{sex}"
        for low in range(121)
        for high in range(low, 121)
        for sex in ("", " AND sex = 'F'", " AND sex = 'M'")
    ]
    random.Random(seed).shuffle(whole)
    return iter(whole)


def mixed(count: int, tally: Tally, seed: int = 1) -> Iterator[Request]:
    """Of ten requests five are repeats of what was answered, three are quotes, two are fresh."""
    chance, fresh = random.Random(seed), questions(seed)
    names = list(SHARES)
    answered: Sequence[tuple[Request, Any]] = ()
    for at in range(count):
        kind = chance.choices(KINDS, (2, 5, 3))[0]
        who = chance.choice(names)
        if at % 100 == 0:
            answered = [*tally.answers.values()]
        if kind == "fresh" or not answered:
            yield Request("fresh", who, next(fresh), f"key-{seed}-{at}")
            continue
        asked = chance.choice(answered)[0]
        yield Request(kind, who, asked.sql, f"key-{seed}-{at}" if kind == "repeat" else "")


def load(
    servers: Sequence[Served],
    tokens: Mapping[str, str],
    requests: Callable[[Tally], Iterator[Request]],
    clients: int = CLIENTS,
    pause: float = 0.0,
) -> Tally:
    """Send requests from so many threads at once, each until it is answered, and resting ``pause`` seconds
    on average before its next.  They begin with one server each, in turn."""
    tally, lock, chance = Tally(), threading.Lock(), random.Random(3)
    coming = requests(tally)

    def work(first: int) -> None:
        client = Client(servers, first)
        while True:
            if pause:
                time.sleep(chance.expovariate(1 / pause))
            with lock:
                request = None if tally.failed else next(coming, None)
            if request is None:
                client.close()
                return
            one(client, request)

    def one(client: Client, request: Request) -> None:
        sent, began, retries = request.bytes(tokens[request.who]), time.perf_counter(), 0
        while True:
            started = time.perf_counter()
            try:
                status, body = client.send(sent)
            except OSError:
                status, body = 0, b""
            if status in (200, 409, 422):
                break
            retries += 1
            if time.perf_counter() - began > PATIENCE:
                with lock:
                    tally.failed.append(f"{status} {body.decode()} for {request}")
                return
            time.sleep(0.05)
        with lock:
            tally.statuses[request.kind, status] += 1
            tally.retries += retries
            now = time.perf_counter()
            tally.seconds[request.kind].append(now - started)
            tally.whole[request.kind].append(now - began)
            if request.key and status == 200:
                tally.answers[request.key] = request, body

    began = time.perf_counter()
    threads = [threading.Thread(target=work, args=(i,)) for i in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tally.elapsed = time.perf_counter() - began
    return tally
