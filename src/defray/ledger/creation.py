"""Making a SQLite ledger, connecting to it, and holding it against its contract."""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from defray.errors import LedgerError, LedgerMismatch
from defray.ledger import files
from defray.ledger.checks import check_terms
from defray.ledger.paid import Memo
from defray.ledger.pool import Connection
from defray.ledger.reading import UNREADABLE, unreadable
from defray.ledger.records import Terms, canonical
from defray.ledger.schema import APPLICATION, STEPS, Step, advance
from defray.ledger.session import SqlTransaction
from defray.ledger.sql import Place, Sql


def connect(path: Path, timeout: float, *, writable: bool) -> Connection:
    mode = "rw"  # even to read, where it can be had: then the last to leave tidies up the log
    if not writable and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        mode = "ro" if Path(f"{path}-wal").exists() else "ro&immutable=1"
    uri = f"file:{quote(str(path))}?mode={mode}"
    sql = sqlite3.connect(
        uri,
        uri=True,
        timeout=timeout,
        isolation_level=None,
        check_same_thread=False,
        factory=Connection,
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


def create(path: Path, terms: Terms, steps: Sequence[Step]) -> None:
    """Make a whole ledger, unless another is made there meanwhile."""
    check_terms(terms)
    with _fresh(path, steps) as sql:
        sql.execute(
            "INSERT INTO meta(name, value) VALUES ('secret', ?)", (secrets.token_bytes(32),)
        )
        SqlTransaction(sql, path, Memo(), terms).start()


@contextmanager
def fresh_file(path: Path, steps: Sequence[Step] = STEPS) -> Iterator[Connection]:
    """The empty tables of a ledger to be filled; LedgerError where there is a file of that name."""
    place = Path(os.path.realpath(path))
    with _fresh(place, steps, alone=True) as sql:
        yield sql


def _refuse_taken(path: Path) -> None:
    raise LedgerError(
        f"{path} exists; a copy never overwrites.", hint="Name a new file.", path=str(path)
    )


@contextmanager
def _fresh(path: Path, steps: Sequence[Step], *, alone: bool = False) -> Iterator[Connection]:
    """Make a whole ledger under another name, then give it its own in one step, if still free; ``alone``:
    LedgerError if it is not."""
    if alone and path.exists():
        _refuse_taken(path)
    fresh = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.new")
    try:
        files.make_private(fresh)
        sql = connect(fresh, 1.0, writable=True)
        try:
            sql.execute("BEGIN IMMEDIATE")
            sql.execute(f"PRAGMA application_id = {APPLICATION}")
            advance(sql, steps)
            yield sql
            sql.execute("COMMIT")
        finally:
            sql.close()
        files.sync(fresh)
        if not files.publish(fresh, path) and alone:
            _refuse_taken(path)
    except OSError as error:
        raise files.from_os(error, path) from None
    except sqlite3.Error as error:
        raise files.from_sqlite(error, path) from None
    finally:
        files.discard(fresh)


def first_terms(sql: Sql, path: Place) -> Terms:
    row = sql.execute("SELECT body FROM entries WHERE seq = 1 AND kind = 'open'").fetchone()
    try:
        return Terms.from_json(json.loads(row[0]))
    except UNREADABLE:
        raise unreadable(path, "its terms") from None


def stored_secret(sql: Sql, path: Place) -> bytes:
    row = sql.execute("SELECT value FROM meta WHERE name = 'secret'").fetchone()
    if row is None or not isinstance(row[0], bytes) or len(row[0]) != 32:
        raise unreadable(path, "its secret")
    return row[0]


def compare(ledger: Terms, contract: Terms, path: Place, *, untouched: bool, peopled: bool) -> None:
    """LedgerMismatch unless the terms agree; ``untouched``: nothing was released under the old ones,
    ``peopled``: there are principals."""
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
            hint=(
                f"Nothing was released under the old terms: delete {path} to start under the new ones"
                f"{', and add its analysts again' if peopled else ''}."
                if untouched
                else "Restore the contract's terms, or start a new ledger for a new contract."
            ),
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
