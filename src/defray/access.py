"""Who may ask under a contract: principals, and the tokens by which they are known.

A token is ``dfy_`` and 256 random bits in urlsafe base64, 47 characters in all.  It is returned once, by
:meth:`Access.issue` or :meth:`Access.rotate`; the ledger keeps its sha256.  Principals and their shares are
in the log, tokens beside it.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any, Final

from defray.core import principals as people
from defray.core.amounts import exact
from defray.core.brief import brief
from defray.core.principals import SCOPES, Change, Enrolment, Principal, Principals, Role, Scope
from defray.entitled import check_share
from defray.errors import BadInput, Forbidden, NotFound, Unauthorized
from defray.ledger.beside import Token
from defray.ledger.store import Ledger, Transaction
from defray.recent import Recent

FOREVER: Final = timedelta.max
"""A lifetime: until the token is revoked."""

LONGEST: Final = timedelta(days=36500)
"""The longest lifetime that ends."""

_TOKEN: Final = re.compile("dfy_[A-Za-z0-9_-]{43}")
_ASK_THE_CURATOR: Final = "ask the curator for a token: defray analyst rotate NAME"


@dataclass(frozen=True, slots=True)
class Grant:
    """What a token that works stands for; ``token_id`` is None where it is none of this ledger."""

    principal: Principal
    scopes: frozenset[Scope]
    token_id: str | None

    def require(self, scope: Scope) -> None:
        """Raises Forbidden unless the token has the scope."""
        if scope not in self.scopes:
            raise Forbidden(
                f"this token of {self.principal.name} does not allow to {scope}",
                hint=f"it takes a token with the scope {scope}",
                scope=scope,
            )


def _now() -> datetime:
    return datetime.now(UTC)


class Access:
    """The principals and tokens of a ledger.  Nothing is remembered here for longer than the ledger stays
    as it is, so any number of these, in any number of processes, agree.  ``now`` is the clock, in UTC.

    >>> from defray.ledger.memory import MemoryLedger
    >>> from defray.ledger.records import Terms
    >>> access = Access(MemoryLedger(Terms(Fraction(1), {"answer": 2**50}, {"max_rows": 1})))
    >>> access.add("ana", share=0.25)
    Principal(name='ana', role='analyst', share=Fraction(1, 4), active=True)
    >>> text, token = access.issue("ana", ["ask", "quote"])
    >>> access.authenticate(text).principal.name, len(text)
    ('ana', 47)
    """

    def __init__(self, ledger: Ledger, now: Callable[[], datetime] = _now) -> None:
        self._ledger = ledger
        self._seen = Recent()
        self._clock = now

    def version(self) -> Hashable | None:
        """Of the ledger, as :meth:`defray.ledger.store.Ledger.version` says."""
        return self._ledger.version()

    def authenticate(self, token: str, at: Hashable | None = None) -> Grant:
        """Whose token this is and what it allows; ``at`` is the ledger's version, where it was just read.
        Raises Unauthorized unless it works now."""
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise Unauthorized("this is no token of Defray", hint=_ASK_THE_CURATOR)
        hash_, of = _hashed(token), self._ledger.version() if at is None else at
        found: tuple[Token | None, Principals] | None = self._seen.get(of, hash_)
        if found is None:
            with self._ledger.view() as view:
                found = view.token(hash_), view.principals()
            self._seen.keep(of, hash_, found)
        kept, principals = found
        if kept is None or not hmac.compare_digest(kept.hash, hash_):
            raise Unauthorized("this token is unknown", hint=_ASK_THE_CURATOR)
        return self._grant(kept, principals)

    def vouched(self, name: str, scopes: Collection[str] | None = None) -> Grant | None:
        """The grant of a principal for whom another authority speaks: all that the role may do, or what of it
        is among ``scopes``.  None where nobody of that name is there and active."""
        with self._ledger.view() as view:
            principal = view.principals().get(name)
        if principal is None or not principal.active:
            return None
        allowed = scopes_for(principal.role, None)
        if scopes is not None:
            allowed = frozenset(scope for scope in allowed if scope in scopes)
        return Grant(principal, allowed, None)

    def again(self, grant: Grant) -> Grant:
        """The grant of the same token as it is now.  Raises Unauthorized where the token works no more, or is
        none of this ledger."""
        with self._ledger.view() as view:
            kept = next((token for token in view.tokens() if token.id == grant.token_id), None)
            principals = view.principals()
        if kept is None:
            raise Unauthorized("this token is unknown", hint=_ASK_THE_CURATOR)
        return self._grant(kept, principals)

    def _grant(self, kept: Token, principals: Principals) -> Grant:
        if not kept.works(self._now()):
            ended = "has expired" if kept.revoked is None else "was revoked"
            raise Unauthorized(f"the token {kept.id} {ended}", hint=_ASK_THE_CURATOR)
        principal = principals.get(kept.principal)
        if principal is None or not principal.active:
            raise Unauthorized(
                f"{kept.principal} is suspended", hint="the curator can resume whoever is suspended"
            )
        return Grant(principal, kept.scopes, kept.id)

    def analysts(self) -> list[Principal]:
        """Everybody, curators too, in the order in which they came."""
        with self._ledger.view() as view:
            return list(view.principals().values())

    def reserve(self) -> Fraction:
        """The part of the contract that is nobody's share."""
        with self._ledger.view() as view:
            return view.principals().reserve

    def add(self, name: str, role: Role = "analyst", share: Any = None) -> Principal:
        """A new principal, without a token as yet.  ``share`` is a number from 0 to 1; that of an analyst is
        0 where none is given.

        Raises BadInput where the name is taken or cannot be one, or the reserve does not hold the share.
        """
        made = newcomer(name, role, share)
        with self._ledger.transaction() as transaction:
            _enrol(transaction, "add", made)
            if made.share:
                check_share(self._ledger.terms, transaction, made)
        return made

    def suspend(self, name: str) -> Principal:
        """The principal's tokens do not work until resumed; the share is kept.  Nothing happens where that is
        so already; NotFound where there is no such principal."""
        return self._change("suspend", name, lambda principal: replace(principal, active=False))

    def resume(self, name: str) -> Principal:
        """The inverse of :meth:`suspend`."""
        return self._change("resume", name, lambda principal: replace(principal, active=True))

    def set_share(self, name: str, share: Any) -> Principal:
        """Another share for an analyst.  Raises BadInput where the reserve does not hold it, NotFound where
        there is no such principal."""
        given = parse_share(share)
        return self._change("share", name, lambda principal: replace(principal, share=given))

    def issue(
        self, name: str, scopes: Iterable[str] | None = None, expires: timedelta | None = None
    ) -> tuple[str, Token]:
        """A new token and what is kept of it.  ``scopes`` are by default all that the role may have, and
        ``expires`` is how long it works (default: until it is revoked).

        Raises NotFound where there is no such principal, BadInput for scopes or times that cannot be.
        """
        with self._ledger.transaction() as transaction:
            return self._issue(transaction, name, scopes, expires)

    def rotate(
        self, name: str, scopes: Iterable[str] | None = None, expires: timedelta | None = None
    ) -> tuple[str, Token]:
        """A new token in place of all that work, which are revoked at the same moment.  Where nothing else is
        said it has the scopes of these together, and works as long after its making as the longest of them
        did.  Raises as :meth:`issue` does."""
        now = self._now()
        with self._ledger.transaction() as transaction:
            old = [t for t in transaction.tokens() if t.principal == name and t.works(now)]
            if old and scopes is None:
                scopes = frozenset[str]().union(*(token.scopes for token in old))
            if old and expires is None:
                expires = max(FOREVER if t.expires is None else t.expires - t.made for t in old)
            issued = self._issue(transaction, name, scopes, expires)
            for token in old:
                transaction.revoke(token.id, now)
        return issued

    def revoke(self, token_id: str) -> Token:
        """From now on the token does not work.  Nothing happens where that is so already; NotFound where
        there is none of that id."""
        with self._ledger.transaction() as transaction:
            token = next((t for t in transaction.tokens() if t.id == token_id), None)
            if token is None:
                raise NotFound(
                    f"there is no token {brief(repr(token_id))}",
                    hint="defray analyst list shows the ids of all tokens",
                )
            if token.revoked is None:
                token = replace(token, revoked=self._now())
                transaction.revoke(token.id, self._now())
        return token

    def tokens(self, name: str | None = None) -> list[Token]:
        """All tokens, or a principal's, oldest first.  NotFound where there is no such principal."""
        with self._ledger.view() as view:
            if name is not None:
                people.found(view.principals(), name)
            return [t for t in view.tokens() if name in (None, t.principal)]

    def _change(
        self, change: Change, name: str, made: Callable[[Principal], Principal]
    ) -> Principal:
        with self._ledger.transaction() as transaction:
            before = people.found(transaction.principals(), name)
            after = made(before)
            if after != before:
                _enrol(transaction, change, after)
            if after.share is not None and after.share != before.share:
                check_share(self._ledger.terms, transaction, after)
        return after

    def _issue(
        self,
        transaction: Transaction,
        name: str,
        scopes: Iterable[str] | None,
        expires: timedelta | None,
    ) -> tuple[str, Token]:
        principal = people.found(transaction.principals(), name)
        text, made = f"dfy_{secrets.token_urlsafe(32)}", self._now()
        lasting = None if expires is None or expires == FOREVER else parse_lifetime(expires)
        token = Token(
            id=secrets.token_hex(6),
            principal=name,
            scopes=scopes_for(principal.role, scopes),
            made=made,
            hash=_hashed(text),
            expires=None if lasting is None else made + lasting,
        )
        transaction.issue(token)
        return text, token

    def _now(self) -> datetime:
        return self._clock().astimezone(UTC).replace(microsecond=0)


