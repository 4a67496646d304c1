"""Made-up rows for one question, drawn from the declared domain alone: no table is looked at.

Every group that the question can have gets rows that its WHERE admits, so that no average is over nothing.
Chance is a stream of hashes of a public seed: the same question has the same rows, on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import shake_256
from typing import Final

import numpy as np

from defray.core import intervals
from defray.core.column import Column
from defray.core.domain import Domain
from defray.core.intervals import Atoms
from defray.core.shapes import Anything
from defray.data.counted import CountedSource
from defray.query.descriptor import Cell, Question, cell_regions, non_null
from defray.query.region import NOWHERE, Node, Region, Regions

ENTRIES: Final = 4096
"""About how many different rows a table has; where there are more groups, one for each."""

MOST_ALIKE: Final = 50
"""How many rows may be alike."""

_BLOCK: Final = 1024
_WORD: Final = 8


class Chance:
    """Numbers that look random and follow from a seed.

    >>> Chance(b"seed").below(6) == Chance(b"seed").below(6)
    True
    """

    def __init__(self, seed: bytes) -> None:
        self._words = _words(seed)

    def below(self, n: int) -> int:
        """A whole number in ``[0, n)``."""
        return next(self._words) % n

    def fraction(self) -> float:
        """A number strictly between 0 and 1."""
        return (next(self._words) // 2**12 + 0.5) / 2**52


def _words(seed: bytes) -> Iterator[int]:
    block = 0
    while True:
        drawn = shake_256(seed + block.to_bytes(_WORD, "little")).digest(_BLOCK * _WORD)
        yield from np.frombuffer(drawn, "<u8").tolist()
        block += 1


class MadeUpNoise:
    """A :class:`~defray.noise.sampler.Sampler` for made-up rows: there is nothing to protect, so it follows
    from a seed, and never exceeds its scale, so that no average goes astray on its way."""

    def __init__(self, seed: bytes) -> None:
        self._chance = Chance(seed)

    def draw(self, scales: Sequence[float]) -> list[int]:
        return [round(scale * (2 * self._chance.fraction() - 1)) for scale in scales]


def made_up(
    domain: Domain,
    question: Question,
    cells: Sequence[Cell],
    seed: bytes,
    n_max: int | None = None,
) -> CountedSource:
    """A table in which each of the question's ``cells`` that can hold a row holds some; with more than
    ``n_max`` rows only where there are more cells."""
    regions, chance = Regions(domain.widths), Chance(seed)
    summed = {a.column for a in question.aggregates if a.column is not None}
    each = max(ENTRIES // max(len(cells), 1), 1)
    rows: list[list[int]] = []
    for region in cell_regions(regions, question.region, cells):
        region = _with_values(domain, regions, region, summed)
        if region is not NOWHERE:
            rows += [_row(domain, region, summed, chance) for _ in range(each)]
    drawn = np.array(rows, np.int64).reshape(len(rows), len(domain.columns)).T
    atoms = dict(zip(domain.names, drawn, strict=True))
    alike = MOST_ALIKE
    if n_max is not None and rows:
        alike = max(min(alike, n_max // len(rows)), 1)
    counts = np.array([1 + chance.below(alike) for _ in rows], np.int64)
    free = [c for c in domain.columns if c.name in summed and _between_bounds(c)]
    units = {c.name: np.array([_amount(c, chance) for _ in rows], np.int64) for c in free}
    return CountedSource(domain, atoms, counts, units)


def _with_values(domain: Domain, regions: Regions, region: Region, columns: set[str]) -> Region:
    """The part of a region where the columns are not NULL, as far as it has one."""
    for name in sorted(columns):
        known = non_null(domain, regions, region, name)
        region = region if known is NOWHERE else known
    return region


def _row(domain: Domain, region: Region, summed: set[str], chance: Chance) -> list[int]:
    """The atoms of one row of a region.  Columns that make no difference to the question hold their first
    value."""
    atoms: dict[int, int] = {}
    while isinstance(region, Node):
        sides = [(side, child) for side, child in region.edges if child is not NOWHERE]
        place = chance.below(sum(intervals.size(side) for side, _ in sides))
        for side, child in sides:
            if place < intervals.size(side):
                atoms[region.column] = _nth(side, place)
                region = child
                break
            place -= intervals.size(side)
    for at, column in enumerate(domain.columns):
        if at not in atoms and column.name in summed:
            values = column.non_nulls
            atoms[at] = _nth(values, chance.below(intervals.size(values)))
    return [atoms.get(at, 0) for at in range(len(domain.columns))]


def _nth(atoms: Atoms, place: int) -> int:
    for low, high in atoms:
        if place < high - low:
            return low + place
        place -= high - low
    raise IndexError(place)


def _between_bounds(column: Column) -> bool:
    """Whether a column may be summed and no values of it are declared."""
    return isinstance(column.shape, Anything) and column.bounds is not None


def _amount(column: Column, chance: Chance) -> int:
    return column.low_units + chance.below(column.high_units - column.low_units + 1)
