"""Replaying a ledger from zero: is the log whole, and does everything that is kept follow from it?

Nothing stored is believed.  Every charge is derived again from the noise that was drawn, exactly; every
fold is computed again from the releases.  What the log alone cannot show is that its newest entries were
cut off, or that all of it was written anew: for that, compare with a head noted earlier (``pinned``), for
example the one in a certificate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from defray.core.amounts import QUANTA, rho_of
from defray.errors import LedgerBusy, LedgerCorrupt
from defray.ledger.checks import arrival_fault, faults, fold, fold_arrival
from defray.ledger.records import (
    GENESIS,
    PURSES,
    Arrival,
    Entry,
    Epoch,
    Known,
    Purse,
    Release,
    Terms,
    canonical,
    digest,
)
from defray.ledger.store import Ledger

KeysOf = Callable[[Mapping[str, Any], Epoch], tuple[bytes, ...]]
"""The keys of a release's functionals, re-derived from its body and the epoch it was made in; raises
Disagrees where something else that follows from them was recorded otherwise."""


class Disagrees(Exception):
    """A recorded field is not what follows from a release's weights and the declared domain."""


_ATTEMPTS: Final = 100
_UNREADABLE: Final = (
    KeyError, TypeError, ValueError, ArithmeticError, AttributeError, IndexError, RecursionError
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, at an entry (or at the newest one, for the folds)."""

    seq: int
    message: str

    def __str__(self) -> str:
        return f"entry {self.seq}: {self.message}"


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What a replay found.  ``spent`` is in quanta and ``rho`` the same in rho, both as replayed;
    ``head`` is the hash of the newest entry and commits to the whole log."""

    findings: tuple[Finding, ...]
    entries: int
    releases: int
    epochs: int
    spent: Mapping[Purse, int]
    rho: Mapping[Purse, Fraction]
    head: str
    closed: bool

    @property
    def ok(self) -> bool:
        return not self.findings

    def to_dict(self) -> dict[str, Any]:
        """The same for machines, in rho."""
        return {
            "ok": self.ok,
            "findings": [{"seq": f.seq, "message": f.message} for f in self.findings],
            "entries": self.entries,
            "releases": self.releases,
            "epochs": self.epochs,
            "spent_rho": {purse: float(spent) for purse, spent in self.rho.items()},
            "head": self.head,
            "closed": self.closed,
        }


@dataclass(slots=True)
class _Replay:
    """The state of the log after the entries read so far."""

    keys_of: KeysOf
    pinned: Mapping[int, str]
    findings: list[Finding] = field(default_factory=list)
    seq: int = 0
    head: str = GENESIS
    entries: int = 0
    releases: int = 0
    epochs: int = 0
    arrivals: int = 0
    terms: Terms | None = None
    epoch: Epoch | None = None
    closed: bool = False
    spent: dict[Purse, int] = field(default_factory=lambda: dict.fromkeys(PURSES, 0))
    known: dict[bytes, Known] = field(default_factory=dict)

    def report(self, seq: int, message: str) -> None:
        self.findings.append(Finding(seq, message))

    def take(self, entry: Entry) -> None:
        self.entries += 1
        if entry.seq != self.seq + 1:
            self.report(entry.seq, f"follows entry {self.seq}: entries are missing or out of order")
        expected, self.seq = self.head, entry.seq
        try:
            self.head = digest(entry.body)
            body = entry.read()
            if not isinstance(body, dict):
                raise TypeError
            plain = self._play(entry.seq, body)
            spelled = canonical({**plain, "seq": entry.seq, "prev": body["prev"]})
        except _UNREADABLE:
            self.report(entry.seq, "cannot be read")
            return
        if entry.hash != self.head:
            self.report(entry.seq, "its hash is not that of its body")
        if body["prev"] != expected:
            self.report(entry.seq, "does not name its predecessor: the chain is broken")
        if spelled != entry.body:
            self.report(entry.seq, "is not in the one canonical spelling, or bears a wrong number")
        pinned = self.pinned.get(entry.seq, self.head)
        if pinned != self.head:
            self.report(entry.seq, f"is not the entry noted earlier ({pinned[:12]}...)")

    def _play(self, seq: int, body: dict[str, Any]) -> dict[str, Any]:
        """Play one entry; returns the body as this version would write it, without its links."""
        kind = body["kind"]
        if self.closed:
            self.report(seq, "follows the end of the contract")
        if (kind == "open") != (seq == 1):
            self.report(seq, "the log must begin with its terms, and state them once")
        if kind == "release":
            return self._release(seq, body)
        if kind == "arrival":
            arrival = Arrival.from_json(body)
            wrong = arrival_fault(arrival, self.arrivals)
            if wrong is not None:
                self.report(seq, wrong)
            self.arrivals = arrival.number
            fold_arrival(self.known, arrival, seq)
            return arrival.to_json()
        if kind == "epoch":
            epoch = Epoch.from_json(body)
            self.epochs += 1
            if epoch.counter != (1 if self.epoch is None else self.epoch.counter + 1):
                self.report(seq, f"data version {epoch.counter} is out of turn")
            self.epoch = epoch
            self.known.clear()
            return epoch.to_json()
        if kind == "open":
            terms = Terms.from_json(body)
            self.terms = self.terms or terms
            if terms.rho <= 0 or sum(terms.caps.values()) > QUANTA:
                self.report(seq, "the caps exceed the contract")
            return {"kind": "open", **terms.to_json()}
        if kind == "close":
            self.closed = True
            return {"kind": "close"}
        raise ValueError

    def _release(self, seq: int, body: dict[str, Any]) -> dict[str, Any]:
        release = Release.from_json(body)
        self.releases += 1
        if self.terms is None or self.epoch is None:
            self.report(seq, "a release before the terms or the first data version")
            return release.to_json()
        if release.version != self.epoch.counter:
            self.report(seq, f"a release of data version {release.version}, not the newest")
        sound = True
        for wrong in faults(release, self.terms.rho):
            self.report(seq, wrong)
            sound = False
        if isinstance(release.charge, int) and release.purse in PURSES:
            self.spent[release.purse] += release.charge
            cap = self.terms.caps.get(release.purse, 0)
            if self.spent[release.purse] > cap:
                self.report(
                    seq,
                    f"the {release.purse} purse reaches {self.spent[release.purse]} of {cap} quanta",
                )
        if sound:
            try:
                keys = self.keys_of(body, self.epoch)
            except Disagrees as error:
                self.report(seq, str(error))
            else:
                self._fold(seq, release, keys)
        return release.to_json()

    def _fold(self, seq: int, release: Release, keys: tuple[bytes, ...]) -> None:
        if len(keys) != len(release.values):
            self.report(seq, f"{len(release.values)} values, but its weights are {len(keys)}")
            return
        fold(self.known, release, keys, seq)

    def compare(self, totals: Mapping[str, int], known: Mapping[bytes, Known]) -> None:
        """Compare the stored folds with those of the replay."""
        spent: dict[str, int] = {str(purse): quanta for purse, quanta in self.spent.items()}
        for purse in sorted(totals.keys() | spent.keys()):
            kept, replayed = totals.get(purse, 0), spent.get(purse, 0)
            if kept != replayed:
                self.report(
                    self.seq, f"the {purse} total is kept as {kept} quanta, the log says {replayed}"
                )
        if known == self.known:
            return
        for key in sorted(known.keys() | self.known.keys()):
            if known.get(key) != self.known.get(key):
                self.report(
                    self.seq, f"what is kept as known of {key.hex()} is not what the log says"
                )


def audit(
    ledger: Ledger, keys_of: KeysOf, *, pinned: Mapping[int, str] | None = None
) -> AuditReport:
    """Replay the whole log and compare.  Others may go on appending meanwhile.

    ``pinned`` maps seqs to hashes noted earlier, which must be in the log.
    """
    replay = _Replay(keys_of, pinned or {})
    for _ in range(_ATTEMPTS):
        for entry in ledger.entries(replay.seq + 1):
            replay.take(entry)
        try:
            totals, known = ledger.folds()
        except LedgerCorrupt as error:
            replay.report(replay.seq, error.message)
            break
        with ledger.view() as view:
            settled = view.seq == replay.seq
        if settled:
            replay.compare(totals, known)
            break
    else:
        raise LedgerBusy(
            "The ledger grows faster than it can be audited.", hint="Audit a backup of it."
        )
    if replay.terms is None:
        replay.report(replay.seq, "there are no terms")
    for seq in sorted(replay.pinned):
        if seq > replay.seq:
            replay.report(seq, "was noted earlier, but is not in the log: its end was cut off")
    rho = Fraction(0) if replay.terms is None else replay.terms.rho
    return AuditReport(
        findings=tuple(replay.findings),
        entries=replay.entries,
        releases=replay.releases,
        epochs=replay.epochs,
        spent=dict(replay.spent),
        rho={purse: rho_of(quanta, rho) for purse, quanta in replay.spent.items()},
        head=replay.head,
        closed=replay.closed,
    )
