"""The canonical statement parses back to the question it was written from."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from defray.core.column import Column
from defray.core.domain import Domain
from defray.core.intervals import Atoms
from defray.core.shapes import Anything
from defray.query.conditions import atoms_condition
from defray.query.descriptor import (
    Accuracy,
    Aggregate,
    Axis,
    Goal,
    Having,
    Order,
    Question,
)
from defray.query.region import Region, Regions
from defray.query.render import canonical_sql
from defray.query.sql import parse
from tests.query.people import DOMAIN, REGIONS, TABLE, ask
from tests.strategies import SMALL, VARIED, atoms, columns, conditions, regions, validities

VARIED_REGIONS = Regions(VARIED.widths)
SMALL_REGIONS = Regions(SMALL.widths)
ALL = Aggregate("count", "COUNT", None)


def back(question: Question, domain: Domain, algebra: Regions) -> Question:
    text = canonical_sql(question, domain, algebra, "my table", accuracy=True)
    return parse(text, domain, algebra, table="my table")


@settings(max_examples=300, deadline=None)
@given(region=regions(VARIED_REGIONS))
def test_every_region_is_written_as_a_condition_that_means_it(region: Region) -> None:
    question = Question((ALL,), region)
    assert back(question, VARIED, VARIED_REGIONS) == question


@settings(max_examples=200, deadline=None)
@given(condition=conditions)
def test_every_condition_survives_its_canonical_form(condition: str) -> None:
    question = parse(f"SELECT COUNT(*) FROM t WHERE {condition}", SMALL, SMALL_REGIONS, table="t")
    assert back(question, SMALL, SMALL_REGIONS) == question


@settings(max_examples=300, deadline=None)
@given(data=st.data(), column=columns())
def test_every_set_of_atoms_of_a_column_has_a_condition(
    data: st.DataObject, column: Column
) -> None:
    found: Atoms = data.draw(atoms(column.width))
    domain = Domain((column,))
    algebra = Regions(domain.widths)
    sql = atoms_condition(column, found).sql
    question = parse(f"SELECT COUNT(*) FROM t WHERE {sql}", domain, algebra, table="t")
    assert question.region == algebra.where(0, found)


def test_values_without_a_domain_cannot_be_told_from_other_ones() -> None:
    column = Column("x", "string", Anything(), other="cell")
    assert atoms_condition(column, ((0, 2),)).sql == "x IS NOT NULL"
    with pytest.raises(ValueError, match="no declared domain"):
        atoms_condition(column, ((0, 1),))


# -- the rest of a statement --------------------------------------------------------------------------

NAMES = st.text("abn_ \"'", min_size=1, max_size=4).filter(lambda s: s.strip() == s)
NUMBERS = st.integers(-500, 500).map(lambda n: Fraction(n, 4))


@st.composite
def questions(draw: st.DrawFn) -> Question:
    """Questions about ``people`` with everything but a region."""
    axes = draw(
        st.lists(
            st.sampled_from(
                [
                    Axis(DOMAIN.names.index("sex")),
                    Axis(DOMAIN.names.index("group")),
                    Axis(DOMAIN.names.index("member")),
                    Axis(DOMAIN.names.index("Site No")),
                    Axis(DOMAIN.names.index("joined"), draw(st.sampled_from(["value", "year"]))),
                ]
            ),
            max_size=2,
            unique_by=lambda axis: axis.column,
        )
    )
    calls = st.sampled_from(
        [("COUNT", None), ("COUNT", "age"), ("COUNT", "Site No"), ("SUM", "age"), ("AVG", "income")]
    )
    chosen = draw(st.lists(calls, min_size=1, max_size=3))
    count = len(axes) + len(chosen)
    names = draw(
        st.lists(NAMES, min_size=count, max_size=count, unique_by=lambda name: name.casefold())
    )
    labels, aliases = tuple(names[: len(axes)]), names[len(axes) :]
    aggregates = tuple(Aggregate(a, f, c) for a, (f, c) in zip(aliases, chosen, strict=True))
    output = st.sampled_from(aliases)
    leaf = st.builds(Having, st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), output, NUMBERS)
    order = st.builds(
        Order,
        output,
        st.none(),
        st.booleans(),
        st.sampled_from([None, True, False]),
    )
    if axes:
        by_axis = st.builds(Order, st.none(), st.integers(0, len(axes) - 1), st.booleans())
        order = st.one_of(order, by_axis)
    amounts = st.builds(
        Goal, st.integers(1, 99_999).map(lambda n: Fraction(n, 1000)), st.just(False)
    ) | st.builds(Goal, st.integers(1, 99).map(lambda n: Fraction(n, 100)), st.just(True))
    named = st.lists(st.tuples(output, amounts), max_size=2, unique_by=lambda g: g[0])
    goals = named | amounts.map(lambda goal: [(None, goal)])
    return Question(
        aggregates=aggregates,
        axes=tuple(axes),
        labels=labels,
        order=tuple(draw(st.lists(order, max_size=2))),
        having=draw(st.none() | _having(leaf)),
        limit=draw(st.none() | st.integers(1, 100)),
        offset=draw(st.integers(0, 3)),
        accuracy=Accuracy(
            tuple(draw(goals)),
            confidence := draw(st.none() | st.integers(1, 999).map(lambda n: Fraction(n, 1000))),
            None if confidence is None else draw(st.sampled_from([None, True, False])),
            draw(st.none() | validities()),
        ),
    )


def _having(leaf: st.SearchStrategy[Having]) -> st.SearchStrategy[Having]:
    def grown(inner: st.SearchStrategy[Having]) -> st.SearchStrategy[Having]:
        both = st.tuples(st.sampled_from(["AND", "OR"]), inner, inner).map(_flat)
        return both | inner.map(
            lambda h: h.parts[0] if h.op == "NOT" else Having("NOT", parts=(h,))
        )

    return st.recursive(leaf, grown, max_leaves=4)


def _flat(parts: tuple[str, Having, Having]) -> Having:
    word, *rest = parts
    return Having(
        word, parts=tuple(p for part in rest for p in (part.parts if part.op == word else (part,)))
    )


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(question=questions())
def test_every_question_survives_its_canonical_form(question: Question) -> None:
    assert back(question, DOMAIN, REGIONS) == question


@settings(max_examples=100, deadline=None)
@given(question=questions())
def test_writing_again_changes_nothing(question: Question) -> None:
    once = canonical_sql(question, DOMAIN, REGIONS, TABLE, accuracy=True)
    assert canonical_sql(ask(once), DOMAIN, REGIONS, TABLE, accuracy=True) == once


def test_the_accuracy_is_written_where_it_is_wanted() -> None:
    question = ask("SELECT COUNT(*) FROM people ERROR WITHIN 50 AT CONFIDENCE 95%")
    plain = canonical_sql(question, DOMAIN, REGIONS, TABLE)
    assert plain == "SELECT COUNT(*) FROM people"
    assert ask(plain) == replace(question, accuracy=Accuracy())


def test_a_region_beyond_writing_is_told_by_its_size() -> None:
    # Whether an even number of 16 columns is true: each condition doubles the text.
    domain = Domain(tuple(Column(f"c{i:02}", "integer", DOMAIN["age"].shape) for i in range(16)))
    algebra = Regions(domain.widths)
    even: Region = True
    for i in range(16):
        here = algebra.where(i, ((0, 60),))
        even = algebra.either(
            algebra.both(even, here), algebra.both(algebra.negate(even), algebra.negate(here))
        )
    text = canonical_sql(Question((ALL,), even), domain, algebra, "t")
    assert text.startswith("SELECT COUNT(*) FROM t WHERE [a region of ")
    assert len(text) < 200
