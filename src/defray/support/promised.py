"""The promises of a contract on one data version: which questions are theirs, and what they hold back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from defray.core.amounts import QUANTA, rho_of
from defray.core.contract import Contract, Promised, PromisedKind
from defray.core.target import precision_for, two_sided
from defray.query.descriptor import COUNT
from defray.support.axes import Axes, Floats
from defray.support.charges import Added
from defray.support.exact import Block
from defray.support.room import Room

if TYPE_CHECKING:
    from defray.support.history import Item
    from defray.support.view.promise import Promise

SPACE: Final = str(COUNT)
"""The measure that is promised."""

GRAIN: Final = 8
"""What rounding to whole quanta may cost a release, in quanta."""

LEAST_SLACK: Final = 2**20
"""Quanta that a promise holds back of every cell for rounding, at the least."""


@dataclass(frozen=True, eq=False)
class Commitment:
    """One promise: its view, the ``precision`` that its questions are answered with, and what it holds back
    before anything was released.  ``quantum`` is a quantum of the contract as precision."""

    declared: Promised
    axes: Axes
    precision: Fraction
    start: Promise
    quantum: float
    _members: dict[tuple[bytes, ...], bool] = field(default_factory=dict)

    @classmethod
    def of(cls, declared: Promised, contract: Contract, aim: float) -> Commitment:
        """``aim`` is the part of the standard deviation that is aimed at."""
        domain = contract.domain
        columns = tuple(domain.names.index(name) for name in declared.columns)
        widths = tuple(domain.widths[c] for c in columns)
        z = two_sided(float(1 - declared.confidence))
        precision = precision_for(declared.within, z)
        quantum = float(2 * rho_of(1, contract.rho) / contract.unit.max_rows**2)
        from defray.support.view.plan import class_plan
        from defray.support.view.promise import Promise

        start = Promise.of(
            class_plan(widths, declared.kinds),
            aim**2 / float(precision),
            GRAIN * quantum,
            LEAST_SLACK * quantum,
        )
        axes = Axes(columns, (None,) * len(columns), widths)
        return cls(declared, axes, precision, start, quantum)

    @property
    def needs(self) -> int:
        """What it holds back of the dearest cell at first, in quanta."""
        return int(self.quanta(self.start).max())

    def quanta(self, promise: Promise) -> NDArray[np.int64]:
        """What is held back of each cell of the view, in quanta, rounded up."""
        most = float(2 * QUANTA)  # more than a contract has
        return np.ceil(np.minimum(promise.held / self.quantum, most)).astype(np.int64)

    def counts(self, item: Item) -> bool:
        """Whether a release lies in the view."""
        return item.space == SPACE and self.axes.respects(item.cuts)

    def folded(self, promise: Promise, items: Iterable[Item]) -> Promise:
        """What is held back after these releases as well."""
        for item in items:
            if self.counts(item) and (rows := item.rows(self.axes)):
                b, variances = np.array([r.b for r in rows]), np.array([r.variance for r in rows])
                offered = item.offered == self.axes
                fold = promise.after_offered if offered else promise.after_others
                promise = fold(b, variances)
        return promise

    def includes(self, block: Block, questions: Callable[[], Floats]) -> bool:
        """Whether each of a block's cells (``questions`` on the cells of the view) is of the class."""
        found = self._members.get(block.keys)
        if found is None:
            if len(self._members) > 4096:
                self._members.clear()
            found = all(self._member(q) for q in questions() if q.any())
            self._members[block.keys] = found
        return found

    def _member(self, q: Floats) -> bool:
        """Whether an indicator is a product of what the kinds allow."""
        table = q.reshape(self.axes.shape) != 0
        product = np.ones((), bool)
        every = range(table.ndim)
        for axis, kind in zip(every, self.declared.kinds, strict=True):
            part = table.any(axis=tuple(i for i in every if i != axis))
            if not _allowed(part, kind):
                return False
            product = np.logical_and.outer(product, part)
        return bool((table == product).all())


def _allowed(part: NDArray[np.bool_], kind: PromisedKind) -> bool:
    """Whether some atoms of a column are a range, or a single one.

    >>> _allowed(np.array([False, True, True]), "ranges"), _allowed(np.array([True, False, True]), "ranges")
    (True, False)
    """
    at = np.flatnonzero(part)
    if kind == "ranges":
        return bool(at[-1] - at[0] + 1 == len(at))
    return kind == "subsets" or len(at) == 1


@dataclass(frozen=True, eq=False)
class Reserves:
    """What the promises of a contract hold back after the first ``taken`` counts of a data version."""

    commitments: tuple[Commitment, ...] = ()
    promises: tuple[Promise, ...] = ()
    taken: int = 0

    @classmethod
    def of(cls, commitments: Sequence[Commitment]) -> Reserves:
        return cls(tuple(commitments), tuple(c.start for c in commitments))

    def after(self, spaces: Mapping[str, Sequence[Item]]) -> Reserves:
        """After all counts of a history of which these were the first."""
        items = spaces.get(SPACE, ())
        if not self.commitments or len(items) == self.taken:
            return self
        news = items[self.taken :]
        return Reserves(
            self.commitments,
            tuple(c.folded(p, news) for c, p in zip(self.commitments, self.promises, strict=True)),
            len(items),
        )

    def held(self, number: int) -> tuple[Added, ...]:
        """What the first ``number`` promises hold back of cells, in quanta."""
        return tuple(
            (c.axes.columns, c.quanta(p))
            for c, p in zip(self.commitments[:number], self.promises[:number], strict=True)
        )

    def kept(self, room: Room) -> int:
        """How many promises can be kept: the last ones lapse first.

        A promise that is kept once stays so, as every purchase leaves what is charged and held back within
        the cap; where a new data version (all that was spent then counts for every cell) has no room for it,
        it lapses.
        """
        number = len(self.commitments)
        while number and not room.holding(self.held(number)).sound:
            number -= 1
        return number


def commitments_of(contract: Contract, aim: float) -> tuple[Commitment, ...]:
    """A contract's promises, in its order."""
    return tuple(Commitment.of(declared, contract, aim) for declared in contract.promises)
