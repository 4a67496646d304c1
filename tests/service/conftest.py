"""A small house: one contract over 2,000 people, a curator, two analysts, and a client for each."""

from __future__ import annotations

import datetime as dt
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from defray.access import Access
from defray.core.principals import Role
from defray.service.app import build
from defray.service.limits import Limits
from defray.service.oidc.tokens import Verifier
from defray.session import Session
from tests.tables import open_session, people, slow_session, write_contract, write_people

COUNT = "SELECT COUNT(*) FROM people"
ENDED = ("done", "failed", "cancelled")
EASY = Limits(asks_per_second=1e6, asks_burst=10**6, reads_per_second=1e6, reads_burst=10**6)


@dataclass
class House:
    """A service at work in this process."""

    session: Session
    limits: Limits = EASY
    verifier: Verifier | None = None
    tokens: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ledger = self.session._engine.ledger
        self.access = Access(self.ledger)
        there = {principal.name for principal in self.access.analysts()}
        people: tuple[tuple[str, Role, Any], ...] = (
            ("ana", "analyst", "1/2"),
            ("ben", "analyst", "1/4"),
            ("cat", "curator", None),
        )
        for name, role, share in people:
            if name not in there:
                self.access.add(name, role, share)
            self.tokens[name], _ = self.access.issue(name)
        self.app = build(self.session, self.access, self.limits, self.verifier)
        self.client = TestClient(self.app)

    def headers(self, who: str, **more: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[who]}", **more}

    def get(self, who: str, path: str, **query: Any) -> Any:
        return self.client.get("/v1" + path, params=query or None, headers=self.headers(who))

    def send(self, who: str, method: str, path: str, json: Any = None, **headers: str) -> Any:
        return self.client.request(
            method, "/v1" + path, json=json, headers=self.headers(who, **headers)
        )

    def ask(self, who: str, sql: str = COUNT, within: Any = 50, **headers: str) -> Any:
        return self.send(who, "POST", "/ask", {"sql": sql, "within": within}, **headers)

    def followed(self, who: str, location: str, until: tuple[str, ...] = ENDED) -> Any:
        """The document of a job once it is in one of these states."""
        while True:
            job = self.client.get(location, headers=self.headers(who)).json()
            if job["state"] in until:
                return job
            time.sleep(0.01)

    def expired(self, who: str) -> str:
        """A token that has expired."""
        then = dt.datetime.now(dt.UTC) - dt.timedelta(days=2)
        return Access(self.ledger, lambda: then).issue(who, expires=dt.timedelta(days=1))[0]


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A fresh house."""
    with people(tmp_path, "rho = 1", 2_000) as session:
        house = House(session)
        with house.client:
            yield house


@pytest.fixture
def logging_kept() -> Iterator[None]:
    """Loggers are afterwards as they were."""
    loggers = [logging.getLogger(name) for name in ("defray", "uvicorn.error")]
    before = [(logger.handlers, logger.propagate, logger.level) for logger in loggers]
    yield
    for logger, (handlers, propagate, level) in zip(loggers, before, strict=True):
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A house for tests that spend nothing and change nobody: several share it."""
    with people(tmp_path_factory.mktemp("calm"), "rho = 1", 2_000) as session:
        house = House(session)
        with house.client:
            yield house


@pytest.fixture
def slow_house(tmp_path: Path) -> Iterator[House]:
    """A house whose scans take 0.3 s longer."""
    write_people(tmp_path, 2_000)
    with slow_session(write_contract(tmp_path), 0.3) as session:
        house = House(session, Limits(asks_at_once=2, scans=2, jobs_kept=3, grace_seconds=5))
        with house.client:
            yield house


__all__ = ["COUNT", "House", "open_session"]
