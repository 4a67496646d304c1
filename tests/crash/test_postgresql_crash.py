"""A PostgreSQL server that is stopped in the middle of everything, with processes that are killed beside it:
what was said to be kept is there once, what was said to be lost is not there, and the chain is whole."""

from __future__ import annotations

import random
import subprocess
import time
from collections import Counter

import pytest

from defray.ledger.audit import audit
from defray.ledger.postgresql.address import Address
from defray.ledger.postgresql.ledger import PostgresLedger
from tests.ledger.makers import DOMAIN, derive, terms
from tests.ledger.processes import start
from tests.postgresql.server import Server, new_schema, new_server

pytestmark = pytest.mark.crash

Told = dict[str, tuple[str, ...]]


@pytest.fixture(scope="module")
def server() -> Server:
    return new_server()


def told(worker: subprocess.Popen[str]) -> Told:
    """What a killed worker had said of its asks: how it ended, and its place in the log."""
    assert worker.stdout is not None
    assert worker.stderr is not None
    out, err = worker.stdout.read(), worker.stderr.read()
    assert worker.wait(20) == -9, err
    whole = [line.split() for line in out.splitlines(keepends=True) if line.endswith("\n")]
    return {words[1]: (words[0], *words[2:]) for words in whole if len(words) > 1}


def rounds(server: Server, count: int) -> None:
    address = Address(server.dsn(), new_schema())
    with PostgresLedger.open(address, terms()) as ledger, ledger.transaction() as transaction:
        transaction.open_epoch("p", DOMAIN)
    chance = random.Random(count)
    said: Told = {}
    killed = 0
    for _ in range(count):
        place = f"{address.dsn}#{address.schema}"
        workers = [start("postgresql", place, "endure") for _ in range(3)]
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
        for _ in range(2):
            time.sleep(chance.uniform(0.05, 0.3))
            server.stop("immediate")
            time.sleep(chance.uniform(0, 0.2))
            server.start()
            time.sleep(chance.uniform(0.2, 0.5))
        for worker in workers:
            worker.kill()
        for worker in workers:
            said |= told(worker)
            killed += 1
        check(address, said, killed)


def check(address: Address, said: Told, killed: int) -> None:
    with PostgresLedger.open(address, terms(), timeout=5.0) as ledger:
        report = audit(ledger, derive)
        assert report.ok, report.findings
        assert report.spent == ledger.folds()[0]
        with ledger.view() as view:
            log = {release.ask: seq for seq, release in view.releases(0)}
            assert len(log) == report.releases, "an ask was charged twice"
    kept = {ask: int(words[1]) for ask, words in said.items() if words[0] == "kept"}
    lost = {ask for ask, words in said.items() if words[0] == "lost"}
    assert kept.items() <= log.items(), "an answer was given that was not kept"
    assert not lost & log.keys(), "a charge was kept of which it was said that nothing was spent"
    assert len(log) - len(kept) <= killed, "at most one commit of a killed process is untold"
    assert Counter(words[0] for words in said.values())["kept"] > 0


@pytest.mark.long
def test_a_server_stopped_at_random(server: Server) -> None:
    rounds(server, 3)


@pytest.mark.slow
def test_a_server_stopped_at_random_many_times(server: Server) -> None:
    rounds(server, 40)
