"""Predicates under SQL's three-valued logic, and the cells where they hold.

Each condition is TRUE, FALSE or UNKNOWN in every cell.  A predicate is asked for the cells where its
truth is one of some wanted values (``TRUE``, ``FALSE``, ``UNKNOWN``, a mask); NOT swaps TRUE and FALSE,
AND is the least and OR the greatest of its parts in the order FALSE < UNKNOWN < TRUE.  Every rule below
only unites and intersects what the leaves say, never subtracts, so a leaf that was widened (snapped
outward) can only widen the whole.

>>> adult, known = Leaf(0, ((18, 91),), ((0, 18),)), Leaf(1, ((0, 2),), ())
>>> regions = Regions((92, 3))
>>> cells(All((adult, Not(Not(known)))), TRUE, regions) == regions.box({0: ((18, 91),), 1: ((0, 2),)})
True
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from defray.core import intervals
from defray.core.intervals import EMPTY, Atoms
from defray.query.region import Region, Regions

TRUE: Final = 1
FALSE: Final = 2
UNKNOWN: Final = 4
ANY: Final = TRUE | FALSE | UNKNOWN


@dataclass(frozen=True, slots=True)
class Leaf:
    """A comparison of one column: the atoms where it is true, and those where it is false (a snapped
    one may have atoms in both)."""

    column: int
    true: Atoms
    false: Atoms


@dataclass(frozen=True, slots=True)
class Constant:
    """The same truth everywhere."""

    truth: int


@dataclass(frozen=True, slots=True)
class Not:
    part: Predicate


@dataclass(frozen=True, slots=True)
class All:
    """AND of its parts."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Some:
    """OR of its parts."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Is:
    """TRUE where the part's truth is one of ``truths``, else FALSE (IS TRUE, IS UNKNOWN ...)."""

    part: Predicate
    truths: int


Predicate = Leaf | Constant | Not | All | Some | Is


@dataclass(frozen=True, slots=True)
class Side:
    """Cells that are given by the atoms of one column; kept apart from regions because they combine
    much faster."""

    column: int
    atoms: Atoms


def cells(predicate: Predicate, wanted: int, regions: Regions) -> Region:
    """The region where the truth of the predicate is one of ``wanted``.  Raises TooComplex."""
    return _Evaluation(regions).region(predicate, wanted)


class _Evaluation:
    def __init__(self, regions: Regions) -> None:
        self._regions = regions
        self._known: dict[tuple[int, int], Region | Side] = {}

    def region(self, predicate: Predicate, wanted: int) -> Region:
        return self._plain(self._where(predicate, wanted))

    def _where(self, predicate: Predicate, wanted: int) -> Region | Side:
        if wanted in (0, ANY):
            return wanted == ANY
        match predicate:
            case Leaf(column, true, false):
                return Side(column, self._atoms(column, true, false, wanted))
            case Constant(truth):
                return bool(truth & wanted)
            case Not(part):
                swapped = wanted & UNKNOWN
                swapped |= FALSE if wanted & TRUE else 0
                swapped |= TRUE if wanted & FALSE else 0
                return self._where(part, swapped)
            case Is(part, truths):
                inner = truths if wanted & TRUE else 0
                inner |= ANY & ~truths if wanted & FALSE else 0
                return self._where(part, inner)
            case All(parts) | Some(parts):
                key = (id(predicate), wanted)
                if key not in self._known:
                    self._known[key] = self._junction(parts, wanted, isinstance(predicate, All))
                return self._known[key]

    def _atoms(self, column: int, true: Atoms, false: Atoms, wanted: int) -> Atoms:
        parts: list[Atoms] = []
        if wanted & TRUE:
            parts.append(true)
        if wanted & FALSE:
            parts.append(false)
        if wanted & UNKNOWN:
            told = intervals.union(true, false)
            parts.append(intervals.complement(told, self._regions.widths[column]))
        return parts[0] if len(parts) == 1 else intervals.union(*parts)

    def _junction(
        self, parts: Sequence[Predicate], wanted: int, conjunction: bool
    ) -> Region | Side:
        # The end of FALSE < UNKNOWN < TRUE that all parts must share; the other end needs one part.
        shared = TRUE if conjunction else FALSE
        one = FALSE if conjunction else TRUE
        if wanted in (shared, shared | UNKNOWN):
            return self._meet(parts, wanted)
        if wanted in (one, one | UNKNOWN):
            return self._join(parts, wanted)
        if wanted == UNKNOWN:
            all_right = self._plain(self._meet(parts, shared | UNKNOWN))
            return self._regions.both(all_right, self._plain(self._join(parts, UNKNOWN)))
        return self._regions.either(
            self._plain(self._meet(parts, shared)), self._plain(self._join(parts, one))
        )

    def _meet(self, parts: Sequence[Predicate], wanted: int) -> Region | Side:
        widths = self._regions.widths
        sides, rest = self._sorted(parts, wanted)
        boxed: dict[int, Atoms] = {}
        for column, group in sides.items():
            if len(group) == 1:
                boxed[column] = group[0]
            else:
                width = widths[column]
                outside = (gap for atoms in group for gap in intervals.complement(atoms, width))
                boxed[column] = intervals.complement(intervals.normal(outside), width)
        if len(boxed) == 1 and not rest:
            return Side(*boxed.popitem())
        return self._balanced([self._regions.box(boxed), *rest], self._regions.both)

    def _join(self, parts: Sequence[Predicate], wanted: int) -> Region | Side:
        sides, rest = self._sorted(parts, wanted)
        merged = {
            column: intervals.normal(span for atoms in group for span in atoms)
            for column, group in sides.items()
        }
        if len(merged) == 1 and not rest:
            return Side(*merged.popitem())
        widths = self._regions.widths
        outside = {c: intervals.complement(atoms, widths[c]) for c, atoms in merged.items()}
        boxed = self._regions.negate(self._regions.box(outside))
        return self._balanced([boxed, *rest], self._regions.either)

    def _sorted(
        self, parts: Sequence[Predicate], wanted: int
    ) -> tuple[dict[int, list[Atoms]], list[Region]]:
        sides: dict[int, list[Atoms]] = {}
        rest: list[Region] = []
        for part in parts:
            found = self._where(part, wanted)
            if isinstance(found, Side):
                sides.setdefault(found.column, []).append(found.atoms)
            else:
                rest.append(found)
        return sides, rest

    def _balanced(self, items: list[Region], combine: Callable[[Region, Region], Region]) -> Region:
        """Combines neighbours, then neighbours of those, so that most operands stay small."""
        while len(items) > 1:
            pairs = zip(items[::2], items[1::2], strict=False)
            odd = items[-1:] if len(items) % 2 else []
            items = [combine(a, b) for a, b in pairs] + odd
        return items[0]

    def _plain(self, found: Region | Side) -> Region:
        return self._regions.where(found.column, found.atoms) if isinstance(found, Side) else found


def columns(predicate: Predicate) -> set[int]:
    """The columns that the predicate names."""
    match predicate:
        case Leaf(column):
            return {column}
        case Not(part) | Is(part):
            return columns(part)
        case All(parts) | Some(parts):
            return set().union(*map(columns, parts))
    return set()


def snapped(predicate: Predicate) -> bool:
    """Whether a comparison in it was widened to whole cells."""
    match predicate:
        case Leaf(_, true, false):
            return intervals.intersection(true, false) != EMPTY
        case Not(part) | Is(part):
            return snapped(part)
        case All(parts) | Some(parts):
            return any(map(snapped, parts))
    return False


NOTHING: Final = Constant(UNKNOWN)
"""What a comparison with NULL says."""
