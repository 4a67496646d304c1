"""Domains: the way of columns through JSON, and names as SQL means them."""

from __future__ import annotations

from hypothesis import given

from defray.core.column import Column
from defray.core.domain import Domain
from defray.core.shapes import Values
from tests.strategies import VARIED, columns


@given(column=columns())
def test_a_column_survives_json(column: Column) -> None:
    assert Column.from_json(column.to_json()) == column


def test_a_domain_survives_json() -> None:
    assert Domain.from_json(VARIED.to_json()) == VARIED


def test_names_are_found_as_sql_does() -> None:
    domain = Domain(tuple(Column(n, "boolean", Values((True,))) for n in ("Age", "age", "sex")))
    assert [domain.find(n) for n in ("age", "Age", "SEX", "AGE", "x")] == [1, 0, 2, None, None]
    assert domain.find("SEX", quoted=True) is None
    assert domain.find("sex", quoted=True) == 2
