"""What each cell may still pay: the caps of a contract's purses, and what was charged to each cell."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from defray.core.contract import Purse
from defray.support.charges import DENSE, Added, Charges

Quanta = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Room:
    """The purses at one moment.  ``cache`` is emptied by nobody: a room never changes."""

    charges: Mapping[Purse, Charges]
    caps: Mapping[Purse, int]
    cache: dict[Any, Any] = field(default_factory=dict, repr=False)

    def left(self, purse: Purse, columns: tuple[int, ...]) -> Quanta | None:
        """What each cell may still pay, in quanta, on all at once, on the atoms of columns; None where these
        are too many to be told apart."""
        key = (purse, columns)
        if key not in self.cache:
            self.cache[key] = self._left(purse, columns)
        found: Quanta | None = self.cache[key]
        return found

    def _left(self, purse: Purse, columns: tuple[int, ...]) -> Quanta | None:
        charges, cap = self.charges[purse], self.caps[purse]
        if math.prod(charges.atoms[c] for c in columns) > DENSE:
            return None
        return charges.remaining(columns, cap)

    def least(self, purse: Purse) -> int:
        """What may still be charged to every cell."""
        return max(self.caps[purse] - self.charges[purse].worst(), 0)

    def after(self, purse: Purse, paid: Iterable[Added]) -> Room:
        """The room once this is charged as well."""
        charges = self.charges[purse].plus(paid)
        return replace(self, charges={**self.charges, purse: charges}, cache={})
