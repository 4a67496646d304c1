"""Which attribute sets are charged on one dense array, so that the dearest cell is found exactly.

A cell pays the sum of what every attribute set charges the part of the cell that it sees.  Sets that share no
column reach their maxima independently, and so do sets that share only columns whose cells are looked at one
by one (``by``).  Only sets that share another column have to be added up cell by cell on the union of their
columns.  Where that is too large, the sum of maxima is still never too small.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

AttributeSet = tuple[int, ...]
Quanta = NDArray[np.int64]


@dataclass(slots=True, eq=False)
class Group:
    """The charges of some attribute sets (``members``) on one array over all their columns.  New charges wait
    in ``pending`` until an exact figure is wanted."""

    columns: AttributeSet
    cells: Quanta
    members: set[AttributeSet]
    pending: dict[AttributeSet, Quanta] = field(default_factory=dict)
    known: dict[AttributeSet, Quanta] = field(default_factory=dict)
    shared: bool = False

    @classmethod
    def empty(cls, columns: AttributeSet, atoms: Sequence[int]) -> Group:
        return cls(columns, np.zeros([atoms[i] for i in columns], np.int64), set())

    @property
    def extra(self) -> int:
        """Cells of the array, where it is not the array of a member anyway."""
        return 0 if self.columns in self.members else self.cells.size

    def add(self, attributes: AttributeSet, added: Quanta) -> None:
        waiting = self.pending.get(attributes)
        self.pending[attributes] = added.copy() if waiting is None else waiting + added

    def settled(self) -> Quanta:
        """The charges of all cells."""
        if self.pending:
            if self.shared:
                self.cells, self.shared = self.cells.copy(), False
            for attributes, added in self.pending.items():
                self.cells += aligned(added, attributes, self.columns)
            self.pending, self.known = {}, {}
        return self.cells

    def among(self, columns: Iterable[int]) -> AttributeSet:
        return tuple(i for i in columns if i in self.columns)

    def dearest(self, columns: Iterable[int]) -> Quanta:
        """For each cell of those of its columns, the dearest cell that it is a part of."""
        cells, kept = self.settled(), self.among(columns)
        if kept not in self.known:
            self.known[kept] = onto(cells, self.columns, kept)
        return self.known[kept]

    def dearest_after(
        self, added: Iterable[tuple[AttributeSet, Quanta]], columns: Iterable[int]
    ) -> Quanta:
        """The same if that were added."""
        cells = self.settled().copy()
        for attributes, quanta in added:
            cells += aligned(quanta, attributes, self.columns)
        return onto(cells, self.columns, self.among(columns))

    def trial(self) -> Group:
        """A copy that may change, and shares its array until it does."""
        return Group(
            self.columns, self.settled(), set(self.members), known=dict(self.known), shared=True
        )


def place(
    groups: Sequence[Group],
    attributes: AttributeSet,
    atoms: Sequence[int],
    by: Collection[int],
    limit: int,
) -> list[Group]:
    """The groups that a new attribute set joins into one: one that has all its columns, or else those that it
    links, while all joined arrays together keep to ``limit`` cells.

    What groups there are follows from the order in which the sets came, and so from the log.
    """
    for g in groups:
        if set(attributes).issubset(g.columns):
            return [g]
    own = set(attributes).difference(by)
    linked = [g for g in groups if not own.isdisjoint(g.columns)]
    room = limit - sum(g.extra for g in groups)
    joined: list[Group] = []
    columns, freed = set(attributes), 0
    for g in sorted(linked, key=lambda g: (_cells({*attributes, *g.columns}, atoms), g.columns)):
        union = columns.union(g.columns)
        extra = 0 if len(union) == len(attributes) else _cells(union, atoms)
        if extra - freed - g.extra <= room:
            joined.append(g)
            columns, freed = union, freed + g.extra
    return joined


def separate(groups: Iterable[Group], by: Collection[int]) -> bool:
    """Whether no two groups share a column that is not looked at cell by cell."""
    seen: set[int] = set()
    for g in groups:
        own = set(g.columns).difference(by)
        if not seen.isdisjoint(own):
            return False
        seen |= own
    return True


def aligned(table: Quanta, columns: AttributeSet, over: AttributeSet) -> Quanta:
    """A table in the axes of more columns, to be broadcast along those that it lacks."""
    size = dict(zip(columns, table.shape, strict=True))
    return table.reshape([size.get(i, 1) for i in over])


def onto(table: Quanta, columns: AttributeSet, kept: AttributeSet) -> Quanta:
    """The largest entry for each cell of the kept columns."""
    lost = tuple(axis for axis, i in enumerate(columns) if i not in kept)
    return np.asarray(table.max(axis=lost)) if lost else table


def _cells(columns: Iterable[int], atoms: Sequence[int]) -> int:
    return math.prod(atoms[i] for i in columns)
