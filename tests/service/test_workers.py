"""Asks are bought by processes of their own: real ones, over a real contract."""

from __future__ import annotations

import os
import pickle
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import Pipe
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from defray import errors
from defray.access import Access
from defray.config.reader import read_contract
from defray.data.source import Control, Exact, Scan
from defray.errors import Cancelled, DefrayError, InternalError, MaxRhoRefused, Problem
from defray.service.worker import said, work
from defray.service.workers import READY_SECONDS, Asked, Asker, Worker, Workers, in_session
from tests.service.conftest import COUNT
from tests.tables import open_session, slow_session, write_contract, write_people

ARGUMENTS = {"within": 50}


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    write_people(tmp_path, 2_000)
    path = write_contract(tmp_path)
    with open_session(path) as session:
        Access(session._engine.ledger).add("ana", share="1/2")
    return path


@pytest.fixture
def workers(contract: Path) -> Iterator[Workers]:
    with open_session(contract) as session, Workers(read_contract(contract), session) as workers:
        workers.wait()
        yield workers


def bought(asker: Asker, sql: str = COUNT, *, cancelled: bool = False, **more: Any) -> Any:
    arguments = {**ARGUMENTS, **more}
    return asker("ana", sql, arguments, progress=lambda _: None, cancelled=lambda: cancelled)


def process_of(workers: Workers) -> int:
    """The process of the worker that is next."""
    return workers._idle[-1]._process.pid


def gone(process: int) -> bool:
    try:
        return os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def test_what_a_worker_buys_is_in_the_ledger_and_free_from_then_on(
    contract: Path, workers: Workers
):
    answer = bought(workers, key="one")
    assert answer["charged_rho"] > 0
    with open_session(contract) as session:
        own = session.on_behalf_of("ana")
        assert own.kept("one")
        again = own.known(COUNT, **ARGUMENTS)
        assert again is not None
        assert again.rows[0].value == answer["rows"][0]["value"]
        assert bought(in_session(session))["charged_rho"] == 0
    assert bought(workers, key="one") == answer


def test_errors_come_through_as_they_are(workers: Workers):
    with pytest.raises(MaxRhoRefused) as refused:
        bought(workers, max_rho="1e-9")
    assert refused.value.hint
    with pytest.raises(errors.QueryError) as wrong:
        bought(workers, "SELECT COUNT(*) FROM nowhere")
    assert (wrong.value.start, wrong.value.end) == (21, 28)


@pytest.mark.parametrize(
    "kind",
    [kind for kind in vars(errors).values() if isinstance(kind, type)],
    ids=lambda k: k.__name__,
)
def test_every_error_can_be_sent(kind: type):
    if not issubclass(kind, DefrayError):
        return
    if issubclass(kind, errors.Mistakes):
        error: DefrayError = kind([Problem("rho", "it is missing", "rho = 1", 3)], path="a.toml")
    elif issubclass(kind, errors.QueryError):
        error = kind("no such column", kind="unknown", text="SELECT x", start=7, end=8)
    else:
        error = kind("what is wrong", hint="the cure", name="ana")
    sent = pickle.loads(pickle.dumps(error))  # noqa: S301  # our own
    assert type(sent) is kind
    assert (str(sent), sent.to_dict()) == (str(error), error.to_dict())


def test_a_cancelled_ask_buys_nothing_and_the_worker_goes_on(contract: Path, workers: Workers):
    process = process_of(workers)
    with pytest.raises(Cancelled):
        bought(workers, cancelled=True)
    with open_session(contract) as session:
        assert session.history() == []
    assert bought(workers)["charged_rho"] > 0
    assert process_of(workers) == process


def test_progress_is_told(contract: Path):
    ours, theirs = Pipe()
    asked = Asked(1, "ana", COUNT, ARGUMENTS)
    with slow_session(contract, 0) as session, ours, theirs:
        source: Any = session._engine._source
        scan = source.scan

        def telling(what: Scan, control: Control) -> Exact:
            for fraction in (0.25, 0.5):
                assert control.progress is not None
                control.progress(fraction)
            return scan(what, control)

        source.scan = telling
        answer = said(session, asked, theirs)
        assert [ours.recv(), ours.recv(), ours.poll()] == [0.25, 0.5, False]
    assert isinstance(answer, dict)


def test_a_worker_that_had_ended_is_not_asked(workers: Workers):
    process = process_of(workers)
    os.kill(process, signal.SIGKILL)
    os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)
    assert bought(workers)["charged_rho"] > 0  # by the session
    assert not workers._idle
    assert bought(workers, COUNT + " WHERE age < 40")["charged_rho"] > 0
    workers.wait()
    assert len(workers._idle) == 1


def test_a_worker_that_is_killed_at_work_loses_that_ask(workers: Workers):
    process = process_of(workers)
    os.kill(process, signal.SIGSTOP)  # it takes the ask, and does nothing

    def kill() -> bool:
        os.kill(process, signal.SIGKILL)
        return False

    with pytest.raises(InternalError):
        workers("ana", COUNT, ARGUMENTS, progress=lambda _: None, cancelled=kill)
    assert bought(workers)["charged_rho"] > 0


@pytest.mark.parametrize("limit", [None, 0.2])
def test_a_worker_that_stands_still_is_ended(
    workers: Workers, monkeypatch: pytest.MonkeyPatch, limit: float | None
):
    monkeypatch.setattr("defray.service.workers.STUCK_SECONDS", 0.3)
    process = process_of(workers)
    os.kill(process, signal.SIGSTOP)
    with pytest.raises(InternalError):
        bought(workers, cancelled=limit is None, timeout=limit)
    assert gone(process)
    assert bought(workers)["charged_rho"] > 0


