"""Reading on one connection of a database, inside one of its transactions."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from defray.core.principals import NOBODY, Enrolment, Principals, enrolled
from defray.errors import BadInput, LedgerCorrupt, LedgerError
from defray.ledger.accounts import Account
from defray.ledger.beside import Token
from defray.ledger.beside_rows import read_answer, read_requests, read_token, read_tokens
from defray.ledger.paid import Memo, read_account
from defray.ledger.pool import forked
from defray.ledger.records import GENESIS, UNKNOWN, Arrival, Epoch, Known, Release
from defray.ledger.sql import Place, Sql

if TYPE_CHECKING:
    from defray.support.charges import Charges

_CHUNK: Final = 500
KNOWN: Final = (
    "SELECT key, precision, weighted, releases, last, idx, promises, first, asks FROM known"
)
_ONE: Final = f"{KNOWN} WHERE key = ?"
_SIZES: Final = (8, 64, _CHUNK)
_NEWEST: Final = (
    "SELECT seq, body FROM entries WHERE kind = '{}' AND seq > (SELECT max(start) FROM ("
    "SELECT max(seq) AS start FROM entries WHERE kind = 'epoch' UNION ALL SELECT ?) AS starts) "
    "ORDER BY seq"
)
_CHANGES: Final = "FROM entries WHERE kind = 'principal'"
_MANY: Final = {n: f"{KNOWN} WHERE key IN ({','.join('?' * n)})" for n in _SIZES}


UNREADABLE: Final = (
    LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError
)  # fmt: skip
"""What parsing a damaged body or fold may raise."""


def unreadable(path: Place, what: str) -> LedgerCorrupt:
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


def known_row(key: bytes, known: Known) -> tuple[Any, ...]:
    """The row of ``known`` with its key."""
    return (
        key,
        str(known.precision),
        str(known.weighted),
        known.releases,
        known.last,
        known.index,
        " ".join(f"{share}@{gamma}" for share, gamma in known.promises),
        str(known.first),
        " ".join(known.asks),
    )


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


class SqlView:
    """One moment of the ledger: nothing that others commit meanwhile is seen."""

    def __init__(self, connection: Sql, path: Place, memo: Memo) -> None:
        self._pid = os.getpid()
        self._path = path
        self._memo = memo
        self._accounts: dict[str, Account] = {}
        self._raw: Sql | None = connection
        head = connection.execute(
            "SELECT seq, kind, hash FROM entries ORDER BY seq DESC LIMIT 1"
        ).fetchone()
        self._seq: int = 0 if head is None else head[0]
        self._kind: str = "" if head is None else head[1]
        self._head: str = GENESIS if head is None else head[2]

    @property
    def _sql(self) -> Sql:
        if self._raw is None:
            raise LedgerError("A reading of the ledger was used after its end.")
        if os.getpid() != self._pid:
            raise forked(self._path)
        return self._raw

    def finish(self) -> None:
        """Nothing can be read through this object any more."""
        self._raw = None

    def accounts(self) -> tuple[dict[str, Account], int, int]:
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

    def spent(self, purse: str) -> int:
        row = self._sql.execute("SELECT quanta FROM totals WHERE purse = ?", (purse,)).fetchone()
        return 0 if row is None else int(row[0])

    def charges(self, purse: str) -> Charges:
        return self._account(purse).charges(self._unpaid)

    def _account(self, purse: str) -> Account:
        account = self._accounts.get(purse)
        if account is None:
            try:
                account = read_account(self._sql, purse, lambda: self._start(purse), self._unpaid)
            except UNREADABLE:
                raise unreadable(self._path, "what cells have paid") from None
            self._accounts[purse] = account
        return account

    def _start(self, purse: str) -> Account:
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
        return self._releases("release", after)

    def shadows(self, after: int) -> list[tuple[int, Release]]:
        return self._releases("shadow", after)

    def _releases(self, kind: str, after: int) -> list[tuple[int, Release]]:
        rows = self._sql.execute(_NEWEST.format(kind), (after,))
        try:
            return [(seq, Release.from_json(json.loads(body))) for seq, body in rows]
        except UNREADABLE:
            raise unreadable(self._path, "a release") from None

    def known(self, keys: Sequence[bytes]) -> list[Known]:
        try:
            return self._known(self._sql, keys)
        except UNREADABLE:
            raise unreadable(self._path, "a fold") from None

    def _known(self, sql: Sql, keys: Sequence[bytes]) -> list[Known]:
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

    def principals(self) -> Principals:
        sql = self._sql
        newest = sql.execute(f"SELECT seq, hash {_CHANGES} ORDER BY seq DESC LIMIT 1").fetchone()
        if newest is None:
            return NOBODY
        seq, hash_, principals = self._memo.principals
        if (seq, hash_) == newest:
            return principals
        there = sql.execute("SELECT hash FROM entries WHERE seq = ?", (seq,)).fetchone()
        if there is None or there[0] != hash_:
            seq, principals = 0, NOBODY
        try:
            for (body,) in sql.execute(f"SELECT body {_CHANGES} AND seq > ? ORDER BY seq", (seq,)):
                principals = enrolled(principals, Enrolment.from_json(json.loads(body)))
        except (*UNREADABLE, BadInput):
            raise unreadable(self._path, "who its principals are") from None
        self._memo.principals = *newest, principals
        return principals

    def token(self, hash_: bytes) -> Token | None:
        try:
            return read_token(self._sql, hash_)
        except UNREADABLE:
            raise unreadable(self._path, "a token") from None

    def tokens(self) -> list[Token]:
        try:
            return read_tokens(self._sql)
        except UNREADABLE:
            raise unreadable(self._path, "a token") from None

    def answered(self, principal: str, key: str) -> tuple[str, str] | None:
        return read_answer(self._sql, principal, key)

    def requests(self, most: int) -> list[tuple[str, str]]:
        return read_requests(self._sql, most)
