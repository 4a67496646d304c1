"""Comparisons of a column with a literal, against brute force over values."""

from __future__ import annotations

import operator
from fractions import Fraction
from typing import Any, get_args

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from defray.core import intervals
from defray.core.column import Column
from defray.core.comparison import Operator, Sides, compare
from defray.core.literals import LiteralRefused
from defray.core.shapes import Cuts, Grid, Values, Whole
from tests.strategies import columns

COMPARE: dict[Operator, Any] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt,
    "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
OPERATORS = st.sampled_from(get_args(Operator))


def samples(column: Column, atom: int, literal: Any) -> list[Any]:
    """Values in a proper atom: enough to show every truth a comparison with ``literal`` has there."""
    shape = column.shape
    match shape:
        case Whole(low):
            return [Fraction(low + atom)]
        case Values(items):
            return [items[atom]]
        case Grid() | Cuts():
            low, high = shape.edge(atom), shape.edge(atom + 1)
            inside = [low, *(low + (high - low) * Fraction(i, 8) for i in range(1, 8))]
            if low < literal < high:
                inside += [literal, (low + literal) / 2, (literal + high) / 2]
            return [*inside, high] if atom == shape.count - 1 else inside
    raise AssertionError(shape)


def literals(column: Column) -> st.SearchStrategy[Any]:
    match column.shape:
        case Values(items) if column.kind == "string":
            return st.sampled_from(items)
        case _:
            return st.integers(-84, 84).map(lambda n: Fraction(n, 8))


def by_hand(column: Column, op: Operator, literal: Any) -> tuple[set[int], set[int]]:
    """The atoms with some value for which the comparison is true, and with one where it is false."""
    true: set[int] = set()
    false: set[int] = set()
    for atom in range(column.proper):
        for value in samples(column, atom, literal):
            (true if COMPARE[op](value, literal) else false).add(atom)
    if column.other_atom is not None and op in ("=", "<>"):
        (true if op == "<>" else false).add(column.other_atom)
    return true, false


def compared(
    column: Column, op: Operator, literal: Any, *, snap: bool = False
) -> Sides | LiteralRefused:
    try:
        return compare(column, op, literal, snap=snap)
    except LiteralRefused as refused:
        return refused


@pytest.mark.long
@settings(max_examples=600, deadline=None)
@given(column=columns(), op=OPERATORS, data=st.data())
def test_a_comparison_is_true_and_false_where_brute_force_says(
    column: Column, op: Operator, data: st.DataObject
) -> None:
    literal = data.draw(literals(column))
    true, false = by_hand(column, op, literal)
    found = compared(column, op, literal)
    if isinstance(found, LiteralRefused):
        assert found.hint
        on_bins = isinstance(column.shape, Grid | Cuts)
        assert found.kind == "outside-domain" or (found.kind == "off-grid" and on_bins)
        assert found.kind == "outside-domain" or true & false
        return
    assert not true & false
    assert tuple(set(intervals.members(side)) for side in found) == (true, false)


@pytest.mark.long
@settings(max_examples=600, deadline=None)
@given(column=columns(), op=OPERATORS, data=st.data())
def test_snapping_widens_both_sides_to_whole_cells_and_no_further(
    column: Column, op: Operator, data: st.DataObject
) -> None:
    literal = data.draw(literals(column))
    found = compared(column, op, literal, snap=True)
    if isinstance(found, LiteralRefused):
        assert found.kind == "outside-domain"
        return
    assert tuple(set(intervals.members(side)) for side in found) == by_hand(column, op, literal)


@settings(deadline=None)
@given(column=columns(), data=st.data())
def test_a_literal_outside_is_refused_with_a_nearest_value_that_works(
    column: Column, data: st.DataObject
) -> None:
    assume(column.kind != "string")
    with pytest.raises(LiteralRefused) as caught:
        compare(column, "<", Fraction(10**6))
    assert caught.value.kind == "outside-domain"
    nearest = Fraction(caught.value.hint.rpartition(" ")[2])
    compare(column, "<", nearest, snap=True)


# -- literals ---------------------------------------------------------------------------------------

DAY = Column("d", "date", Whole(0, 366))
TIME = Column("t", "timestamp", Grid(Fraction(0), Fraction(3600 * 10**6), 24))


def test_times_with_a_zone_are_turned_to_utc() -> None:
    assert compare(TIME, "<", "1970-01-01T05:00:00+02:00") == compare(TIME, "<", "1970-01-01 03:00")
    assert compare(DAY, "=", "1970-01-02") == (((1, 2),), ((0, 1), (2, 367)))


@pytest.mark.parametrize(
    ("column", "literal"),
    [
        (TIME, "0001-01-01T00:00:00+23:59"),
        (TIME, "9999-12-31T23:59:59-23:59"),
        (TIME, "1970-01-01 00:00:00.0000001"),
        (TIME, "noon"),
        (TIME, Fraction(0)),
        (DAY, "1970-01-32"),
        (DAY, "1970-01-01 00:00:00"),
        (DAY, True),
        (Column("n", "integer", Whole(0, 1)), "0"),
        (Column("n", "integer", Whole(0, 1)), True),
        (Column("b", "boolean", Values((False, True))), Fraction(1)),
        (Column("s", "string", Values(("1",))), Fraction(1)),
    ],
)
def test_a_literal_of_another_type_is_refused(column: Column, literal: Any) -> None:
    with pytest.raises(LiteralRefused) as caught:
        compare(column, "<", literal)
    assert caught.value.kind == "literal-type"


def test_a_long_literal_is_cut_in_messages() -> None:
    column = Column("s", "string", Values(("a",)))
    for literal in ("x" * 60_000, Fraction(1)):
        with pytest.raises(LiteralRefused) as caught:
            compare(column, "=", literal)
        assert len(caught.value.message) < 200


def test_the_hint_for_the_last_bin_works() -> None:
    column = Column("x", "float", Grid(Fraction(0), Fraction(1), 3))
    with pytest.raises(LiteralRefused) as caught:
        compare(column, "<", Fraction(3))
    assert "use x >= or < with 2, or <= 3," in caught.value.hint
    for op, value in ((">=", 2), ("<", 2), ("<=", 3)):
        compare(column, op, Fraction(value))  # type: ignore[arg-type]
