"""Writing to a PostgreSQL ledger: a thread's turn, the lock among servers, and what became of a commit."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
from psycopg_pool import PoolTimeout

from defray.errors import LedgerBusy, LedgerCorrupt, LedgerError
from defray.ledger.moved import Mark, moved_away
from defray.ledger.pool import forked
from defray.ledger.postgresql import schema
from defray.ledger.postgresql.address import Address
from defray.ledger.postgresql.connections import LOCK, PATIENT, Connection, Connections
from defray.ledger.postgresql.faults import lost, translated, uncertain
from defray.ledger.postgresql.transaction import Proof
from defray.ledger.reading import unreadable

_PAUSE: Final = 0.1
"""Seconds between two tries to find out what became of a commit."""


class Writer:
    """How the threads of a process come to write to one ledger, one after the other."""

    def __init__(self, connections: Connections) -> None:
        self.connections = connections
        self._name = str(connections.address)
        self._owner: int | None = None

    @contextmanager
    def turn(self) -> Iterator[float]:
        """This thread's turn to write among those of the process; yields when it ends to wait."""
        if not self.connections.writable:
            raise LedgerError(
                f"The ledger {self._name} was opened for reading.",
                hint="Open it with its contract to write.",
                path=self._name,
            )
        self.connections.here()
        me, writer = threading.get_ident(), self.connections.writer
        if self._owner == me and writer.locked():
            raise LedgerError(
                "A ledger transaction was begun inside another one of its own thread."
            )
        deadline = time.monotonic() + self.connections.timeout
        if not writer.acquire(timeout=self.connections.timeout):
            raise LedgerBusy(
                f"The ledger {self._name} is in use by others for longer than the timeout.",
                hint="Try again; nothing was spent.",
                path=self._name,
            )
        self._owner = me
        try:
            yield deadline
        finally:
            self._owner = None
            writer.release()

    @contextmanager
    def locked(self, deadline: float, allowed: Mark | None = None) -> Iterator[Connection]:
        """A transaction that nobody else's runs beside.  LedgerMismatch where the ledger bears another mark
        than is ``allowed``."""
        with self.connections.writing(deadline) as sql:
            row = sql.execute(LOCK).fetchone()
            if row is None:
                raise unreadable(self._name, "its head")
            mark = None if row[0] is None else Mark.read(row[0])
            if mark is not None and mark != allowed:
                raise moved_away(mark, self._name)
            yield sql

    def commit(self, sql: Connection) -> bool:
        """Commit; False where the connection was lost, so that nobody knows yet.  A transaction that failed
        before is rolled back by its commit, which must not pass for one that was kept."""
        if os.getpid() != self.connections.pid:
            raise forked(self._name)
        try:
            done = sql.script("COMMIT")
        except psycopg.Error:
            if not sql.lost:
                raise
            return False
        if done != "COMMIT":
            raise LedgerCorrupt(
                "A ledger transaction was to be kept although a step of it had failed.",
                hint="Try again; nothing was kept.",
                path=self._name,
            )
        return True

    def find(self, proof: Proof | None) -> None:
        """Find out what became of a commit at which the connection was lost; raises unless it was made.

        Whoever has the lock knows that the lost transaction is over, one way or the other."""
        if proof is None:
            return
        deadline = time.monotonic() + self.connections.timeout
        while True:
            try:
                with self.connections.writing(deadline) as sql:
                    sql.execute(LOCK)
                    found = sql.execute(*proof).fetchone()
                if found is None:
                    raise lost(self._name)
                return
            except (psycopg.Error, PoolTimeout):
                if time.monotonic() >= deadline:
                    raise uncertain(self._name) from None
                time.sleep(_PAUSE)


@contextmanager
def making(connections: Connections, address: Address) -> Iterator[Connection]:
    """A transaction in which nobody else makes a ledger in that schema; committed at the normal exit."""
    try:
        with connections.writing(time.monotonic() + connections.timeout) as sql:
            schema.alone(sql, address)
            yield sql
            sql.script("COMMIT")
    except psycopg.errors.InsufficientPrivilege:
        raise LedgerError(
            f"There is no ledger at {address}, and this role may not make one.",
            hint="As a role that may: defray ledger init --grant ROLE (docs/postgresql.md).",
            path=str(address),
        ) from None


@contextmanager
def arriving(address: Address) -> Iterator[Connection]:
    """The empty tables of a ledger to be filled, kept at the normal exit; LedgerError where there is
    one."""
    connections, name = Connections(address, timeout=30.0, writable=True), str(address)
    try:
        with translated(name):
            connections.try_once()
            with making(connections, address) as sql:
                if schema.there(sql, address):
                    raise LedgerError(
                        f"There is a ledger at {name}; a copy never overwrites.",
                        hint="Name another schema.",
                        path=name,
                    )
                sql.script(PATIENT)
                schema.make(sql, address)
                yield sql
    finally:
        connections.close()
