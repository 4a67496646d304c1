"""The cells of a view: a product of classes of atoms, and what a region is on them.

A column of few atoms has one class an atom.  Of a column of many, only what the questions so far tell apart
counts: consecutive atoms that no question separates form one class, and a question that separates them
refines the view (its releases are folded again on the finer cells; nothing of them changes).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from defray.query.region import Region
from defray.support.cuts import Cuts

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

Starts = tuple[int, ...] | None
"""Where the classes of a column begin, ascending from 0; None: at every atom."""


@dataclass(frozen=True)
class Axes:
    """The product of the classes of some columns (ascending); ``widths`` are the columns' atoms.

    >>> axes = Axes((0, 3), (None, (0, 10, 50)), (2, 100))
    >>> axes.shape, axes.cells
    ((2, 3), 6)
    """

    columns: tuple[int, ...]
    starts: tuple[Starts, ...]
    widths: tuple[int, ...]

    @cached_property
    def shape(self) -> tuple[int, ...]:
        return tuple(
            w if s is None else len(s) for s, w in zip(self.starts, self.widths, strict=True)
        )

    @property
    def cells(self) -> int:
        return prod(self.shape)

    @cached_property
    def firsts(self) -> tuple[NDArray[np.int64], ...]:
        """The first atom of every class, column by column."""
        return tuple(
            np.arange(w) if s is None else np.asarray(s, np.int64)
            for s, w in zip(self.starts, self.widths, strict=True)
        )

    @property
    def cuts(self) -> dict[int, frozenset[int] | None]:
        """What the classes tell apart."""
        return {
            column: None if starts is None else frozenset(starts) - {0}
            for column, starts in zip(self.columns, self.starts, strict=True)
        }

    def respects(self, cuts: Cuts) -> bool:
        """Whether what has these cuts is the same all over every cell."""
        for column, wanted in cuts.items():
            if column not in self.columns:
                return False
            starts = self.starts[self.columns.index(column)]
            if starts is not None and (wanted is None or not wanted <= set(starts)):
                return False
        return True

    def mask(self, region: Region) -> Mask:
        """The cells in a region that respects the classes, row-major."""
        memo: dict[Region, Mask] = {}

        def below(node: Region, at: int) -> Mask:
            """Over the axes from ``at`` on."""
            if isinstance(node, bool):
                return np.broadcast_to(np.bool_(node), self.shape[at:])
            place = self.columns.index(node.column)
            found = memo.get(node)
            if found is None:
                found = np.zeros(self.shape[place:], np.bool_)
                firsts = self.firsts[place]
                for atoms, child in node.edges:
                    part = below(child, place + 1)
                    for low, high in atoms:
                        a, b = np.searchsorted(firsts, (low, high))
                        found[a:b] = part
                memo[node] = found
            return np.broadcast_to(found, self.shape[at:])

        return below(region, 0).reshape(-1)

    def carry(self, weights: Floats, other: Axes) -> Floats:
        """Weights on the cells of coarser axes, of fewer or the same columns, on these cells."""
        table = weights.reshape(other.shape)
        for place, column in enumerate(other.columns):
            firsts = self.firsts[self.columns.index(column)]
            at = np.searchsorted(other.firsts[place], firsts, side="right") - 1
            table = np.take(table, at, axis=place)
        sizes = [
            n if c in other.columns else 1 for c, n in zip(self.columns, self.shape, strict=True)
        ]
        return np.broadcast_to(table.reshape(sizes), self.shape).reshape(-1)

    def at_most(self, atoms: NDArray[np.int64]) -> NDArray[np.int64]:
        """Of an array on all atoms of the columns, the least of each class, row-major."""
        table = atoms.reshape(self.widths)
        for place, firsts in enumerate(self.firsts):
            if self.starts[place] is not None:
                table = np.minimum.reduceat(table, firsts, axis=place)
        return table.reshape(-1)


def axes_for(cuts: Cuts, widths: tuple[int, ...], fine: int, most: int) -> Axes | None:
    """Axes of at most ``most`` cells that respect cuts: with every atom apart, the shortest columns first,
    as long as there are no more than ``fine`` cells; None where there are too many.

    >>> axes_for({0: frozenset({3}), 1: frozenset()}, (5, 1000), 64, 64).shape
    (5, 1)
    """
    columns = tuple(sorted(cuts))
    starts: dict[int, Starts] = {
        c: None if (wanted := cuts[c]) is None else tuple(sorted({0, *wanted})) for c in columns
    }
    sizes = {c: widths[c] if (s := starts[c]) is None else len(s) for c in columns}
    for c in sorted(columns, key=lambda c: widths[c]):
        if prod(sizes.values()) // sizes[c] * widths[c] <= fine:
            starts[c], sizes[c] = None, widths[c]
    if prod(sizes.values()) > most:
        return None
    return Axes(columns, tuple(starts[c] for c in columns), tuple(widths[c] for c in columns))
