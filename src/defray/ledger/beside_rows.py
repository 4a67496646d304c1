"""The tables beside the log of a ledger: tokens, and answers that are kept under a key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from defray.core.principals import SCOPES
from defray.ledger.beside import KeptAnswer, Token, at_second, oldest_kept, seconds
from defray.ledger.sql import Sql

_TOKENS: Final = "SELECT id, principal, scopes, made, hash, expires, revoked FROM tokens"
_ALL_SCOPES: Final = SCOPES["curator"]


def read_token(sql: Sql, hash_: bytes) -> Token | None:
    """The token of that hash.  ValueError, TypeError or OverflowError where it cannot be read."""
    row = sql.execute(f"{_TOKENS} WHERE hash = ?", (hash_,)).fetchone()
    return None if row is None else _token(row)


def read_tokens(sql: Sql) -> list[Token]:
    """All tokens, oldest first; raises like :func:`read_token`."""
    return [_token(row) for row in sql.execute(f"{_TOKENS} ORDER BY made, id")]


def write_token(sql: Sql, token: Token) -> None:
    sql.execute(
        "INSERT INTO tokens(id, hash, principal, scopes, made, expires) VALUES (?, ?, ?, ?, ?, ?)",
        (
            token.id,
            token.hash,
            token.principal,
            " ".join(sorted(token.scopes)),
            seconds(token.made),
            None if token.expires is None else seconds(token.expires),
        ),
    )


def write_revoked(sql: Sql, token: Token) -> None:
    assert token.revoked is not None
    sql.execute("UPDATE tokens SET revoked = ? WHERE id = ?", (seconds(token.revoked), token.id))


def read_answer(sql: Sql, principal: str, key: str) -> tuple[str, str] | None:
    """The digest of the request and the document."""
    row = sql.execute(
        "SELECT request, document FROM answered WHERE principal = ? AND key = ?", (principal, key)
    ).fetchone()
    return None if row is None else (str(row[0]), str(row[1]))


def read_requests(sql: Sql, most: int) -> list[tuple[str, str]]:
    """Of the newest answers: the principal and the digest of the request, the oldest first."""
    rows = sql.execute(
        "SELECT principal, request FROM answered ORDER BY at DESC, principal DESC, key DESC LIMIT ?",
        (most,),
    ).fetchall()
    return [(str(principal), str(request)) for principal, request in reversed(rows)]


def write_answer(sql: Sql, answer: KeptAnswer) -> None:
    sql.execute(
        "INSERT INTO answered(principal, key, request, at, document) VALUES (?, ?, ?, ?, ?)",
        (answer.principal, answer.key, answer.request, seconds(answer.at), answer.document),
    )
    sql.execute("DELETE FROM answered WHERE at < ?", (seconds(oldest_kept(answer.at)),))


def _token(row: Sequence[Any]) -> Token:
    id_, principal, scopes, made, hash_, expires, revoked = row
    allowed = frozenset(scope for scope in _ALL_SCOPES if scope in scopes.split())
    if len(allowed) != len(scopes.split()):
        raise ValueError("a token has an unknown scope")
    return Token(
        id=id_,
        principal=principal,
        scopes=allowed,
        made=at_second(made),
        hash=bytes(hash_),
        expires=None if expires is None else at_second(expires),
        revoked=None if revoked is None else at_second(revoked),
    )
