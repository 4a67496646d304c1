"""What a cut grant buys, where overlapping answers say a part already: the least variance, not the question
itself; and it costs no more than was granted, and what was quoted."""

from __future__ import annotations

from pathlib import Path

import pytest

from defray.controller import cut
from tests.tables import people

TOP = 'rho = 0.02\nn_max = 100000\ngate = "greedy"'

BEFORE = (
    ("SELECT COUNT(*) FROM people WHERE age >= 40", 12),
    ("SELECT COUNT(*) FROM people WHERE age < 40", 12),
)

LAST = (
    ("SELECT COUNT(*) FROM people WHERE age BETWEEN 20 AND 69", 9),
    ("SELECT sex, COUNT(*) FROM people WHERE age >= 35 GROUP BY sex", 9),
    (
        "SELECT COUNT(*), SUM(income) FROM people WHERE age >= 30",
        {"count": 9, "sum_income": 300000},
    ),
)


def granted(directory: Path, sql: str, within: object):
    """The quote and the answer of a question that is granted less than it needs, after others."""
    directory.mkdir()
    with people(directory, TOP, 2000) as session:
        for question, error in BEFORE:
            assert session.ask(question, within=error).met
        quote = session.quote(sql, within=within)
        answer = session.ask(sql, within=within)
        assert session.audit().ok
    return quote, answer


@pytest.mark.parametrize(("sql", "within"), LAST)
def test_a_cut_grant_buys_no_less_than_the_question_itself_would(
    tmp_path, monkeypatch, sql, within
):
    quote, answer = granted(tmp_path / "mixed", sql, within)
    assert not answer.met and answer.shortfall_rho > 0
    assert quote.exact and quote.charged_rho == answer.charged_rho
    for alias, half_width in quote.achieves.items():
        widest = max(r.half_width for r in answer.rows if r.aggregate == alias)
        assert widest == pytest.approx(half_width)
    monkeypatch.setattr(cut, "_mixture", lambda *_: None)
    _, plain = granted(tmp_path / "plain", sql, within)
    for mixed, itself in zip(answer.rows, plain.rows, strict=True):
        assert mixed.half_width <= itself.half_width * (1 + 1e-3)
    assert answer.charged_rho <= plain.charged_rho * (1 + 1e-9)


def test_a_mixture_is_much_better_where_history_says_most(tmp_path, monkeypatch):
    sql, within = LAST[0]
    _, answer = granted(tmp_path / "mixed", sql, within)
    monkeypatch.setattr(cut, "_mixture", lambda *_: None)
    _, plain = granted(tmp_path / "plain", sql, within)
    assert answer.rows[0].half_width < 0.97 * plain.rows[0].half_width
