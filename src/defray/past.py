"""The releases of one data version, read from the ledger as they come and decoded as functionals."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from threading import Lock
from typing import Any, Final

from defray.core.contract import Contract, Purse
from defray.core.domain import Domain
from defray.errors import LedgerCorrupt
from defray.ledger.records import PURSES, Release
from defray.ledger.store import View
from defray.query.descriptor import Axis, Measure
from defray.query.region import Regions
from defray.support.axes import Axes
from defray.support.charges import Charges
from defray.support.grouped import Grouped
from defray.support.history import History, Item, cells_item, region_item, residual_item
from defray.support.overlap import AIM, Overlap
from defray.support.promised import Reserves, commitments_of
from defray.support.room import Room

N_MAX = 2**27
"""The bound on the rows of a table whose contract declares none: it scales rounding errors only."""


_UNREADABLE: Final = (KeyError, TypeError, ValueError, ArithmeticError, AttributeError, IndexError)


class Past:
    """The history of a data version, kept up to date.  Safe to share between threads."""

    def __init__(self, version: int, contract: Contract) -> None:
        self.version = version
        self._domain = contract.domain
        self._regions = Regions(contract.domain.widths)
        self._history = history_of(contract, self._regions)
        self._read = 0
        self._room = Room({}, {})
        self._held = self._room, self._history.promised, self._room, 0
        self._lock = Lock()

    def read(self, view: View, exists: bool) -> History:
        """Everything released so far; in a transaction with its own releases, which others do not see."""
        with self._lock:
            if not exists:
                return self._history
            news = view.releases(self._read)
            if not news:
                return self._history
            if appended(view):
                history = self._history.branch()
                history.add(self._items(news))
                return history
            # What was handed out stays as it was: others may be reading it.
            self._history = self._history.branch()
            self._history.add(self._items(news))
            self._read = news[-1][0]
            return self._history

    def room(self, charges: Mapping[Purse, Charges], caps: Mapping[Purse, int]) -> Room:
        """What each cell may still pay; the same value as long as nothing is charged."""
        with self._lock:
            before = self._room.charges
            alike = before.keys() == charges.keys()
            if not alike or not all(_same(before[p], c) for p, c in charges.items()):
                self._room = Room(charges, caps)
            return self._room

    def holding(self, room: Room, reserves: Reserves) -> tuple[Room, int]:
        """The same, less what promises hold back, and how many of them are kept."""
        if not reserves.commitments:
            return room, 0
        with self._lock:
            if self._held[0] is not room or self._held[1] is not reserves:
                kept = reserves.kept(room)
                self._held = room, reserves, room.holding(reserves.held(kept)), kept
            return self._held[2:]

    def _items(self, releases: Iterable[tuple[int, Release]]) -> Iterator[Item]:
        for seq, release in releases:
            try:
                yield item_of(seq, release, self._domain, self._regions)
            except _UNREADABLE:
                raise LedgerCorrupt(
                    f"The release {seq} of the ledger cannot be read.",
                    hint="run defray audit; keep the file, and restore a backup",
                ) from None


def history_of(contract: Contract, regions: Regions) -> History:
    """The history of a data version of which nothing was released yet."""
    promised = Reserves.of(commitments_of(contract, AIM**2))
    rows = float(contract.n_max or N_MAX)
    return History(contract.domain, regions, rows, promised=promised)


def overlap_of(
    contract: Contract,
    caps: Mapping[Purse, int],
    past: Past,
    view: View,
    scanned: Collection[Axes] | None = None,
) -> Overlap:
    """All that the releases of a data version say, and what each cell may still pay.  The version may still
    be to be opened: a row may have moved to any cell then, so what was spent counts for every cell."""
    opened = view.epoch is not None and view.epoch.counter == past.version
    charges = {purse: view.charges(purse) for purse in PURSES}
    if not opened:
        unpaid = Charges.of(contract.domain)
        charges = {purse: unpaid.plus([((), paid.worst())]) for purse, paid in charges.items()}
    history = past.read(view, opened)
    room, kept = past.holding(past.room(charges, caps), history.reserves())
    return Overlap(history, room, contract.rho, contract.unit.max_rows, scanned, kept)


def _same(one: Charges, other: Charges) -> bool:
    """Whether two are surely the same charges."""
    return one is other or (
        one.everywhere == other.everywhere and not one.sets() and not other.sets()
    )


def appended(view: View) -> bool:
    """Whether a view may hold what is not committed."""
    return hasattr(view, "append")


def axes_of(release: Release, domain: Domain) -> Axes:
    """The view that a mixture of cells was measured in."""
    return _axes(release.attributes, release.weights["classes"], domain)


def axes_noted(release: Release, domain: Domain) -> list[Axes]:
    """Other views that a release notes as those its answer may rest on."""
    return [_axes(names, starts, domain) for names, starts in release.note.get("views", ())]


def _axes(names: Iterable[str], classes: Iterable[Any], domain: Domain) -> Axes:
    columns = tuple(domain.names.index(name) for name in names)
    starts = tuple(None if s is None else tuple(s) for s in classes)
    return Axes(columns, starts, tuple(domain.widths[c] for c in columns))


def item_of(seq: int, release: Release, domain: Domain, regions: Regions) -> Item:
    """A logged release as functionals of the declared domain.  ValueError where its weights do not fit."""
    weights, measure = release.weights, Measure.parse(release.measure)
    aim = release.note.get("aim")
    aim = None if aim is None else float.fromhex(aim)
    columns = tuple(domain.names.index(name) for name in release.attributes)
    if weights["kind"] == "residual":
        assert release.precisions[0] is not None
        return residual_item(
            domain,
            measure,
            columns,
            seq=seq,
            ask=release.ask,
            step=release.step,
            values=release.values,
            precision=release.precisions[0],
            aim=aim,
        )
    if weights["kind"] == "cells":
        assert release.precisions[0] is not None
        assert release.values[0] is not None
        return cells_item(
            measure,
            axes_of(release, domain),
            weights["steps"],
            weights["bits"],
            seq=seq,
            ask=release.ask,
            step=release.step,
            value=release.values[0],
            precision=release.precisions[0],
            aim=aim,
            purse=release.purse,
        )
    axes = tuple(Axis(domain.names.index(name), level) for name, level in weights["group"])
    region = regions.from_json(weights["region"])
    return region_item(
        Grouped.of(measure, region, axes, domain, regions),
        domain,
        regions,
        seq=seq,
        ask=release.ask,
        step=release.step,
        values=release.values,
        precisions=release.precisions,
    )
