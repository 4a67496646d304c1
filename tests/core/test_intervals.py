"""Sets of atoms behave like sets."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from defray.core import intervals
from defray.core.intervals import Atoms
from tests.strategies import atoms

WIDTH = 12
some = atoms(WIDTH)


def as_set(found: Atoms) -> set[int]:
    return set(intervals.members(found))


def canonical(found: Atoms) -> bool:
    apart = all(a[1] < b[0] for a, b in pairwise(found))
    return apart and all(lo < hi for lo, hi in found)


@given(a=some, b=some)
def test_the_operations_are_those_of_sets(a: Atoms, b: Atoms) -> None:
    for found, expected in (
        (intervals.union(a, b), as_set(a) | as_set(b)),
        (intervals.intersection(a, b), as_set(a) & as_set(b)),
        (intervals.complement(a, WIDTH), set(range(WIDTH)) - as_set(a)),
    ):
        assert as_set(found) == expected
        assert canonical(found)
        assert intervals.size(found) == len(expected)
    assert all(intervals.contains(a, x) == (x in as_set(a)) for x in range(WIDTH))


@given(parts=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=6))
def test_normal_takes_any_intervals(parts: list[tuple[int, int]]) -> None:
    found = intervals.normal(parts)
    assert as_set(found) == {x for lo, hi in parts for x in range(lo, hi)}
    assert canonical(found)


@given(a=some, b=some)
def test_equal_sets_are_equal_tuples(a: Atoms, b: Atoms) -> None:
    assert (a == b) == (as_set(a) == as_set(b))
    assert intervals.of(as_set(a)) == a
