"""The durable memory in one SQLite file: safe between threads and processes of one machine.

Every commit is on the disk before it returns (WAL, ``synchronous=FULL``); writers are serialised by
``BEGIN IMMEDIATE`` and readers see one moment each.  Opening reads the first entry and the version only,
whatever the length of the log.

All of that holds for one file under one name (see :mod:`defray.ledger.files`).  Whether it still is that is
looked at when a reading begins, when a write has the lock, and again just before its commit; only between
that last look and the commit itself, some microseconds, can it be moved away unseen.

The file also holds the ledger's secret, so it is readable by its owner alone.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

from defray.errors import LedgerBusy, LedgerError
from defray.ledger import files
from defray.ledger.beside_rows import read_answer
from defray.ledger.creation import connect, create, first_terms, stored_secret
from defray.ledger.database import REMEMBER, DatabaseLedger
from defray.ledger.moved import Mark, moved_away, stored_mark, write_mark
from defray.ledger.paid import Memo
from defray.ledger.pool import Connection, Pool, forked, tainted
from defray.ledger.reading import SqlView
from defray.ledger.records import PURSES, Terms
from defray.ledger.schema import STEPS, Step, recognise
from defray.ledger.session import SqlTransaction
from defray.ledger.witness import Witness, older

_TRIES: Final = 3
"""On a layered file system a file may become another one, once, when it is first opened for writing."""


class SqliteLedger(DatabaseLedger):
    """A :class:`~defray.ledger.store.Ledger` in a file.  One object serves any number of threads."""

    def __init__(
        self, path: Path, *, timeout: float, writable: bool, steps: Sequence[Step]
    ) -> None:
        self._path, self._name = path, str(path)
        self._timeout = timeout
        self._writable = writable
        self._pool = Pool(path, self._connect)
        self._owner: int | None = None
        self._file: files.Identity | None = None
        self._secret = b""
        self._memo, self._version, self._counting = Memo(), 0, threading.Lock()
        self._witness: Witness | None = None
        try:
            with self._translated(), self._pool.lend() as sql:
                recognise(sql, path, steps, write=writable)
                self._terms = first_terms(sql, path)
                self._secret = stored_secret(sql, path)
        except BaseException:
            self._pool.close()
            raise

    @classmethod
    def open(
        cls,
        path: Path | str,
        terms: Terms,
        *,
        timeout: float = 30.0,
        mounts: Path = files.MOUNTS,
        steps: Sequence[Step] = STEPS,
        witness: Path | None = None,
        leaving: bool = False,
    ) -> Self:
        """The ledger of a contract, made (mode 0600) where there is none; ``witness`` is the file that knows
        its newest entry.  ``leaving``: it may bear the mark of one that was moved.

        Raises LedgerMismatch, naming each term and both its values, if the ledger was made under other
        terms, was moved, or has forgotten what its witness saw, and LedgerError where it cannot be kept
        safely.  Several processes may open a new path at once: one makes the ledger, all use it.
        """
        place = Path(os.path.realpath(path))
        files.refuse_network(place, mounts)
        guard = None if witness is None else Witness(witness)
        seen = None if guard is None else guard.seen()
        if not files.check_place(place):
            if guard is not None and seen is not None:
                raise older(place, guard.path, seen, None)
            create(place, terms, steps)
        ledger = cls(place, timeout=timeout, writable=True, steps=steps)
        try:
            ledger._admit(terms, guard, seen, leaving=leaving)
        except BaseException:
            ledger.close()
            raise
        return ledger

    @classmethod
    def read(
        cls, path: Path | str, *, timeout: float = 30.0, steps: Sequence[Step] = STEPS
    ) -> Self:
        """An existing ledger, for audit and history: under the terms it was made with, never written."""
        place = Path(os.path.realpath(path))
        if not files.check_place(place):
            raise LedgerError(
                f"There is no ledger at {place}.", hint="Check the path.", path=str(place)
            )
        return cls(place, timeout=timeout, writable=False, steps=steps)

    @property
    def path(self) -> Path:
        return self._path

    @contextmanager
    def view(self) -> Iterator[SqlView]:
        with self._snapshot() as sql:
            view = SqlView(sql, self._path, self._memo)
            try:
                yield view
                self._memo.keep(*view.accounts())
            finally:
                view.finish()

    def version(self) -> Hashable:
        with self._reading() as sql:
            (by_others,) = sql.execute("PRAGMA data_version").fetchone()
            now = by_others, sql.total_changes
            with self._counting:
                if sql.seen != now:
                    sql.seen, self._version = now, self._version + 1
                return self._version

    def answered(self, principal: str, key: str) -> tuple[str, str] | None:
        with self._reading() as sql:  # one statement reads one moment
            return read_answer(sql, principal, key)

    @contextmanager
    def _snapshot(self) -> Iterator[Connection]:
        with self._reading() as sql:
            sql.execute("BEGIN")
            try:
                yield sql
            finally:
                self._leave(sql, "ROLLBACK")

    @contextmanager
    def transaction(self) -> Iterator[SqlTransaction]:
        with self._turn() as remaining, self._pool.lend() as sql, self._translated():
            self._begin(sql, remaining)
            try:
                self._refuse_moved(sql)
                transaction = SqlTransaction(sql, self._path, self._memo, self._terms)
                try:
                    yield transaction
                    accounts = transaction.accounts()
                    spent = any(transaction.spent(purse) for purse in PURSES)
                finally:
                    transaction.finish()
                transaction.check()
                self._commit(sql)
            except BaseException:
                self._leave(sql, "ROLLBACK")
                raise
            self._memo.keep(*accounts)
            if self._witness is not None and spent:
                self._witness.see(transaction.seq, transaction.head)

    def remember(self, name: str, text: str) -> None:
        with self._turn() as remaining, self._pool.lend() as sql, self._translated():
            self._begin(sql, remaining)
            try:
                self._refuse_moved(sql)
                sql.execute(REMEMBER, (name, text))
                self._commit(sql)
            finally:
                self._leave(sql, "ROLLBACK")

    def backup(self, path: Path) -> None:
        """A consistent copy (mode 0600, fsynced; it holds the secret).  Others may go on meanwhile."""
        place = Path(os.path.realpath(path))
        try:
            files.make_private(place)
        except FileExistsError:
            raise LedgerError(
                f"{place} exists; a backup never overwrites.",
                hint="Name a new file.",
                path=str(place),
            ) from None
        except OSError as error:
            raise files.from_os(error, place) from None
        try:
            with self._reading(place) as sql:
                copy = sqlite3.connect(place, isolation_level=None)
                try:
                    sql.backup(copy)
                finally:
                    copy.close()
            files.sync(place)
            files.sync(place.parent)
        except OSError as error:
            files.discard(place)
            raise files.from_os(error, place) from None
        except BaseException:
            files.discard(place)
            raise

    def mark(self) -> Mark | None:
        with self._reading() as sql:
            return stored_mark(sql)

    @contextmanager
    def leaving(self, mark: Mark) -> Iterator[Connection]:
        """As :meth:`defray.ledger.moving.Movable.leaving` says."""
        with self._turn() as remaining, self._pool.lend() as sql, self._translated():
            self._begin(sql, remaining)
            try:
                self._refuse_moved(sql, unless=replace(mark, done=False))
                yield sql
                write_mark(sql, mark)
                self._commit(sql)
            finally:
                self._leave(sql, "ROLLBACK")

    def _refuse_moved(self, sql: Connection, unless: Mark | None = None) -> None:
        mark = stored_mark(sql)
        if mark not in (None, unless):
            raise moved_away(mark, self._path)

    def close(self) -> None:
        self._pool.close()

    def _connect(self) -> Connection:
        """A connection to the very file that was opened first."""
        if tainted(self._path):
            raise forked(self._path)
        for _ in range(_TRIES):
            file = files.identity(self._path)
            if file != (self._file or file):
                break
            sql = connect(self._path, self._timeout, writable=self._writable)
            try:
                if self._secret and stored_secret(sql, self._path) != self._secret:
                    raise files.moved(self._path)
                if files.identity(self._path) == file:
                    self._file = file
                    sql.sides = files.sides(self._path) if self._writable else None
                    return sql
            except BaseException:
                sql.close()
                raise
            sql.close()
        raise files.moved(self._path)

    @contextmanager
    def _reading(self, path: Path | None = None) -> Iterator[Connection]:
        with self._pool.lend() as sql, self._translated(path):
            self._same_file()
            yield sql

    @contextmanager
    def _turn(self) -> Iterator[float]:
        """This thread's turn to write among those of the process; yields the seconds left to wait."""
        if not self._writable:
            raise LedgerError(
                f"The ledger {self._path} was opened for reading.",
                hint="Open it with its contract to write.",
                path=str(self._path),
            )
        me = threading.get_ident()
        if self._owner == me and self._pool.writer.locked():
            raise LedgerError(
                "A ledger transaction was begun inside another one of its own thread."
            )
        deadline = time.monotonic() + self._timeout
        writer = self._pool.writer
        if not writer.acquire(timeout=self._timeout):
            raise LedgerBusy(
                f"The ledger {self._path} is in use by others for longer than the timeout.",
                hint="Try again; nothing was spent.",
                path=str(self._path),
            )
        self._owner = me
        try:
            yield max(0.0, deadline - time.monotonic())
        finally:
            self._owner = None
            writer.release()

    def _begin(self, sql: Connection, remaining: float) -> None:
        """Take the write lock: the line that serialises all writers of the machine."""
        self._same_file()
        sql.execute(f"PRAGMA busy_timeout = {int(remaining * 1000)}")
        try:
            sql.execute("BEGIN IMMEDIATE")
        finally:
            sql.execute(f"PRAGMA busy_timeout = {int(self._timeout * 1000)}")
        try:
            self._same_files(sql)
        except BaseException:
            self._leave(sql, "ROLLBACK")
            raise

    def _commit(self, sql: Connection) -> None:
        self._same_files(sql)
        self._leave(sql, "COMMIT")

    def _same_file(self) -> None:
        if self._file is not None:
            files.still(self._path, self._file)

    def _same_files(self, sql: Connection) -> None:
        """Whether what a connection in a transaction writes to is what others of the same name write to.
        SQLite keeps its log and index for as long as any connection is open."""
        self._same_file()
        if files.sides(self._path) != sql.sides:
            raise files.moved(self._path)

    @contextmanager
    def _translated(self, path: Path | None = None) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise files.from_sqlite(error, path or self._path) from None

    def _leave(self, sql: Connection, how: str) -> None:
        if os.getpid() != self._pool.pid or tainted(self._path):
            raise forked(self._path)
        if sql.in_transaction:
            sql.execute(how)
