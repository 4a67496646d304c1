"""What ledgers in a database do alike: what they read at one moment of it, and whom they let in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, Self

from defray.ledger.accounts import Folds
from defray.ledger.creation import compare
from defray.ledger.moved import Mark, moved_away
from defray.ledger.paid import Memo, stored
from defray.ledger.reading import KNOWN, UNREADABLE, SqlView, known_of, unreadable
from defray.ledger.records import PURSES, Entry, Terms
from defray.ledger.session import SqlTransaction
from defray.ledger.sql import Sql
from defray.ledger.witness import Seen, Witness, check

REMEMBER: Final = (
    "INSERT INTO notes(name, text) VALUES (?, ?) "
    "ON CONFLICT(name) DO UPDATE SET text = excluded.text"
)

_PAGE: Final = 1000


class DatabaseLedger(ABC):
    """The common part of a :class:`~defray.ledger.store.Ledger` in a database.  ``_name`` is where it is, for
    messages."""

    _name: str
    _terms: Terms
    _secret: bytes
    _memo: Memo
    _witness: Witness | None

    @abstractmethod
    def _snapshot(self) -> AbstractContextManager[Sql]:
        """A connection that reads one moment."""

    @abstractmethod
    def view(self) -> AbstractContextManager[SqlView]:
        """As :meth:`defray.ledger.store.Ledger.view`."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[SqlTransaction]:
        """As :meth:`defray.ledger.store.Ledger.transaction`."""

    @abstractmethod
    def remember(self, name: str, text: str) -> None:
        """As :meth:`defray.ledger.store.Ledger.remember`."""

    @abstractmethod
    def backup(self, path: Path) -> None:
        """As :meth:`defray.ledger.store.Ledger.backup`."""

    @abstractmethod
    def mark(self) -> Mark | None:
        """Where it was moved to; None where it was not."""

    @abstractmethod
    def close(self) -> None:
        """Close all connections."""

    @property
    def name(self) -> str:
        """Where it is; no user and no password."""
        return self._name

    @property
    def terms(self) -> Terms:
        return self._terms

    @property
    def secret(self) -> bytes:
        return self._secret

    def version(self) -> Hashable | None:
        return None

    def entries(self, start: int = 1) -> Iterator[Entry]:
        """The log in order, from ``start`` to what was the newest entry at the first step."""
        with self.view() as view:
            newest = view.seq
        while start <= newest:
            with self._snapshot() as sql:
                rows = sql.execute(
                    "SELECT seq, body, hash FROM entries WHERE seq BETWEEN ? AND ? ORDER BY seq LIMIT ?",
                    (start, newest, _PAGE),
                ).fetchall()
            if not rows:
                return
            for seq, body, hash_ in rows:
                yield Entry(seq, body, hash_)
            start = rows[-1][0] + 1

    def folds(self) -> Folds:
        with self._snapshot() as sql:
            try:
                totals: dict[str, int] = dict(sql.execute("SELECT purse, quanta FROM totals"))
                known = {bytes(row[0]): known_of(row[1:]) for row in sql.execute(KNOWN)}
                charges = stored(sql)
            except UNREADABLE:
                raise unreadable(self._name, "a fold") from None
        return Folds(totals, known, charges)

    def answered(self, principal: str, key: str) -> tuple[str, str] | None:
        with self.view() as view:
            return view.answered(principal, key)

    def remembered(self, name: str) -> str | None:
        with self._snapshot() as sql:
            row = sql.execute("SELECT text FROM notes WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def _admit(
        self, terms: Terms, guard: Witness | None, seen: Seen | None, *, leaving: bool
    ) -> None:
        """Let in a contract of these terms.  Raises LedgerMismatch where the ledger was made under others,
        was moved (unless it is ``leaving``), or does not hold what its witness had ``seen``."""
        with self.view() as view:
            untouched = not any(view.spent(purse) for purse in PURSES)
            peopled = bool(view.principals())
        compare(self.terms, terms, self._name, untouched=untouched, peopled=peopled)
        mark = self.mark()
        if mark is not None and not leaving:
            raise moved_away(mark, self._name)
        if guard is not None:
            check(self, self._name, guard, seen)
            self._witness = guard

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
