"""The durable memory in one SQLite file: safe between threads and processes of one machine.

Every commit is on the disk before it returns (WAL, ``synchronous=FULL``); writers are serialised by
``BEGIN IMMEDIATE`` and readers see one moment each.  Opening reads the first entry and the version only,
whatever the length of the log.  The file also holds the ledger's secret, so it is readable by its owner
alone.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import quote

from defray.core.amounts import QUANTA
from defray.errors import LedgerBusy, LedgerCorrupt, LedgerError, LedgerMismatch
from defray.ledger import files
from defray.ledger.pool import Pool, forked, tainted
from defray.ledger.records import Entry, Epoch, Known, Terms, canonical
from defray.ledger.schema import APPLICATION, STEPS, Step, advance, recognise
from defray.ledger.session import (
    KNOWN,
    UNREADABLE,
    SqliteTransaction,
    SqliteView,
    known_of,
    unreadable,
)

_PAGE: Final = 1000


class SqliteLedger:
    """A :class:`~defray.ledger.store.Ledger` in a file.  One object serves any number of threads."""

    def __init__(
        self, path: Path, *, timeout: float, writable: bool, steps: Sequence[Step]
    ) -> None:
        self._path = path
        self._timeout = timeout
        self._writable = writable
        self._pool = Pool(path, self._connect)
        self._owner: int | None = None
        self._epochs: dict[str, Epoch] = {}
        try:
            with self._translated(), self._pool.lend() as sql:
                recognise(sql, path, steps, write=writable)
                self._terms = _first_terms(sql, path)
                self._secret = _secret(sql, path)
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
    ) -> Self:
        """The ledger of a contract, made (mode 0600) where there is none.

        Raises LedgerMismatch, naming each term and both its values, if the ledger was made under other
        terms, and LedgerError where it cannot be kept safely.  Several processes may open a new path at
        once: one makes the ledger, all use it.
        """
        place = Path(os.path.realpath(path))
        files.refuse_network(place, mounts)
        if not files.check_place(place):
            _create(place, terms, steps)
        ledger = cls(place, timeout=timeout, writable=True, steps=steps)
        try:
            _compare(ledger.terms, terms, place)
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

    @property
    def terms(self) -> Terms:
        return self._terms

    @property
    def secret(self) -> bytes:
        return self._secret

    @contextmanager
    def view(self) -> Iterator[SqliteView]:
        with self._pool.lend() as sql, self._translated():
            sql.execute("BEGIN")
            view = SqliteView(sql, self._path, self._epochs)
            try:
                yield view
            finally:
                view.finish()
                self._leave(sql, "ROLLBACK")

    @contextmanager
    def transaction(self) -> Iterator[SqliteTransaction]:
        with self._pool.lend() as sql, self._turn() as remaining, self._translated():
            self._begin(sql, remaining)
            try:
                transaction = SqliteTransaction(sql, self._path, self._epochs, self._terms)
                try:
                    yield transaction
                finally:
                    transaction.finish()
                if transaction.spoiled:
                    raise LedgerCorrupt(
                        "A ledger transaction was to be kept although a step of it had failed.",
                        hint="This is a fault of the caller; nothing was kept.",
                        path=str(self._path),
                    )
                self._leave(sql, "COMMIT")
            except BaseException:
                self._leave(sql, "ROLLBACK")
                raise

    def entries(self, start: int = 1) -> Iterator[Entry]:
        """The log from ``start`` to what was the newest entry at the first step."""
        with self.view() as view:
            newest = view.seq
        while start <= newest:
            with self._pool.lend() as sql, self._translated():
                rows = sql.execute(
                    "SELECT seq, body, hash FROM entries WHERE seq BETWEEN ? AND ? ORDER BY seq LIMIT ?",
                    (start, newest, _PAGE),
                ).fetchall()
            if not rows:
                return
            for seq, body, hash_ in rows:
                yield Entry(seq, body, hash_)
            start = rows[-1][0] + 1

    def folds(self) -> tuple[dict[str, int], dict[bytes, Known]]:
        with self._pool.lend() as sql, self._translated():
            sql.execute("BEGIN")
            try:
                totals: dict[str, int] = dict(sql.execute("SELECT purse, quanta FROM totals"))
                known = {bytes(row[0]): known_of(row[1:]) for row in sql.execute(KNOWN)}
            except UNREADABLE:
                raise unreadable(self._path, "a fold") from None
            finally:
                self._leave(sql, "ROLLBACK")
        return totals, known

    def remembered(self, name: str) -> str | None:
        with self._pool.lend() as sql, self._translated():
            row = sql.execute("SELECT text FROM notes WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def remember(self, name: str, text: str) -> None:
        with self._pool.lend() as sql, self._turn() as remaining, self._translated():
            self._begin(sql, remaining)
            try:
                sql.execute(
                    "INSERT INTO notes(name, text) VALUES (?, ?) "
                    "ON CONFLICT(name) DO UPDATE SET text = excluded.text",
                    (name, text),
                )
                self._leave(sql, "COMMIT")
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
            with self._pool.lend() as sql, self._translated(place):
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

    def close(self) -> None:
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _connect(self) -> sqlite3.Connection:
        if tainted(self._path):
            raise forked(self._path)
        return _connect(self._path, self._timeout, writable=self._writable)

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

    def _begin(self, sql: sqlite3.Connection, remaining: float) -> None:
        """Take the write lock: the line that serialises all writers of the machine."""
        sql.execute(f"PRAGMA busy_timeout = {int(remaining * 1000)}")
        try:
            sql.execute("BEGIN IMMEDIATE")
        finally:
            sql.execute(f"PRAGMA busy_timeout = {int(self._timeout * 1000)}")

    @contextmanager
    def _translated(self, path: Path | None = None) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise files.from_sqlite(error, path or self._path) from None

    def _leave(self, sql: sqlite3.Connection, how: str) -> None:
        if os.getpid() != self._pool.pid or tainted(self._path):
            raise forked(self._path)
        if sql.in_transaction:
            sql.execute(how)


def _connect(path: Path, timeout: float, *, writable: bool) -> sqlite3.Connection:
    mode = "rw"  # even to read, where it can be had: then the last to leave tidies up the log
    if not writable and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        mode = "ro" if Path(f"{path}-wal").exists() else "ro&immutable=1"
    uri = f"file:{quote(str(path))}?mode={mode}"
    sql = sqlite3.connect(
        uri, uri=True, timeout=timeout, isolation_level=None, check_same_thread=False
    )
    try:
        sql.execute("PRAGMA trusted_schema = OFF")
        sql.execute("PRAGMA synchronous = FULL")
        sql.execute("PRAGMA fullfsync = ON")
        if not writable:
            sql.execute("PRAGMA query_only = ON")
        elif sql.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
            raise LedgerError(
                f"The ledger {path} lies where SQLite cannot keep a write-ahead log.",
                hint="Keep it on a local disk.",
                path=str(path),
            )
    except BaseException:
        sql.close()
        raise
    return sql


def _create(path: Path, terms: Terms, steps: Sequence[Step]) -> None:
    """Make a whole ledger under another name, then give it its own in one step, if still free."""
    if terms.rho <= 0 or any(c < 0 for c in terms.caps.values()):
        raise LedgerError(
            "The terms of a ledger need a positive rho and caps that are not negative."
        )
    if sum(terms.caps.values()) > QUANTA:
        raise LedgerError("The purses' caps together exceed the contract.")
    fresh = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.new")
    try:
        files.make_private(fresh)
        sql = _connect(fresh, 1.0, writable=True)
        try:
            sql.execute("BEGIN IMMEDIATE")
            sql.execute(f"PRAGMA application_id = {APPLICATION}")
            advance(sql, steps)
            sql.execute(
                "INSERT INTO meta(name, value) VALUES ('secret', ?)", (secrets.token_bytes(32),)
            )
            SqliteTransaction(sql, path, {}, terms).start()
            sql.execute("COMMIT")
        finally:
            sql.close()
        files.sync(fresh)
        files.publish(fresh, path)
    except OSError as error:
        raise files.from_os(error, path) from None
    except sqlite3.Error as error:
        raise files.from_sqlite(error, path) from None
    finally:
        files.discard(fresh)


def _first_terms(sql: sqlite3.Connection, path: Path) -> Terms:
    row = sql.execute("SELECT body FROM entries WHERE seq = 1 AND kind = 'open'").fetchone()
    try:
        return Terms.from_json(json.loads(row[0]))
    except UNREADABLE:
        raise unreadable(path, "its terms") from None


def _secret(sql: sqlite3.Connection, path: Path) -> bytes:
    row = sql.execute("SELECT value FROM meta WHERE name = 'secret'").fetchone()
    if row is None or not isinstance(row[0], bytes) or len(row[0]) != 32:
        raise unreadable(path, "its secret")
    return row[0]


def _compare(ledger: Terms, contract: Terms, path: Path) -> None:
    old, new = (dict(_flat(json.loads(canonical(terms.to_json())))) for terms in (ledger, contract))
    differing = [
        {"term": name, "ledger": old.get(name), "contract": new.get(name)}
        for name in sorted(old.keys() | new.keys())
        if old.get(name, _ABSENT) != new.get(name, _ABSENT)
    ]
    if differing:
        listed = "; ".join(
            f"{d['term']} is {_spell(d['ledger'])} in the ledger, {_spell(d['contract'])} in the contract"
            for d in differing
        )
        raise LedgerMismatch(
            f"The ledger {path} was made under other terms: {listed}.",
            hint="Restore the contract's terms, or start a new ledger for a new contract.",
            path=str(path),
            differing=differing,
        )


_ABSENT: Final = object()


def _spell(value: Any) -> str:
    return "absent" if value is None else canonical(value).decode("ascii")


def _flat(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in data.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value
