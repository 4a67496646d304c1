"""Texts and what they mean, from ``pairs/*.txt``.

A pair is a text (one line or more) and a line ``=> canonical statement`` or ``=> kind @ the characters
the caret stands under`` (``(end)`` behind the last one).  Lines that start with ``#`` are remarks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from defray.errors import QueryError
from defray.query.descriptor import Question
from defray.query.render import canonical_sql
from tests.query.people import DOMAIN, REGIONS, TABLE, ask

FOLDER = Path(__file__).parent / "pairs"


def pairs() -> Iterator[tuple[str, str, str]]:
    for path in sorted(FOLDER.glob("*.txt")):
        lines: list[str] = []
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("=> "):
                yield path.stem, "\n".join(lines), line[3:]
                lines = []
            elif line and not line.startswith("#"):
                lines.append(line)
        assert not lines, f"{path.name} ends with a text without a result"


CASES = list(pairs())


def asked(text: str, *, snap: bool) -> Question | QueryError:
    try:
        return ask(text, snap=snap)
    except QueryError as refused:
        return refused


@pytest.mark.parametrize(("group", "text", "expected"), CASES, ids=[c[1][:60] for c in CASES])
def test_pair(group: str, text: str, expected: str) -> None:
    question = asked(text, snap=group == "snapped")
    if isinstance(question, QueryError):
        under = text[question.start : question.end] or "(end)"
        assert f"{question.kind} @ {under}" == expected
        assert question.hint
        assert question.text == text
    else:
        canonical = canonical_sql(question, DOMAIN, REGIONS, TABLE, accuracy=True)
        assert canonical == expected
        assert ask(canonical) == replace(question, snapped=False)


def test_there_are_enough_pairs_and_none_twice() -> None:
    texts = [(group, text) for group, text, _ in CASES]
    assert len(set(texts)) == len(texts) >= 150


@pytest.mark.parametrize(
    ("text", "snapped"),
    [
        ("SELECT COUNT(*) FROM people WHERE income >= 20500", True),
        ("SELECT COUNT(*) FROM people WHERE income >= 20000", False),
        ("SELECT COUNT(*) FROM people WHERE NOT (age = 3 AND income IN (1, 2))", True),
        ("SELECT COUNT(*) FROM people", False),
    ],
)
def test_a_question_tells_whether_it_was_snapped(text: str, snapped: bool) -> None:
    assert ask(text, snap=True).snapped is snapped


@pytest.mark.parametrize(
    ("name", "hint"),
    [("salary", "the declared columns are"), ("agee", "the nearest declared column is age")],
)
def test_an_undeclared_column_is_told_like_one_that_does_not_exist(name: str, hint: str) -> None:
    with pytest.raises(QueryError) as caught:
        ask(f"SELECT COUNT(*) FROM people WHERE {name} = 1")
    assert caught.value.message == f"no column {name} is declared"
    assert caught.value.hint.startswith(hint)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            "SELECT SUM(visits) FROM people",
            "column visits has no bounds",
            "add them to the contract: [columns.visits] bounds = [low, high]",
        ),
        (
            "SELECT COUNT(*) FROM people p, people q",
            "joins are not supported",
            "ask one table; the curator may declare a view over several tables as the source",
        ),
    ],
)
def test_refusals_that_users_asked_for(text: str, message: str, hint: str) -> None:
    with pytest.raises(QueryError) as caught:
        ask(text)
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_the_offsets_of_an_aggregate_stand_in_the_text() -> None:
    text = "SELECT /* x */ COUNT( * ) n, AVG(age) FROM people"
    found = [text[a.start : a.end] for a in ask(text).aggregates]
    assert found == ["COUNT( * )", "AVG(age)"]
