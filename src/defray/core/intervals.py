"""Sets of atoms of one column, as sorted disjoint half-open integer intervals.

An *atom* is the smallest thing a column's declared domain can tell apart, numbered from 0.  A set of
atoms is a tuple ``((lo, hi), ...)`` with ``lo < hi <= next lo - 1``: touching intervals are merged, so
equal sets are equal tuples.

>>> union(((0, 3),), ((3, 5), (8, 9)))
((0, 5), (8, 9))
>>> complement(((0, 5), (8, 9)), 10)
((5, 8), (9, 10))
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

Atoms = tuple[tuple[int, int], ...]

EMPTY: Atoms = ()


def normal(parts: Iterable[tuple[int, int]]) -> Atoms:
    """The canonical form of any union of half-open intervals (empty ones are dropped)."""
    merged: list[tuple[int, int]] = []
    for lo, hi in sorted(parts):
        if lo >= hi:
            continue
        if merged and lo <= merged[-1][1]:
            if hi > merged[-1][1]:
                merged[-1] = (merged[-1][0], hi)
        else:
            merged.append((lo, hi))
    return tuple(merged)


def single(atom: int) -> Atoms:
    return ((atom, atom + 1),)


def of(atoms: Iterable[int]) -> Atoms:
    """The set of the given atoms."""
    return normal((atom, atom + 1) for atom in atoms)


def union(a: Atoms, b: Atoms) -> Atoms:
    return normal((*a, *b))


def intersection(a: Atoms, b: Atoms) -> Atoms:
    out: list[tuple[int, int]] = []
    i = j = 0
    while i < len(a) and j < len(b):
        lo, hi = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if lo < hi:
            out.append((lo, hi))
        if a[i][1] <= b[j][1]:
            i += 1
        else:
            j += 1
    return tuple(out)


def complement(a: Atoms, width: int) -> Atoms:
    """The atoms of ``range(width)`` that are not in ``a``."""
    out: list[tuple[int, int]] = []
    at = 0
    for lo, hi in a:
        if at < lo:
            out.append((at, lo))
        at = hi
    if at < width:
        out.append((at, width))
    return tuple(out)


def size(a: Atoms) -> int:
    return sum(hi - lo for lo, hi in a)


def contains(a: Atoms, atom: int) -> bool:
    return any(lo <= atom < hi for lo, hi in a)


def members(a: Atoms) -> Iterator[int]:
    for lo, hi in a:
        yield from range(lo, hi)
