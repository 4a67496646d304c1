"""A parameter is one literal, whatever it holds and wherever it stands."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from defray.dbapi import DataError, ProgrammingError
from defray.dbapi.binding import bind, literal, written
from defray.errors import QueryError
from defray.query.tokens import Token, lex, number

texts = st.text(
    st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("'\"?:;-/*\n"), max_size=20
)
values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**40), 10**40),
    st.floats(-1e40, 1e40).filter(lambda x: x == 0 or abs(x) > 1e-40),
    st.decimals(-(10**9), 10**9, places=6),
    texts,
    st.dates(),
    st.datetimes(),
)


def kinds(tokens: list[Token]) -> list[tuple[str, str]]:
    return [(t.kind, t.text) for t in tokens]


@given(values, st.sampled_from(["a?b", "x=?", "(-?)", "1?2", "?-- ?", "/*?*/ ?", "-?", "?::DATE"]))
def test_a_parameter_is_the_tokens_of_its_literal_and_nothing_else_changes(value: Any, sql: str):
    before, after = lex(sql), lex(bind(sql, [value]))
    (at,) = [i for i, t in enumerate(before) if t.text == "?" and t.kind == "op"]
    alone = lex(literal(value))[:-1]
    assert kinds(after) == [*kinds(before[:at]), *kinds(alone), *kinds(before[at + 1 :])]
    assert 1 <= len(alone) <= 2


@given(texts)
def test_a_text_comes_back_from_its_literal(text: str):
    (token, _) = lex(literal(text))
    assert (token.kind, token.text) == ("string", text)


@given(st.integers(0, 10**40) | st.floats(0, 1e30).filter(lambda x: x == 0 or x > 1e-30))
def test_a_number_comes_back_from_its_literal(value: Any):
    sql = literal(value)
    (token, _) = lex(sql)
    assert float(number(sql, token)) == float(value)


def test_names_stand_where_their_value_is_wanted():
    sql = "SELECT COUNT(*) FROM t WHERE a = :a AND b = ':a' AND c = :a AND d = x::DATE AND \":a\" > :b"
    assert bind(sql, {"a": 1, "b": "x", "unused": 3}) == (
        "SELECT COUNT(*) FROM t WHERE a = 1 AND b = ':a' AND c = 1 AND d = x::DATE AND \":a\" > 'x'"
    )
    assert bind("a = ?", None) == "a = ?"


@pytest.mark.parametrize(
    ("value", "sql"),
    [
        (np.int64(3), "3"),
        (np.float32(0.5), "0.5"),
        (np.bool_(True), "TRUE"),
        (np.str_("x"), "'x'"),
        (Fraction(1, 2), "0.5"),
        (dt.datetime(2024, 2, 29, 1, 2, 3), "TIMESTAMP '2024-02-29 01:02:03'"),
        (Decimal("1E+3"), "1000"),
        (1e-7, "1e-07"),
    ],
)
def test_values_of_many_types(value: Any, sql: str):
    assert literal(value) == sql


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), Decimal("nan"), b"x", [1], object(), 1j, dt.time(1)]
)
def test_what_is_no_value_is_refused(value: Any):
    with pytest.raises(DataError):
        bind("a = ?", [value])


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        ("a = ?", []),
        ("a = ? AND b = ?", [1]),
        ("a = '?'", [1]),
        ("a = :x", {"y": 1}),
        ("a", "x"),
        ("a", 3),
    ],
)
def test_placeholders_and_parameters_must_match(sql: str, parameters: Any):
    with pytest.raises(ProgrammingError):
        bind(sql, parameters)


def test_a_text_without_tokens_is_refused():
    with pytest.raises(QueryError):
        bind("a = '?", [1])


def test_the_accuracy_of_a_question_is_found():
    clause = written("SELECT COUNT(*) FROM t ERROR WITHIN 5 AT CONFIDENCE 90% VALIDITY ANYTIME")
    assert clause is not None
    assert clause.goals and clause.confidence is not None and clause.validity is not None
    assert written("SELECT COUNT(*) FROM t WHERE a = 'ERROR WITHIN 5' -- ERROR WITHIN 5") is None
