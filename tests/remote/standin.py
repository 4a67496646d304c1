"""A small service that speaks the HTTP API over a real contract, and misbehaves where a test tells it to."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from defray.core.canonical import canonical
from defray.errors import (
    BadInput,
    Cancelled,
    DataError,
    DefrayError,
    LedgerError,
    NotFound,
    Refused,
)
from defray.session import Session

TOKEN = "dfy_" + "x" * 43
STATUS = (
    (NotFound, 404), (BadInput, 422), (Refused, 409), (Cancelled, 409), (DataError, 503),
    (LedgerError, 503),
)  # fmt: skip

Trouble = Callable[[BaseHTTPRequestHandler], None]
"""What befalls one request in place of its answer."""


@dataclass
class Job:
    stop: threading.Event = field(default_factory=threading.Event)
    progress: float = 0.0
    state: str = "running"
    answer: Any = None
    problem: Any = None


@dataclass
class StandIn:
    """What the service holds.  ``before`` befalls requests that are not handled, ``after`` those that are:
    their reply is lost.  ``seen`` are the requests: method, path, headers and body."""

    session: Session
    before: list[Trouble] = field(default_factory=list)
    after: list[Trouble] = field(default_factory=list)
    seen: list[tuple[str, str, dict[str, str], Any]] = field(default_factory=list)
    answered: dict[str, tuple[str, Any]] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    url: str = ""

    def keys(self) -> list[str]:
        return [h["idempotency-key"] for _, path, h, _ in self.seen if path == "/v1/ask"]

    def reply(self, method: str, path: str, headers: dict[str, str], body: Any) -> tuple[int, Any]:
        if headers.get("authorization") != f"Bearer {TOKEN}":
            return 401, {"code": "unauthorized", "detail": "no token", "hint": "", "status": 401}
        parts, query = urlsplit(path), parse_qs(urlsplit(path).query)
        one = {name: values[0] for name, values in query.items()}
        match method, *parts.path.removeprefix("/v1/").split("/"):
            case "POST", "quote":
                body.pop("among", None)
                return 200, self.session.quote(body.pop("sql"), **body).to_dict()
            case "POST", "quotes":
                prices = self.session.quote_all(body.pop("questions"), **body)
                return 200, {"quotes": [price.to_dict() for price in prices]}
            case "POST", "ask":
                return self._ask(headers, body)
            case "GET", "jobs", id:
                return 200, self._job(id)
            case "DELETE", "jobs", id:
                self.jobs[id].stop.set()
                return 200, self._job(id)
            case "GET", "history":
                return 200, self._history(one)
            case "GET", "balance":
                return 200, self.session.balance(**one)  # type: ignore[arg-type]
            case "GET", "answers", id, "explain":
                return 200, self.session.explain(unquote(id))
            case "GET", "audit":
                return 200, self.session.audit().to_dict()
        return 404, {"code": "not-found", "detail": "there is no such route", "hint": ""}

    def _ask(self, headers: dict[str, str], body: Any) -> tuple[int, Any]:
        key, digest = headers["idempotency-key"], hashlib.sha256(canonical(body)).hexdigest()
        kept = self.answered.get(key)
        if kept is not None:
            if kept[0] != digest:
                raise BadInput("this Idempotency-Key was used for another request")
            return 200, kept[1]
        sql = body.pop("sql")
        if headers.get("prefer") == "respond-async":
            name, job = f"{len(self.jobs):024x}", Job()
            self.jobs[name] = job
            threading.Thread(target=self._work, args=(job, key, digest, sql, body)).start()
            return 202, {"id": name, "state": "running", "progress": 0.0}
        document = self.session.ask(sql, **body).to_dict()
        self.answered[key] = (digest, document)
        return 200, document

    def _work(self, job: Job, key: str, digest: str, sql: str, body: Any) -> None:
        def advance(fraction: float) -> None:
            job.progress = max(job.progress, fraction)

        try:
            answer = self.session.ask(sql, **body, progress=advance, cancelled=job.stop.is_set)
        except DefrayError as error:
            job.problem = problem(error)[1]
            job.state = "cancelled" if isinstance(error, Cancelled) else "failed"
        else:
            job.answer = answer.to_dict()
            self.answered[key] = (digest, job.answer)
            job.progress, job.state = 1.0, "done"

    def _job(self, id: str) -> Any:
        job = self.jobs.get(id)
        if job is None:
            raise NotFound("there is no job of that id")
        state = job.state
        told = {"answer": job.answer} if state == "done" else {"problem": job.problem}
        return {"id": id, "state": state, "progress": job.progress} | (
            {} if state == "running" else told
        )

    def _history(self, query: dict[str, str]) -> Any:
        asks = self.session.history(refresh="refresh" in query)[::-1]
        first = int(query.get("cursor", "0"))
        last = first + min(int(query["limit"]), 2)  # pages are short here
        return {"asks": asks[first:last], "next": str(last) if last < len(asks) else None}


def problem(error: DefrayError) -> tuple[int, Any]:
    told = error.to_dict()
    status = next((status for kind, status in STATUS if isinstance(error, kind)), 500)
    code, message = told.pop("code"), told.pop("message")
    return status, {
        **told, "type": f"urn:defray:error:{code}", "title": code, "status": status,
        "detail": message, "code": code, "request_id": "r1",
    }  # fmt: skip


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    house: StandIn

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        headers = {name.lower(): value for name, value in self.headers.items()}
        house = self.house
        house.seen.append((self.command, self.path, headers, json.loads(json.dumps(body))))
        if house.before:
            house.before.pop(0)(self)
            return
        try:
            status, document = house.reply(self.command, self.path, headers, body)
        except DefrayError as error:
            status, document = problem(error)
        if house.after:
            house.after.pop(0)(self)
            return
        send(self, status, document)

    do_POST = do_DELETE = do_GET

    def log_message(self, *_: Any) -> None:
        """Tests are quiet."""


def send(handler: BaseHTTPRequestHandler, status: int, document: Any, **headers: str) -> None:
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


def hang_up(handler: BaseHTTPRequestHandler) -> None:
    handler.close_connection = True
    handler.connection.shutdown(2)


def says(status: int, document: Any = b"", **headers: str) -> Trouble:
    return lambda handler: send(handler, status, document, **headers)


def sleeps(seconds: float) -> Trouble:
    def sleep(handler: BaseHTTPRequestHandler) -> None:
        time.sleep(seconds)
        handler.close_connection = True

    return sleep


@contextmanager
def served(session: Session) -> Iterator[StandIn]:
    """The stand-in at work, on a free port of this machine."""
    house = StandIn(session)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"house": house}))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    house.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield house
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
