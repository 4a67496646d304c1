"""Reading and appending on one SQLite connection, inside one database transaction."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from defray.errors import LedgerCorrupt, LedgerError
from defray.ledger.accounts import Account
from defray.ledger.checks import (
    admitted,
    append_refused,
    arrival_fault,
    ended,
    fold,
    fold_arrival,
    folded,
)
from defray.ledger.paid import Memo, drop_sets, read_account, start_accounts, write_account
from defray.ledger.pool import forked
from defray.ledger.records import (
    GENESIS,
    UNKNOWN,
    Arrival,
    Entry,
    Epoch,
    Known,
    Purse,
    Release,
    Terms,
)

if TYPE_CHECKING:
    from defray.support.charges import Charges

_CHUNK: Final = 500
KNOWN: Final = (
    "SELECT key, precision, weighted, releases, last, idx, promises, first, asks FROM known"
)
_ONE: Final = f"{KNOWN} WHERE key = ?"
_SIZES: Final = (8, 64, _CHUNK)
_RELEASES: Final = (
    "SELECT seq, body FROM entries WHERE kind = 'release' AND seq > "
    "max(?, (SELECT coalesce(max(seq), 0) FROM entries WHERE kind = 'epoch')) ORDER BY seq"
)
_MANY: Final = {n: f"{KNOWN} WHERE key IN ({','.join('?' * n)})" for n in _SIZES}


UNREADABLE: Final = (
    LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError
)  # fmt: skip
"""What parsing a damaged body or fold may raise."""


def unreadable(path: Path, what: str) -> LedgerCorrupt:
    return LedgerCorrupt(
        f"The ledger {path} is damaged: {what} cannot be read.",
        hint="Stop asking, keep the file, and restore a backup.",
        path=str(path),
    )


def known_of(row: Sequence[Any]) -> Known:
    """A row of ``known`` after its key."""
    promises = tuple(_promise(text) for text in row[5].split()) if row[5] else ()
    precision, first = _common(row[0]), _common(row[6])
    asks = _names(row[7])
    return Known(precision, _fraction(row[1]), row[2], row[3], row[4], promises, first, asks)


def _promise(text: str) -> tuple[Fraction, Fraction]:
    share, _, gamma = text.partition("@")
    return _fraction(share), _fraction(gamma)


def _fraction(text: str) -> Fraction:
    """Fraction(text) for what str() of a Fraction writes, in half the time."""
    top, _, bottom = text.partition("/")
    return Fraction(int(top), int(bottom or 1))


_common = lru_cache(maxsize=1024)(_fraction)
"""Of a number that many cells have in common."""


@lru_cache(maxsize=1024)
def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


class SqliteView:
    """One moment of the ledger: nothing that others commit meanwhile is seen."""

    def __init__(self, connection: sqlite3.Connection, path: Path, memo: Memo) -> None:
        self._pid = os.getpid()
        self._path = path
        self._memo = memo
        self._accounts: dict[Purse, Account] = {}
        self._raw: sqlite3.Connection | None = connection
        head = connection.execute(
            "SELECT seq, kind, hash FROM entries ORDER BY seq DESC LIMIT 1"
        ).fetchone()
        self._seq: int = 0 if head is None else head[0]
        self._kind: str = "" if head is None else head[1]
        self._head: str = GENESIS if head is None else head[2]

    @property
    def _sql(self) -> sqlite3.Connection:
        if self._raw is None:
            raise LedgerError("A reading of the ledger was used after its end.")
        if os.getpid() != self._pid:
            raise forked(self._path)
        return self._raw

    def finish(self) -> None:
        """Nothing can be read through this object any more."""
        self._raw = None

    def accounts(self) -> tuple[dict[Purse, Account], int, int]:
        """The accounts by cell that were read or changed, with the data version and the seq of this moment,
        for others to start from once it is committed."""
        held = {purse: a for purse, a in self._accounts.items() if a.cells is not None}
        return held, self._counter() if held else 0, self._seq

    @property
    def seq(self) -> int:
        return self._seq

    @property
    def head(self) -> str:
        """The hash of the newest entry, which commits to the whole log."""
        return self._head

    @property
    def closed(self) -> bool:
        return self._kind == "close"

    @property
    def epoch(self) -> Epoch | None:
        row = self._sql.execute(
            "SELECT hash, seq FROM entries WHERE kind = 'epoch' ORDER BY seq DESC LIMIT 1"
        ).fetchone()
        if row is None:
            return None
        epoch = self._memo.epochs.get(row[0])
        if epoch is None:
            (body,) = self._sql.execute(
                "SELECT body FROM entries WHERE seq = ?", (row[1],)
            ).fetchone()
            try:
                epoch = Epoch.from_json(json.loads(body))
            except UNREADABLE:
                raise unreadable(self._path, f"entry {row[1]}") from None
            self._memo.epochs.clear()
            self._memo.epochs[row[0]] = epoch
        return epoch

    def spent(self, purse: Purse) -> int:
        row = self._sql.execute("SELECT quanta FROM totals WHERE purse = ?", (purse,)).fetchone()
        return 0 if row is None else int(row[0])

    def charges(self, purse: Purse) -> Charges:
        return self._account(purse).charges(self._unpaid)

    def _account(self, purse: Purse) -> Account:
        account = self._accounts.get(purse)
        if account is None:
            try:
                account = read_account(self._sql, purse, lambda: self._start(purse), self._unpaid)
            except UNREADABLE:
                raise unreadable(self._path, "what cells have paid") from None
            self._accounts[purse] = account
        return account

    def _start(self, purse: Purse) -> Account:
        return self._memo.account(purse, self._counter())

    def _counter(self) -> int:
        epoch = self.epoch
        return 0 if epoch is None else epoch.counter

    def _unpaid(self) -> Charges:
        try:
            return self._memo.unpaid_in(self.epoch)
        except UNREADABLE:
            raise unreadable(self._path, "the declared domain") from None

    def releases(self, after: int) -> list[tuple[int, Release]]:
        rows = self._sql.execute(_RELEASES, (after,))
        try:
            return [(seq, Release.from_json(json.loads(body))) for seq, body in rows]
        except UNREADABLE:
            raise unreadable(self._path, "a release") from None

    def known(self, keys: Sequence[bytes]) -> list[Known]:
        try:
            return self._known(self._sql, keys)
        except UNREADABLE:
            raise unreadable(self._path, "a fold") from None

    def _known(self, sql: sqlite3.Connection, keys: Sequence[bytes]) -> list[Known]:
        if len(keys) == 1:
            row = sql.execute(_ONE, (keys[0],)).fetchone()
            return [UNKNOWN if row is None else known_of(row[1:])]
        found: dict[bytes, Known] = {}
        for start in range(0, len(keys), _CHUNK):
            part = list(keys[start : start + _CHUNK])
            size = next(n for n in _SIZES if n >= len(part))  # few statements, which SQLite keeps
            part += [part[-1]] * (size - len(part))
            for row in sql.execute(_MANY[size], part):
                found[row[0]] = known_of(row[1:])
        return [found.get(key, UNKNOWN) for key in keys]

    def arrivals(self, after: int, newest: int) -> list[Arrival]:
        rows = self._sql.execute(
            "SELECT body FROM entries WHERE kind = 'arrival' ORDER BY seq DESC LIMIT ?", (newest,)
        )
        found: list[Arrival] = []
        try:
            for (body,) in rows:
                arrival = Arrival.from_json(json.loads(body))
                if arrival.number <= after:
                    break
                found.append(arrival)
        except UNREADABLE:
            raise unreadable(self._path, "an arrival") from None
        return found[::-1]

    def arrival(self, seq: int) -> Arrival:
        row = self._sql.execute("SELECT body FROM entries WHERE seq = ?", (seq,)).fetchone()
        try:
            return Arrival.from_json(json.loads(row[0]))
        except UNREADABLE:
            raise unreadable(self._path, "an arrival") from None


class SqliteTransaction(SqliteView):
    """The one writer of the moment.  A failed append spoils it: it can only be rolled back."""

    def __init__(
        self, connection: sqlite3.Connection, path: Path, memo: Memo, terms: Terms
    ) -> None:
        super().__init__(connection, path, memo)
        self._terms = terms
        self._version = self._counter()
        self.spoiled = False

    def append(self, release: Release) -> int:
        sql = self._writing()
        self.spoiled = True
        account, seq = self._account(release.purse), self._seq + 1
        after = admitted(release, self._terms, self._version, account, seq, self._unpaid)
        if isinstance(after, str):
            raise self._fault(after)
        self._add("release", release.to_json())
        if not write_account(sql, release.purse, after, seq):
            raise self._fault(f"there is no total of the {release.purse} purse")
        self._accounts[release.purse] = after
        self._fold(sql, release, seq)
        self.spoiled = False
        return seq

    def arrive(self, arrival: Arrival) -> int:
        sql = self._writing()
        self.spoiled = True
        before = self.arrivals(0, 1)
        wrong = arrival_fault(arrival, before[0].number if before else 0)
        if wrong is not None:
            raise self._fault(wrong)
        seq = self._add("arrival", arrival.to_json())
        after = {arrival.mark: self.known([arrival.mark])[0]}
        fold_arrival(after, arrival, seq)
        self._keep(sql, after)
        self.spoiled = False
        return seq

    def open_epoch(self, fingerprint: str, domain: object) -> Epoch:
        sql = self._writing()
        self.spoiled = True
        accounts = {purse: self._account(purse).anew() for purse in self._terms.caps}
        self._version += 1
        seq = self._add("epoch", Epoch(self._version, fingerprint, domain).to_json())
        sql.execute("DELETE FROM known")
        drop_sets(sql)
        for purse, account in accounts.items():
            write_account(sql, purse, account, seq)
        self._accounts = accounts
        epoch = self.epoch
        if epoch is None or epoch.counter != self._version:
            raise self._fault("the new data version cannot be read back")
        self.spoiled = False
        return epoch

    def end(self) -> int:
        self._writing()
        self.spoiled = True
        seq = self._add("close", {"kind": "close"})
        self.spoiled = False
        return seq

    def start(self) -> int:
        """Append ``open``, which must come first, and set the totals to nothing spent."""
        sql = self._writing()
        self.spoiled = True
        if self._seq:
            raise self._fault("the log has begun already")
        seq = self._add("open", {"kind": "open", **self._terms.to_json()})
        start_accounts(sql, self._terms.caps)
        self.spoiled = False
        return seq

    def _writing(self) -> sqlite3.Connection:
        sql = self._sql
        if self.spoiled:
            raise self._fault("an earlier step of this transaction failed")
        if self.closed:
            raise ended()
        return sql

    def _add(self, kind: str, body: dict[str, Any]) -> int:
        try:
            entry = Entry.chained(body, self._seq + 1, self._head)
        except (TypeError, ValueError, RecursionError):
            raise self._fault(f"the {kind} entry cannot be spelled in JSON") from None
        self._sql.execute(
            "INSERT INTO entries(seq, kind, body, hash) VALUES (?, ?, ?, ?)",
            (entry.seq, kind, entry.body, entry.hash),
        )
        self._seq, self._kind, self._head = entry.seq, kind, entry.hash
        return entry.seq

    def _fold(self, sql: sqlite3.Connection, release: Release, seq: int) -> None:
        keys = folded(release)
        after = dict(zip(keys, self.known(keys), strict=True))
        fold(after, release, release.keys, seq)
        self._keep(sql, after)

    def _keep(self, sql: sqlite3.Connection, after: Mapping[bytes, Known]) -> None:
        sql.executemany(
            "INSERT OR REPLACE INTO known"
            "(key, precision, weighted, releases, last, idx, promises, first, asks) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (
                    key,
                    str(k.precision),
                    str(k.weighted),
                    k.releases,
                    k.last,
                    k.index,
                    " ".join(f"{share}@{gamma}" for share, gamma in k.promises),
                    str(k.first),
                    " ".join(k.asks),
                )
                for key, k in after.items()
            ),
        )

    def _fault(self, what: str) -> LedgerCorrupt:
        return append_refused(what, path=str(self._path))
