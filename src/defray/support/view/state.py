"""The fold of a view: its releases as rows, and what each cell has paid."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from defray.support.view.fit import Fit

Floats = NDArray[np.float64]

DENSE_CELLS: Final = 512
"""Up to this many cells P is kept as a matrix; above, only once rows outnumber cells."""

SLACK: Final = 1e-3
"""The part of a half-width that the deviation of an estimate may reach."""

BLOCK: Final = 16
"""P is summed in blocks of so many rows."""

ROUGH: Final = 1e8
"""Targets that differ by more than this, in variance, may be too much for floats."""

WIDTH: Final = 10
STEP: Final = 2
"""Windows are so many powers of ten wide, and begin so many apart."""

MIXED: Final = 100.0
"""Targets differ much where they differ by more than this, in variance."""


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One release in a view: ``value = b . x + N(0, variance)``.

    ``b`` has one weight a cell of the view, on the release's lattice and so exact as floats.  ``target`` is
    the variance that was asked for when it was bought.  Only releases have independent noise: an estimate
    never becomes a row.
    """

    id: int
    b: Floats
    variance: float
    value: float = 0.0
    target: float = 0.0


class _Store:
    """Rows that only grow; states of one line of descent share it, each seeing its first ``count``."""

    __slots__ = ("b", "ids", "lock", "peaks", "total", "used", "v", "y")

    def __init__(self, cells: int, room: int = 8) -> None:
        self.ids = np.zeros(room, dtype=np.int64)
        self.b = np.zeros((room, cells))
        self.peaks = np.zeros(room)
        self.v = np.zeros(room)
        self.y = np.zeros(room)
        self.used = 0
        self.total = (0, np.zeros(()))
        self.lock = Lock()

    def extended(self, count: int, row: Row) -> _Store:
        """A store whose first ``count`` rows are those of this one, followed by ``row``."""
        with self.lock:
            if self.used == count:
                if count == len(self.v):
                    self._copy_to(self, 2 * count)
                self._put(row)
                return self
            other = _Store(self.b.shape[1], 0)
            self.used, used = count, self.used
            try:
                self._copy_to(other, 2 * count + 1)
            finally:
                self.used = used
        other._put(row)
        return other

    def summed(self, count: int) -> Floats:
        """P of the first rows, a whole number of blocks; the furthest sum so far is kept."""
        at, total = self.total
        if at > count:
            at, total = 0, np.zeros(())
        while at < count:
            total = total + _moment(self.b[at : at + BLOCK], self.v[at : at + BLOCK])
            at += BLOCK
        if at > self.total[0]:
            self.total = (at, total)
        return total

    def _copy_to(self, other: _Store, room: int) -> None:
        for name in ("ids", "b", "peaks", "v", "y"):
            old = getattr(self, name)
            new = np.zeros((room, *old.shape[1:]), dtype=old.dtype)
            new[: self.used] = old[: self.used]
            setattr(other, name, new)
        other.used = self.used

    def _put(self, row: Row) -> None:
        at = self.used
        self.ids[at], self.b[at], self.v[at], self.y[at] = row.id, row.b, row.variance, row.value
        self.peaks[at] = np.abs(row.b).max(initial=0.0)
        self.used += 1


def _moment(rows: Floats, variances: Floats) -> Floats:
    """``sum_t b b' / v`` over some rows."""
    return (rows / variances[:, None]).T @ rows


@dataclass(frozen=True, eq=False)
class State:
    """A fold of releases over a view's cells: rows B (k x m), variances v, values y.

    ``n_max`` is the declared bound on the table's rows; the true number never enters anything.

    ``charges`` is diag P = ``sum_t b_tc^2 / v_t``, what each cell has paid, in precision.  A state never
    changes; one release more costs O(m), not O(k m).  ``tightest`` and ``loosest`` are the smallest and the
    largest target variance among the releases.

    >>> s = State.empty(2, 1e6).add(Row(7, np.array([1.0, 1.0]), 4.0)).add(Row(9, np.array([0.0, 1.0]), 2.0))
    >>> s.charges.tolist(), s.ids.tolist(), s.precision.tolist()
    ([0.25, 0.75], [7, 9], [[0.25, 0.25], [0.25, 0.75]])
    """

    cells: int
    n_max: float
    count: int
    charges: Floats
    tightest: float
    loosest: float
    _store: _Store

    @classmethod
    def empty(cls, cells: int, n_max: float) -> State:
        return cls(cells, n_max, 0, np.zeros(cells), np.inf, 0.0, _Store(cells))

    @classmethod
    def fold(cls, cells: int, n_max: float, rows: Iterable[Row]) -> State:
        state = cls.empty(cells, n_max)
        for row in rows:
            state = state.add(row)
        return state

    def add(self, row: Row) -> State:
        """The state after one release more."""
        if row.b.shape != (self.cells,) or not 0 < row.variance < np.inf:
            raise ValueError("a row needs one weight a cell and a positive, finite variance")
        target = row.target or row.variance
        return State(
            self.cells,
            self.n_max,
            self.count + 1,
            self.charges + row.b * row.b / row.variance,
            min(self.tightest, target),
            max(self.loosest, target),
            self._store.extended(self.count, row),
        )

    @property
    def ids(self) -> NDArray[np.int64]:
        return self._store.ids[: self.count]

    @property
    def rows(self) -> Floats:
        return self._store.b[: self.count]

    @property
    def peaks(self) -> Floats:
        """The largest absolute weight of each row."""
        return self._store.peaks[: self.count]

    @property
    def variances(self) -> Floats:
        return self._store.v[: self.count]

    @property
    def values(self) -> Floats:
        return self._store.y[: self.count]

    @cached_property
    def precision(self) -> Floats:
        """P, as a matrix: to the last bit a function of the rows, whenever and wherever it is made."""
        whole = self.count - self.count % BLOCK
        return self._store.summed(whole) + _moment(self.rows[whole:], self.variances[whole:])

    @cached_property
    def fit(self) -> Fit:
        """The least-squares weights of this state, factored once."""
        from defray.support.view.fit import Fit

        precision = self.precision if self.dense or self.mixed else None
        price = (SLACK / self.n_max) ** 2 / 4
        rough = self.rough_with(self.loosest)
        return Fit(self.rows, self.variances, precision, price, rough=rough)

    @cached_property
    def windows(self) -> tuple[tuple[float, float], ...]:
        """Where variances differ so much that floats do not hold what all rows say together: ranges of
        variance, of which the rows within say what they hold without the others."""
        if not self.rough_with(self.loosest):
            return ()
        low, high = (math.log10(v) for v in (self.variances.min(), self.variances.max()))
        first = STEP * math.floor(low / STEP)
        last = max(first, math.ceil(high) - WIDTH)
        return tuple((10.0**k, 10.0 ** (k + WIDTH)) for k in range(first, last + STEP, STEP))

    def rough_with(self, target: float, by: float = ROUGH) -> bool:
        """Whether targets differ too much for floats, or ``by`` so much, this variance included."""
        return max(self.loosest, target) > by * min(self.tightest, target)

    @property
    def mixed(self) -> bool:
        """Whether the targets of the releases differ much."""
        return self.loosest > MIXED * self.tightest

    @property
    def dense(self) -> bool:
        """Whether P as a matrix pays."""
        return self.cells <= DENSE_CELLS or self.count >= self.cells
