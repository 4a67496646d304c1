"""A contract shared by several principals, kept in memory: enough of it for the service's own tests."""

from __future__ import annotations

import datetime as dt
import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from threading import Lock
from typing import Any

from defray.core.amounts import exact
from defray.errors import BadInput, NotFound, Unauthorized
from defray.session import Session

ROLES = {"analyst": ("quote", "ask", "read"), "curator": ("quote", "ask", "read", "curate")}


@dataclass(frozen=True)
class Who:
    name: str
    role: Any
    share: Fraction | None
    active: bool = True


@dataclass(frozen=True)
class Ticket:
    id: str
    principal: str
    scopes: frozenset[str]
    made: dt.datetime
    expires: dt.datetime | None = None
    revoked: dt.datetime | None = None


@dataclass(frozen=True)
class Granted:
    principal: Who
    scopes: frozenset[str]
    token_id: str


def _share(share: Any) -> Fraction:
    try:
        return exact(share)
    except ValueError:
        raise BadInput("a share is a number from 0 to 1") from None


class Doors:
    def __init__(self) -> None:
        self.who: dict[str, Who] = {}
        self.tickets: dict[str, Ticket] = {}

    def authenticate(self, token: str) -> Granted:
        ticket = self.tickets.get(hashlib.sha256(token.encode()).hexdigest())
        now = dt.datetime.now(dt.UTC)
        if ticket is None or ticket.revoked or (ticket.expires and ticket.expires <= now):
            raise Unauthorized("this token does not work", hint="ask the curator for another")
        who = self.who[ticket.principal]
        if not who.active:
            raise Unauthorized("this token does not work", hint="ask the curator")
        return Granted(who, ticket.scopes, ticket.id)

    def analysts(self) -> Sequence[Who]:
        return list(self.who.values())

    def _found(self, name: str) -> Who:
        if name not in self.who:
            raise NotFound(f"there is no principal {name}")
        return self.who[name]

    def add(self, name: str, role: Any, share: Any) -> Who:
        if name in self.who:
            raise BadInput(f"there is a principal {name} already")
        self.who[name] = Who(name, role, None if share is None else _share(share))
        return self.who[name]

    def _set(self, name: str, **changed: Any) -> Who:
        self.who[name] = replace(self._found(name), **changed)
        return self.who[name]

    def suspend(self, name: str) -> Who:
        return self._set(name, active=False)

    def resume(self, name: str) -> Who:
        return self._set(name, active=True)

    def set_share(self, name: str, share: Any) -> Who:
        share = _share(share)
        if not 0 <= share <= 1:
            raise BadInput("a share lies from 0 to 1")
        return self._set(name, share=share)

    def issue(self, name: str, scopes: Any, expires: dt.timedelta | None) -> tuple[str, Ticket]:
        who = self._found(name)
        until = None if expires is None else dt.datetime.now(dt.UTC) + expires
        text, now = "dfy_" + secrets.token_urlsafe(32), dt.datetime.now(dt.UTC)
        made = Ticket(secrets.token_hex(4), name, frozenset(scopes or ROLES[who.role]), now, until)
        if not made.scopes <= set(ROLES[who.role]):
            raise BadInput("an analyst cannot have these scopes")
        self.tickets[hashlib.sha256(text.encode()).hexdigest()] = made
        return text, made

    def rotate(self, name: str, scopes: Any, expires: dt.timedelta | None) -> tuple[str, Ticket]:
        for ticket in self.tokens(name):
            if ticket.revoked is None:
                self.revoke(ticket.id)
        return self.issue(name, scopes, expires)

    def revoke(self, token_id: str) -> None:
        for hash_, ticket in self.tickets.items():
            if ticket.id == token_id:
                self.tickets[hash_] = replace(ticket, revoked=dt.datetime.now(dt.UTC))
                return
        raise NotFound(f"there is no token {token_id}")

    def tokens(self, name: str) -> Sequence[Ticket]:
        return [ticket for ticket in self.tickets.values() if ticket.principal == name]


class Shared:
    def __init__(self, session: Session, doors: Doors) -> None:
        self.session, self.doors = session, doors
        self.owner: dict[str, str] = {}
        self.kept: dict[tuple[str, str], tuple[str, Any]] = {}
        self.lock = Lock()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.session, name)

    def on_behalf_of(self, name: str) -> Bound:
        return Bound(self, name)


@dataclass
class Bound:
    shared: Shared
    name: str

    def quote(self, sql: str, **arguments: Any) -> Any:
        return self.shared.session.quote(sql, **arguments)

    def quote_all(self, questions: Sequence[str], **arguments: Any) -> Any:
        return self.shared.session.quote_all(questions, **arguments)

    def balance(self, **arguments: Any) -> Any:
        return self.shared.session.balance(**arguments)

    def explain(self, id: str) -> Any:
        return self.shared.session.explain(id)

    def ask(self, sql: str, *, key: Any = None, request: Any = None, **arguments: Any) -> Any:
        shared = self.shared
        kept = shared.kept.get((self.name, key))
        if kept is not None:
            if kept[0] != request:
                raise BadInput("this Idempotency-Key was used for another request")
            return kept[1]
        answer = shared.session.ask(sql, **arguments)
        if answer.charged_rho:
            with shared.lock:
                for row in answer.rows:
                    shared.owner.setdefault(row.id.partition(".")[0], self.name)
                if key is not None:
                    shared.kept[self.name, key] = request, answer
        return answer

    def history(self, *, refresh: bool = False) -> Any:
        asks = self.shared.session.history(refresh=refresh)
        if self.shared.doors.who[self.name].role == "curator":
            return asks
        owner = self.shared.owner
        return [a for a in asks if any(owner.get(r["id"]) == self.name for r in a["releases"])]
