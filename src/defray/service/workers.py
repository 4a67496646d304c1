"""Processes that buy: what is computed for one ask does not hold up what others read meanwhile.

The serving process looks, quotes and tells again; an ask that has to buy something is handed to a worker
(:mod:`defray.service.worker`), which has the same contract open.  Workers meet in the ledger, as any other
processes do.  An ask is durable before a worker says so; a worker that is killed loses that ask alone.
"""

from __future__ import annotations

import gc
import logging
import math
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from threading import Condition, Event, Thread
from types import TracebackType
from typing import Any, Protocol, Self

from defray.core.contract import Contract
from defray.errors import DefrayError
from defray.service.logs import event
from defray.session import Session, incident_of

POLL_SECONDS = 0.05
"""How often an ask at work is looked at for being cancelled."""

AGAIN_SECONDS = 10
"""After a worker could not begin, until another one is tried; for as long an ask waits for a worker."""

STUCK_SECONDS = 30.0
"""After which a worker is ended that goes on with what was cancelled, or is late: it may write until then."""

READY_SECONDS = 10
"""For which a server waits, at most, before it is ready."""

LEAVING_SECONDS = 5
"""For which a worker that is told to end is waited for."""


class Asker(Protocol):
    """Where asks are bought: with a session in this process, or by a worker."""

    def __call__(
        self,
        principal: str,
        sql: str,
        arguments: Mapping[str, Any],
        *,
        progress: Callable[[float], None],
        cancelled: Callable[[], bool],
    ) -> dict[str, Any]:
        """The document of the answer; ``arguments`` are those of :meth:`defray.session.Session.ask`.

        Raises as that does.
        """


def in_session(session: Session) -> Asker:
    """Asks are bought in this process."""

    def ask(
        principal: str,
        sql: str,
        arguments: Mapping[str, Any],
        *,
        progress: Callable[[float], None],
        cancelled: Callable[[], bool],
    ) -> dict[str, Any]:
        own = session.on_behalf_of(principal)
        return own.ask(sql, **arguments, progress=progress, cancelled=cancelled).to_dict()

    return ask


def warm(session: Session) -> DefrayError | None:
    """Load what a first question would wait for, or tell why it cannot be.  All that is there then is there
    to stay: it is never looked through for garbage again, which would hold up all for .1 s each time."""
    try:
        session.warm()
        return None
    except DefrayError as error:
        return error
    finally:
        gc.collect()
        gc.freeze()


@dataclass(frozen=True, slots=True)
class Asked:
    """One ask, as it is handed to a worker; ``number`` tells it from the ones before."""

    number: int
    principal: str
    sql: str
    arguments: Mapping[str, Any] = field(repr=False)


class Gone(Exception):
    """A worker had ended before it was asked."""