def newcomer(name: str, role: Role = "analyst", share: Any = None) -> Principal:
    """Who :meth:`Access.add` would add, to a contract of nobody.  Raises BadInput."""
    given = None if share is None else parse_share(share)
    made = Principal(name, role, Fraction(0) if given is None and role == "analyst" else given)
    people.enrolled(people.NOBODY, Enrolment.of("add", made))
    return made


def scopes_for(role: Role, scopes: Iterable[str] | None) -> frozenset[Scope]:
    """The scopes that were named, or all that the role may have.  Raises BadInput."""
    allowed = SCOPES.get(role, SCOPES["analyst"])
    if scopes is None:
        return allowed
    named = {scopes} if isinstance(scopes, str) else set(scopes)
    chosen = frozenset(scope for scope in allowed if scope in named)
    if not chosen or len(chosen) != len(named):
        wrong = next((str(name) for name in sorted(named, key=str) if name not in allowed), "none")
        raise BadInput(
            f"{brief(wrong)} is no scope of the role {role}",
            hint=f"choose of {', '.join(sorted(allowed))}"
            + ("; curate takes --role curator" if "curate" in named and role != "curator" else ""),
        )
    return chosen


def parse_share(share: Any) -> Fraction:
    """A share as it was written: ``0.1`` is a tenth, ``"1/3"`` a third.  Raises BadInput for what is no
    number."""
    try:
        return exact(share)
    except (TypeError, ValueError):
        raise BadInput(
            f"a share is a number from 0 to 1, not {brief(str(share))}",
            hint="0.25 is a quarter of the contract",
        ) from None


def parse_lifetime(lifetime: timedelta) -> timedelta:
    """How long a token works, in whole seconds.  Raises BadInput unless that is a second to a century."""
    whole = lifetime - timedelta(microseconds=lifetime.microseconds)
    if not timedelta(seconds=1) <= whole <= LONGEST:
        raise BadInput(
            "a token works for a second at least and a century at most",
            hint="90d, or never to let it work until it is revoked",
        )
    return whole


def _enrol(transaction: Transaction, change: Change, after: Principal) -> None:
    event = Enrolment.of(change, after)
    people.enrolled(transaction.principals(), event)
    transaction.enrol(event)


def _hashed(token: str) -> bytes:
    return hashlib.sha256(token.encode("ascii")).digest()
