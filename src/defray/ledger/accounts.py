"""A purse's account: what every cell of the declared domain has paid from it, as a value.

What is spent is what the dearest cell has paid (see :mod:`defray.support.charges`); where everything was
charged to every cell, that is the sum of the charges.  Arrays, and what reads them, are loaded only where
something was charged by cell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from defray.core.domain import Domain
from defray.ledger.records import Epoch, Known, Paid

if TYPE_CHECKING:
    from defray.support.charges import Charges

Columns = tuple[int, ...]
"""A charged attribute set: numbers of columns of the declared domain."""

Kept = dict[str, tuple[int, int, int | bytes]]
"""An account as it is stored: for every charged attribute set, spelled, its number in the order in which they
came, the seq of the newest release that charged it, and its charges (see :mod:`defray.ledger.runs`).  For ''
these are 0, 0 and what every cell has paid."""


class Folds(NamedTuple):
    """What is kept beside the log: totals by purse, what is known of the newest data version's functionals,
    and accounts by purse."""

    totals: dict[str, int]
    known: dict[bytes, Known]
    charges: dict[str, Kept]


@dataclass(frozen=True, slots=True)
class Account:
    """``spent`` is the most that the dearest cell was ever known to have paid: a bound may become tighter.

    ``sets`` are the attribute sets that were charged in the newest data version, in the order in which they
    came, each with the seq of the newest release that charged it; ``cells`` is None while there are none,
    and ``common`` what every cell has paid then.
    """

    spent: int = 0
    common: int = 0
    cells: Charges | None = None
    sets: Mapping[Columns, int] = field(default_factory=dict)

    @property
    def everywhere(self) -> int:
        """What every cell has paid, beside the charges on attribute sets."""
        return self.common if self.cells is None else self.cells.everywhere

    @property
    def dearest(self) -> int:
        """What the dearest cell has paid, or a bound that is not below it."""
        return self.common if self.cells is None else self.cells.worst()

    def after(self, paid: Paid, seq: int, unpaid: Callable[[], Charges]) -> Account:
        """The account after the release ``seq``, over a domain that was ``unpaid`` at first.
        Raises ValueError or OverflowError where what it pays does not fit."""
        if self.cells is None and all(not columns for columns, _ in paid):
            common = self.common + sum(int(quanta) for _, quanta in paid)
            return Account(max(self.spent, common), common)
        charges = self.charges(unpaid).plus(paid)
        sets = dict(self.sets)
        for columns, _ in paid:
            if attributes := charges.reduced(columns):
                sets[attributes] = seq
        return Account(max(self.spent, charges.worst()), 0, charges, sets)

    def moved(self, quanta: int) -> Account:
        """The account once every cell has paid so much more (below 0: less).  ValueError where that is less
        than nothing."""
        if self.cells is not None:
            return replace(self, spent=self.spent + quanta, cells=self.cells.moved(quanta))
        if self.common + quanta < 0:
            raise ValueError("less than nothing cannot have been paid")
        return Account(self.spent + quanta, self.common + quanta)

    def anew(self) -> Account:
        """The account in another data version: a row may have moved to any cell, so all have paid what the
        dearest has."""
        return Account(self.spent, self.dearest)

    def charges(self, unpaid: Callable[[], Charges]) -> Charges:
        """What every cell has paid."""
        return unpaid().moved(self.common) if self.cells is None else self.cells

    def kept(self) -> Kept:
        """The account as it is stored, without what was spent."""
        rows: Kept = {"": (0, 0, self.everywhere)}
        if self.cells is not None:
            from defray.ledger.runs import runs

            quanta = self.cells.sets()
            for number, (columns, last) in enumerate(self.sets.items(), 1):
                rows[spelled(columns)] = number, last, runs(quanta[columns])
        return rows


def dearest(quanta: Any) -> Any:
    """The largest of some charges; ValueError if there are none."""
    if isinstance(quanta, int):
        return quanta
    import numpy as np

    return np.max(quanta)


def unpaid_in(epoch: Epoch | None) -> Charges:
    """The cells of a data version's domain (of no column before the first), none of which paid anything.
    LookupError, TypeError or ValueError where the domain cannot be read."""
    from defray.support.charges import Charges

    return Charges.of(Domain(()) if epoch is None else Domain.from_json(epoch.domain))


def spelled(columns: Columns) -> str:
    """An attribute set as text.

    >>> spelled((0, 3)), read(spelled((0, 3))), read("")
    ('0,3', (0, 3), ())
    """
    return ",".join(map(str, columns))


def read(text: str) -> Columns:
    return tuple(int(part) for part in text.split(",")) if text else ()
