"""Who may ask: principals, their roles, and the shares of a contract that analysts hold.

A *curator* looks after a contract and holds no share.  An *analyst* holds a share of it, from 0 to 1.  The
shares of all analysts, suspended ones too, sum to at most 1; the rest is the unassigned *reserve*, from which
newcomers get theirs, so that nobody's share is cut because another comes.

What is known of principals is the fold of the events in the log (:func:`enrolled`).  Nobody is ever removed,
and a name is never given twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Final, Literal, get_args

from defray.core.brief import brief
from defray.core.numbers import show_number
from defray.errors import BadInput, NotFound

Role = Literal["curator", "analyst"]

Scope = Literal["quote", "ask", "read", "curate"]
"""What a token allows: prices; questions; history, balance, explanations and the contract; the curator's
work."""

Change = Literal["add", "suspend", "resume", "share"]

SCOPES: Final[Mapping[Role, frozenset[Scope]]] = MappingProxyType(
    {
        "analyst": frozenset(("quote", "ask", "read")),
        "curator": frozenset(("quote", "ask", "read", "curate")),
    }
)
"""The scopes that each role may have."""

MOST_PARTS: Final = 10**6
"""A share is a fraction of at most so many parts, so that sums of shares stay short."""

NAME: Final = re.compile(r"[a-z][a-z0-9._-]{0,63}")
_NAMING: Final = "1 to 64 of a-z, 0-9, '.', '_' and '-', a letter first"


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody who may ask, or may again once resumed.  ``share`` is None for a curator."""

    name: str
    role: Role
    share: Fraction | None
    active: bool = True

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "role": self.role,
            "share": None if self.share is None else float(self.share),
            "active": self.active,
        }


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks.  With a ``key`` the answer to a ``request`` (its digest) that was paid for is kept: the
    same request under the same key is answered with it."""

    name: str
    key: str | None = None
    request: str = ""


class Principals(Mapping[str, Principal]):
    """All principals by name, in the order in which they came.  It never changes.

    >>> ana = NOBODY.with_one(Principal("ana", "analyst", Fraction(1, 4)))
    >>> list(ana), ana.assigned, ana.reserve
    (['ana'], Fraction(1, 4), Fraction(3, 4))
    """

    __slots__ = ("_assigned", "_by_name")

    def __init__(self, by_name: Mapping[str, Principal], assigned: Fraction) -> None:
        self._by_name = by_name
        self._assigned = assigned

    def __getitem__(self, name: str) -> Principal:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def __repr__(self) -> str:
        return f"Principals({list(self._by_name.values())!r})"

    @property
    def assigned(self) -> Fraction:
        """The sum of all shares, those of suspended analysts too."""
        return self._assigned

    @property
    def reserve(self) -> Fraction:
        """The part of the contract that is no analyst's share."""
        return 1 - self._assigned

    def with_one(self, principal: Principal) -> Principals:
        """These, with a newcomer or with one of them as described."""
        before = self._by_name.get(principal.name)
        gone = Fraction(0) if before is None else before.share or Fraction(0)
        assigned = self._assigned - gone + (principal.share or Fraction(0))
        return Principals({**self._by_name, principal.name: principal}, assigned)


NOBODY: Final = Principals({}, Fraction(0))


@dataclass(frozen=True, slots=True)
class Enrolment:
    """One change to the principals, as the log keeps it: ``event`` says what changes, the rest how the
    principal is afterwards."""

    event: Change
    name: str
    role: Role
    share: Fraction | None

    @classmethod
    def of(cls, event: Change, after: Principal) -> Enrolment:
        return cls(event, after.name, after.role, after.share)

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "principal",
            "event": self.event,
            "name": self.name,
            "role": self.role,
            "share": None if self.share is None else str(self.share),
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Enrolment:
        share = body["share"]
        return cls(
            event=body["event"],
            name=body["name"],
            role=body["role"],
            share=None if share is None else Fraction(share),
        )


def found(principals: Principals, name: str) -> Principal:
    """The principal of that name.  Raises NotFound."""
    principal = principals.get(name) if isinstance(name, str) else None
    if principal is None:
        raise NotFound(
            f"there is no principal {brief(repr(name))}",
            hint="defray analyst list shows all of them",
        )
    return principal


def enrolled(principals: Principals, change: Enrolment) -> Principals:
    """The principals after a change.  Raises BadInput (NotFound where nobody has the name) if it is not true
    of them.

    >>> ana = enrolled(NOBODY, Enrolment("add", "ana", "analyst", Fraction(1, 4)))
    >>> enrolled(ana, Enrolment("suspend", "ana", "analyst", Fraction(1, 4))).reserve
    Fraction(3, 4)
    """
    _check_fields(change)
    name, before = change.name, principals.get(change.name)
    if change.event == "add":
        if before is not None:
            raise BadInput(
                f"there is a principal {name!r} already", hint="a name is never given twice"
            )
        after = Principal(name, change.role, change.share)
    else:
        after = _changed(found(principals, name), change)
    result = principals.with_one(after)
    if result.assigned > 1:
        left = result.reserve + (after.share or 0)
        raise BadInput(
            f"a share of {_shown(after)} does not fit: {show_number(left)} can be given",
            hint="give less, or take from others first: defray analyst share NAME 0.1",
        )
    return result


def _changed(before: Principal, change: Enrolment) -> Principal:
    """Whoever was there before, after a change other than ``add``."""
    after = Principal(change.name, change.role, change.share, change.event != "suspend")
    if change.event == "share":
        after = Principal(change.name, change.role, change.share, before.active)
    if change.role != before.role:
        raise BadInput(f"{before.name!r} is a {before.role}", hint="a role is never changed")
    if change.event != "share" and change.share != before.share:
        raise BadInput(f"to {change.event} {before.name!r} does not change the share")
    if after == before:
        how = f"has the share {_shown(before)}"
        if change.event != "share":
            how = "is active" if before.active else "is suspended"
        raise BadInput(f"{before.name!r} {how} already", hint="nothing needs to be done")
    return after


def _shown(principal: Principal) -> str:
    return "none" if principal.share is None else show_number(principal.share)


def _check_fields(change: Enrolment) -> None:
    """Raises BadInput where a field cannot be what it is to be, whoever else there is."""
    if change.event not in get_args(Change):
        raise BadInput(f"unknown change {brief(repr(change.event))} of a principal")
    check_name(change.name)
    if change.role not in get_args(Role):
        raise BadInput(
            f"unknown role {brief(repr(change.role))}", hint="a role is analyst or curator"
        )
    share = change.share
    if change.role == "curator":
        if share is not None:
            raise BadInput("a curator has no share", hint="leave the share out")
    elif not isinstance(share, Fraction) or not 0 <= share <= 1:
        raise BadInput(
            "a share lies from 0 to 1",
            hint="0.25 is a quarter of the contract; with --role curator there is none",
        )
    elif share.denominator > MOST_PARTS:
        raise BadInput(f"a share has at most {MOST_PARTS:,} parts", hint="0.333333")


def check_name(name: str) -> None:
    """Raises BadInput unless it can be a principal's name."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise BadInput(f"{brief(repr(name))} cannot be a name", hint=f"a name is {_NAMING}")
