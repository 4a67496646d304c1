"""Generated texts through the whole engine: right answers, typed refusals, and no oracle.

The texts of the SQL fuzzer are asked of two tables that differ in one odd row.  Whatever happens must be
an answer or a typed refusal that cost nothing; it must be the same kind of outcome, with the same text, on
both tables; and where DuckDB understands the original text, the answer must agree with it.  The contract
is so generous that noise is far below one row.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

from defray.config.opening import wire
from defray.core.answer import Answer
from defray.core.contract import Contract, LedgerSpec, SourceSpec, Unit
from defray.errors import BadInput, DefrayError, Refused, TooFewRows
from defray.session import Session
from tests.fuzz.test_sql_fuzz import texts
from tests.query.people import COLUMNS, DOMAIN

# The fuzzer's columns, without the odd-value treatments that plain SQL knows nothing of.
PLAIN = replace(
    DOMAIN,
    columns=tuple(
        replace(c, other="null" if c.name in ("city", "score") else c.other, null="cell")
        for c in DOMAIN.columns
    ),
)

ROWS = """
    SELECT (i * 37 % 121)::INTEGER AS age, ['Oslo', 'Rome', 'Bern', 'Côte d''Azur', NULL][i % 5 + 1] AS city,
           CASE WHEN i % 3 = 0 THEN 'a' ELSE 'b' END AS "group", (i * 997 % 100000)::DOUBLE AS income,
           DATE '2020-01-01' + (i * 31 % 1461)::INTEGER AS joined,
           CASE WHEN i % 11 = 0 THEN NULL ELSE i % 2 = 0 END AS member, 'x' AS note,
           CAST(i % 11 AS DECIMAL(9, 2)) * 0.9 AS score,
           TIMESTAMP '2024-01-01' + INTERVAL 1 HOUR * (i * 7 % 1440) AS seen,
           ['F', 'M', 'X', NULL][i % 4 + 1] AS sex, i % 3 + 1 AS "Site No", (i * 3 % 1001)::INTEGER AS visits
    FROM range(4000) t(i)
"""
ODD = """
    UNION ALL SELECT 119, 'Rome', 'a', 'nan'::DOUBLE, DATE '2023-12-31', NULL, 'oops', 0,
           TIMESTAMP '2024-02-01', 'X', 2, 777
"""
CLAUSE = re.compile(r"\s+ERROR WITHIN .*$", re.DOTALL)


def world(folder: Path, name: str, extra: str) -> Session:
    home = folder / name
    home.mkdir()
    duckdb.sql(f"COPY ({ROWS}{extra}) TO '{home / 'people.parquet'}'")
    contract = Contract(
        "people",
        Fraction(10**13),
        Unit(),
        SourceSpec("parquet", "people.parquet"),
        PLAIN,
        home,
        m_floor=Fraction(1),
        ledger=LedgerSpec(path="people.ledger"),
    )
    return Session(wire(contract))


def attempt(session: Session, text: str) -> Answer | DefrayError:
    try:
        return session.ask(text)
    except (BadInput, Refused) as refused:
        if "say how accurate" not in refused.message:
            return refused
    try:
        return session.ask(text, within=0.3)
    except (BadInput, Refused) as refused:
        return refused


def check_refusal(session: Session, refused: DefrayError, spent: float) -> None:
    assert refused.hint
    assert refused.__cause__ is None
    assert "Traceback" not in str(refused)
    if not isinstance(refused, TooFewRows):
        assert session.balance()["spent_rho"] == spent


def check_answer(raw: duckdb.DuckDBPyConnection, text: str, answer: Answer) -> bool:
    """Whether DuckDB understood the text too; then one-row answers must agree."""
    if any(row.group for row in answer) or len({r.aggregate for r in answer}) != len(answer):
        return False
    try:
        found = raw.sql(CLAUSE.sub("", text)).fetchall()
    except duckdb.Error:
        return False
    if len(found) != 1 or len(found[0]) != len(answer):
        return False
    for true, row in zip(found[0], answer, strict=True):
        if row.value is None or row.half_width > 1e6:
            continue
        slack = 1 + 5 * row.half_width + abs(float(true or 0)) * 1e-3  # incomes are rounded
        assert abs(row.value - float(true or 0)) <= slack, (text, answer.question, true, row)
    return True


def campaign(folder: Path, seed: str, count: int) -> Counter[str]:
    seen: Counter[str] = Counter()
    with world(folder, "without", "") as one, world(folder, "with", ODD) as two:
        raw = duckdb.connect()
        raw.sql(f"CREATE TABLE people AS {ROWS}")
        spent = 0.0
        for text in texts(seed, count):
            a, b = attempt(one, text), attempt(two, text)
            # An average is refused by its noisy count, which differs from draw to draw.
            assert type(a) is type(b) or TooFewRows in (type(a), type(b)), (text, a, b)
            if type(a) is not type(b):
                spent = one.balance()["spent_rho"]
                continue
            if isinstance(a, DefrayError):
                # What remains may differ after an average; nothing else in a message may.
                assert isinstance(a, Refused) or str(a) == str(b)
                check_refusal(one, a, spent)
                seen[a.code] += 1
            else:
                assert isinstance(b, Answer)
                assert a.question == b.question
                seen["answered"] += 1
                seen["compared"] += check_answer(raw, text, a)
            spent = one.balance()["spent_rho"]
        assert one.audit().ok
        assert two.audit().ok
    return seen


def test_the_columns_are_the_fuzzers() -> None:
    assert {c.name for c in COLUMNS} == set(PLAIN.names)


@pytest.mark.long
def test_generated_texts_get_right_answers_or_typed_refusals(tmp_path: Path) -> None:
    seen = campaign(tmp_path, "engine", 150)
    assert seen["compared"] > 5, seen
    assert seen["query-refused"] > 12, seen


@pytest.mark.slow
def test_twenty_thousand_texts(tmp_path: Path) -> None:
    seen = campaign(tmp_path, "engine at length", 20_000)
    assert seen["compared"] > 1000, seen
