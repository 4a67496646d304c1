"""Which attribute sets are charged on one dense array, so that the dearest cell is found exactly.

A cell pays the sum of what every attribute set charges the part of the cell that it sees.  Sets that share no
column reach their maxima independently, and so do sets that share only columns whose cells are looked at one
by one (``by``).  Only sets that share another column have to be added up cell by cell on the union of their
columns.  Where that is too large, the sum of maxima is still never too small.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

AttributeSet = tuple[int, ...]
Quanta = NDArray[np.int64]


class Group:
    """The charges of some attribute sets (``members``) on one array over all their columns.

    It never changes, so it may be shared.  What is worked out on demand is kept; two threads that work out
    the same keep equal things.
    """

    __slots__ = ("_dearest", "_newest", "_state", "columns", "members")

    def __init__(
        self,
        columns: AttributeSet,
        members: frozenset[AttributeSet],
        cells: Quanta,
        pending: Mapping[AttributeSet, Quanta],
    ) -> None:
        self.columns = columns
        self.members = members
        self._state = (
            cells,
            pending,
        )  # what waits is added to the cells when an exact figure is wanted
        self._newest: AttributeSet = ()
        self._dearest: dict[AttributeSet, Quanta] = {}

    @classmethod
    def empty(cls, columns: AttributeSet, atoms: Sequence[int]) -> Group:
        return cls(columns, frozenset(), np.zeros([atoms[i] for i in columns], np.int64), {})

    @property
    def extra(self) -> int:
        """Cells of the array, where it is not the array of a member anyway."""
        return 0 if self.columns in self.members else self._state[0].size

    def plus(self, attributes: AttributeSet, added: Quanta) -> Group:
        """With more charges on an attribute set.  What is known of the dearest cells stays known where it
        tells the set's cells apart: charging one set again and again takes the time of its own cells."""
        cells, pending = self._state
        made = Group(
            self.columns,
            self.members | {attributes},
            cells,
            {**pending, attributes: pending.get(attributes, 0) + added},
        )
        made._newest = attributes
        for kept, dearest in dict(self._dearest).items():
            if set(attributes).issubset(kept):
                made._dearest[kept] = dearest + aligned(added, attributes, kept)
        return made

    def joined(self, other: Group) -> Group:
        """With the charges and the members of a group of fewer columns."""
        made = self.plus(other.columns, other.settled())
        made.members = self.members | other.members
        return made

    def settled(self) -> Quanta:
        """The charges of all cells."""
        cells, pending = self._state
        if pending:
            cells = cells.copy()
            for attributes, added in pending.items():
                cells += aligned(added, attributes, self.columns)
            self._state = cells, {}
        return cells

    def among(self, columns: Iterable[int]) -> AttributeSet:
        return tuple(i for i in columns if i in self.columns)

    def dearest(self, columns: Iterable[int]) -> Quanta:
        """For each cell of those of its columns, the dearest cell that it is a part of."""
        kept = self.among(columns)
        found = self._dearest.get(kept)
        if found is None:
            source = next((k for k in dict(self._dearest) if set(kept) < set(k)), None)
            if source is None and set(kept) < set(self._newest):
                source = self._newest
                self._dearest[source] = onto(self.settled(), self.columns, source)
            if source is None:
                found = onto(self.settled(), self.columns, kept)
            else:
                found = onto(self._dearest[source], source, kept)
            self._dearest[kept] = found
        return found


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
