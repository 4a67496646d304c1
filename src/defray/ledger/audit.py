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
from defray.core.principals import NOBODY, Enrolment, Principals
from defray.errors import LedgerBusy, LedgerCorrupt
from defray.ledger.accounts import Account, Folds, unpaid_in
from defray.ledger.checks import (
    arrival_fault,
    cap_of,
    enrolled,
    faults,
    fold,
    fold_arrival,
    fold_settled,
    misfit,
    settled_fault,
    unowned,
)
from defray.ledger.records import (
    GENESIS,
    PURSES,
    Arrival,
    Entry,
    Epoch,
    Known,
    Paid,
    Purse,
    Release,
    Settled,
    Terms,
    canonical,
    digest,
    is_analysts,
)
from defray.ledger.store import Ledger
from defray.ledger.transfers import measured, moved, transfer_fault
from defray.policy.stakes import Stakes
from defray.support.weights import whole


@dataclass(frozen=True, slots=True)
class Derived:
    """What follows from a release and is not stored: the keys of its functionals (none, where its kind has
    none) and what each cell pays."""

    keys: tuple[bytes, ...]
    paid: Paid


Derive = Callable[[Mapping[str, Any], Epoch], Derived]
"""Derives again what follows from a release's body and the epoch it was made in; raises Disagrees where
something else that follows from them was recorded otherwise."""


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
    ``versions`` is how much of it each data version with releases added.  ``head`` is the hash of the newest
    entry and commits to the whole log; ``accepted`` is when an older ledger was accepted in its place."""

    findings: tuple[Finding, ...]
    entries: int
    releases: int
    epochs: int
    spent: Mapping[Purse, int]
    rho: Mapping[Purse, Fraction]
    versions: Mapping[int, Mapping[Purse, int]]
    head: str
    closed: bool
    accepted: tuple[Mapping[str, Any], ...] = ()

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
            "accepted_older": [dict(each) for each in self.accepted],
        }


@dataclass(slots=True)
class _Replay:
    """The state of the log after the entries read so far."""

    derive: Derive
    pinned: Mapping[int, str]
    findings: list[Finding] = field(default_factory=list)
    seq: int = 0
    head: str = GENESIS
    entries: int = 0
    releases: int = 0
    epochs: int = 0
    arrivals: int = 0
    principals: Principals = field(default_factory=lambda: NOBODY)
    terms: Terms | None = None
    epoch: Epoch | None = None
    closed: bool = False
    accounts: dict[str, Account] = field(default_factory=lambda: dict.fromkeys(PURSES, Account()))
    versions: dict[int, dict[Purse, int]] = field(default_factory=dict)
    known: dict[bytes, Known] = field(default_factory=dict)
    stakes: Stakes = field(default_factory=Stakes)

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
        if kind in ("release", "shadow"):
            return self._release(seq, body)
        if kind == "settled":
            settled = Settled.from_json(body)
            if (wrong := settled_fault(settled)) is not None:
                self.report(seq, wrong)
            fold_settled(self.known, settled.settles, seq)
            return settled.to_json()
        if kind == "arrival":
            arrival = Arrival.from_json(body)
            wrong = arrival_fault(arrival, self.arrivals)
            if wrong is not None:
                self.report(seq, wrong)
            self.arrivals = arrival.number
            fold_arrival(self.known, arrival, seq)
            return arrival.to_json()
        if kind == "principal":
            change = Enrolment.from_json(body)
            after = enrolled(self.principals, change)
            if isinstance(after, str):
                self.report(seq, after)
            else:
                self.principals = after
            return change.to_json()
        if kind == "epoch":
            epoch = Epoch.from_json(body)
            self.epochs += 1
            if epoch.counter != (1 if self.epoch is None else self.epoch.counter + 1):
                self.report(seq, f"data version {epoch.counter} is out of turn")
            self.epoch = epoch
            self.known.clear()
            self.stakes = Stakes()
            self.accounts = {purse: account.anew() for purse, account in self.accounts.items()}
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
        self.releases += not release.alone
        if self.terms is None or self.epoch is None:
            self.report(seq, "a release before the terms or the first data version")
            return release.to_json()
        if release.version != self.epoch.counter:
            self.report(seq, f"a release of data version {release.version}, not the newest")
        wrongs = list(faults(release, self.terms.rho))
        for wrong in wrongs:
            self.report(seq, wrong)
        paid: Paid = (((), release.charge if whole(release.charge) else 0),)
        if not wrongs:
            try:
                derived = self.derive(body, self.epoch)
            except Disagrees as error:
                self.report(seq, str(error))
            except _UNREADABLE as error:
                self.report(seq, f"its weights do not fit the declared domain: {error}")
            else:
                paid = self._fold(seq, release, derived)
        if (unknown := unowned(release, self.principals)) is not None:
            self.report(seq, unknown)
        if release.purse in PURSES:
            for name in release.accounts:
                self._charge(seq, name, paid)
            self._transfer(seq, release)
        return release.to_json()

    def _fold(self, seq: int, release: Release, derived: Derived) -> Paid:
        """Returns what is paid."""
        keyed = release.weights["kind"] == "region"
        if len(derived.keys) != (len(release.values) if keyed else 0):
            self.report(
                seq, f"{len(release.values)} values, but its weights are {len(derived.keys)}"
            )
            return derived.paid
        wrong = misfit(release, derived.paid)
        if wrong is not None:
            self.report(seq, wrong)
        fold(self.known, release, derived.keys, seq)
        self._share(seq, release, derived.keys)
        return derived.paid

    def _share(self, seq: int, release: Release, keys: tuple[bytes, ...]) -> None:
        """Whether what a release gives back is what the rule says, from all entries before it."""
        assert self.terms is not None
        made, by = measured(release, keys, self.terms.rho), release.by
        if not release.alone:
            self.stakes.release(made, by)
        elif by is not None:
            due = self.stakes.move(made, by, shares=release.back is not None)
            if due != (release.back or {}):
                self.report(seq, f"{by} gives back {release.back}, by the rule it is {due}")

    def _transfer(self, seq: int, release: Release) -> None:
        """What moves between accounts, where it is sound."""
        assert self.terms is not None

        def account(name: str) -> Account:
            return self.accounts.get(name, Account())

        wrong = transfer_fault(release, account, self.principals)
        if wrong is not None:
            self.report(seq, wrong)
            return
        after = moved(release, account)
        self.accounts.update(after)
        for name in filter(is_analysts, after):
            cap = cap_of(name, self.terms, self.principals)
            if after[name].spent > cap:
                self.report(seq, f"the {name} purse reaches {after[name].spent} of {cap} quanta")

    def _charge(self, seq: int, name: str, paid: Paid) -> None:
        epoch, terms = self.epoch, self.terms
        assert epoch is not None and terms is not None
        before = self.accounts.get(name, Account())
        after = self.accounts[name] = before.after(paid, seq, lambda: unpaid_in(epoch))
        added = self.versions.setdefault(epoch.counter, dict.fromkeys(PURSES, 0))
        for purse in PURSES:
            added[purse] += after.spent - before.spent if purse == name else 0
        cap = cap_of(name, terms, self.principals)
        if after.spent > cap:
            self.report(seq, f"the {name} purse reaches {after.spent} of {cap} quanta")

    @property
    def spent(self) -> dict[Purse, int]:
        return {purse: self.accounts[purse].spent for purse in PURSES}

    def compare(self, folds: Folds) -> None:
        """Compare the stored folds with those of the replay."""
        totals, known, charges = folds
        spent = {name: account.spent for name, account in self.accounts.items()}
        for purse in sorted(totals.keys() | spent.keys()):
            kept, replayed = totals.get(purse, 0), spent.get(purse, 0)
            if kept != replayed:
                self.report(
                    self.seq, f"the {purse} total is kept as {kept} quanta, the log says {replayed}"
                )
        replayed_charges = {name: account.kept() for name, account in self.accounts.items()}
        for purse in sorted(charges.keys() | replayed_charges.keys()):
            rows, again = charges.get(purse, {}), replayed_charges.get(purse, {})
            for text in sorted(rows.keys() | again.keys()):
                if rows.get(text) != again.get(text):
                    where = f"on the columns {text}" if text else "by every cell"
                    self.report(
                        self.seq,
                        f"what is kept as paid {where} from the {purse} purse is not what the log says",
                    )
        self._compare_shadows()
        if known == self.known:
            return
        for key in sorted(known.keys() | self.known.keys()):
            if known.get(key) != self.known.get(key):
                self.report(
                    self.seq, f"what is kept as known of {key.hex()} is not what the log says"
                )

    def _compare_shadows(self) -> None:
        """No cell has paid more for an analyst than for the shadow."""
        from defray.support.room import between

        epoch = self.epoch
        for name, account in self.accounts.items():
            if not is_analysts(name):
                continue
            alone = self.accounts.get(f"{name}/alone", Account())
            paid, bound = (a.charges(lambda: unpaid_in(epoch)) for a in (account, alone))
            charges, cap = between(paid, bound)
            if charges.exact and charges.worst() > cap:
                self.report(self.seq, f"a cell has paid more for {name} than the share alone would")


def audit(
    ledger: Ledger, derive: Derive, *, pinned: Mapping[int, str] | None = None
) -> AuditReport:
    """Replay the whole log and compare.  Others may go on appending meanwhile.

    ``pinned`` maps seqs to hashes noted earlier, which must be in the log.
    """
    replay = _Replay(derive, pinned or {})
    for _ in range(_ATTEMPTS):
        for entry in ledger.entries(replay.seq + 1):
            replay.take(entry)
        try:
            folds = ledger.folds()
        except LedgerCorrupt as error:
            replay.report(replay.seq, error.message)
            break
        with ledger.view() as view:
            settled = view.seq == replay.seq
        if settled:
            replay.compare(folds)
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
        spent=replay.spent,
        rho={purse: rho_of(quanta, rho) for purse, quanta in replay.spent.items()},
        versions=replay.versions,
        head=replay.head,
        closed=replay.closed,
    )
