"""Reading a ledger in memory: its moments, and all that was ever committed.

What is known of a functional is kept as a trail, one state for every commit that changed it.  A reading
takes from each trail the newest state that is not younger than itself, so it costs no copy and blocks nobody.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from defray.core.principals import NOBODY, Principals
from defray.errors import LedgerError
from defray.ledger.accounts import Account, unpaid_in
from defray.ledger.beside import KeptAnswer, Token
from defray.ledger.records import GENESIS, UNKNOWN, Arrival, Entry, Epoch, Known, Release

if TYPE_CHECKING:
    from defray.support.charges import Charges


@dataclass(frozen=True, slots=True)
class Moment:
    """The ledger after the entry ``seq``.  ``floor`` is the seq of the newest epoch: states up to it are of
    earlier data versions.  ``arrived`` counts the arrivals."""

    accounts: Mapping[str, Account]
    seq: int = 0
    head: str = GENESIS
    epoch: Epoch | None = None
    floor: int = 0
    arrived: int = 0
    closed: bool = False
    principals: Principals = field(default_factory=lambda: NOBODY)
    tokens: Mapping[str, Token] = field(default_factory=dict)
    answered: Mapping[tuple[str, str], KeptAnswer] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Committed:
    """All that was ever committed; it only grows."""

    entries: list[Entry] = field(default_factory=list)
    arrivals: list[Arrival] = field(default_factory=list)
    releases: list[int] = field(default_factory=list)
    shadows: list[int] = field(default_factory=list)
    trails: dict[bytes, list[Known]] = field(default_factory=dict)


class MemoryView:
    """One moment of the ledger: nothing that is committed later is seen."""

    def __init__(self, kept: Committed, moment: Moment) -> None:
        self._kept = kept
        self._moment = moment
        self._ended = False

    @property
    def _now(self) -> Moment:
        if self._ended:
            raise LedgerError("A reading of the ledger was used after its end.")
        return self._moment

    def finish(self) -> None:
        """Nothing can be read through this object any more."""
        self._ended = True

    @property
    def seq(self) -> int:
        return self._moment.seq

    @property
    def head(self) -> str:
        return self._moment.head

    @property
    def closed(self) -> bool:
        return self._moment.closed

    @property
    def epoch(self) -> Epoch | None:
        return self._now.epoch

    def spent(self, purse: str) -> int:
        return self._account(purse).spent

    def charges(self, purse: str) -> Charges:
        return self._account(purse).charges(self._unpaid)

    def releases(self, after: int) -> list[tuple[int, Release]]:
        return self._releases(self._kept.releases, after)

    def shadows(self, after: int) -> list[tuple[int, Release]]:
        return self._releases(self._kept.shadows, after)

    def _releases(self, where: list[int], after: int) -> list[tuple[int, Release]]:
        now, log = self._now, self._kept
        seqs = where[bisect_right(where, max(after, now.floor)) :]
        return [(seq, release_of(log.entries[seq - 1])) for seq in seqs if seq <= now.seq]

    def _account(self, purse: str) -> Account:
        return self._now.accounts.get(purse, Account())

    def _unpaid(self) -> Charges:
        return unpaid_in(self._now.epoch)

    def known(self, keys: Sequence[bytes]) -> list[Known]:
        now, trails = self._now, self._kept.trails
        return [state_at(trails.get(key, ()), now) for key in keys]

    def arrivals(self, after: int, newest: int) -> list[Arrival]:
        arrived = self._now.arrived
        return self._kept.arrivals[max(after, arrived - newest, 0) : arrived]

    def arrival(self, seq: int) -> Arrival:
        return Arrival.from_json(self._kept.entries[seq - 1].read())

    def principals(self) -> Principals:
        return self._now.principals

    def token(self, hash_: bytes) -> Token | None:
        return next((t for t in self._now.tokens.values() if t.hash == hash_), None)

    def tokens(self) -> list[Token]:
        return sorted(self._now.tokens.values(), key=lambda token: (token.made, token.id))

    def answered(self, principal: str, key: str) -> tuple[str, str] | None:
        kept = self._now.answered.get((principal, key))
        return None if kept is None else (kept.request, kept.document)

    def requests(self, most: int) -> list[tuple[str, str]]:
        inorder = sorted(self._now.answered.values(), key=lambda a: (a.at, a.principal, a.key))
        newest = inorder[max(len(inorder) - most, 0) :]
        return [(kept.principal, kept.request) for kept in newest]


def state_at(trail: Sequence[Known], now: Moment) -> Known:
    """What was known at that moment, of one functional."""
    for known in reversed(trail):
        if known.last <= now.seq:
            return known if known.last > now.floor else UNKNOWN
    return UNKNOWN


def release_of(entry: Entry) -> Release:
    """The release of an entry, without what is derived from its body."""
    return Release.from_json(entry.read())
