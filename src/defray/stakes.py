"""Who paid for what is known in one data version, read from the log as it grows."""

from __future__ import annotations

from threading import Lock

from defray.core.canonical import canonical
from defray.core.contract import Contract
from defray.errors import LedgerCorrupt
from defray.ledger.records import Release
from defray.ledger.store import View
from defray.ledger.transfers import measured
from defray.policy.stakes import Stakes
from defray.support.exact import block_of

_UNREADABLE = (KeyError, TypeError, ValueError, ArithmeticError, AttributeError, IndexError)


class Payers:
    """The stakes of a data version, kept up to date.  Safe to share between threads."""

    def __init__(self, version: int, contract: Contract) -> None:
        self.version = version
        self._contract = contract
        self._keys: dict[bytes, tuple[bytes, ...]] = {}
        self._stakes = Stakes()
        self._read = 0
        self._lock = Lock()

    def read(self, view: View, *, exists: bool) -> Stakes:
        """The stakes at this moment: the same object as long as nothing was released or moved; in a
        transaction with its own entries, which others do not see.  LedgerCorrupt where one cannot be read."""
        from defray.past import appended  # arrays are loaded where somebody asks

        with self._lock:
            if not exists:
                return Stakes()
            news = [*view.releases(self._read), *view.shadows(self._read)]
            if not news:
                return self._stakes
            news.sort(key=lambda one: one[0])
            stakes = self._stakes.branch()
            for seq, release in news:
                self._take(stakes, seq, release)
            if not appended(view):
                self._stakes, self._read = stakes, news[-1][0]
            return stakes

    def _take(self, stakes: Stakes, seq: int, release: Release) -> None:
        try:
            made = measured(release, self._keys_of(release), self._contract.rho)
        except _UNREADABLE:
            raise LedgerCorrupt(
                f"The release {seq} of the ledger cannot be read.",
                hint="run defray audit; keep the file, and restore a backup",
            ) from None
        if not release.alone:
            stakes.release(made, release.by)
        elif release.by is not None:
            stakes.move(made, release.by, shares=release.back is not None)

    def _keys_of(self, release: Release) -> tuple[bytes, ...]:
        """The keys of a release's functionals: only regions have some."""
        if release.weights["kind"] != "region":
            return ()
        measures = canonical([release.measure, release.weights])
        if measures not in self._keys:
            body = {"measure": release.measure, "weights": release.weights}
            contract = self._contract
            self._keys[measures] = block_of(body, contract.domain, contract.unit.max_rows).keys
        return self._keys[measures]
