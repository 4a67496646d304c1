"""What each cell may still pay: the caps of a contract's purses, what was charged to each cell, and what
promises hold back of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from defray.core.contract import Purse
from defray.support.charges import DENSE, Added, Charges

Quanta = NDArray[np.int64]


def between(paid: Charges, bound: Charges) -> tuple[Charges, int]:
    """Charges and a cap of which every cell has left what it has paid in ``bound`` beyond ``paid``.

    >>> some, more = (Charges((3,)).plus([((0,), quanta)]) for quanta in ([1, 0, 2], [4, 0, 2]))
    >>> charges, cap = between(some, more)
    >>> charges.remaining((0,), cap).tolist()
    [3, 0, 0]
    """
    most = {columns: int(quanta.max()) for columns, quanta in bound.sets().items()}
    unpaid = [(columns, most[columns] - quanta) for columns, quanta in bound.sets().items()]
    return paid.plus(unpaid), bound.everywhere + sum(most.values())


HELD: Final[Purse] = "answer"
"""The purse that promises hold back of."""


@dataclass(frozen=True, eq=False)
class Room:
    """The purses at one moment, with what promises hold back: of the answer purse, in quanta.  ``cache`` is
    emptied by nobody: a room never changes."""

    charges: Mapping[Purse, Charges]
    caps: Mapping[Purse, int]
    held: tuple[Added, ...] = ()
    cache: dict[Any, Any] = field(default_factory=dict, repr=False)

    def holding(self, held: tuple[Added, ...]) -> Room:
        """The same purses, of which this is held back."""
        return replace(self, held=held, cache={})

    def left(self, purse: Purse, columns: tuple[int, ...], own: int | None = None) -> Quanta | None:
        """What each cell may still pay, in quanta, on all at once, on the atoms of columns; None where these
        are too many to be told apart.  What the promise ``own`` holds back is left to it."""
        key = (purse, columns, own)
        if key not in self.cache:
            self.cache[key] = self._left(purse, columns, own)
        found: Quanta | None = self.cache[key]
        return found

    def _left(self, purse: Purse, columns: tuple[int, ...], own: int | None) -> Quanta | None:
        charges, cap = self.charges[purse], self.caps[purse]
        shape = [charges.atoms[c] for c in columns]
        if math.prod(shape) > DENSE:
            return None
        others = tuple(h for i, h in enumerate(self.held) if i != own)
        if purse == HELD and others:
            # The columns come first, as they will once they are charged.
            charges = charges.plus([(columns, np.zeros(shape, np.int64)), *others])
        return charges.remaining(columns, cap)

    def worst(self, purse: Purse) -> int:
        """What the dearest cell has paid, and what is held back of it."""
        charges = self.charges[purse]
        return (charges.plus(self.held) if purse == HELD and self.held else charges).worst()

    def least(self, purse: Purse) -> int:
        """What may still be charged to every cell."""
        if ("least", purse) not in self.cache:
            self.cache["least", purse] = max(self.caps[purse] - self.worst(purse), 0)
        found: int = self.cache["least", purse]
        return found

    @property
    def sound(self) -> bool:
        """Whether no cell has paid more than it has, with what is held back of it."""
        return all(self.worst(purse) <= cap for purse, cap in self.caps.items())

    def after(self, purse: Purse, paid: Iterable[Added]) -> Room:
        """The room once this is charged as well; what is held back is as before."""
        charges = self.charges[purse].plus(paid)
        return replace(self, charges={**self.charges, purse: charges}, cache={})
