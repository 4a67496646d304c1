"""The seam to durable memory: what every ledger (SQLite, PostgreSQL) does.

Safety rests on :meth:`Ledger.transaction`: transactions of all threads, processes and servers on one
ledger are serialised, see every earlier commit, and are durable (fsync) before ``commit`` returns; on
any exception nothing is kept.  The filter is enforced again inside :meth:`Transaction.append`, so no
caller can exceed a cap by mistake.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from defray.core.principals import Enrolment, Principals
from defray.ledger.accounts import Folds
from defray.ledger.beside import KeptAnswer, Token
from defray.ledger.records import Arrival, Entry, Epoch, Known, Release, Settled, Terms

if TYPE_CHECKING:
    from defray.support.charges import Charges


class View(Protocol):
    """A consistent reading of the ledger at one moment."""

    @property
    def seq(self) -> int:
        """The seq of the newest entry."""

    @property
    def head(self) -> str:
        """The hash of the newest entry: it commits to the whole log, so certificates name it."""

    @property
    def epoch(self) -> Epoch | None:
        """The newest data version; None on a ledger that has not seen one."""

    @property
    def closed(self) -> bool:
        """Whether the contract was ended with a ``close`` entry."""

    def spent(self, purse: str) -> int:
        """What the dearest cell has paid from the purse so far, in quanta, over all epochs (L12: what was
        spent stays spent).  Where nothing is charged by cell, that is the sum of all charges."""

    def charges(self, purse: str) -> Charges:
        """What every cell of the newest epoch's declared domain has paid from the purse, over all epochs:
        what earlier ones charged to any cell, all cells have paid.  It never changes, so it can be kept.
        Before the first epoch there are no columns, and nothing was paid.  What was paid for an analyst, and
        for the analyst's shadow, have names of their own (:func:`~defray.ledger.records.account_of`); of an
        analyst's account something may come back (:mod:`defray.ledger.transfers`)."""

    def releases(self, after: int) -> list[tuple[int, Release]]:
        """The releases of the newest epoch whose seq is above ``after``, in order, each with its seq; without
        what is derived from their bodies (``keys``, ``paid``)."""

    def shadows(self, after: int) -> list[tuple[int, Release]]:
        """The same of what analysts would have bought alone."""

    def known(self, keys: Sequence[bytes]) -> list[Known]:
        """The fold of each functional in the newest epoch; UNKNOWN where nothing was released."""

    def arrivals(self, after: int, newest: int) -> list[Arrival]:
        """The arrivals numbered above ``after``, in order: of many the ``newest`` only."""

    def arrival(self, seq: int) -> Arrival:
        """The arrival that stands at ``seq``."""

    def principals(self) -> Principals:
        """Everybody who may ask, or may again, by name, in the order in which they came."""

    def token(self, hash_: bytes) -> Token | None:
        """The token whose text has that sha256; None if there is none."""

    def tokens(self) -> list[Token]:
        """All tokens that were ever issued, oldest first, then by id."""

    def answered(self, principal: str, key: str) -> tuple[str, str] | None:
        """The digest of the request and the document that are kept under a principal's key; None if nothing
        is."""

    def requests(self, most: int) -> list[tuple[str, str]]:
        """Of the newest answers that are kept, so many at most: the principal and the digest of the request,
        the oldest first, those of one second by principal and key."""


class Transaction(View, Protocol):
    """A serialised read-decide-append.  Its own appends are visible to its later reads."""

    def append(self, release: Release) -> int:
        """Append, fold and charge; returns the seq.  Raises LedgerCorrupt (and the transaction must
        be abandoned) if any cell would exceed the purse's cap, the version is not the newest epoch or the
        release is not true to itself: callers decide before they append, so that is a fault, not a
        refusal.

        On a closed contract this, :meth:`open_epoch`, :meth:`arrive`, :meth:`enrol` and :meth:`end` raise a
        plain LedgerError and write nothing: another session may have closed it at any moment."""

    def settle(self, settled: Settled) -> int:
        """Append targets that were met: ``known`` remembers them from then on."""

    def open_epoch(self, fingerprint: str, domain: object) -> Epoch:
        """Start a new data version.  Functionals of earlier ones are no longer credited.  A row may have
        moved to any cell, so every cell has now paid what the dearest one had."""

    def arrive(self, arrival: Arrival) -> int:
        """Append an arrival, which is remembered by its mark: ``known`` tells ``last`` > 0 of it from
        then on.  LedgerCorrupt if its number is not the next."""

    def enrol(self, change: Enrolment) -> int:
        """Append a change to the principals; returns the seq.  LedgerCorrupt if it is not true of them."""

    def issue(self, token: Token) -> None:
        """Keep a new token of a principal; on a closed contract too.  LedgerCorrupt if its role does not have
        the scopes, or the id or the hash is that of another."""

    def revoke(self, id: str, at: datetime) -> None:
        """From now on the token does not work; on a closed contract too.  LedgerCorrupt if there is none of
        that id, or it was revoked before."""

    def keep_answer(self, answer: KeptAnswer) -> None:
        """Keep an answer under its key, in the transaction that pays for it; others are dropped once they are
        older than :data:`~defray.ledger.beside.KEPT_FOR`.  LedgerCorrupt if there is one under that key:
        callers look before they pay."""

    def end(self) -> int:
        """End the contract: append ``close``; nothing may follow it in the log."""


class Ledger(Protocol):
    @property
    def terms(self) -> Terms: ...

    @property
    def secret(self) -> bytes:
        """32 random bytes made with the ledger: keys the data fingerprint and the row sampling."""

    def view(self) -> AbstractContextManager[View]:
        """Read without blocking writers."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Serialised; commits on normal exit, rolls back on an exception.  Raises LedgerBusy if the
        lock is not had within the ledger's timeout."""

    def version(self) -> Hashable | None:
        """Another value whenever anything in the ledger is another, told in less time than a reading takes:
        what was read while it was the same is still so.  None where only a reading can tell."""

    def entries(self, start: int = 1) -> Iterator[Entry]:
        """The log from ``start`` on, in order."""

    def folds(self) -> Folds:
        """What is stored beside the log, for the audit to compare."""

    def answered(self, principal: str, key: str) -> tuple[str, str] | None:
        """As :meth:`View.answered` has it now."""

    def remembered(self, name: str) -> str | None:
        """A small private note by name (the fingerprint cache); not part of the log."""

    def remember(self, name: str, text: str) -> None: ...

    def backup(self, path: Path) -> None:
        """A consistent copy, tokens and kept answers too, made while others go on.  Refuses to overwrite a
        file."""

    def close(self) -> None: ...