class Worker:
    """One process, which does one ask at a time."""

    def __init__(self, contract: Contract) -> None:
        mine, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "defray.service.worker", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # a Ctrl-C is for the server, which lets its asks end
            )
        self._connection = Connection(mine.detach())
        self._asked = 0
        self._contract = contract
        self.usable = True

    def wait(self, leaving: Event) -> None:
        """Until the contract is open in it, or nobody needs it any more: then it is not usable.  Raises why
        it cannot be."""
        try:
            self._connection.send(self._contract)
            while not self._connection.poll(POLL_SECONDS):
                if leaving.is_set():
                    self.usable = False
                    return
            failed = self._connection.recv()
        except (EOFError, OSError) as fault:
            failed = incident_of(fault)
        if failed is not None:
            self.usable = False
            raise failed

    def ask(
        self,
        principal: str,
        sql: str,
        arguments: Mapping[str, Any],
        progress: Callable[[float], None],
        cancelled: Callable[[], bool],
    ) -> dict[str, Any]:
        """As :class:`Asker` says.  Where the process has ended it is usable no more; Gone where it had before
        it was asked.  One that does not end what was cancelled, or is late, is ended."""
        self._asked += 1
        asked = Asked(self._asked, principal, sql, arguments)
        limit = arguments.get("timeout")
        late = math.inf if limit is None else time.monotonic() + limit + STUCK_SECONDS
        stopping = math.inf
        if not self._handed(asked):
            raise Gone
        try:
            while True:
                now = time.monotonic()
                if stopping == math.inf and (cancelled() or now > late):
                    stopping = now
                    self._connection.send(self._asked)
                if now > stopping + STUCK_SECONDS:
                    self._process.kill()
                if not self._connection.poll(POLL_SECONDS):
                    continue
                match self._connection.recv():
                    case float() as fraction:
                        progress(fraction)
                    case DefrayError() as error:
                        raise error
                    case answer:
                        return dict(answer)
        except (EOFError, OSError) as fault:  # the process ended, of whatever
            self.usable = False
            raise incident_of(fault) from None

    def _handed(self, asked: Asked) -> bool:
        """Whether the process is there to take an ask; else it is usable no more."""
        self.usable = self._process.poll() is None
        try:
            if self.usable:
                self._connection.send(asked)
        except OSError:
            self.usable = False
        return self.usable

    def close(self) -> None:
        """End the process: at once where nothing is at work."""
        self._connection.close()
        try:
            self._process.wait(LEAVING_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Workers:
    """As many workers as asks are handed in at one time, of which one begins at once and none ends before
    :meth:`close`.  Where none is free, an ask waits for the first that is, or has begun; before there is any,
    and after :data:`AGAIN_SECONDS`, it is bought by the session in this process.  An :class:`Asker`."""

    def __init__(self, contract: Contract, session: Session) -> None:
        self._contract, self._session = contract, session
        self._here = in_session(session)
        self._change = Condition()
        self._idle: list[Worker] = []
        self._there = 0
        self._starting: Thread | None = None
        self._closing, self._tried = Event(), Event()
        self._warming: Thread | None = None
        self._begin()

    def __call__(
        self,
        principal: str,
        sql: str,
        arguments: Mapping[str, Any],
        *,
        progress: Callable[[float], None],
        cancelled: Callable[[], bool],
    ) -> dict[str, Any]:
        worker = self._free(cancelled)
        if worker is not None:
            try:
                with suppress(Gone):
                    return worker.ask(principal, sql, arguments, progress, cancelled)
            finally:
                self._done(worker)
        return self._here(principal, sql, arguments, progress=progress, cancelled=cancelled)

    def _free(self, cancelled: Callable[[], bool]) -> Worker | None:
        """The first worker that is free; None where there is none at all, where it takes too long, and for an
        ask that was cancelled.  As long as asks wait, one worker after another begins."""
        until = time.monotonic() + AGAIN_SECONDS
        with self._change:
            while not self._idle:
                if self._starting is None:
                    self._begin()
                if not self._there or cancelled() or time.monotonic() > until:
                    return None
                self._change.wait(POLL_SECONDS)
            return self._idle.pop()

    def _done(self, worker: Worker) -> None:
        with self._change:
            if worker.usable:
                self._idle.append(worker)
            else:
                self._there -= 1
            self._change.notify_all()
        if not worker.usable:
            worker.close()

    def ready(self) -> None:
        """Return when nobody has to wait for what is loaded once: the session has it, and one worker, unless
        none can begin; or after :data:`READY_SECONDS`."""
        until = time.monotonic() + READY_SECONDS
        self._warming = Thread(target=self._warm, name="defray-warm", daemon=True)
        self._warming.start()
        self._warming.join(READY_SECONDS)
        self._tried.wait(max(until - time.monotonic(), 0))

    def _warm(self) -> None:
        error = warm(self._session)
        if error is not None:  # whoever asks is told as well
            event("unavailable", level=logging.WARNING, code=error.code, reason=error.message)

    def wait(self) -> None:
        """Until the worker that is beginning has begun, where there is one."""
        starting = self._starting
        if starting is not None:
            starting.join()

    def _begin(self) -> None:
        """Begin another one, which takes a second or two."""
        self._starting = Thread(target=self._start, name="defray-worker", daemon=True)
        self._starting.start()

    def _start(self) -> None:
        worker = self._begun()
        if worker is None:
            self._tried.set()
            self._closing.wait(AGAIN_SECONDS)  # meanwhile asks are bought here
        with self._change:
            self._starting = None
            if worker is not None:
                self._there += 1
                self._idle.append(worker)
            self._change.notify_all()
        self._tried.set()

    def _begun(self) -> Worker | None:
        """Another worker; None where it cannot begin, which the log says, or where all end."""
        worker = None
        try:
            worker = Worker(self._contract)
            worker.wait(self._closing)
        except (DefrayError, OSError) as fault:
            error = fault if isinstance(fault, DefrayError) else incident_of(fault)
            event("no worker", level=logging.WARNING, code=error.code, reason=error.message)
        if worker is not None and not worker.usable:
            worker.close()
            return None
        return worker

    def close(self) -> None:
        """End the workers, none of which may be at work."""
        self._closing.set()
        if self._warming is not None:
            self._warming.join(LEAVING_SECONDS)
        self.wait()
        with self._change:
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
