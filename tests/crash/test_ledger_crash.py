"""Processes killed in the middle of everything: what is left is whole, and nothing is stuck."""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path

import pytest

from defray.ledger.audit import audit
from defray.ledger.store import Ledger
from tests.contract.ledgers import DURABLE, SqliteUnderTest
from tests.ledger.makers import DOMAIN, derive, release, terms
from tests.ledger.processes import start

pytestmark = pytest.mark.crash


@pytest.fixture(params=sorted(DURABLE))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def new(kind: str, folder: Path) -> SqliteUnderTest:
    place = DURABLE[kind].fresh(folder)
    ledger = place.open(terms())
    with ledger.transaction() as transaction:
        transaction.open_epoch("p", DOMAIN)
    ledger.close()
    return place


def reported(worker: subprocess.Popen[str]) -> tuple[list[int], list[str]]:
    """The seqs that a killed worker had said were done, and its other words."""
    assert worker.stdout is not None
    assert worker.stderr is not None
    out = worker.stdout.read()  # not communicate(): the first readline() may have read ahead
    err = worker.stderr.read()
    assert worker.wait(20) == -9, err
    lines = [line.split() for line in out.splitlines()]
    done = [int(words[1]) for words in lines if words[0] == "done" and len(words) == 2]
    return done, [" ".join(words) for words in lines if words[0] not in ("done", "ready")]


def whole(ledger: Ledger) -> int:
    """Check everything that must hold after a crash; the seq of the newest entry."""
    report = audit(ledger, derive)
    assert report.ok, report.findings
    assert report.spent == ledger.folds()[0]
    charge = release(sigmas=(2e4,)).charge
    with ledger.view() as view:
        paid = view.charges("answer")
        by_cell = sum(r.by_cell for _, r in view.releases(0))
    assert paid.everywhere == (report.releases - by_cell) * charge
    assert paid.strip(0).sum() == (10 * report.releases - 9 * by_cell) * charge
    assert paid.worst() == report.spent["answer"]
    return report.entries


def goes_on(place: SqliteUnderTest) -> int:
    """No lock is left: opening and appending take no time."""
    began = time.monotonic()
    ledger = place.open(terms(), timeout=1.0)
    with ledger.transaction() as transaction:
        seq = transaction.append(release(sigmas=(2e4,)))
    assert time.monotonic() - began < 1.0
    assert whole(ledger) == seq
    ledger.close()
    return seq


def rounds(kind: str, folder: Path, count: int) -> None:
    """Two workers at a time on one growing ledger, each killed at a random moment or point."""
    place = new(kind, folder)
    chance = random.Random(count)
    newest = 2
    for number in range(count // 2):
        workers = []
        for _ in range(2):
            point = chance.choice(["timer", "timer", "before", "after"])
            workers.append(
                (point, start(kind, place.address, "spend", point, chance.randint(1, 30)))
            )
        for _, worker in workers:
            assert worker.stdout is not None
            worker.stdout.readline()
        for point, worker in workers:
            if point == "timer":
                time.sleep(chance.uniform(0, 0.06))
                worker.kill()
        claimed: list[int] = []
        for point, worker in workers:
            done, words = reported(worker)
            claimed += done
            if point == "after":
                claimed += [int(word.split()[1]) for word in words if word.startswith("committed")]
            if point == "before":
                assert words
        assert len(set(claimed)) == len(claimed), "two workers were told the same place"
        ledger = place.open(terms(), timeout=1.0)
        entries = whole(ledger)
        ledger.close()
        assert set(claimed) <= set(range(newest + 1, entries + 1)), "a committed release is lost"
        unclaimed = entries - newest - len(claimed)
        assert 0 <= unclaimed <= 2, "at most one commit a worker can be unreported"
        newest = goes_on(place)
        assert newest == entries + 1, f"round {number}"


@pytest.mark.long
def test_killed_at_random(kind: str, tmp_path: Path) -> None:
    rounds(kind, tmp_path, 24)


@pytest.mark.slow
def test_killed_at_random_many_times(kind: str, tmp_path: Path) -> None:
    rounds(kind, tmp_path, 200)


def test_killed_before_the_commit(kind: str, tmp_path: Path) -> None:
    """The draw never happened: nothing is charged, and its place in the log is given to the next."""
    place = new(kind, tmp_path)
    done, words = reported(start(kind, place.address, "spend", "before", 3))
    assert (done, words) == ([3, 4], ["dying 5"])
    assert goes_on(place) == 5


def test_killed_between_commit_and_reply(kind: str, tmp_path: Path) -> None:
    """The draw happened: it stays charged, and the next ask finds it known, for nothing."""
    place = new(kind, tmp_path)
    done, words = reported(start(kind, place.address, "spend", "after", 3))
    assert (done, words) == ([3, 4], ["committed 5"])
    reader = place.read()
    with reader.view() as view:
        assert view.seq == 5
        (known,) = view.known(release(sigmas=(2e4, None, 3e4), weights="w3").keys[:1])
        assert (known.releases, known.last) == (1, 5)
    reader.close()
    assert goes_on(place) == 6


@pytest.mark.parametrize("event", range(1, 13))
def test_killed_while_it_is_made(kind: str, tmp_path: Path, event: int) -> None:
    """Whatever file operation of its making a ledger dies at: there is no ledger yet, or a whole one."""
    place = DURABLE[kind].fresh(tmp_path)
    worker = start(kind, place.address, "born", event)
    out, err = worker.communicate(timeout=20)
    assert worker.returncode in (0, -9), err
    assert (worker.returncode == 0) == ("survived" in out)
    ledger = place.open(terms(), timeout=1.0)
    assert [e.read()["kind"] for e in ledger.entries()] in (["open"], ["open", "epoch"])
    with ledger.transaction() as transaction:
        if transaction.epoch is None:
            transaction.open_epoch("p", DOMAIN)
    assert whole(ledger) == 2
    ledger.close()
