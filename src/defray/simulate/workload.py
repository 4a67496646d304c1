"""A workload: who asks what, in which order, and how accurately.

Kept as columns, one entry an arrival, so that a million arrivals are cheap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from defray.errors import BadInput


@dataclass(frozen=True, slots=True)
class Written:
    """One ask as written in a file, for a run through the engine: the accuracy as users write it (``50``,
    ``"2%"``; empty: said in the SQL or by the contract's default), or instead of it ``rho``."""

    sql: str
    within: str = ""
    confidence: str = ""
    analyst: str = ""
    rho: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """``keys``: equal numbers are the same question (descriptor).  ``demands``: rho_min > 0, what the target
    needs from scratch.  ``truths``: the true value in units of its sensitivity (a count: rows), which no
    allocator sees.  ``analysts``: who asks, 0 to A-1.  ``labels[key]`` is what a key is called.
    ``ceilings``: what a target may need at worst where its price is not known before (a relative target at
    the least magnitude that is believed); None: each demand is known exactly."""

    name: str
    keys: NDArray[np.int64]
    demands: NDArray[np.float64]
    truths: NDArray[np.float64]
    analysts: NDArray[np.int64]
    labels: tuple[str, ...] = ()
    asks: tuple[Written, ...] = ()
    ceilings: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.demands)

    def __post_init__(self) -> None:
        columns = (self.keys, self.demands, self.truths, self.analysts)
        if any(column.shape != (len(self.demands),) for column in columns):
            raise BadInput(f"workload {self.name}: its columns differ in length")
        if self.asks and len(self.asks) != len(self):
            raise BadInput(f"workload {self.name}: {len(self.asks)} texts for {len(self)} asks")
        if not (np.isfinite(self.demands) & (self.demands > 0)).all():
            raise BadInput(f"workload {self.name}: every ask needs a finite rho above 0")
        if self.ceilings is not None and (
            self.ceilings.shape != self.demands.shape or (self.ceilings < self.demands).any()
        ):
            raise BadInput(f"workload {self.name}: no ask may need more than its ceiling")
        if not np.isfinite(self.truths).all():
            raise BadInput(f"workload {self.name}: every true value must be a finite number")
        if len(self) and (self.keys.min() < 0 or self.analysts.min() < 0):
            raise BadInput(f"workload {self.name}: keys and analysts are counted from 0")
        if self.labels and len(self) and self.keys.max() >= len(self.labels):
            raise BadInput(f"workload {self.name}: a key has no label")

    @property
    def questions(self) -> int:
        """How many different questions are asked."""
        return len(np.unique(self.keys))

    @property
    def crowd(self) -> int:
        """How many analysts there are (A)."""
        return int(self.analysts.max()) + 1 if len(self) else 0
