"""A ledger in memory, for simulations, dry runs and tests.

NOT durable: what was spent is forgotten with the process, so no contract can choose it.  Otherwise it keeps
every promise of :mod:`defray.ledger.store`: one chain of entries, the same checks, serialised transactions,
readings of one moment (:mod:`defray.ledger.moments`).
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn, Self

from defray.core.principals import Enrolment
from defray.errors import LedgerBusy, LedgerCorrupt, LedgerError
from defray.ledger.accounts import Account, Folds
from defray.ledger.beside import (
    KeptAnswer,
    Token,
    answer_fault,
    oldest_kept,
    revoked,
    token_fault,
)
from defray.ledger.checks import (
    admitted,
    append_refused,
    arrival_fault,
    check_terms,
    ended,
    enrolled,
    fold,
    fold_arrival,
    fold_settled,
    folded,
    settled_fault,
)
from defray.ledger.moments import Committed, MemoryView, Moment, release_of, state_at
from defray.ledger.records import UNKNOWN, Arrival, Entry, Epoch, Known, Release, Settled, Terms


class MemoryTransaction(MemoryView):
    """The one writer of the moment.  What it adds is its own until :meth:`commit`; a failed step spoils it:
    it can only be abandoned."""

    def __init__(self, kept: Committed, moment: Moment, terms: Terms) -> None:
        super().__init__(kept, moment)
        self._terms = terms
        self._added = Committed()
        self._known: dict[bytes, Known] = {}
        self._spoiled = False

    def known(self, keys: Sequence[bytes]) -> list[Known]:
        before = super().known(keys)
        return [self._known.get(key, known) for key, known in zip(keys, before, strict=True)]

    def arrivals(self, after: int, newest: int) -> list[Arrival]:
        first = max(after, self._now.arrived - newest, 0)
        before = self._kept.arrivals
        return [*before[first:], *self._added.arrivals[max(first - len(before), 0) :]]

    def arrival(self, seq: int) -> Arrival:
        own = seq - len(self._kept.entries) - 1
        return (
            Arrival.from_json(self._added.entries[own].read()) if own >= 0 else super().arrival(seq)
        )

    def releases(self, after: int) -> list[tuple[int, Release]]:
        return [*super().releases(after), *self._own_releases(self._added.releases, after)]

    def shadows(self, after: int) -> list[tuple[int, Release]]:
        return [*super().shadows(after), *self._own_releases(self._added.shadows, after)]

    def _own_releases(self, where: list[int], after: int) -> list[tuple[int, Release]]:
        first = max(after, self._now.floor)
        own = [entry for entry in self._added.entries if entry.seq in where]
        return [(entry.seq, release_of(entry)) for entry in own if entry.seq > first]

    def append(self, release: Release) -> int:
        now = self._write()
        version, seq = 0 if now.epoch is None else now.epoch.counter, now.seq + 1
        after = admitted(
            release, self._terms, version, self._account, seq, self._unpaid, now.principals
        )
        if isinstance(after, str):
            self._fail(after)
        self._add("shadow" if release.alone else "release", release.to_json())
        (self._added.shadows if release.alone else self._added.releases).append(seq)
        fold(self._own(folded(release)), release, release.keys, seq)
        return self._done(accounts={**now.accounts, **after})

    def settle(self, settled: Settled) -> int:
        self._write()
        wrong = settled_fault(settled)
        if wrong is not None:
            self._fail(wrong)
        seq = self._add("settled", settled.to_json())
        fold_settled(self._own([k for k, _, _ in settled.settles]), settled.settles, seq)
        return self._done()

    def arrive(self, arrival: Arrival) -> int:
        now = self._write()
        wrong = arrival_fault(arrival, now.arrived)
        if wrong is not None:
            self._fail(wrong)
        seq = self._add("arrival", arrival.to_json())
        self._added.arrivals.append(arrival)
        fold_arrival(self._own([arrival.mark]), arrival, seq)
        return self._done(arrived=arrival.number)

    def open_epoch(self, fingerprint: str, domain: object) -> Epoch:
        now = self._write()
        version = 1 if now.epoch is None else now.epoch.counter + 1
        seq = self._add("epoch", Epoch(version, fingerprint, domain).to_json())
        epoch = Epoch.from_json(self._added.entries[-1].read())
        self._known.clear()
        accounts = {purse: account.anew() for purse, account in now.accounts.items()}
        self._done(epoch=epoch, floor=seq, accounts=accounts)
        return epoch

    def enrol(self, change: Enrolment) -> int:
        now = self._write()
        after = enrolled(now.principals, change)
        if isinstance(after, str):
            self._fail(after)
        self._add("principal", change.to_json())
        return self._done(principals=after)

    def issue(self, token: Token) -> None:
        now = self._change()
        wrong = token_fault(token, now.principals, now.tokens.values())
        if wrong is not None:
            self._fail(wrong)
        self._changed(tokens={**now.tokens, token.id: token})

    def revoke(self, id: str, at: datetime) -> None:
        now = self._change()
        after = revoked(now.tokens, id, at)
        if isinstance(after, str):
            self._fail(after)
        self._changed(tokens={**now.tokens, id: after})

    def keep_answer(self, answer: KeptAnswer) -> None:
        now = self._change()
        place = answer.principal, answer.key
        wrong = answer_fault(answer, now.principals, kept=place in now.answered)
        if wrong is not None:
            self._fail(wrong)
        oldest = oldest_kept(answer.at)
        kept = {where: old for where, old in now.answered.items() if old.at >= oldest}
        self._changed(answered={**kept, place: answer})

    def end(self) -> int:
        self._write()
        self._add("close", {"kind": "close"})
        return self._done(closed=True)

    def start(self) -> int:
        """Append ``open``, which comes first."""
        self._write()
        self._add("open", {"kind": "open", **self._terms.to_json()})
        return self._done()

    def check(self) -> None:
        """LedgerCorrupt where a step failed."""
        if self._spoiled:
            raise LedgerCorrupt(
                "A ledger transaction was to be kept although a step of it had failed.",
                hint="This is a fault of the caller; nothing was kept.",
            )

    def commit(self) -> Moment:
        """Keep what was added; returns the moment that is to be published."""
        kept = self._kept
        kept.entries.extend(self._added.entries)
        kept.arrivals.extend(self._added.arrivals)
        kept.releases.extend(self._added.releases)
        kept.shadows.extend(self._added.shadows)
        for key, known in self._known.items():
            kept.trails.setdefault(key, []).append(known)
        return self._moment

    def _write(self) -> Moment:
        """A step that writes to the log begins."""
        now = self._now
        if now.closed and not self._spoiled:
            raise ended()
        return self._change()

    def _change(self) -> Moment:
        """A step begins: the transaction is spoiled until the step is done."""
        now = self._now
        if self._spoiled:
            self._fail("an earlier step of this transaction failed")
        self._spoiled = True
        return now

    def _done(self, **changes: Any) -> int:
        """The step that wrote the newest entry ends."""
        entry = self._added.entries[-1]
        self._changed(seq=entry.seq, head=entry.hash, **changes)
        return entry.seq

    def _changed(self, **changes: Any) -> None:
        self._moment = replace(self._moment, **changes)
        self._spoiled = False

    def _add(self, kind: str, body: Mapping[str, Any]) -> int:
        try:
            entry = Entry.chained(body, self._moment.seq + 1, self._moment.head)
        except (TypeError, ValueError, RecursionError):
            self._fail(f"the {kind} entry cannot be spelled in JSON")
        self._added.entries.append(entry)
        return entry.seq

    def _own(self, keys: Sequence[bytes]) -> MutableMapping[bytes, Known]:
        """The states that this transaction keeps, those of ``keys`` among them."""
        found = zip(keys, self.known(keys), strict=True)
        self._known.update((key, known) for key, known in found if known is not UNKNOWN)
        return self._known

    def _fail(self, what: str) -> NoReturn:
        raise append_refused(what)


class MemoryLedger:
    """A :class:`~defray.ledger.store.Ledger` in memory, NOT durable.  One object serves any number of threads
    of the process that made it; ``timeout`` is in seconds."""

    def __init__(self, terms: Terms, *, timeout: float = 30.0) -> None:
        check_terms(terms)
        self._pid = os.getpid()
        self._timeout = timeout
        self._secret = secrets.token_bytes(32)
        self._notes: dict[str, str] = {}
        self._kept = Committed()
        self._publishing = threading.Lock()
        self._writer = threading.Lock()
        self._owner: int | None = None
        self._closed = False
        self._torn = False
        first = MemoryTransaction(self._kept, Moment(dict.fromkeys(terms.caps, Account())), terms)
        first.start()
        self._moment = first.commit()
        self._terms = Terms.from_json(self._kept.entries[0].read())

    @property
    def terms(self) -> Terms:
        return self._terms

    @property
    def secret(self) -> bytes:
        return self._secret

    @contextmanager
    def view(self) -> Iterator[MemoryView]:
        view = MemoryView(self._kept, self._current())
        try:
            yield view
        finally:
            view.finish()

    @contextmanager
    def transaction(self) -> Iterator[MemoryTransaction]:
        with self._turn():
            transaction = MemoryTransaction(self._kept, self._current(), self._terms)
            try:
                yield transaction
            finally:
                transaction.finish()
            with self._publishing:
                transaction.check()
                self._torn = True
                self._moment = transaction.commit()
                self._torn = False

    def version(self) -> None:
        return None

    def entries(self, start: int = 1) -> Iterator[Entry]:
        """The log in order, from ``start`` to what was the newest entry at the first step."""
        for i in range(max(start, 1) - 1, self._current().seq):
            yield self._kept.entries[i]

    def folds(self) -> Folds:
        with self._publishing:
            now = self._current()
            states = ((key, state_at(trail, now)) for key, trail in self._kept.trails.items())
            known = {key: state for key, state in states if state is not UNKNOWN}
        totals = {str(purse): account.spent for purse, account in now.accounts.items()}
        charges = {str(purse): account.kept() for purse, account in now.accounts.items()}
        return Folds(totals, known, charges)

    def answered(self, principal: str, key: str) -> tuple[str, str] | None:
        with self.view() as view:
            return view.answered(principal, key)

    def remembered(self, name: str) -> str | None:
        self._current()
        return self._notes.get(name)

    def remember(self, name: str, text: str) -> None:
        with self._turn():
            self._notes[name] = text

    def backup(self, path: Path) -> None:
        raise LedgerError(
            "A ledger in memory is not kept in a file.",
            hint="Keep the ledger in a file to copy it.",
        )

    def close(self) -> None:
        """Forget nothing yet, but serve nobody any more."""
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _current(self) -> Moment:
        if self._closed:
            raise LedgerError("The ledger in memory was closed.")
        if os.getpid() != self._pid:  # the copy in a child would let the same budget be spent twice
            raise LedgerError(
                "A ledger in memory serves only the process that made it.",
                hint="Make one in the forked process.",
            )
        return self._moment

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """This thread's turn to write."""
        self._current()
        me = threading.get_ident()
        if self._owner == me:
            raise LedgerError(
                "A ledger transaction was begun inside another one of its own thread."
            )
        if not self._writer.acquire(timeout=self._timeout):
            raise LedgerBusy(
                "The ledger is in use by others for longer than the timeout.",
                hint="Try again; nothing was spent.",
            )
        self._owner = me
        try:
            if self._torn:  # its parts may disagree: it can be read as it was before, and no more
                raise LedgerError("A commit of the ledger in memory was interrupted.")
            yield
        finally:
            self._owner = None
            self._writer.release()
