"""Connections to a PostgreSQL ledger: the common interface, and a pool for every process.

Every transaction states its own settings, so it holds behind a pooler that gives each transaction another
session, whatever others did to that session.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final

import psycopg
from psycopg import pq
from psycopg_pool import ConnectionPool, PoolTimeout

from defray.errors import LedgerError
from defray.ledger.postgresql.address import Address

MOST: Final = 16
"""Connections that a process uses at one time at most."""
STATEMENT: Final = 120
"""Seconds that a statement may take."""
STANDSTILL: Final = 120
"""Seconds between two statements of a write after which the server gives it up: others wait for it."""
READING: Final = 3600
"""The same of a reading, for which nobody waits."""

_SETTINGS: Final = (
    f"; SET LOCAL statement_timeout = '{STATEMENT}s'; SET LOCAL search_path = {{schema}}"
)
_READ: Final = (
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
    + _SETTINGS
    + f"; SET LOCAL idle_in_transaction_session_timeout = '{READING}s'"
)
_WRITE: Final = (
    "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
    + _SETTINGS
    + f"; SET LOCAL idle_in_transaction_session_timeout = '{STANDSTILL}s'"
    + "; SET LOCAL synchronous_commit = on; SET LOCAL lock_timeout = {wait}"
)
PATIENT: Final = (
    "SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0"
)
"""For a transaction that copies a whole ledger."""
LOCK: Final = "SELECT moved FROM head FOR UPDATE"
"""The line that serialises all writers of all servers: whoever has the one row of ``head`` is alone until the
commit, and each statement after it sees all that was committed before."""


@lru_cache(maxsize=256)
def _placeholders(statement: str) -> bytes:
    return statement.replace("?", "%s").encode()


class Raw(psycopg.Connection[Any]):
    """``proven``: the log that it leads to was seen to hold what this process saw before."""

    proven = False


class Connection:
    """A connection as :class:`~defray.ledger.sql.Sql`."""

    everywhere: Final = "everywhere"

    def __init__(self, raw: Raw) -> None:
        self.raw = raw

    def execute(self, statement: str, parameters: Sequence[Any] = (), /) -> psycopg.Cursor[Any]:
        return self.raw.execute(_placeholders(statement), parameters)

    def executemany(self, statement: str, parameters: Iterable[Sequence[Any]], /) -> None:
        with self.raw.cursor() as cursor:
            cursor.executemany(_placeholders(statement), parameters)

    def script(self, statements: str) -> str | None:
        """Statements without parameters, in one message; what the server said of the first."""
        return self.raw.execute(statements.encode()).statusmessage

    @property
    def lost(self) -> bool:
        return self.raw.closed or self.raw.broken

    @property
    def in_transaction(self) -> bool:
        return self.raw.info.transaction_status != pq.TransactionStatus.IDLE


class Connections:
    """The connections of this process to one ledger.  A process that was forked has its own: those of its
    parent are never touched."""

    def __init__(self, address: Address, *, timeout: float, writable: bool) -> None:
        self.address = address
        self.timeout = timeout
        self.writable = writable
        self._conninfo = address.conninfo(write=writable)
        self._closed = False
        self._parents: list[ConnectionPool[Raw]] = []
        self._start()

    def _start(self) -> None:
        self.pid = os.getpid()
        self.writer = threading.Lock()
        self._pool: ConnectionPool[Raw] = ConnectionPool(
            self._conninfo,
            connection_class=Raw,
            min_size=0,
            max_size=MOST,
            timeout=self.timeout,
            max_idle=120.0,
            kwargs={"autocommit": True},
            open=True,
            name="defray",
        )

    def here(self) -> None:
        """Make sure that what is lent from now on is this process's."""
        if os.getpid() != self.pid:
            self._parents.append(self._pool)  # dropped, it would end them
            self._start()
        if self._closed:
            raise LedgerError(
                f"The ledger {self.address} was closed.",
                hint="Open it again.",
                path=str(self.address),
            )

    def try_once(self) -> None:
        """Connect and leave, so that a wrong address or password is told at once."""
        psycopg.connect(self._conninfo, autocommit=True).close()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection in a transaction that sees one moment and cannot write."""
        deadline = time.monotonic() + self.timeout
        with self._begun(deadline, lambda: _READ.format(schema=self.address.schema)) as sql:
            yield sql

    @contextmanager
    def writing(self, deadline: float) -> Iterator[Connection]:
        """A connection in a transaction that may write, without the lock; rolled back unless it commits."""

        def begin() -> str:
            wait = max(1, int((deadline - time.monotonic()) * 1000))
            return _WRITE.format(schema=self.address.schema, wait=wait)

        with self._begun(deadline, begin) as sql:
            yield sql

    @contextmanager
    def _begun(self, deadline: float, begin: Any) -> Iterator[Connection]:
        """A transaction begun before the deadline, on another connection where one turns out to be dead."""
        self.here()
        pool, pid = self._pool, os.getpid()
        while True:
            try:
                raw = pool.getconn(max(0.001, deadline - time.monotonic()))
            except PoolTimeout:
                self.here()
                raise
            sql = Connection(raw)
            try:
                sql.script(begin())
                break
            except psycopg.Error:
                pool.putconn(raw)
                if not sql.lost or time.monotonic() >= deadline:
                    raise
        try:
            yield sql
        finally:
            if os.getpid() == pid:
                if sql.in_transaction and not sql.lost:
                    _roll_back(sql)
                pool.putconn(raw)

    def close(self) -> None:
        self._closed = True
        if os.getpid() == self.pid:
            self._pool.close()


def _roll_back(sql: Connection) -> None:
    try:
        sql.script("ROLLBACK")
    except psycopg.Error:
        sql.raw.close()  # the server rolls back what has no client
