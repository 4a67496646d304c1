"""Appending on one connection of a database, inside one of its transactions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from defray.core.principals import NOBODY, Enrolment, Principals
from defray.errors import LedgerCorrupt
from defray.ledger.beside import KeptAnswer, Token, answer_fault, revoked, token_fault
from defray.ledger.beside_rows import write_answer, write_revoked, write_token
from defray.ledger.checks import (
    admitted,
    append_refused,
    arrival_fault,
    ended,
    enrolled,
    fold,
    fold_arrival,
    fold_settled,
    folded,
    settled_fault,
)
from defray.ledger.paid import (
    Memo,
    account_names,
    ceiling_of,
    drop_sets,
    start_account,
    start_accounts,
    write_account,
)
from defray.ledger.reading import SqlView, known_row
from defray.ledger.records import Arrival, Entry, Epoch, Known, Release, Settled, Terms
from defray.ledger.sql import Place, Sql


class SqlTransaction(SqlView):
    """The one writer of the moment.  A failed append spoils it: it can only be rolled back."""

    def __init__(self, connection: Sql, path: Place, memo: Memo, terms: Terms) -> None:
        super().__init__(connection, path, memo)
        self._terms = terms
        self._version = self._counter()
        self.spoiled = False

    def check(self) -> None:
        """LedgerCorrupt where a step failed."""
        if self.spoiled:
            raise LedgerCorrupt(
                "A ledger transaction was to be kept although a step of it had failed.",
                hint="This is a fault of the caller; nothing was kept.",
                path=str(self._path),
            )

    def append(self, release: Release) -> int:
        sql = self._writing()
        self.spoiled = True
        seq, principals = self._seq + 1, self._principals_of(release)
        after = admitted(
            release, self._terms, self._version, self._account, seq, self._unpaid, principals
        )
        if isinstance(after, str):
            raise self._fault(after)
        self._add("shadow" if release.alone else "release", release.to_json())
        for name, account in after.items():
            if "/" in name:
                start_account(sql, name, ceiling_of(name, self._terms.caps[release.purse]))
            if not write_account(sql, name, account, seq):
                raise self._fault(f"there is no total of the {name} purse")
            self._accounts[name] = account
        self._fold(sql, release, seq)
        self.spoiled = False
        return seq

    def settle(self, settled: Settled) -> int:
        sql = self._writing()
        self.spoiled = True
        wrong = settled_fault(settled)
        if wrong is not None:
            raise self._fault(wrong)
        seq = self._add("settled", settled.to_json())
        keys = [key for key, _, _ in settled.settles]
        after = dict(zip(keys, self.known(keys), strict=True))
        fold_settled(after, settled.settles, seq)
        self._keep(sql, after)
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
        accounts = {name: self._account(name).anew() for name in account_names(sql)}
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

    def enrol(self, change: Enrolment) -> int:
        self._writing()
        self.spoiled = True
        after = enrolled(self.principals(), change)
        if isinstance(after, str):
            raise self._fault(after)
        seq = self._add("principal", change.to_json())
        self.spoiled = False
        return seq

    def issue(self, token: Token) -> None:
        sql = self._changing()
        self.spoiled = True
        wrong = token_fault(token, self.principals(), self.tokens())
        if wrong is not None:
            raise self._fault(wrong)
        write_token(sql, token)
        self.spoiled = False

    def revoke(self, id: str, at: datetime) -> None:
        sql = self._changing()
        self.spoiled = True
        after = revoked({token.id: token for token in self.tokens()}, id, at)
        if isinstance(after, str):
            raise self._fault(after)
        write_revoked(sql, after)
        self.spoiled = False

    def keep_answer(self, answer: KeptAnswer) -> None:
        sql = self._changing()
        self.spoiled = True
        kept = self.answered(answer.principal, answer.key) is not None
        wrong = answer_fault(answer, self.principals(), kept=kept)
        if wrong is not None:
            raise self._fault(wrong)
        write_answer(sql, answer)
        self.spoiled = False

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

    def _principals_of(self, release: Release) -> Principals:
        return NOBODY if release.by is None else self.principals()

    def _writing(self) -> Sql:
        """To write to the log."""
        sql = self._changing()
        if self.closed:
            raise ended()
        return sql

    def _changing(self) -> Sql:
        """To write to what is kept beside the log."""
        sql = self._sql
        if self.spoiled:
            raise self._fault("an earlier step of this transaction failed")
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

    def _fold(self, sql: Sql, release: Release, seq: int) -> None:
        keys = folded(release)
        after = dict(zip(keys, self.known(keys), strict=True))
        fold(after, release, release.keys, seq)
        self._keep(sql, after)

    def _keep(self, sql: Sql, after: Mapping[bytes, Known]) -> None:
        sql.executemany(
            "INSERT INTO known"
            "(key, precision, weighted, releases, last, idx, promises, first, asks) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT(key) DO UPDATE SET "
            "precision = excluded.precision, weighted = excluded.weighted, "
            "releases = excluded.releases, last = excluded.last, idx = excluded.idx, "
            "promises = excluded.promises, first = excluded.first, asks = excluded.asks",
            (known_row(key, known) for key, known in after.items()),
        )

    def _fault(self, what: str) -> LedgerCorrupt:
        return append_refused(what, path=str(self._path))
