"""Versions of the file, and the rules that hold for every client of it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from defray.errors import LedgerCorrupt, LedgerError
from defray.ledger.audit import audit
from defray.ledger.records import Arrival
from defray.ledger.schema import APPLICATION, STEPS, advance, version_of
from defray.ledger.sqlite import SqliteLedger
from tests.ledger.makers import DOMAIN, by_cell, derive, release, terms
from tests.ledger.older import turned_back

NEXT = (*STEPS, ("ALTER TABLE notes ADD COLUMN made TEXT", "UPDATE notes SET made = 'before'"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with SqliteLedger.open(tmp_path / "a", terms()) as ledger:
        with ledger.transaction() as transaction:
            transaction.open_epoch("p", DOMAIN)
            transaction.append(release())
            transaction.append(by_cell())
        ledger.remember("n", "t")
    return tmp_path / "a"


def test_a_ledger_is_made_from_nothing() -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as sql:
        assert version_of(sql) == 0
        advance(sql)
        assert version_of(sql) == len(STEPS)
        advance(sql)


def test_an_older_ledger_is_brought_up_to_date(path: Path) -> None:
    with pytest.raises(LedgerError, match="older Defray"):
        SqliteLedger.read(path, steps=NEXT)
    for _ in range(2):
        with SqliteLedger.open(path, terms(), steps=NEXT) as ledger:
            assert ledger.remembered("n") == "t"
            assert audit(ledger, derive).ok
    with closing(sqlite3.connect(path)) as sql:
        assert version_of(sql) == len(NEXT)
        assert sql.execute("SELECT made FROM notes").fetchall() == [("before",)]


def test_the_first_version_of_the_file_opens_and_goes_on(tmp_path: Path) -> None:
    """The log is moved to its new table as it is: same chain, same rules."""
    path = tmp_path / "a"
    with SqliteLedger.open(path, terms()) as ledger:
        with ledger.transaction() as transaction:
            transaction.open_epoch("p", DOMAIN)
        before = [entry.hash for entry in ledger.entries()]
    turned_back(path, 1)
    with SqliteLedger.open(path, terms()) as ledger:
        with ledger.transaction() as transaction:
            transaction.append(release())
            transaction.arrive(Arrival(1, b"m" * 16, 0.5, 0.25, 1.0, 0.1))
        assert [entry.hash for entry in ledger.entries()][: len(before)] == before
        assert audit(ledger, derive).ok
    with closing(sqlite3.connect(path, isolation_level=None)) as sql:
        for change in ("DELETE FROM entries", "UPDATE entries SET hash = hash"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                sql.execute(change)


def test_a_failed_step_leaves_the_older_version(path: Path) -> None:
    broken = (*STEPS, ("ALTER TABLE notes ADD COLUMN made TEXT", "UPDATE nothing SET made = 1"))
    with pytest.raises(LedgerError):
        SqliteLedger.open(path, terms(), steps=broken)
    with SqliteLedger.open(path, terms()) as ledger:
        assert audit(ledger, derive).ok
    with closing(sqlite3.connect(path)) as sql:
        assert version_of(sql) == len(STEPS)


def test_a_newer_ledger_is_refused(path: Path) -> None:
    SqliteLedger.open(path, terms(), steps=NEXT).close()
    for attempt in (lambda: SqliteLedger.open(path, terms()), lambda: SqliteLedger.read(path)):
        with pytest.raises(LedgerError, match="made by a newer Defray"):
            attempt()


def test_a_ledger_without_a_version_is_corrupt(path: Path) -> None:
    with closing(sqlite3.connect(path)) as sql:
        assert sql.execute("PRAGMA application_id").fetchone() == (APPLICATION,)
        sql.execute("PRAGMA user_version = 0")
    with pytest.raises(LedgerCorrupt):
        SqliteLedger.open(path, terms())


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET body = x'7b7d' WHERE seq = 1",
        "UPDATE entries SET seq = seq + 10",
        "DELETE FROM entries WHERE seq = 3",
        "INSERT INTO entries VALUES (6, 'release', x'7b7d', printf('%064d', 0))",
        "INSERT INTO entries VALUES (3, 'release', x'7b7d', printf('%064d', 0))",
        "INSERT OR REPLACE INTO entries VALUES (3, 'release', x'7b7d', printf('%064d', 0))",
        "INSERT INTO entries VALUES (5, 'gift', x'7b7d', printf('%064d', 0))",
        "INSERT INTO entries VALUES (5, 'release', '{}', printf('%064d', 0))",
        "UPDATE totals SET quanta = quanta - 1 WHERE purse = 'answer'",
        "UPDATE totals SET quanta = cap + 1",
        "UPDATE totals SET quanta = 1e9",
        "UPDATE totals SET cap = cap + 1",
        "DELETE FROM totals",
        "UPDATE charges SET quanta = quanta - 1 WHERE attributes = '' AND purse = 'answer'",
        "UPDATE charges SET quanta = 1.5 WHERE attributes = ''",
        "UPDATE charges SET quanta = x'00' WHERE attributes = ''",
        "UPDATE charges SET quanta = 0 WHERE attributes <> ''",
        "UPDATE charges SET quanta = x'00' WHERE attributes <> ''",
        "UPDATE charges SET number = number + 1",
        "UPDATE charges SET attributes = '9' WHERE attributes = '0'",
        "DELETE FROM charges WHERE attributes = ''",
        "DELETE FROM charges WHERE attributes <> ''",
    ],
)
def test_the_file_itself_refuses(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as sql, pytest.raises(sqlite3.IntegrityError):
        sql.execute(statement)


def test_nothing_is_inserted_after_the_end(path: Path) -> None:
    with SqliteLedger.open(path, terms()) as ledger, ledger.transaction() as transaction:
        transaction.end()
    with closing(sqlite3.connect(path)) as sql, pytest.raises(sqlite3.IntegrityError):
        sql.execute("INSERT INTO entries VALUES (5, 'release', x'7b7d', printf('%064d', 0))")


def test_only_the_fields_of_the_records_are_in_the_file(path: Path) -> None:
    with closing(sqlite3.connect(path)) as sql:
        tables = {
            name: [column[1] for column in sql.execute(f"PRAGMA table_info({name})")]
            for (name,) in sql.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        }
    assert tables == {
        "entries": ["seq", "kind", "body", "hash"],
        "known": [
            "key",
            "precision",
            "weighted",
            "releases",
            "last",
            "idx",
            "promises",
            "first",
            "asks",
        ],
        "totals": ["purse", "quanta", "cap"],
        "charges": ["purse", "attributes", "number", "last", "quanta"],
        "meta": ["name", "value"],
        "notes": ["name", "text"],
    }
    with SqliteLedger.read(path) as ledger:
        bodies = [set(entry.read()) for entry in ledger.entries()]
    links = {"seq", "prev", "kind"}
    assert bodies == [
        {*terms().to_json()} | links,
        {"version", "fingerprint", "domain"} | links,
        {*release().to_json()} | links,
        {*release().to_json(), "by_cell"} | links,
    ]
