"""Versions of the file, and the rules that hold for every client of it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from fractions import Fraction
from pathlib import Path

import pytest

from defray.core.principals import Enrolment
from defray.errors import LedgerCorrupt, LedgerError
from defray.ledger.audit import audit
from defray.ledger.beside import KeptAnswer
from defray.ledger.records import Arrival
from defray.ledger.schema import APPLICATION, STEPS, advance, version_of
from defray.ledger.sqlite import SqliteLedger
from tests.ledger.makers import DOMAIN, NOON, by_cell, derive, release, terms, token
from tests.ledger.older import turned_back

NEXT = (*STEPS, ("ALTER TABLE notes ADD COLUMN made TEXT", "UPDATE notes SET made = 'before'"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with SqliteLedger.open(tmp_path / "a", terms()) as ledger:
        with ledger.transaction() as transaction:
            transaction.open_epoch("p", DOMAIN)
            transaction.append(release())
            transaction.append(by_cell())
            transaction.enrol(Enrolment("add", "ana", "analyst", Fraction(1, 4)))
            transaction.issue(token("aa0001"))
            transaction.issue(token("aa0002"))
            transaction.revoke("aa0002", NOON)
            for days in (0, 7):
                at = NOON + timedelta(days=days)
                transaction.keep_answer(KeptAnswer("ana", f"day-{days}", "0" * 64, at, "{}"))
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


@pytest.mark.parametrize("version", range(1, len(STEPS)))
def test_earlier_versions_of_the_file_open_and_go_on(tmp_path: Path, version: int) -> None:
    """The log is moved to its new table as it is: same chain, same rules."""
    path = tmp_path / "a"
    with SqliteLedger.open(path, terms()) as ledger:
        with ledger.transaction() as transaction:
            transaction.open_epoch("p", DOMAIN)
        before = [entry.hash for entry in ledger.entries()]
    turned_back(path, version)
    with SqliteLedger.open(path, terms()) as ledger:
        with ledger.transaction() as transaction:
            transaction.append(release())
            transaction.arrive(Arrival(1, b"m" * 16, 0.5, 0.25, 1.0, 0.1))
            transaction.enrol(Enrolment("add", "ana", "analyst", Fraction(1, 4)))
            transaction.issue(token())
        assert [entry.hash for entry in ledger.entries()][: len(before)] == before
        assert audit(ledger, derive).ok
    with closing(sqlite3.connect(path, isolation_level=None)) as sql:
        for change in ("DELETE FROM entries", "UPDATE entries SET hash = hash"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                sql.execute(change)
        rules = "SELECT type, name, tbl_name FROM sqlite_master WHERE type <> 'table' ORDER BY name"
        upgraded = sql.execute(rules).fetchall()
    SqliteLedger.open(tmp_path / "b", terms()).close()
    with closing(sqlite3.connect(tmp_path / "b")) as sql:
        assert sql.execute(rules).fetchall() == upgraded


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
        "INSERT INTO entries VALUES (7, 'release', x'7b7d', printf('%064d', 0))",
        "INSERT INTO entries VALUES (3, 'release', x'7b7d', printf('%064d', 0))",
        "INSERT OR REPLACE INTO entries VALUES (3, 'release', x'7b7d', printf('%064d', 0))",
        "INSERT INTO entries VALUES (6, 'gift', x'7b7d', printf('%064d', 0))",
        "INSERT INTO entries VALUES (6, 'release', '{}', printf('%064d', 0))",
        "UPDATE totals SET quanta = quanta - 1 WHERE purse = 'answer'",
        "UPDATE totals SET quanta = cap + 1",
        "UPDATE totals SET quanta = 1e9",
        "UPDATE totals SET cap = cap + 1",
        "DELETE FROM totals",
        "INSERT OR REPLACE INTO totals VALUES ('answer', 0, 9)",
        "UPDATE charges SET quanta = quanta - 1 WHERE attributes = '' AND purse = 'answer'",
        "UPDATE charges SET quanta = 1.5 WHERE attributes = ''",
        "UPDATE charges SET quanta = x'00' WHERE attributes = ''",
        "UPDATE charges SET quanta = 0 WHERE attributes <> ''",
        "UPDATE charges SET quanta = x'00' WHERE attributes <> ''",
        "UPDATE charges SET number = number + 1",
        "UPDATE charges SET attributes = '9' WHERE attributes = '0'",
        "DELETE FROM charges WHERE attributes = ''",
        "DELETE FROM charges WHERE attributes <> ''",
        "UPDATE tokens SET revoked = NULL WHERE id = 'aa0002'",
        "UPDATE tokens SET revoked = revoked + 1 WHERE id = 'aa0002'",
        "UPDATE tokens SET revoked = NULL WHERE id = 'aa0001'",
        "UPDATE tokens SET revoked = 'now' WHERE id = 'aa0001'",
        "UPDATE tokens SET revoked = 1, scopes = 'ask curate' WHERE id = 'aa0001'",
        "UPDATE tokens SET revoked = 1, expires = 9 WHERE id = 'aa0001'",
        "UPDATE tokens SET revoked = 1, principal = 'ben' WHERE id = 'aa0001'",
        "UPDATE tokens SET revoked = 1, hash = zeroblob(32) WHERE id = 'aa0001'",
        "UPDATE tokens SET scopes = 'ask curate'",
        "UPDATE OR REPLACE tokens SET id = 'aa0001', revoked = 1 WHERE id = 'aa0002'",
        "DELETE FROM tokens",
        "INSERT OR REPLACE INTO tokens VALUES ('aa0002', zeroblob(32), 'ana', 'ask', 1, NULL, NULL)",
        "INSERT OR REPLACE INTO tokens SELECT 'x', hash, 'ana', 'ask', 1, NULL, NULL FROM tokens",
        "INSERT INTO tokens VALUES ('x', zeroblob(31), 'ana', 'ask', 1, NULL, NULL)",
        "INSERT INTO tokens VALUES ('x', zeroblob(32), 'ana', 'ask', 1.5, NULL, NULL)",
        "UPDATE answered SET document = 'other'",
        "UPDATE answered SET at = 0",
        "DELETE FROM answered",
        "DELETE FROM answered WHERE key = 'day-0'",
        "INSERT OR REPLACE INTO answered VALUES ('ana', 'day-0', printf('%064d', 0), 1, '')",
        "INSERT INTO answered VALUES ('ana', '', printf('%064d', 0), 1, '')",
        "INSERT INTO answered VALUES ('ana', 'k', '0', 1, '')",
        "INSERT INTO answered VALUES ('ana', 'k', printf('%064d', 0), 'now', '')",
        "INSERT OR REPLACE INTO charges VALUES ('answer', '', 0, 0, 0)",
        "INSERT OR REPLACE INTO charges VALUES ('answer', '0', 1, 4, x'00')",
    ],
)
def test_the_file_itself_refuses(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as sql, pytest.raises(sqlite3.IntegrityError):
        sql.execute(statement)


def test_nothing_is_inserted_after_the_end(path: Path) -> None:
    with SqliteLedger.open(path, terms()) as ledger, ledger.transaction() as transaction:
        transaction.end()
    with closing(sqlite3.connect(path)) as sql, pytest.raises(sqlite3.IntegrityError):
        sql.execute("INSERT INTO entries VALUES (7, 'release', x'7b7d', printf('%064d', 0))")


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
        "tokens": ["id", "hash", "principal", "scopes", "made", "expires", "revoked"],
        "answered": ["principal", "key", "request", "at", "document"],
    }
    with SqliteLedger.read(path) as ledger:
        bodies = [set(entry.read()) for entry in ledger.entries()]
    links = {"seq", "prev", "kind"}
    assert bodies == [
        {*terms().to_json()} | links,
        {"version", "fingerprint", "domain"} | links,
        {*release().to_json()} | links,
        {*release().to_json(), "by_cell"} | links,
        {"event", "name", "role", "share"} | links,
    ]


@pytest.mark.parametrize(
    ("purse", "may_fall"),
    [
        ("answer", False),
        ("answer/ana", True),
        ("answer/ana/alone", False),
        ("answer/ana/reuse", False),
        ("answer/ana/back", False),
    ],
)
def test_only_to_an_analysts_account_something_comes_back(
    path: Path, purse: str, may_fall: bool
) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as sql:
        if "/" in purse:
            sql.execute("INSERT INTO totals VALUES (?, 0, 9)", (purse,))
            sql.execute("INSERT INTO charges VALUES (?, '', 0, 0, 0)", (purse,))
        for table, row in (("totals", ""), ("charges", " AND attributes = ''")):
            where = f"WHERE purse = '{purse}'{row}"
            sql.execute(f"UPDATE {table} SET quanta = quanta + 5 {where}")
            if may_fall:
                sql.execute(f"UPDATE {table} SET quanta = quanta - 5 {where}")
                continue
            with pytest.raises(sqlite3.IntegrityError, match="stays spent"):
                sql.execute(f"UPDATE {table} SET quanta = quanta - 1 {where}")
