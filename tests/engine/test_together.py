"""A list of questions planned together: what they have in common is bought once, as suits them all."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import duckdb
import pytest

from defray.errors import BadInput, BudgetRefused
from defray.session import Session
from tests.tables import open_session, write_contract

NAMES = "abcdef"
COLUMNS = "".join(
    f'[columns.{name}]\ntype = "integer"\nmin = 0\nmax = 1\nnull = "drop"\n' for name in NAMES
)
ERRORS = (30, 40, 55, 80)


def listed(seed: int) -> list[str]:
    """Every table of up to three columns, in some order, each with some error."""
    rng = random.Random(seed)
    sets = [c for k in (1, 2, 3) for c in itertools.combinations(NAMES, k)]
    rng.shuffle(sets)
    return [
        f"SELECT {', '.join(c)}, COUNT(*) FROM people GROUP BY {', '.join(c)} "
        f"ERROR WITHIN {rng.choice(ERRORS)}"
        for c in sets
    ]


def opened(folder, top: str = "rho = 1") -> Session:
    bits = ", ".join(f"(i // {2**k}) % 2 AS {name}" for k, name in enumerate(NAMES))
    duckdb.sql(f"COPY (SELECT {bits} FROM range(3000) t(i)) TO '{folder}/people.parquet'")
    return open_session(write_contract(folder, top, columns=COLUMNS))


@pytest.fixture
def session(tmp_path) -> Iterator[Session]:
    with opened(tmp_path) as session:
        yield session


def total(of) -> float:
    return sum(one.charged_rho for one in of)


@pytest.mark.long
def test_a_list_is_cheaper_together_and_costs_what_was_quoted(session):
    questions = listed(1)
    in_order, quoted = session.quote_all(questions), session.quote_all(questions, together=True)
    answers = session.ask_all(questions)
    assert all(answer.met for answer in answers)
    assert [a.charged_rho for a in answers] == [q.charged_rho for q in quoted]
    assert total(answers) < 0.95 * total(in_order)
    assert session.balance()["spent_rho"] <= total(answers) * (1 + 1e-12)
    assert session.audit().ok
    assert total(session.ask_all(questions)) == 0


@pytest.mark.long
def test_together_the_order_hardly_matters(session):
    prices = []
    for seed in range(4):
        questions = sorted(listed(1))
        random.Random(seed).shuffle(questions)
        prices.append(total(session.quote_all(questions, together=True)))
    assert max(prices) < min(prices) * 1.002


def test_one_question_alone_is_as_always(session):
    question = listed(2)[0]
    (alone,) = session.quote_all([question], together=True)
    assert alone.charged_rho == session.quote(question).charged_rho
    assert session.ask_all([question])[0].charged_rho == alone.charged_rho
    assert session.ask_all([]) == []


def test_predicates_and_averages_may_be_among_them(session):
    questions = [
        *listed(3)[:5],
        "SELECT COUNT(*) FROM people WHERE a = 1 AND b = 0 ERROR WITHIN 40",
        "SELECT a, COUNT(*) FROM people WHERE c = 1 GROUP BY a ERROR WITHIN 60",
        "SELECT COUNT(*) FROM people ERROR WITHIN 30 VALIDITY ANYTIME",
    ]
    quoted = session.quote_all(questions, together=True)
    answers = session.ask_all(questions)
    assert [a.charged_rho for a in answers] == [q.charged_rho for q in quoted]
    assert session.audit().ok


def test_a_list_with_a_mistake_costs_nothing(session):
    with pytest.raises(BadInput, match="nosuch"):
        session.ask_all([listed(1)[0], "SELECT COUNT(*) FROM people WHERE nosuch = 1"])
    with pytest.raises(BadInput, match="list of questions"):
        session.ask_all(listed(1)[0])
    with pytest.raises(BadInput, match="list of questions"):
        session.ask(listed(1)[0], among=listed(1)[0])
    assert session.history() == []


def test_where_one_is_refused_what_was_answered_stays_free(tmp_path):
    questions = listed(1)
    with opened(tmp_path, "rho = 0.004") as session:
        with pytest.raises(BudgetRefused):
            session.ask_all(questions)
        paid = session.history()
        assert paid
        for ask in paid:
            assert session.ask(ask["question"]).charged_rho == 0
        assert session.audit().ok
