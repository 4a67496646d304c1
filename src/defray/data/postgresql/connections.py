"""Connections to the database of a source, and transactions that only read, at one moment.

Every transaction states its own settings, so it holds behind a pooler that gives each transaction another
session, and whatever the role, the database or others set.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Any, Final

import psycopg
from psycopg import pq

from defray import libpq
from defray.data.postgresql.faults import unavailable
from defray.data.watch import Watch
from defray.errors import SourceUnavailable

LEAST_VERSION: Final = 140_000
MOST_IDLE: Final = 8
LOCK_SECONDS: Final = 60
"""How long to wait for one who alters the table."""

BEGIN: Final = "; ".join(
    (
        "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        "SET LOCAL search_path = pg_catalog, pg_temp",
        "SET LOCAL TimeZone = 'UTC'",
        "SET LOCAL DateStyle = 'ISO, YMD'",
        "SET LOCAL IntervalStyle = 'postgres'",
        "SET LOCAL bytea_output = 'hex'",
        "SET LOCAL extra_float_digits = 1",
        "SET LOCAL standard_conforming_strings = on",
        "SET LOCAL row_security = off",  # an error where a policy would hide rows
        "SET LOCAL transform_null_equals = off",
        "SET LOCAL statement_timeout = 0",  # the caller's own timeout cancels
        "SET LOCAL idle_in_transaction_session_timeout = '600s'",
        f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'",
    )
)


class Transaction:
    """A transaction that sees one moment and cannot write."""

    def __init__(self, raw: psycopg.Connection[Any], name: str) -> None:
        self._raw = raw
        self._name = name

    def rows(
        self, sql: str, parameters: Sequence[Any] = (), watch: Watch | None = None
    ) -> list[Any]:
        """All rows of a statement with parameters $1, $2, ...  Whatever goes wrong at the server becomes a
        fixed error here; Cancelled where ``watch`` says so."""
        failed: SourceUnavailable | None = None
        found: list[Any] = []
        try:
            cursor = psycopg.RawCursor(self._raw)
            if watch is None:
                found = cursor.execute(sql, parameters, prepare=False, binary=True).fetchall()
            else:
                watch.check()
                with watch.over(self._cancel):
                    found = cursor.execute(sql, parameters, prepare=False, binary=True).fetchall()
        except psycopg.Error as error:
            failed = unavailable(error, self._name)
        except (MemoryError, OverflowError, ValueError) as error:
            failed = SourceUnavailable(
                f"what the database {self._name} sent cannot be read ({type(error).__name__})",
                hint="check that source.table is what it was when the contract was opened",
            )
        if failed is None:
            return found
        if watch is not None and (watch.fault is not None or watch.why is not None):
            watch.check()
        raise failed

    def _cancel(self) -> None:
        with suppress(psycopg.Error):  # called again until the statement has ended
            self._raw.cancel_safe(timeout=5.0)


class Connections:
    """The connections of this process to one database; safe to use from several threads.  A process that was
    forked has its own: those of its parent are never touched."""

    def __init__(self, dsn: str) -> None:
        self.name = libpq.shown(dsn)
        self._conninfo = libpq.completed(dsn)
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._lock = Lock()
        self._idle: list[psycopg.Connection[Any]] = []

    def after_fork(self) -> None:
        """In the child: psycopg ends no connection that another process made."""
        self._start()

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """A transaction, on another connection where one turns out to be dead.  A connection on which
        anything went wrong is not used again."""
        raw = self._begun()
        clean = False
        try:
            yield Transaction(raw, self.name)
            clean = self._ended(raw)
        finally:
            if clean:
                self._give_back(raw)
            else:
                raw.close()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for raw in idle:
            raw.close()

    def _begun(self) -> psycopg.Connection[Any]:
        while True:
            with self._lock:
                raw = self._idle.pop() if self._idle else None
            fresh = raw is None
            failed: SourceUnavailable | None = None
            try:
                if raw is None:
                    raw = psycopg.connect(self._conninfo, autocommit=True)
                raw.execute(BEGIN.encode())
            except psycopg.Error as error:
                failed = unavailable(error, self.name)
            if failed is None and raw is not None:
                if fresh:
                    self._check(raw)
                return raw
            if raw is not None:
                raw.close()
            if fresh and failed is not None:
                raise failed

    def _check(self, raw: psycopg.Connection[Any]) -> None:
        """What every new connection must be."""
        problem = None
        if raw.info.server_version < LEAST_VERSION:
            problem = ("is older than PostgreSQL 14", "upgrade it, or export the table to Parquet")
        elif raw.info.parameter_status("server_encoding") != "UTF8":
            problem = (
                "is not encoded as UTF8",
                "export the table to Parquet, or to a database that was made with ENCODING 'UTF8'",
            )
        if problem is not None:
            raw.close()
            raise SourceUnavailable(f"the database {self.name} {problem[0]}", hint=problem[1])

    def _ended(self, raw: psycopg.Connection[Any]) -> bool:
        """Whether the transaction is over and the connection can be used again."""
        with suppress(psycopg.Error):  # nothing was written; such a connection is closed
            raw.execute(b"COMMIT")
        return bool(raw.info.transaction_status == pq.TransactionStatus.IDLE)

    def _give_back(self, raw: psycopg.Connection[Any]) -> None:
        with self._lock:
            if len(self._idle) < MOST_IDLE and os.getpid() == self._pid:
                self._idle.append(raw)
                return
        raw.close()
