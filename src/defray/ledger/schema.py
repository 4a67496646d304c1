"""The tables of a SQLite ledger and how older files become newer ones.

``entries`` is the log and the only truth; ``known``, ``totals`` and ``charges`` are folds of it, kept in the
same transaction.  Triggers make the rules hold for every client: the log only grows, by one, never after a
``close``; what was spent stays spent, in all and on every attribute set until a new data version; a cap
never moves.  Only of an analyst's account (``answer/NAME``) something may come back, when others reuse what
it paid for.

``tokens`` and ``answered`` are no part of the log (:mod:`defray.ledger.beside`).  A token is never changed or
removed, but revoked once; a kept answer never changes, and goes when one comes that is a week younger.

``charges`` holds what cells have paid from a purse in the newest data version: a row for each charged
attribute set ("0,3": numbers of columns of the declared domain), numbered in the order in which they came,
with the seq of the newest release that charged it and the runs of its cells (:mod:`defray.ledger.runs`);
and the row '' with what every cell has paid.

The version is the number of steps in :data:`STEPS`, kept in the file's ``user_version``; a file marked
with :data:`APPLICATION` is a ledger.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

from defray.errors import LedgerCorrupt, LedgerError
from defray.ledger.beside import KEPT_FOR
from defray.ledger.migrations import fill_first_and_asks

APPLICATION: Final = 0x44465259  # "DFRY"

Step = tuple[str | Callable[[sqlite3.Connection], None], ...]
"""Statements, and work that only code can do, in order."""

_ENTRIES_1: Final = """CREATE TABLE entries(
        seq INTEGER PRIMARY KEY,
        kind TEXT NOT NULL CHECK (kind IN ('open', 'epoch', 'release', 'close')),
        body BLOB NOT NULL CHECK (typeof(body) = 'blob'),
        hash TEXT NOT NULL CHECK (length(hash) = 64))"""

_RULES_OF_ENTRIES: Final[Step] = (
    "CREATE INDEX epochs ON entries(seq) WHERE kind = 'epoch'",
    """CREATE TRIGGER entries_grow_by_one BEFORE INSERT ON entries
        WHEN NEW.seq IS NOT (SELECT coalesce(max(seq), 0) + 1 FROM entries)
        BEGIN SELECT RAISE(ABORT, 'entries are numbered 1, 2, ...'); END""",
    """CREATE TRIGGER entries_end BEFORE INSERT ON entries
        WHEN (SELECT kind FROM entries WHERE seq = NEW.seq - 1) = 'close'
        BEGIN SELECT RAISE(ABORT, 'the contract is closed'); END""",
    """CREATE TRIGGER entries_stay BEFORE UPDATE ON entries
        BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END""",
    """CREATE TRIGGER entries_remain BEFORE DELETE ON entries
        BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END""",
)

_VERSION_1: Final[Step] = (
    _ENTRIES_1,
    *_RULES_OF_ENTRIES,
    """CREATE TABLE totals(
        purse TEXT PRIMARY KEY,
        quanta INTEGER NOT NULL CHECK (typeof(quanta) = 'integer' AND quanta BETWEEN 0 AND cap),
        cap INTEGER NOT NULL CHECK (typeof(cap) = 'integer')) WITHOUT ROWID""",
    """CREATE TRIGGER totals_rise BEFORE UPDATE ON totals
        WHEN NEW.quanta < OLD.quanta OR NEW.cap <> OLD.cap OR NEW.purse <> OLD.purse
        BEGIN SELECT RAISE(ABORT, 'what was spent stays spent'); END""",
    """CREATE TRIGGER totals_remain BEFORE DELETE ON totals
        BEGIN SELECT RAISE(ABORT, 'what was spent stays spent'); END""",
    """CREATE TABLE known(
        key BLOB PRIMARY KEY,
        precision TEXT NOT NULL,
        weighted TEXT NOT NULL,
        releases INTEGER NOT NULL,
        last INTEGER NOT NULL,
        idx INTEGER NOT NULL,
        promises TEXT NOT NULL) WITHOUT ROWID""",
    "CREATE TABLE meta(name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE notes(name TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID",
)

_VERSION_2: Final[Step] = (
    # Arrivals: a CHECK cannot be changed, so the log moves to a new table, as it is.
    _ENTRIES_1.replace("entries(", "entries_2(").replace("'close'", "'arrival', 'close'"),
    "INSERT INTO entries_2 SELECT seq, kind, body, hash FROM entries ORDER BY seq",
    "DROP TABLE entries",
    "ALTER TABLE entries_2 RENAME TO entries",
    *_RULES_OF_ENTRIES,
    "CREATE INDEX arrivals ON entries(seq) WHERE kind = 'arrival'",
    "ALTER TABLE known ADD COLUMN first TEXT NOT NULL DEFAULT '0'",
    "ALTER TABLE known ADD COLUMN asks TEXT NOT NULL DEFAULT ''",
    fill_first_and_asks,
)

_CHARGES_REMAIN: Final = """CREATE TRIGGER charges_remain BEFORE DELETE ON charges
        WHEN OLD.attributes = ''
            OR (SELECT kind FROM entries ORDER BY seq DESC LIMIT 1) <> 'epoch'
        BEGIN SELECT RAISE(ABORT, 'what was spent stays spent'); END"""

_VERSION_3: Final[Step] = (
    """CREATE TABLE charges(
        purse TEXT NOT NULL,
        attributes TEXT NOT NULL,
        number INTEGER NOT NULL,
        last INTEGER NOT NULL,
        quanta BLOB NOT NULL
            CHECK (typeof(quanta) = CASE attributes WHEN '' THEN 'integer' ELSE 'blob' END),
        PRIMARY KEY (purse, attributes)) WITHOUT ROWID""",
    # What was charged before was charged to every cell.
    "INSERT INTO charges SELECT purse, '', 0, 0, quanta FROM totals",
    """CREATE TRIGGER charges_rise BEFORE UPDATE ON charges
        WHEN NEW.purse <> OLD.purse OR NEW.attributes <> OLD.attributes OR NEW.number <> OLD.number
            OR (NEW.attributes = '' AND NEW.quanta < OLD.quanta)
            OR (NEW.attributes <> '' AND NEW.last <= OLD.last)
        BEGIN SELECT RAISE(ABORT, 'what was spent stays spent'); END""",
    _CHARGES_REMAIN,
    "CREATE INDEX releases ON entries(seq) WHERE kind = 'release'",
)

_VERSION_4: Final[Step] = (
    # Principals: the log moves again, as it is; the one rule of another table that looks at it, too.
    "DROP TRIGGER charges_remain",
    _ENTRIES_1.replace("entries(", "entries_4(").replace(
        "'close'", "'arrival', 'principal', 'shadow', 'settled', 'close'"
    ),
    "INSERT INTO entries_4 SELECT seq, kind, body, hash FROM entries ORDER BY seq",
    "DROP TABLE entries",
    "ALTER TABLE entries_4 RENAME TO entries",
    *_RULES_OF_ENTRIES,
    *(
        f"CREATE INDEX {kind}s ON entries(seq) WHERE kind = '{kind}'"
        for kind in ("arrival", "release", "principal", "shadow")
    ),
    _CHARGES_REMAIN,
    # A row is not replaced by an insert either.
    """CREATE TRIGGER totals_once BEFORE INSERT ON totals
        WHEN EXISTS (SELECT 1 FROM totals WHERE purse = NEW.purse)
        BEGIN SELECT RAISE(ABORT, 'what was spent stays spent'); END""",
    """CREATE TRIGGER charges_go_on BEFORE INSERT ON charges
        WHEN NEW.last <= (SELECT last FROM charges
            WHERE purse = NEW.purse AND attributes = NEW.attributes)
        BEGIN SELECT RAISE(ABORT, 'what was spent stays spent'); END""",
    """CREATE TABLE tokens(
        id TEXT PRIMARY KEY,
        hash BLOB NOT NULL UNIQUE CHECK (typeof(hash) = 'blob' AND length(hash) = 32),
        principal TEXT NOT NULL,
        scopes TEXT NOT NULL,
        made INTEGER NOT NULL CHECK (typeof(made) = 'integer'),
        expires INTEGER CHECK (typeof(expires) IN ('integer', 'null')),
        revoked INTEGER CHECK (typeof(revoked) IN ('integer', 'null'))) WITHOUT ROWID""",
    """CREATE TRIGGER tokens_are_new BEFORE INSERT ON tokens
        WHEN EXISTS (SELECT 1 FROM tokens WHERE id = NEW.id OR hash = NEW.hash)
        BEGIN SELECT RAISE(ABORT, 'there is such a token'); END""",
    """CREATE TRIGGER tokens_stay BEFORE UPDATE ON tokens
        WHEN OLD.revoked IS NOT NULL OR NEW.revoked IS NULL
            OR NEW.id IS NOT OLD.id OR NEW.hash IS NOT OLD.hash OR NEW.principal IS NOT OLD.principal
            OR NEW.scopes IS NOT OLD.scopes OR NEW.made IS NOT OLD.made OR NEW.expires IS NOT OLD.expires
        BEGIN SELECT RAISE(ABORT, 'a token is revoked once, and never changed'); END""",
    """CREATE TRIGGER tokens_remain BEFORE DELETE ON tokens
        BEGIN SELECT RAISE(ABORT, 'a token is revoked, and never removed'); END""",
    """CREATE TABLE answered(
        principal TEXT NOT NULL,
        key TEXT NOT NULL CHECK (length(key) BETWEEN 1 AND 128),
        request TEXT NOT NULL CHECK (length(request) = 64),
        at INTEGER NOT NULL CHECK (typeof(at) = 'integer'),
        document TEXT NOT NULL,
        PRIMARY KEY (principal, key))""",
    "CREATE INDEX answered_at ON answered(at)",
    """CREATE TRIGGER answered_once BEFORE INSERT ON answered
        WHEN EXISTS (SELECT 1 FROM answered WHERE principal = NEW.principal AND key = NEW.key)
        BEGIN SELECT RAISE(ABORT, 'a key is answered once'); END""",
    """CREATE TRIGGER answered_stay BEFORE UPDATE ON answered
        BEGIN SELECT RAISE(ABORT, 'a kept answer never changes'); END""",
    f"""CREATE TRIGGER answered_remain BEFORE DELETE ON answered
        WHEN OLD.at >= (SELECT max(at) FROM answered) - {KEPT_FOR // timedelta(seconds=1)}
        BEGIN SELECT RAISE(ABORT, 'a kept answer stays for a week'); END""",
)

_OF_AN_ANALYST: Final = "OLD.purse GLOB '*/*' AND OLD.purse NOT GLOB '*/*/*'"
"""An analyst's account, not a shadow's and not a tally."""

_VERSION_5: Final[Step] = (
    # Reuse is shared: an older program would not know what came back.
    "DROP TRIGGER totals_rise",
    f"""CREATE TRIGGER totals_rise BEFORE UPDATE ON totals
        WHEN NEW.cap <> OLD.cap OR NEW.purse <> OLD.purse
            OR (NEW.quanta < OLD.quanta AND NOT ({_OF_AN_ANALYST}))
        BEGIN SELECT RAISE(ABORT, 'what was spent stays spent'); END""",
    "DROP TRIGGER charges_rise",
    f"""CREATE TRIGGER charges_rise BEFORE UPDATE ON charges
        WHEN NEW.purse <> OLD.purse OR NEW.attributes <> OLD.attributes OR NEW.number <> OLD.number
            OR (NEW.attributes = '' AND NEW.quanta < OLD.quanta AND NOT ({_OF_AN_ANALYST}))
            OR (NEW.attributes <> '' AND NEW.last <= OLD.last)
        BEGIN SELECT RAISE(ABORT, 'what was spent stays spent'); END""",
)

STEPS: Final[tuple[Step, ...]] = (_VERSION_1, _VERSION_2, _VERSION_3, _VERSION_4, _VERSION_5)
"""``STEPS[v]`` turns version v into v + 1.  Version 0 is an empty file.  Only ever append."""


def version_of(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def advance(connection: sqlite3.Connection, steps: Sequence[Step] = STEPS) -> None:
    """Run the steps that are missing; the caller holds the write transaction."""
    for version in range(version_of(connection), len(steps)):
        for work in steps[version]:
            if isinstance(work, str):
                connection.execute(work)
            else:
                work(connection)
        connection.execute(f"PRAGMA user_version = {version + 1}")


def recognise(
    connection: sqlite3.Connection, path: Path, steps: Sequence[Step] = STEPS, *, write: bool
) -> None:
    """Accept a ledger of this version, bring an older one up to it, refuse everything else."""
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
        raise LedgerCorrupt(
            f"{path} is a database, but not a Defray ledger.",
            hint="Check the path.",
            path=str(path),
        )
    version = version_of(connection)
    if version > len(steps):
        raise LedgerError(
            f"{path} was made by a newer Defray (ledger version {version}, this one knows "
            f"{len(steps)}).",
            hint="Upgrade Defray; a ledger is never turned back.",
            path=str(path),
        )
    if version < 1:
        raise LedgerCorrupt(f"{path} holds no ledger.", hint="Restore a backup.", path=str(path))
    if version == len(steps):
        return
    if not write:
        raise LedgerError(
            f"{path} was made by an older Defray (ledger version {version} of {len(steps)}).",
            hint="Open it once with its contract (any ask or quote), which upgrades it.",
            path=str(path),
        )
    connection.execute("BEGIN IMMEDIATE")
    try:
        advance(connection, steps)
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
