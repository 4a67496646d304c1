"""What every cell of the public domain has paid: the filter of a contract.

A release of ``b . x + N(0, v)`` costs a row in cell c exactly ``b_c^2 / (2 v)``, whatever the data are,
and what one cell pays adds up over adaptively chosen releases (a Renyi filter for each pair of
neighbouring tables: Feldman and Zrnic 2021).  The contract holds while ``max over c <= cap``; c ranges
over the declared domain, so all of this is public.  Questions about disjoint regions do not compete, and
what is left is a property of a region.

Charges are integers (quanta) on the cells of attribute sets.  The dearest cell is exact where attribute sets
that share columns fit on one dense array (``cell_groups``); else it is bounded from above, group by group,
but jointly exact on the ``charge_by`` columns: for each cell of their product, the sum over groups of the
largest charge among the group's cells consistent with it.

A release of counts *and* sums, ``b_n + b_s u`` on a row of value u in [L, U], costs at most what it costs
at one of the two ends.  An end is a column of two atoms (low, high) that such a release lives on as well:
the dearest cell then maximises over u jointly for all releases, as 2 x 2 matrices per cell would.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from defray.core.domain import MOST_CELLS, Domain
from defray.support.cell_groups import AttributeSet, Group, Quanta, aligned, onto, place, separate

Added = tuple[tuple[int, ...], Any]
"""Columns, ascending, and integer charges on the cells of their product (row-major)."""

DENSE: Final = MOST_CELLS
MOST: Final = 2**62


class Charges:
    """The charges of all releases so far, in quanta.  ``limit`` bounds the cells of all arrays that are made
    to be exact.  It never changes, so it may be shared between threads: :meth:`plus` makes another, which
    shares what stays the same.

    >>> charges = Charges((4, 3)).plus([((0,), [5, 0, 0, 0]), ((1,), [0, 2, 0]), ((0, 1), 7 * np.eye(4, 3))])
    >>> charges.worst(), charges.strip(0).tolist()
    (12, [12, 9, 7, 2])
    >>> charges.fits([((0,), [0, 0, 0, 10])], 12), charges.fits([((0,), [1, 0, 0, 0])], 12)
    (True, False)
    >>> charges.remaining((0,), 12).tolist()
    [0, 3, 5, 10]
    """

    __slots__ = (
        "_ceiling",
        "_groups",
        "_over",
        "_sets",
        "atoms",
        "charge_by",
        "everywhere",
        "limit",
    )

    def __init__(
        self, atoms: Sequence[int], charge_by: Iterable[int] = (), limit: int = DENSE
    ) -> None:
        self.atoms = tuple(atoms)
        self.charge_by = tuple(i for i in sorted(set(charge_by)) if self.atoms[i] > 1)
        self.limit = limit
        if self._cells(self.charge_by) > limit:
            raise ValueError(f"more than {limit} cells to charge by")
        self.everywhere = 0
        """What every cell has paid, beside the charges on attribute sets."""
        self._sets: dict[AttributeSet, Quanta] = {}
        self._groups: tuple[Group, ...] = ()
        self._ceiling = 0  # never below the dearest cell
        self._over: Quanta | None = None  # see _by_cells; None: not known

    @classmethod
    def of(cls, domain: Domain) -> Charges:
        """The cells of a domain, none of which has paid anything."""
        return cls(domain.widths, domain.charge_by)

    @property
    def exact(self) -> bool:
        """Whether :meth:`worst` is the dearest cell itself, and not only a bound of it."""
        return separate(self._groups, self.charge_by)

    def plus(self, added: Iterable[Added]) -> Charges:
        """After these releases as well.  Raises ValueError where they do not fit the columns or are not
        whole numbers of at least 0, OverflowError where they are too many."""
        made = Charges(self.atoms, self.charge_by, self.limit)
        made.everywhere, made._ceiling, made._over = self.everywhere, self._ceiling, self._over
        made._sets, made._groups = dict(self._sets), self._groups
        for one in added:
            made._add(*self._read(one))
        return made

    def moved(self, quanta: int) -> Charges:
        """Where every cell has paid so much more (below 0: less).  Raises ValueError where that takes more
        than every cell has paid beside the charges on attribute sets."""
        if self.everywhere + quanta < 0:
            raise ValueError("less than nothing cannot have been paid")
        made = self.plus(())
        made.everywhere += quanta
        made._ceiling += quanta
        return made

    def _add(self, attributes: AttributeSet, added: Quanta) -> None:
        """Before anyone has seen it."""
        most = _largest(added)
        if self._ceiling + most >= MOST and self.worst() + most >= MOST:
            raise OverflowError("more quanta than a contract can have")
        self._ceiling += most
        if not attributes:
            self.everywhere += most
            return
        self._over = None
        old = self._joined(attributes)
        home = _home(old, attributes, self.atoms)
        self._groups = _with(self._groups, home.plus(attributes, added), old)
        total = self._sets.get(attributes, 0) + added
        total.flags.writeable = False
        self._sets[attributes] = total

    def worst(self) -> int:
        """What the dearest cell has paid (or, where that is not exact, a bound that is not below it)."""
        self._ceiling = self.everywhere + _largest(self._by_cells())
        return self._ceiling

    def fits(self, added: Sequence[Added], cap: int) -> bool:
        """Whether no cell would have paid more than ``cap`` after all of these: :meth:`worst` of
        :meth:`plus`."""
        read = [self._read(a) for a in added]
        most = [_largest(quanta) for _, quanta in read]
        if sum(most) >= MOST or max(most, default=0) > cap:
            return False
        return self._ceiling + sum(most) <= cap or self.plus(read).worst() <= cap

    def remaining(self, columns: Sequence[int], cap: int) -> Quanta:
        """What may still be added on each cell of an attribute set, on all at once: what a view may offer."""
        attributes = self.reduced(columns)
        if attributes and attributes not in self._sets:
            trial = self.plus([(attributes, np.zeros(self._shape(attributes), np.int64))])
            return trial.remaining(columns, cap)
        if attributes:
            g, looked_at = self._group(attributes), self._looked_at()
            by = g.among(looked_at)
            others = self._by_cells() - aligned(g.dearest(by), by, looked_at)
            kept = tuple(sorted({*attributes, *by}))
            paid = g.dearest(kept) + aligned(onto(others, looked_at, by), by, kept)
            paid = onto(paid, kept, attributes) + self.everywhere
        else:
            paid = np.asarray(self.worst(), np.int64)
        return np.asarray(np.maximum(cap - paid, 0)).reshape(self._shape(columns))

    def at(self, columns: Sequence[int], mask: Any) -> int:
        """What the dearest cell of a region has paid: the cells where ``mask``, on the product of
        ``columns``, is true.  0 for no cell."""
        region = np.asarray(mask, np.bool_)
        paid = self.paid(columns)
        return int(paid[region.reshape(paid.shape)].max(initial=0))

    def strip(self, column: int) -> Quanta:
        """What the dearest cell of every value of a column has paid."""
        return self.paid((column,))

    def paid(self, columns: Sequence[int]) -> Quanta:
        """What the dearest cell has paid that each cell of an attribute set is a part of."""
        attributes = self.reduced(columns)
        kept = tuple(sorted({*attributes, *self._looked_at()}))
        if self._cells(kept) > max(self.limit, self._cells(attributes)):
            kept = attributes
        total = np.zeros(self._shape(kept), np.int64)
        for g in self._groups:
            total += aligned(g.dearest(kept), g.among(kept), kept)
        total = np.minimum(onto(total, kept, attributes) + self.everywhere, self.worst())
        return np.asarray(total).reshape(self._shape(columns))

    def sets(self) -> Mapping[AttributeSet, Quanta]:
        """The charges on each attribute set but the empty one, in the order in which the sets came.  With
        ``everywhere`` they are all that there is: :meth:`plus` makes the same charges of them."""
        return dict(self._sets)

    # ----------------------------------------------------------------------------------- groups

    def _group(self, attributes: AttributeSet) -> Group:
        """The group of an attribute set that was charged."""
        return next(g for g in self._groups if attributes in g.members)

    def _joined(self, attributes: AttributeSet) -> list[Group]:
        """The groups that an attribute set is charged on from now on, as one."""
        if attributes in self._sets:
            return [self._group(attributes)]
        return place(self._groups, attributes, self.atoms, self.charge_by, self.limit)

    def _looked_at(self) -> AttributeSet:
        """The columns to charge by that have been charged."""
        touched = {i for g in self._groups for i in g.columns}
        return tuple(i for i in self.charge_by if i in touched)

    def _by_cells(self) -> Quanta:
        """For each cell of the columns to charge by, the sum of what the dearest cells of all groups paid."""
        if self._over is None:
            kept = self._looked_at()
            total = np.zeros(self._shape(kept), np.int64)
            for g in self._groups:
                total += aligned(g.dearest(kept), g.among(kept), kept)
            self._over = total
        return self._over

    # ----------------------------------------------------------------------------------- shapes

    def reduced(self, columns: Sequence[int]) -> AttributeSet:
        """The attribute set of some columns: without those of one atom."""
        if list(columns) != sorted(set(columns)):
            raise ValueError(f"columns are not ascending: {columns}")
        if columns and not 0 <= columns[0] <= columns[-1] < len(self.atoms):
            raise ValueError(f"there are {len(self.atoms)} columns: {columns}")
        return tuple(i for i in columns if self.atoms[i] > 1)

    def _shape(self, columns: Sequence[int]) -> tuple[int, ...]:
        return tuple(self.atoms[i] for i in columns)

    def _cells(self, columns: Sequence[int]) -> int:
        return math.prod(self._shape(columns))

    def _read(self, added: Added) -> tuple[AttributeSet, Quanta]:
        columns, quanta = added
        attributes = self.reduced(columns)
        read = np.asarray(quanta)
        whole = read.astype(np.int64)
        if (whole != read).any() or (whole < 0).any():
            raise ValueError("charges are whole numbers of quanta, and none is negative")
        return attributes, whole.reshape(self._shape(attributes))


def _home(groups: Sequence[Group], attributes: AttributeSet, atoms: Sequence[int]) -> Group:
    """One group of all these, and of all columns of an attribute set."""
    columns = tuple(sorted({*attributes, *(i for g in groups for i in g.columns)}))
    home = next((g for g in groups if g.columns == columns), None) or Group.empty(columns, atoms)
    for g in groups:
        if g.columns != columns:
            home = home.joined(g)
    return home


def _with(groups: Sequence[Group], home: Group, old: Sequence[Group]) -> tuple[Group, ...]:
    """The groups after ``home`` took the place of some.  Their order follows from the order in which sets
    came, however often each of them was charged."""
    own = [g for g in old if g.columns == home.columns]
    kept = [home if g in own else g for g in groups if g in own or g not in old]
    return tuple(kept if own else [*kept, home])


def _largest(quanta: Quanta) -> int:
    return int(quanta.max(initial=0))