def test_a_worker_told_to_stop_waits_for_the_server_to_say_so(workers: Workers):
    process = process_of(workers)
    os.kill(process, signal.SIGTERM)
    assert bought(workers)["charged_rho"] > 0
    assert process_of(workers) == process
    workers.close()
    assert gone(process)


def test_where_none_is_free_another_one_begins(workers: Workers):
    busy = workers._idle.pop()
    assert bought(workers)["charged_rho"] > 0
    workers.wait()
    assert process_of(workers) != busy._process.pid
    assert bought(workers, COUNT + " WHERE age < 40")["charged_rho"] > 0
    workers._idle.append(busy)


def test_as_many_workers_begin_as_asks_wait(contract: Path, workers: Workers):
    def ask(age: int) -> Any:
        return bought(workers, f"{COUNT} WHERE age < {age}")

    with open_session(contract) as session, ThreadPoolExecutor(3) as pool:
        with session._engine.ledger.transaction():  # what was asked stays at work
            asks = [pool.submit(ask, age) for age in (30, 40, 50)]
            while workers._there < 3:
                assert not any(asked.done() for asked in asks)
                time.sleep(0.05)
        assert all(asked.result()["charged_rho"] > 0 for asked in asks)


def test_an_ask_that_waits_for_a_worker_can_be_cancelled(workers: Workers):
    busy = workers._idle.pop()
    workers._starting = Thread()  # that never ends
    with pytest.raises(Cancelled):
        bought(workers, cancelled=True)
    workers._starting = None
    workers._idle.append(busy)


def test_where_no_other_worker_can_begin_the_session_buys(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("defray.service.workers.AGAIN_SECONDS", 0.2)
    monkeypatch.setattr("sys.executable", "/nowhere")
    busy = workers._idle.pop()
    assert bought(workers)["charged_rho"] > 0
    monkeypatch.undo()
    workers._idle.append(busy)
    workers.wait()
    assert workers._starting is None


def test_a_worker_that_does_not_begin_is_not_waited_for_at_the_end(
    contract: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("defray.service.workers.LEAVING_SECONDS", 0.2)
    begun: list[Worker] = []

    class Still(Worker):
        def wait(self, leaving: Event) -> None:
            os.kill(self._process.pid, signal.SIGSTOP)
            begun.append(self)
            super().wait(leaving)

    monkeypatch.setattr("defray.service.workers.Worker", Still)
    with open_session(contract) as session, Workers(read_contract(contract), session):
        while not begun:
            time.sleep(0.01)
    assert gone(begun[0]._process.pid)


def test_where_no_worker_can_begin_the_session_buys_and_the_log_says_so(
    contract: Path, caplog: pytest.LogCaptureFixture
):
    declared = read_contract(contract)
    with open_session(contract) as session:
        other = replace(declared, rho=declared.rho * 2)  # not what the ledger was made for
        with Workers(other, session) as workers:
            assert bought(workers)["charged_rho"] > 0
            while not caplog.records:
                time.sleep(0.01)
    assert [record.getMessage() for record in caplog.records] == ["no worker"]


def test_ready_is_when_a_worker_is_there_and_the_session_is_warm(contract: Path):
    with open_session(contract) as session:
        head = session._engine.ledger.view
        with head() as before, Workers(read_contract(contract), session) as workers:
            workers.ready()
            assert len(workers._idle) == 1
            assert session._engine.prepare.cache_info().currsize == 1
            with head() as after:
                assert after.head == before.head and not session.history()


def test_what_will_be_missed_is_logged_at_the_start(
    contract: Path, caplog: pytest.LogCaptureFixture
):
    (contract.parent / "people.parquet").unlink()
    with open_session(contract) as session, Workers(read_contract(contract), session) as workers:
        workers.ready()
    (record,) = caplog.records
    assert record.getMessage() == "unavailable"
    assert record.fields["code"] == "source-unavailable"  # type: ignore[attr-defined]


def test_nobody_waits_for_a_worker_that_cannot_begin(
    contract: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("sys.executable", "/nowhere")
    with open_session(contract) as session, Workers(read_contract(contract), session) as workers:
        began = time.monotonic()
        workers.ready()
        assert time.monotonic() - began < READY_SECONDS / 2
        assert bought(workers)["charged_rho"] > 0


def test_a_worker_ends_with_its_server(contract: Path):
    ours, theirs = Pipe()
    with theirs:
        ours.send(read_contract(contract))
        ours.send(Asked(1, "ana", COUNT, ARGUMENTS))
        ours.close()
        with pytest.raises((EOFError, OSError)):
            work(theirs)
    with open_session(contract) as session:
        assert session.history() == []  # nobody waited for it, so nothing was bought


@pytest.mark.parametrize("suspended", [("ana",), ("ana", "ben")])
def test_a_session_is_warmed_by_those_who_may_ask_and_writes_nothing(
    contract: Path, suspended: tuple[str, ...]
):
    with open_session(contract) as session:
        ledger = session._engine.ledger
        access = Access(ledger)
        access.add("ben", share="1/4")
        for name in suspended:
            access.suspend(name)
        with ledger.view() as view:
            before = view.head
        session.warm()
        with ledger.view() as view:
            assert view.head == before
