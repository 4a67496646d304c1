"""The ledgers that the contract is tried on.  One more ledger is one more class in LEDGERS, and in DURABLE
if it outlives a process."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from defray.ledger.memory import MemoryLedger
from defray.ledger.records import Entry, Terms
from defray.ledger.sqlite import SqliteLedger
from defray.ledger.store import Ledger
from tests.postgresql.server import new_schema, the_server


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


class PostgresUnderTest(SqliteUnderTest):
    """``address`` is a dsn and a schema; or the file of a backup, which is a ledger in SQLite."""

    @classmethod
    def fresh(cls, folder: Path) -> PostgresUnderTest:
        return cls(f"{the_server().dsn()}#{new_schema()}")

    @property
    def _address(self) -> Any:
        from defray.ledger.postgresql.address import Address

        dsn, mark, schema = self.address.rpartition("#")
        return Address(dsn, schema) if mark else None

    def open(self, terms: Terms, *, timeout: float = 30.0) -> Ledger:
        if self._address is None:
            return super().open(terms, timeout=timeout)
        from defray.ledger.postgresql.ledger import PostgresLedger

        return PostgresLedger.open(self._address, terms, timeout=timeout)

    def read(self) -> Ledger:
        if self._address is None:
            return super().read()
        from defray.ledger.postgresql.ledger import PostgresLedger

        return PostgresLedger.read(self._address)

    def execute(self, *statements: tuple[str, Sequence[Any]]) -> None:
        """Change the stored tables behind the ledger's back, as their owner can."""
        import psycopg

        address = self._address
        with psycopg.connect(address.dsn, options=f"-c search_path={address.schema}") as sql:
            for table in ("entries", "totals", "charges", "known", "tokens", "answered"):
                for (name,) in sql.execute(
                    "SELECT tgname FROM pg_trigger WHERE tgrelid = %s::regclass AND NOT tgisinternal",
                    (table,),
                ).fetchall():
                    sql.execute(f"DROP TRIGGER {name} ON {table}".encode())
                checks = sql.execute(
                    "SELECT conname FROM pg_constraint WHERE conrelid = %s::regclass AND contype = 'c'",
                    (table,),
                ).fetchall()
                for (name,) in checks:
                    sql.execute(f"ALTER TABLE {table} DROP CONSTRAINT {name}".encode())
            for statement, parameters in statements:
                for text in in_postgresql(statement):
                    sql.execute(text.replace("?", "%s").encode(), parameters)


def in_postgresql(statement: str) -> list[str]:
    """A statement of SQLite's as PostgreSQL has it: what every cell has paid is in a column of its own,
    blobs are spelled otherwise, and columns take only values of their type."""
    blobs = re.sub(r"x'([0-9a-f]*)'", r"'\\x\1'::bytea", statement)
    blobs = blobs.replace("quanta = 7 ", "quanta = '7'::bytea ")
    if "charges" in statement and "attributes = ''" in statement:
        blobs = blobs.replace("quanta", "everywhere")
    if statement.startswith("INSERT INTO charges VALUES"):
        columns = "purse, attributes, number, last, " + (
            "everywhere" if ", ''," in statement else "quanta"
        )
        blobs = blobs.replace("charges VALUES", f"charges({columns}) VALUES")
    if re.search("made = ('noon'|1e300)", statement):
        return ["ALTER TABLE tokens ALTER COLUMN made TYPE text", blobs]
    return [blobs]


DURABLE: Final[dict[str, type[SqliteUnderTest]]] = {
    "sqlite": SqliteUnderTest,
    "postgresql": PostgresUnderTest,
}
LEDGERS: Final[dict[str, type[SqliteUnderTest] | type[MemoryUnderTest]]] = {
    **DURABLE,
    "memory": MemoryUnderTest,
}
