"""Appending to a PostgreSQL ledger: what proves a commit, and folds written in one statement each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from defray.ledger.beside import KeptAnswer, Token, seconds
from defray.ledger.reading import KNOWN, SqlView, known_of, known_row
from defray.ledger.records import UNKNOWN, Known
from defray.ledger.session import SqlTransaction
from defray.ledger.sql import Sql

Proof = tuple[str, tuple[Any, ...]]
"""A statement that finds a row if, and only if, the transaction was committed."""

_KEPT: Final = (
    "INSERT INTO known(key, precision, weighted, releases, last, idx, promises, first, asks) "
    "SELECT * FROM unnest(?::bytea[], ?::text[], ?::text[], ?::bigint[], ?::bigint[], ?::bigint[], "
    "?::text[], ?::text[], ?::text[]) ON CONFLICT (key) DO UPDATE SET precision = excluded.precision, "
    "weighted = excluded.weighted, releases = excluded.releases, last = excluded.last, "
    "idx = excluded.idx, promises = excluded.promises, first = excluded.first, asks = excluded.asks"
)
_MANY: Final = f"{KNOWN} WHERE key = ANY(?)"


class PostgresView(SqlView):
    """One moment of the ledger."""

    def _known(self, sql: Sql, keys: Sequence[bytes]) -> list[Known]:
        rows = sql.execute(_MANY, (list(set(keys)),))
        found = {bytes(row[0]): known_of(row[1:]) for row in rows}
        return [found.get(key, UNKNOWN) for key in keys]


class PostgresTransaction(SqlTransaction, PostgresView):
    """The one writer of the moment.  ``proof``: None as long as nothing was written."""

    proof: Proof | None = None

    def _add(self, kind: str, body: dict[str, Any]) -> int:
        seq = super()._add(kind, body)
        self.proof = "SELECT 1 FROM entries WHERE seq = ? AND hash = ?", (seq, self.head)
        return seq

    def issue(self, token: Token) -> None:
        super().issue(token)
        self._prove("SELECT 1 FROM tokens WHERE id = ? AND hash = ?", token.id, token.hash)

    def revoke(self, id: str, at: datetime) -> None:
        super().revoke(id, at)
        self._prove("SELECT 1 FROM tokens WHERE id = ? AND revoked = ?", id, seconds(at))

    def keep_answer(self, answer: KeptAnswer) -> None:
        super().keep_answer(answer)
        self._prove(
            "SELECT 1 FROM answered WHERE principal = ? AND key = ? AND request = ? AND document = ?",
            answer.principal,
            answer.key,
            answer.request,
            answer.document,
        )

    def _prove(self, statement: str, *parameters: Any) -> None:
        """An entry of the log is the better proof: it is there for ever."""
        self.proof = self.proof or (statement, parameters)

    def _keep(self, sql: Sql, after: Mapping[bytes, Known]) -> None:
        rows = [known_row(key, known) for key, known in after.items()]
        if rows:
            sql.execute(_KEPT, [list(column) for column in zip(*rows, strict=True)])
