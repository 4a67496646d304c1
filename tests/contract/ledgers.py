"""The ledgers that the contract is tried on.  One more ledger is one more class in LEDGERS, and in DURABLE
if it outlives a process."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from defray.ledger.memory import MemoryLedger
from defray.ledger.records import Entry, Terms
from defray.ledger.sqlite import SqliteLedger
from defray.ledger.store import Ledger


class SqliteUnderTest:
    """``address`` lets other processes open the same ledger."""

    def __init__(self, address: str) -> None:
        self.address = address

    @classmethod
    def fresh(cls, folder: Path) -> SqliteUnderTest:
        return cls(str(folder / "contract.ledger"))

    def open(self, terms: Terms, *, timeout: float = 30.0) -> Ledger:
        return SqliteLedger.open(Path(self.address), terms, timeout=timeout)

    def read(self) -> Ledger:
        return SqliteLedger.read(Path(self.address))

    def execute(self, *statements: tuple[str, Sequence[Any]]) -> None:
        """Change the stored tables behind the ledger's back, as one who holds the file can."""
        with closing(sqlite3.connect(self.address)) as sql:
            triggers = sql.execute(
                "SELECT name FROM sqlite_master WHERE type = 'trigger'"
            ).fetchall()
            for (name,) in triggers:
                sql.execute(f"DROP TRIGGER {name}")
            sql.execute("PRAGMA ignore_check_constraints = ON")
            for statement, parameters in statements:
                sql.execute(statement, parameters)
            sql.commit()

    def rewrite(self, entries: Sequence[Entry]) -> None:
        """Replace the log."""
        self.execute(
            ("DELETE FROM entries", ()),
            *(
                (
                    "INSERT INTO entries(seq, kind, body, hash) VALUES (?, ?, ?, ?)",
                    (e.seq, _kind(e), e.body, e.hash),
                )
                for e in entries
            ),
        )


def _kind(entry: Entry) -> str:
    try:
        return str(entry.read()["kind"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return "release"


class MemoryUnderTest:
    """Every opening is another ledger: nobody else can come to it."""

    @classmethod
    def fresh(cls, folder: Path) -> MemoryUnderTest:
        return cls()

    def open(self, terms: Terms, *, timeout: float = 30.0) -> Ledger:
        return MemoryLedger(terms, timeout=timeout)


DURABLE: Final[dict[str, type[SqliteUnderTest]]] = {"sqlite": SqliteUnderTest}
LEDGERS: Final[dict[str, type[SqliteUnderTest] | type[MemoryUnderTest]]] = {
    **DURABLE,
    "memory": MemoryUnderTest,
}
