"""What a ledger keeps beside its log: access tokens, and answers under the keys that came with the asks.

No charge follows from either, so neither is in the chain.  A token's text is kept nowhere, only its hash.
Times are whole seconds of UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from defray.core.principals import SCOPES, Principals, Scope

KEPT_FOR: Final = timedelta(days=7)
"""How long an answer is kept at least: once another is kept, those that are older than this are dropped."""

_ID: Final = re.compile("[0-9a-f]{6,64}")
_KEY: Final = re.compile("[!-~]{1,128}")
_DIGEST: Final = re.compile("[0-9a-f]{64}")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Token:
    """What is known of an access token.  ``id`` names it and is no secret; ``hash`` is the sha256 of its
    text.  It never changes, but may be revoked once."""

    id: str
    principal: str
    scopes: frozenset[Scope]
    made: datetime
    hash: bytes = field(repr=False)
    expires: datetime | None = None
    revoked: datetime | None = None

    def works(self, now: datetime) -> bool:
        """Whether it is neither revoked nor expired."""
        return self.revoked is None and (self.expires is None or now < self.expires)

    def to_dict(self) -> dict[str, Any]:
        """For machines; without the hash."""
        return {
            "id": self.id,
            "principal": self.principal,
            "scopes": sorted(self.scopes),
            "made": self.made.isoformat(),
            "expires": None if self.expires is None else self.expires.isoformat(),
            "revoked": None if self.revoked is None else self.revoked.isoformat(),
        }


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """An answer as it was sent to a principal, who gets it again for the same request under the same ``key``
    (1 to 128 visible ASCII characters).  ``request`` is the sha256 of the request, in hex; ``document`` the
    answer as text."""

    principal: str
    key: str
    request: str
    at: datetime
    document: str = field(repr=False)


def oldest_kept(newest: datetime) -> datetime:
    """Answers from before this are dropped when one of ``newest`` is kept."""
    return newest - KEPT_FOR


def token_fault(token: Token, principals: Principals, others: Iterable[Token]) -> str | None:
    """Why a token may not be issued beside the ``others``; None if it may."""
    principal = principals.get(token.principal)
    if principal is None:
        return f"a token of {token.principal!r:.80}, who is no principal"
    if not token.scopes or not token.scopes <= SCOPES[principal.role]:
        return f"a token of {token.principal!r} with scopes that its role does not have"
    if not _ID.fullmatch(token.id):
        return f"{token.id!r:.80} cannot be the id of a token"
    if not isinstance(token.hash, bytes) or len(token.hash) != 32:
        return f"the hash of the token {token.id} is no sha256"
    if not all(map(_whole, (token.made, token.expires or token.made))):
        return f"the times of the token {token.id} are not whole seconds of UTC"
    if token.expires is not None and token.expires <= token.made:
        return f"the token {token.id} expires before it is made"
    if token.revoked is not None:
        return f"the token {token.id} is revoked before it is issued"
    if any(other.id == token.id or other.hash == token.hash for other in others):
        return f"there is a token {token.id} already, or one of the same text"
    return None


def revoked(tokens: Mapping[str, Token], id: str, at: datetime) -> Token | str:
    """The token of that id once it is revoked, or why it cannot be."""
    token = tokens.get(id)
    if token is None:
        return f"there is no token {id!r:.80}"
    if token.revoked is not None:
        return f"the token {id} was revoked already"
    return replace(token, revoked=at) if _whole(at) else "a time that is no whole second of UTC"


def answer_fault(answer: KeptAnswer, principals: Principals, *, kept: bool) -> str | None:
    """Why an answer may not be kept, ``kept`` saying whether one is under its key; None if it may."""
    if answer.principal not in principals:
        return f"an answer of {answer.principal!r:.80}, who is no principal"
    if not _KEY.fullmatch(answer.key):
        return "the key of an answer is not 1 to 128 visible ASCII characters"
    if kept:
        return f"an answer of {answer.principal!r} is kept under its key already"
    if not _DIGEST.fullmatch(answer.request):
        return "the digest of a request is no sha256 in hex"
    if not _whole(answer.at):
        return "an answer at a time that is no whole second of UTC"
    if "\0" in answer.document or not _spelled(answer.document):
        return "the document of an answer is no text"
    return None


def seconds(time: datetime) -> int:
    """A time as it is stored: seconds since 1970.

    >>> at_second(seconds(datetime(2026, 7, 1, tzinfo=UTC))).isoformat()
    '2026-07-01T00:00:00+00:00'
    """
    return (time - _EPOCH) // timedelta(seconds=1)


def at_second(count: int) -> datetime:
    """The inverse.  OverflowError or TypeError where it is no time."""
    return _EPOCH + timedelta(seconds=count)


def _whole(time: datetime) -> bool:
    return time.utcoffset() == timedelta(0) and time.microsecond == 0


def _spelled(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
