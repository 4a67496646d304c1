"""Noticing that a table was written to although its declared ``data_version`` stayed.

A database cannot be fingerprinted cheaply, so its content is what the contract declares it to be.  PostgreSQL
counts the rows that were inserted, updated and deleted in every table; where those counts are kept they must
not rise under one version, and the table, its partitions and the definition of a view must stay the same.

What is remembered is opaque: a keyed hash of which relations there are, and their count, enciphered.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from defray.data.postgresql.connections import Transaction
from defray.errors import SourceChanged

# The table, what it inherits to (partitions too), and what views are made of.
_STAMP: Final = """
WITH RECURSIVE tree(oid) AS (
  SELECT $1::oid
  UNION
  SELECT below.oid FROM tree, LATERAL (
    SELECT inhrelid AS oid FROM pg_inherits WHERE inhparent = tree.oid
    UNION ALL
    SELECT d.refobjid FROM pg_rewrite r
    JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
    WHERE r.ev_class = tree.oid AND r.ev_type = '1' AND d.refclassid = 'pg_class'::regclass
  ) below
)
SELECT c.oid, coalesce(pg_relation_filenode(c.oid), 0),
       coalesce((SELECT md5(string_agg(r.ev_action::text, '' ORDER BY r.oid)) FROM pg_rewrite r
                 WHERE r.ev_class = c.oid AND r.ev_type = '1'), ''),
       coalesce((SELECT string_agg(a.attnum || ' ' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
                                   || ' ' || coalesce(a.attmissingval::text, ''), ',' ORDER BY a.attnum)
                 FROM pg_attribute a WHERE c.oid = $1 AND a.attrelid = c.oid
                   AND a.attnum > 0 AND lower(a.attname) = ANY($2)), ''),
       CASE WHEN c.relkind IN ('r', 'm', 't') THEN pg_stat_get_tuples_inserted(c.oid)
         + pg_stat_get_tuples_updated(c.oid) + pg_stat_get_tuples_deleted(c.oid) ELSE 0 END,
       CASE WHEN c.relkind IN ('r', 'm') THEN coalesce(pg_relation_size(c.oid), 0) ELSE 0 END
FROM tree JOIN pg_class c ON c.oid = tree.oid ORDER BY c.oid
"""


@dataclass(frozen=True, slots=True)
class Stamp:
    """What the catalogue says about a table: which relations it is made of, how many rows were ever written
    to them (0 where nothing is counted), and their ``size`` in bytes."""

    relations: str
    written: int
    size: int


def stamp(transaction: Transaction, oid: int, columns: Sequence[str]) -> Stamp:
    """``columns`` are those that are read: another one under the name of one of them is another table."""
    rows = transaction.rows(_STAMP, (oid, [name.lower() for name in columns]))
    relations = repr([tuple(row[:4]) for row in rows])
    return Stamp(relations, sum(row[4] for row in rows), sum(row[5] for row in rows))


@dataclass(slots=True)
class Drift:
    """What was seen under one declared version; ``remember`` and ``memo`` keep it between runs."""

    version: str
    table: str
    secret: bytes
    remember: Callable[[str], str | None]
    memo: Callable[[str, str], None]
    _last: str | None = None
    _lock: Lock = field(default_factory=Lock)

    def after_fork(self) -> None:
        """In the child: the lock may have been held by a thread that is not here."""
        self._lock = Lock()

    def check(self, seen: Stamp) -> None:
        """Raises SourceChanged where the table moved since the first use of this version.  A count that fell
        was reset, by the server or someone in charge of it; it is taken as the new beginning."""
        key = f"source:{self._mac('drift key', f'{self.table}{chr(0)}{self.version}')[:32]}"
        relations = self._mac("drift relations", seen.relations)
        with self._lock:
            known = self._last or self.remember(key)
            before = None if known is None else known.split(":")
            if before is not None and len(before) == 3:
                written = self._opened(before[1], before[2])
                if before[0] != relations or seen.written > written:
                    raise SourceChanged(
                        f'{self.table} was written to, or replaced, since data_version "{self.version}"'
                        " was first used",
                        hint="declare a new data_version in [source]; what was answered from the old rows"
                        " is not credited any more",
                    )
                if seen.written == written:
                    self._last = known
                    return
            self._last = f"{relations}:{self._sealed(seen.written)}"
            self.memo(key, self._last)

    def _mac(self, purpose: str, text: str) -> str:
        message = f"defray {purpose}\0{text}".encode(errors="surrogateescape")
        return hmac.new(self.secret, message, hashlib.sha256).hexdigest()

    def _sealed(self, count: int) -> str:
        """The number under a pad of its own, and what the pad follows from."""
        seed = self._mac("drift seed", f"{self.version}\0{count}")[:32]
        return f"{seed}:{count ^ self._pad(seed):032x}"

    def _opened(self, seed: str, sealed: str) -> int:
        return int(sealed, 16) ^ self._pad(seed)

    def _pad(self, seed: str) -> int:
        return int(self._mac("drift pad", seed)[:32], 16)
