"""The releases of one data version, read back from the log alone, and what was known at any moment of them.

Nothing that is kept beside the log is believed: folds and views are made again from the releases.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from defray.controller.ask import Ask, Held
from defray.controller.goals import Wish
from defray.controller.prepare import prepare
from defray.core.contract import Contract
from defray.core.domain import Domain
from defray.ledger.checks import fold, increments
from defray.ledger.records import Epoch, Release
from defray.ledger.store import Ledger
from defray.query.region import Regions
from defray.support.exact import block_of
from defray.support.known import UNKNOWN, Known, credited
from defray.transcript import can_overlap

if TYPE_CHECKING:
    from defray.support.axes import Axes
    from defray.support.explained import Own
    from defray.support.history import Item
    from defray.support.overlap import Overlap

SPENT = "/* rho "
"""How the text of an ask that spent a given budget ends."""

TOO_LONG = "[a region of "
"""What stands for a WHERE that is too long to be written out."""


@dataclass(frozen=True, slots=True)
class Logged:
    """One release with its place in the log and the keys of its functionals."""

    seq: int
    release: Release


class Logbook:
    """What the releases of a data version say, as they come (:meth:`add`).  ``contract`` is one with the
    version's declared domain.  Where it is not ``valued``, what many releases say of a question has its
    precision only."""

    def __init__(self, contract: Contract, *, valued: bool = True) -> None:
        self.contract = contract
        self.valued = valued
        self.regions = Regions(contract.domain.widths)
        self.logged: dict[int, Logged] = {}
        self.known: dict[bytes, Known] = {}
        self._own: dict[bytes, list[Own]] = {}
        self._pending: list[Logged] = []
        self._overlap: Overlap | None = None

    def add(self, logged: Logged) -> None:
        release, seq = logged.release, logged.seq
        self.logged[seq] = logged
        fold(self.known, release, release.keys, seq)
        for functional, precision, _, place in increments(release, release.keys):
            keys = (functional,) if release.tag is None else credited(functional, release.tag)
            for key in keys:
                self._own.setdefault(key, []).append((seq, place, precision))
        self._pending.append(logged)

    def own(self, key: bytes) -> list[Own]:
        """The releases of a functional itself."""
        return self._own.get(key, [])

    @property
    def overlap(self) -> Overlap:
        """All releases so far as overlapping ones."""
        if self._overlap is None:
            self._overlap = self._nothing()
        self._overlap.history.add(self._items())
        return self._overlap

    def _nothing(self) -> Overlap:
        from defray.past import history_of
        from defray.support.overlap import Overlap
        from defray.support.room import Room

        contract, room = self.contract, Room({}, {})
        history = history_of(contract, self.regions)
        return Overlap(history, room, contract.rho, contract.unit.max_rows, valued=self.valued)

    def _items(self) -> Iterator[Item]:
        from defray.past import item_of

        news, self._pending = self._pending, []
        for one in news:
            yield item_of(one.seq, one.release, self.contract.domain, self.regions)

    def under(self, n_max: int | None) -> Logbook:
        """The same releases, under another bound on the table's rows."""
        if n_max == self.contract.n_max:
            return self
        other = Logbook(replace(self.contract, n_max=n_max), valued=self.valued)
        for one in self.logged.values():
            other.add(one)
        return other

    def views_of(self, ask: str) -> list[Axes]:
        """The views that the releases of an ask were measured in, as their weights say, or note."""
        from defray.past import axes_noted, axes_of

        found = [one.release for one in self.logged.values() if one.release.ask == ask]
        cells = [r for r in found if r.weights["kind"] == "cells"]
        views = [axes_of(r, self.contract.domain) for r in cells]
        views += [axes for r in found for axes in axes_noted(r, self.contract.domain)]
        return list(dict.fromkeys(views))

    def held(self, ask: Ask, *, linear: bool, views: Sequence[Axes] = ()) -> Held:
        """What is known of a question now; ``linear``: all releases of its measures count, also in these
        ``views``."""
        compiled = ask.compiled
        known = [[self.known.get(key, UNKNOWN) for key in block.keys] for block in compiled.blocks]
        held = Held(known, {m: self.known[m] for m in ask.marks if m in self.known})
        if not linear or not can_overlap(ask):
            return held
        wide = held.with_overlap(compiled, self.overlap)
        told = [list(row) for row in wide.known]
        for block, row in zip(compiled.blocks, told, strict=True):
            for seen in self.overlap.known_in(block, views):
                row[:] = [
                    max(pair, key=lambda k: k.precision) for pair in zip(row, seen, strict=True)
                ]
        return replace(wide, known=told) if views else wide


def asked(release: Release, contract: Contract, regions: Regions) -> Ask:
    """The ask that a release was bought for, from its text.  ``contract`` is of its data version.

    Raises QueryError or TargetError where the text does not say it (a region too long to be written out).
    """
    whole = release.question
    text, _, spent = whole.rpartition(SPENT)
    if not text:
        return prepare(whole, Wish(), contract, regions, text=whole)
    wish = Wish(rho=spent.removesuffix("*/").strip())
    return prepare(text, wish, contract, regions, text=whole)


def claimed_under(release: Release, contract: Contract) -> Contract:
    """The contract with the numbers that an answer was claimed under, where they were noted."""
    note = release.note
    if "met" not in note:
        return contract
    floor = note.get("m_floor")
    return replace(
        contract,
        n_max=note.get("n_max"),
        m_floor=None if floor is None else Fraction(floor),
    )


def derived_fields(
    body: Mapping[str, Any], domain: Domain, rows: int
) -> tuple[tuple[bytes, ...], dict[str, Any]]:
    """The keys of a release's functionals (none, where its kind has none), and the fields of its body that
    follow from its weights and the declared domain."""
    keyed = body["weights"]["kind"] == "region"
    table = {"kind": "region", "region": True, "group": []}
    block = block_of(body if keyed else {**body, "weights": table}, domain, rows)
    fields: dict[str, Any] = {"reach": str(block.reach), "unit": str(block.unit)}
    if not keyed:
        return (), fields
    return block.keys, fields | {"attributes": list(block.attributes)}


def releases(
    ledger: Ledger, *, shadows: bool = False
) -> Iterator[tuple[Epoch, int, Mapping[str, Any]]]:
    """Every release of the log, oldest first: its epoch, its seq and its body.  With ``shadows`` also what
    analysts would have released alone."""
    kinds = ("release", "shadow") if shadows else ("release",)
    epoch: Epoch | None = None
    for entry in ledger.entries():
        body = entry.read()
        if body["kind"] == "epoch":
            epoch = Epoch.from_json(body)
        elif body["kind"] in kinds and epoch is not None:
            yield epoch, entry.seq, body
