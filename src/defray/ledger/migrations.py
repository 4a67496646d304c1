"""What statements alone cannot bring up to date: columns of a fold that only the log can fill."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from defray.core.domain import Domain
from defray.errors import LedgerCorrupt
from defray.ledger.checks import fold
from defray.ledger.records import Epoch, Known, Release, Terms
from defray.support.exact import block_of

_UNREADABLE = (
    KeyError, TypeError, ValueError, ArithmeticError, AttributeError, IndexError, RecursionError
)  # fmt: skip


def fill_first_and_asks(sql: sqlite3.Connection) -> None:
    """Version 2: the first precision and the asks of every functional of the newest data version, from
    its releases.  What was kept before is left as it is, so that an audit still sees what it should."""
    row = sql.execute(
        "SELECT seq, body FROM entries WHERE kind = 'epoch' ORDER BY seq DESC LIMIT 1"
    ).fetchone()
    if row is None:
        return
    try:
        known = _replayed(sql, row[0], row[1])
    except _UNREADABLE:
        raise LedgerCorrupt(
            "The ledger cannot be upgraded: a release in its log cannot be read.",
            hint="Keep the file, and restore a backup.",
        ) from None
    sql.executemany(
        "UPDATE known SET first = ?, asks = ? WHERE key = ?",
        ((str(k.first), " ".join(k.asks), key) for key, k in known.items()),
    )


def _replayed(sql: sqlite3.Connection, start: int, epoch: bytes) -> dict[bytes, Known]:
    """What the releases after the epoch's entry ``start`` say of each functional."""
    (opening,) = sql.execute("SELECT body FROM entries WHERE seq = 1").fetchone()
    rows = int(Terms.from_json(json.loads(opening)).unit["max_rows"])
    domain: Domain | None = None
    keys: dict[tuple[str, str], tuple[bytes, ...]] = {}
    known: dict[bytes, Known] = {}
    for seq, text in sql.execute(
        "SELECT seq, body FROM entries WHERE seq > ? AND kind = 'release' ORDER BY seq", (start,)
    ):
        domain = domain or Domain.from_json(Epoch.from_json(json.loads(epoch)).domain)
        body: dict[str, Any] = json.loads(text)
        measured = body["measure"], json.dumps(body["weights"])
        if measured not in keys:
            keys[measured] = block_of(body, domain, rows).keys
        fold(known, Release.from_json(body), keys[measured], seq)
    return known
