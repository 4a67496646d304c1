"""All rows of a ledger into the empty tables of another, whatever database either is in.

The chain is verified on the way, entry by entry, so a copy has the same head.  Folds are copied as they are
kept, for an audit of the copy to compare with its log.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from defray.errors import LedgerCorrupt
from defray.ledger.creation import fresh_file
from defray.ledger.reading import UNREADABLE
from defray.ledger.records import GENESIS, Entry, digest
from defray.ledger.sql import Place, Sql
from defray.ledger.witness import Seen

_PAGE: Final = 1000
_AS_THEY_ARE: Final = {
    "totals": "purse, quanta, cap",
    "known": "key, precision, weighted, releases, last, idx, promises, first, asks",
    "notes": "name, text",
    "tokens": "id, hash, principal, scopes, made, expires, revoked",
    "answered": "principal, key, request, at, document",
}


def copy_rows(source: Sql, target: Sql, name: Place) -> Seen:
    """Copy, inside a transaction of either; the seq and the hash of the newest entry.  LedgerCorrupt where
    the chain of the source, whose name is given, is broken."""
    newest: Seen = 0, GENESIS
    for page in _pages(source):
        rows = []
        for entry in page:
            rows.append((entry.seq, _kind(entry, newest, name), entry.body, entry.hash))
            newest = entry.seq, entry.hash
        target.executemany("INSERT INTO entries(seq, kind, body, hash) VALUES (?, ?, ?, ?)", rows)
    target.executemany(
        "INSERT INTO meta(name, value) VALUES ('secret', ?)",
        source.execute("SELECT value FROM meta WHERE name = 'secret'").fetchall(),
    )
    for table, columns in _AS_THEY_ARE.items():
        _copy(source, target, table, columns, columns, "1 = 1")
    heads = "purse, attributes, number, last, "
    ours, theirs = heads + source.everywhere, heads + target.everywhere
    _copy(source, target, "charges", ours, theirs, "attributes = ''")
    _copy(source, target, "charges", f"{heads}quanta", f"{heads}quanta", "attributes <> ''")
    return newest


def into_file(source: Sql, name: Place, path: Path) -> None:
    """A copy in a new SQLite file, as a backup."""
    with fresh_file(path) as target:
        copy_rows(source, target, name)


def _copy(source: Sql, target: Sql, table: str, ours: str, theirs: str, where: str) -> None:
    marks = ", ".join("?" * len(ours.split(",")))
    rows = source.execute(f"SELECT {ours} FROM {table} WHERE {where}")
    target.executemany(f"INSERT INTO {table}({theirs}) VALUES ({marks})", rows)


def _pages(source: Sql) -> Iterator[list[Entry]]:
    after = 0
    while True:
        rows = source.execute(
            "SELECT seq, body, hash FROM entries WHERE seq > ? ORDER BY seq LIMIT ?",
            (after, _PAGE),
        ).fetchall()
        if not rows:
            return
        yield [Entry(seq, bytes(body), hash_) for seq, body, hash_ in rows]
        after = rows[-1][0]


def _kind(entry: Entry, before: Seen, name: Place) -> str:
    """The kind of an entry that follows the one ``before``."""
    try:
        body = json.loads(entry.body)
        kind, links = str(body["kind"]), (body["seq"], body["prev"])
    except UNREADABLE:
        raise _broken(entry, name) from None
    if (entry.seq, *links) != (before[0] + 1, before[0] + 1, before[1]) or digest(
        entry.body
    ) != entry.hash:
        raise _broken(entry, name)
    return kind


def _broken(entry: Entry, name: Place) -> LedgerCorrupt:
    return LedgerCorrupt(
        f"The ledger {name} cannot be copied: its chain is broken at entry {entry.seq}.",
        hint="Run the audit, keep the ledger, and restore a backup.",
        path=str(name),
    )
