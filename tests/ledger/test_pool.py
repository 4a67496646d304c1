"""Connections, threads and forks."""

from __future__ import annotations

import gc
import os
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from defray.errors import LedgerError
from defray.ledger.audit import audit
from defray.ledger.sqlite import SqliteLedger
from tests.ledger.forks import in_child
from tests.ledger.makers import DOMAIN, derive, release, terms

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SqliteLedger]:
    made = SqliteLedger.open(tmp_path / "a", terms())
    with made.transaction() as transaction:
        transaction.open_epoch("p", DOMAIN)
    yield made
    made.close()


def put(ledger: SqliteLedger, name: str = "all") -> int:
    with ledger.transaction() as transaction:
        return transaction.append(release(sigmas=(100.0,), weights=name))


def test_a_child_uses_an_idle_ledger_and_so_does_its_parent(ledger: SqliteLedger) -> None:
    assert put(ledger) == 3

    def run() -> str:
        return f"{put(ledger)} {put(ledger)}"

    assert in_child(run) == "4 5"
    assert put(ledger) == 6
    assert audit(ledger, derive).ok


def test_a_child_forked_inside_a_transaction_cannot_use_it(ledger: SqliteLedger) -> None:
    for begin in (ledger.transaction, ledger.view):
        said = []
        with begin() as session:

            def run(session: object = session) -> str:
                with pytest.raises(LedgerError, match="forked"):
                    session.spent("answer")  # type: ignore[attr-defined]
                with pytest.raises(LedgerError, match="forked"):
                    put(ledger)
                with pytest.raises(LedgerError, match="forked"):
                    SqliteLedger.open(ledger.path, terms())
                return "refused"

            said.append(in_child(run))
            assert session.spent("answer") == 0
        assert said == ["refused"]
    assert put(ledger) == 3


def test_leaving_a_transaction_in_the_child_changes_nothing(ledger: SqliteLedger) -> None:
    reading, writing = os.pipe()
    child = -1
    try:
        with ledger.transaction() as transaction:
            transaction.append(release())
            child = os.fork()
    except LedgerError:
        if child == 0:
            os.write(writing, b"refused")
    finally:
        if child == 0:
            gc.collect()
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 100) == b"refused"
    os.close(reading)
    os.close(writing)
    report = audit(ledger, derive)
    assert report.ok
    assert report.releases == 1
    assert put(ledger) == 4


def test_forks_beside_busy_threads(ledger: SqliteLedger) -> None:
    """The child of a busy parent either works or is told; the parent loses nothing."""
    stop = threading.Event()
    counts = [0, 0]

    def work(i: int) -> None:
        while not stop.is_set():
            put(ledger, str(i))
            counts[i] += 1

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()

    def run() -> str:
        try:
            put(ledger, "child")
        except LedgerError as error:
            return "told" if "forked" in str(error) else repr(error)
        return "worked"

    said = [in_child(run) for _ in range(25)]
    stop.set()
    for thread in threads:
        thread.join()
    assert set(said) <= {"told", "worked"}
    report = audit(ledger, derive)
    assert report.ok
    assert report.releases == sum(counts) + said.count("worked")


def test_threads_come_and_go_without_leaving_files_open(ledger: SqliteLedger) -> None:
    def opened() -> int:
        return len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0

    put(ledger)
    before = opened()
    for i in range(60):
        thread = threading.Thread(target=put, args=(ledger, str(i)))
        thread.start()
        thread.join()
    assert opened() == before
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ledger.close()
        gc.collect()
    assert opened() < before or sys.platform != "linux"


def test_a_reading_that_outlives_the_ledger_ends_with_it(ledger: SqliteLedger) -> None:
    with ledger.view() as view:
        ledger.close()
        assert view.spent("answer") == 0
    with pytest.raises(LedgerError, match="closed"):
        put(ledger)
