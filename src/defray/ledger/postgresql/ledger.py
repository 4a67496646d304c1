"""The durable memory in a schema of a PostgreSQL database: safe between threads, processes and servers.

Writers are serialised by one row lock (:data:`~defray.ledger.postgresql.connections.LOCK`); readers see one
moment each and block nobody.  A commit is on the server's disk before it returns.  Where the connection is
lost at a commit, the ledger is asked what became of it before anybody is told anything.

A process remembers the newest entry that it saw.  A server that does not hold it, such as a standby that was
promoted and lacks the last commits, is refused: it would let be spent again what was spent there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Self

from defray.errors import LedgerError, LedgerMismatch
from defray.ledger.creation import first_terms, stored_secret
from defray.ledger.database import REMEMBER, DatabaseLedger
from defray.ledger.moved import Mark, moved_away
from defray.ledger.paid import Memo
from defray.ledger.postgresql import schema
from defray.ledger.postgresql.address import Address
from defray.ledger.postgresql.connections import PATIENT, Connection, Connections
from defray.ledger.postgresql.faults import lost, translated
from defray.ledger.postgresql.transaction import PostgresTransaction, PostgresView
from defray.ledger.postgresql.writing import Writer, making
from defray.ledger.records import PURSES, Terms
from defray.ledger.witness import Seen, Witness, older


class PostgresLedger(DatabaseLedger):
    """A :class:`~defray.ledger.store.Ledger` in a schema.  One object serves any number of threads."""

    def __init__(self, address: Address, *, timeout: float, writable: bool) -> None:
        self._address = address
        self._name = str(address)
        self._memo = Memo()
        self._newest: Seen = (0, "")
        self._witness: Witness | None = None
        with translated(self._name):
            self._connections = Connections(address, timeout=timeout, writable=writable)
        self._writer = Writer(self._connections)

    @classmethod
    def open(
        cls,
        address: Address,
        terms: Terms,
        *,
        timeout: float = 30.0,
        witness: Path | None = None,
        leaving: bool = False,
    ) -> Self:
        """The ledger of a contract, made where there is none and the role may make it; ``witness`` is the
        file that knows its newest entry.  ``leaving``: it may bear the mark of one that was moved.

        Raises LedgerMismatch, naming each term and both its values, if the ledger was made under other
        terms, if it was moved, or if it has forgotten what its witness saw; LedgerUnavailable where the
        server cannot be reached.  Several processes may open a new one at once: one makes it, all use it.
        """
        guard = None if witness is None else Witness(witness)
        seen = None if guard is None else guard.seen()
        ledger = cls(address, timeout=timeout, writable=True)
        try:
            with translated(ledger._name):
                ledger._connections.try_once()
                if not ledger._there():
                    if guard is not None and seen is not None:
                        raise older(ledger._name, guard.path, seen, None)
                    ledger._make(terms)
            ledger._read_first()
            ledger._admit(terms, guard, seen, leaving=leaving)
        except BaseException:
            ledger.close()
            raise
        return ledger

    @classmethod
    def read(cls, address: Address, *, timeout: float = 30.0) -> Self:
        """An existing ledger, for audit and history: under the terms it was made with, never written."""
        ledger = cls(address, timeout=timeout, writable=False)
        try:
            with translated(ledger._name):
                ledger._connections.try_once()
                if not ledger._there():
                    raise LedgerError(
                        f"There is no ledger at {ledger._name}.",
                        hint="Check its dsn and its schema.",
                        path=ledger._name,
                    )
            ledger._read_first()
        except BaseException:
            ledger.close()
            raise
        return ledger

    @classmethod
    def exists(cls, address: Address) -> bool:
        """Whether there is a ledger."""
        ledger = cls(address, timeout=30.0, writable=True)
        try:
            with translated(ledger._name):
                ledger._connections.try_once()
                return ledger._there()
        finally:
            ledger.close()

    def grant(self, role: str) -> None:
        """Give a role the rights of a service: to append to the log, and not to change it.  It takes those of
        the owner."""
        deadline = time.monotonic() + self._connections.timeout
        with translated(self._name), self._connections.writing(deadline) as sql:
            schema.grant(sql, self._address, role)
            sql.script("COMMIT")

    @contextmanager
    def view(self) -> Iterator[PostgresView]:
        before = self._newest
        with self._snapshot() as sql:
            view = PostgresView(sql, self._name, self._memo)
            self._still(view, sql, before)
            try:
                yield view
                self._memo.keep(*view.accounts())
            finally:
                view.finish()

    @contextmanager
    def _snapshot(self) -> Iterator[Connection]:
        with translated(self._name), self._connections.reading() as sql:
            yield sql

    @contextmanager
    def transaction(self) -> Iterator[PostgresTransaction]:
        with self._writer.turn() as deadline, translated(self._name):
            with self._writer.locked(deadline) as sql:
                transaction = PostgresTransaction(sql, self._name, self._memo, self._terms)
                self._still(transaction, sql, self._newest)
                try:
                    yield transaction
                    accounts = transaction.accounts()
                    spent = self._witness is not None and any(map(transaction.spent, PURSES))
                finally:
                    transaction.finish()
                transaction.check()
                sure = self._writer.commit(sql)
            if not sure:
                self._writer.find(transaction.proof)
            self._memo.keep(*accounts)
            self._newest = max(self._newest, (transaction.seq, transaction.head))
            if self._witness is not None and spent:
                self._witness.see(transaction.seq, transaction.head)

    def remember(self, name: str, text: str) -> None:
        with (
            self._writer.turn() as deadline,
            translated(self._name),
            self._writer.locked(deadline) as sql,
        ):
            sql.execute(REMEMBER, (name, text))
            if not self._writer.commit(sql):
                raise lost(self._name)

    def backup(self, path: Path) -> None:
        """A consistent copy in a SQLite file (mode 0600, fsynced; it holds the secret), itself a ledger.
        Others may go on meanwhile.  LedgerMismatch if this one was moved: the copy would not be marked."""
        from defray.ledger.copying import into_file

        mark = self.mark()
        if mark is not None:
            raise moved_away(mark, self._name)
        with self._snapshot() as sql:
            sql.script(PATIENT)
            into_file(sql, self._name, path)

    def close(self) -> None:
        self._connections.close()

    def mark(self) -> Mark | None:
        with self._snapshot() as sql:
            (moved,) = sql.execute("SELECT moved FROM head").fetchone() or (None,)
        return None if moved is None else Mark.read(moved)

    @contextmanager
    def leaving(self, mark: Mark) -> Iterator[Connection]:
        """As :meth:`defray.ledger.moving.Movable.leaving` says; it takes the rights of the owner."""
        allowed = replace(mark, done=False)
        with (
            self._writer.turn() as deadline,
            translated(self._name),
            self._writer.locked(deadline, allowed) as sql,
        ):
            sql.script(PATIENT)
            yield sql
            sql.execute("UPDATE head SET moved = ?", (str(mark),))
            if not self._writer.commit(sql):
                raise lost(self._name)

    def _there(self) -> bool:
        with self._connections.reading() as sql:
            return schema.there(sql, self._address)

    def _make(self, terms: Terms) -> None:
        """Make the ledger, unless another did meanwhile."""
        with making(self._connections, self._address) as sql:
            if not schema.there(sql, self._address):
                schema.begin(sql, self._address, terms)

    def _read_first(self) -> None:
        with self._snapshot() as sql:
            schema.recognise(sql, self._address)
            self._terms = first_terms(sql, self._name)
            self._secret = stored_secret(sql, self._name)

    def _still(self, view: PostgresView, sql: Connection, before: Seen) -> None:
        """Refuse a server whose log does not hold what this process saw before."""
        seq, head = before
        if view.seq < seq:
            raise forgotten(self._name, before, view.seq)
        if seq and not sql.raw.proven:
            row = sql.execute("SELECT hash FROM entries WHERE seq = ?", (seq,)).fetchone()
            if row is None or row[0] != head:
                raise forgotten(self._name, before, view.seq)
            sql.raw.proven = True
        if view.seq > self._newest[0]:
            self._newest = view.seq, view.head


def forgotten(name: str, seen: Seen, newest: int) -> LedgerMismatch:
    return LedgerMismatch(
        f"The ledger {name} ends at entry {newest} or is another one, but this process saw its entry "
        f"{seen[0]}: an older copy forgets what was spent since, and would let it be spent again.",
        hint="Bring the server back that has it. If it is lost: defray ledger accept-older says what "
        "that means.",
        path=name,
        seen=seen[0],
        newest=newest,
    )
