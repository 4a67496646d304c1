"""What went wrong for users of other systems, tried here.  Each test is named after what it checks."""

from __future__ import annotations

import json
import logging
import math
import os
import sqlite3
from pathlib import Path

import duckdb
import numpy as np
import pytest

from defray.errors import (
    BadInput,
    BudgetRefused,
    ContractError,
    InternalError,
    MaxRhoRefused,
    QueryError,
    TargetError,
)
from tests.tables import COLUMNS, open_session, people, write_contract, write_people

EXACT = 'support = "exact"'
"""Every question for itself, and one total: prices are the closed form."""

ODD = """
[columns.x]
type = "float"
bounds = [0, 1]
unit_step = 0.001

[columns.bin]
type = "float"
min = 0
max = 1
step = 0.25
bounds = [0, 1]
unit_step = 0.001

[columns.code]
type = "integer"
min = 0
max = 9
"""


def odd_table(folder: Path, values: str, top: str = "rho = 100", columns: str = ODD):
    """A table of one float column x (and the same as bin) and a text column code."""
    duckdb.sql(
        f"COPY (SELECT v::DOUBLE AS x, v::DOUBLE AS bin, c AS code FROM ({values}) t(v, c)) "
        f"TO '{folder / 'people.parquet'}'"
    )
    return open_session(write_contract(folder, top, columns=columns))


# -- money ---------------------------------------------------------------------------------------


def test_an_average_costs_what_was_quoted_item_by_item(tmp_path: Path):
    with people(tmp_path, "rho = 10\nn_max = 20000") as session:
        sql = "SELECT AVG(income) FROM people WHERE age >= 30 ERROR WITHIN 800 AT CONFIDENCE 95%"
        first = session.quote(sql)
        assert not first.exact
        assert 0 < first.first_rho <= first.low_rho <= first.high_rho
        answer = session.ask(sql)
        assert first.low_rho <= answer.charged_rho <= first.high_rho
        assert math.fsum(i.charged_rho for i in answer.items) == pytest.approx(answer.charged_rho)
        assert {i.measure for i in answer.items} == {"count", "centred:income"}
        tighter = sql.replace("800", "400")
        quote = session.quote(tighter)
        assert quote.exact
        assert session.ask(tighter).charged_rho == quote.charged_rho
        assert session.ask(sql).charged_rho == 0


@pytest.mark.parametrize(
    "select",
    [
        "SELECT COUNT(*) FROM people WHERE age >= 30",
        "SELECT SUM(income) FROM people WHERE age >= 30",
        "SELECT sex, COUNT(*) FROM people GROUP BY sex",
        "SELECT COUNT(*) AS n, SUM(income) AS total FROM people",
    ],
)
def test_a_count_is_charged_once_and_exactly_as_quoted(tmp_path: Path, select: str):
    within = {"n": 70, "total": 5e6} if " AS n" in select else 5e6 if "SUM" in select else 70
    with people(tmp_path, "rho = 10") as session:
        quote = session.quote(select, within=within)
        assert quote.exact and quote.charged_rho > 0
        before = session.balance()["spent_rho"]
        assert before == 0
        answer = session.ask(select, within=within)
        assert answer.charged_rho == quote.charged_rho == session.balance()["spent_rho"]
        assert session.quote(select, within=within).charged_rho == 0


def test_a_list_of_questions_has_one_price_with_repeats_credited(tmp_path: Path):
    with people(tmp_path, "rho = 10") as session:
        texts = [f"SELECT COUNT(*) FROM people WHERE age >= {a % 15}" for a in range(20)]
        quotes = session.quote_all(texts, within=50)
        assert [q.charged_rho > 0 for q in quotes] == [True] * 15 + [False] * 5
        assert session.balance()["spent_rho"] == 0
        paid = [session.ask(t, within=50).charged_rho for t in texts]
        assert paid == [q.charged_rho for q in quotes]


def test_a_list_may_repeat_what_has_no_exact_price(tmp_path: Path):
    with people(tmp_path, "rho = 10\nm_floor = 50") as session:
        average = "SELECT AVG(income) FROM people WHERE age > 20 ERROR WITHIN 900"
        share = "SELECT COUNT(*) FROM people WHERE age > 20 ERROR WITHIN 1%"
        exact = "SELECT COUNT(*) FROM people WHERE age > 20 ERROR WITHIN 30"
        quotes = session.quote_all([average, average, share, share, exact])
        assert not any(q.exact for q in quotes)  # whether the first will be met is not known yet
        for sql, quote in zip([average, average, share, share, exact], quotes, strict=True):
            paid = session.ask(sql).charged_rho
            assert quote.low_rho <= paid <= quote.high_rho * (1 + 1e-12)
        again = session.quote_all([average, share, exact])
        assert all(q.exact and q.fits and q.charged_rho == 0 for q in again)


def test_the_best_that_fits_is_told_for_groups_that_the_question_excludes_too(tmp_path: Path):
    with people(tmp_path, "rho = 0.1") as session:
        sql = "SELECT age, COUNT(*) FROM people WHERE age >= 40 GROUP BY age"
        with pytest.raises(BudgetRefused) as caught:
            session.ask(sql, within=0.001)
        best = float(caught.value.context["best"]["count"])
        assert session.ask(sql, within=best).met


def test_price_falls_with_the_tolerance_and_order_does_not_matter(tmp_path: Path):
    sql = "SELECT COUNT(*) FROM people"
    with people(tmp_path, f"rho = 10\n{EXACT}") as session:
        prices = [session.quote(sql, within=u).charged_rho for u in (25, 50, 100)]
        assert prices[0] > prices[1] > prices[2] > 0
    totals = []
    for n, order in enumerate(([30, 60, 90], [90, 30, 60])):
        home = tmp_path / str(n)
        home.mkdir()
        with people(home, f"rho = 10\n{EXACT}") as session:
            for age in order:
                session.ask(f"SELECT COUNT(*) FROM people WHERE age < {age}", within=age)
            totals.append(session.balance()["spent_rho"])
    assert totals[0] == totals[1]


@pytest.mark.parametrize("bad", ["-1", "0", "nan", "inf", "1e400", '"x"', "true"])
def test_a_senseless_budget_is_refused_by_name(tmp_path: Path, bad: str):
    write_people(tmp_path, 10)
    with pytest.raises(ContractError) as caught:
        open_session(write_contract(tmp_path, f"rho = {bad}"))
    assert any(p.key == "rho" for p in caught.value.problems)


@pytest.mark.parametrize(
    "bad", [0, -5, "nan", "inf", math.nan, math.inf, "1e400", "x", "0%", "200%"]
)
def test_a_senseless_tolerance_is_refused_and_costs_nothing(tmp_path: Path, bad: object):
    with people(tmp_path, rows=100) as session:
        with pytest.raises(TargetError):
            session.ask("SELECT COUNT(*) FROM people", within=bad)
        assert session.balance()["spent_rho"] == 0


def test_a_looser_repeat_is_free_and_keeps_the_better_interval(tmp_path: Path):
    with people(tmp_path) as session:
        first = session.ask("SELECT COUNT(*) FROM people", within=30)
        again = session.ask("SELECT COUNT(*) FROM people", within=80)
        assert again.charged_rho == 0
        assert again.value == first.value
        assert again.half_width == pytest.approx(30, rel=1e-4)
        assert again.reused_rho > 0
        assert again.met


@pytest.mark.parametrize("within", [1, 50, 100_000])
def test_within_is_inclusive_and_priced_by_the_closed_form(tmp_path: Path, within: int):
    with people(tmp_path, "rho = 100", rows=100) as session:
        quote = session.quote("SELECT COUNT(*) FROM people", within=within)
        assert quote.charged_rho == pytest.approx(1.959963984540054**2 / (2 * within**2), rel=1e-4)


def test_a_refusal_says_which_limit_what_was_asked_what_remains_and_what_fits(tmp_path: Path):
    with people(tmp_path, "rho = 0.001") as session:
        with pytest.raises(BudgetRefused) as caught:
            session.ask("SELECT COUNT(*) FROM people", within=10)
        context = caught.value.context
        assert context["limit"] == "contract, answer budget"
        assert context["asked"] == pytest.approx(0.019207, abs=1e-6)
        assert context["remaining"] == pytest.approx(0.001)
        best = float(context["best"]["count"])
        assert json.dumps(caught.value.to_dict())
        assert session.ask("SELECT COUNT(*) FROM people", within=best).met
        with pytest.raises(BudgetRefused):
            session.ask("SELECT COUNT(*) FROM people WHERE age > 1", within=best)


def test_max_rho_is_never_exceeded(tmp_path: Path):
    with people(tmp_path, "rho = 10") as session:
        with pytest.raises(MaxRhoRefused):
            session.ask("SELECT COUNT(*) FROM people", within=10, max_rho=0.01)
        assert session.balance()["spent_rho"] == 0
        sql = "SELECT AVG(income) FROM people WHERE age > 5"
        first = session.ask(sql, within=30, max_rho=1e-4)  # buys the count, cannot afford the rest
        assert not first.met
        assert 0 < first.charged_rho <= 1e-4
        assert any("max_rho" in note for note in first.notes)
        spent = session.balance()["spent_rho"]
        with pytest.raises(MaxRhoRefused):  # now the rest has a price
            session.ask(sql, within=30, max_rho=1e-3)
        assert session.balance()["spent_rho"] == spent
        quote = session.quote(sql, within=30)
        answer = session.ask(sql, within=30, max_rho=5)
        assert answer.met
        assert quote.low_rho <= answer.charged_rho <= quote.high_rho


def test_balance_tells_how_many_counts_are_left(tmp_path: Path):
    with people(tmp_path, f"rho = 0.004\n{EXACT}") as session:
        left = session.balance(within=50)["counts_left"]["number"]
        assert left == 5
        for n in range(left):
            session.ask(f"SELECT COUNT(*) FROM people WHERE age > {n}", within=50)
        assert session.balance(within=50)["counts_left"]["number"] == 0
        with pytest.raises(BudgetRefused):
            session.ask("SELECT COUNT(*) FROM people WHERE age > 77", within=50)


def test_decisions_do_not_read_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with people(tmp_path) as session:
        engine = session._engine
        monkeypatch.setattr(engine.ledger, "entries", None)
        session.ask("SELECT COUNT(*) FROM people", within=50)
        session.ask("SELECT COUNT(*) FROM people", within=40)
    with sqlite3.connect(tmp_path / "contract.ledger") as file:
        plan = file.execute("EXPLAIN QUERY PLAN SELECT * FROM known WHERE key = x'00'").fetchall()
    assert "SEARCH" in str(plan) and "SCAN" not in str(plan)


# -- odd values ----------------------------------------------------------------------------------


def test_one_nan_does_not_decide_a_sum(tmp_path: Path):
    values = "SELECT CASE WHEN i = 0 THEN 'nan'::DOUBLE ELSE 1.0 END, '1' FROM range(1000) t(i)"
    with odd_table(tmp_path, values) as session:
        answer = session.ask("SELECT SUM(x) FROM people", within=1)
        assert answer.value == pytest.approx(999, abs=3)
        mean = session.ask("SELECT AVG(x) FROM people", within=0.05)
        assert mean.value == pytest.approx(1, abs=0.1)


def test_infinities_count_as_the_bounds(tmp_path: Path):
    values = """SELECT CASE WHEN i < 300 THEN 'inf'::DOUBLE WHEN i < 400 THEN '-inf'::DOUBLE
                ELSE 0.5 END, '1' FROM range(1000) t(i)"""
    with odd_table(tmp_path, values) as session:
        assert session.ask("SELECT SUM(x) FROM people", within=1).value == pytest.approx(600, abs=3)
        rows = session.ask("SELECT bin, COUNT(*) FROM people GROUP BY bin", within=1).rows
        counts = {row.group["bin"]: row.value for row in rows}
        assert counts["[0.75, 1]"] == pytest.approx(300, abs=4)
        assert counts["[0, 0.25)"] == pytest.approx(100, abs=4)
        assert counts[None] == pytest.approx(0, abs=4)


def test_an_empty_but_declared_value_gets_a_row_near_zero(tmp_path: Path):
    columns = COLUMNS.replace('["F", "M"]', '["F", "M", "X"]')
    write_people(tmp_path)
    with open_session(write_contract(tmp_path, "rho = 10", columns=columns)) as session:
        (row,) = session.ask("SELECT COUNT(*) FROM people WHERE sex = 'X'", within=20).rows
        assert abs(row.value) < 60
        assert row.low < row.value < row.high


def test_empty_predicates_average_to_zero_and_go_negative(tmp_path: Path):
    columns = COLUMNS.replace("max = 120", "max = 1000")
    write_people(tmp_path)
    with open_session(write_contract(tmp_path, "rho = 100", columns=columns)) as session:
        sql = "SELECT age, COUNT(*) FROM people WHERE age > 500 GROUP BY age"
        values = [r.value for r in session.ask(sql, within=20) if r.half_width > 0]
        assert len(values) == 500
        sd = 20 / 1.96
        assert abs(np.mean(values)) < 4 * sd / math.sqrt(500)
        assert sum(v < 0 for v in values) > 200


def test_groups_come_from_the_declared_domain_only(tmp_path: Path):
    write_people(tmp_path)
    columns = COLUMNS.replace('["F", "M"]', '["F", "Z"]')
    with open_session(write_contract(tmp_path, "rho = 10", columns=columns)) as session:
        labels = [
            r.group["sex"]
            for r in session.ask("SELECT sex, COUNT(*) FROM people GROUP BY sex", within=50)
        ]
        assert labels == ["F", "Z", None]
        with pytest.raises(QueryError) as caught:
            session.ask("SELECT person, COUNT(*) FROM people GROUP BY person", within=50)
        assert caught.value.kind == "unknown-column"


def test_answers_lie_on_a_fixed_grid_whatever_the_count(tmp_path: Path):
    """The low bits of answers to counts 0 and 1 have the same support: exact noise on a lattice."""
    columns = '[columns.cell]\ntype = "integer"\nmin = 0\nmax = 9999\nnull = "drop"\n'
    duckdb.sql(
        f"COPY (SELECT c AS cell FROM range(0, 10000, 2) t(c)) TO '{tmp_path / 'people.parquet'}'"
    )
    contract = write_contract(tmp_path, f"rho = 10\n{EXACT}", columns=columns)
    with open_session(contract) as session:
        rows = session.ask("SELECT cell, COUNT(*) FROM people GROUP BY cell", within=3).rows
        entry = [e.read() for e in session._engine.ledger.entries()][-1]
    step, values = entry["step"], entry["value"]
    assert [r.value for r in rows] == [v / 2**step for v in values]
    low = [np.array(values[side::2]) % 2**12 for side in (0, 1)]
    for bits in low:  # uniform low bits on both sides: nothing of the count shows in them
        counts = np.bincount(bits >> 8, minlength=16)
        assert counts.min() > 200


def test_a_cast_that_fails_on_one_row_is_no_oracle(tmp_path: Path):
    outcomes = []
    for n, word in enumerate(("oops", "7")):
        home = tmp_path / str(n)
        home.mkdir()
        values = f"SELECT 0.5, CASE WHEN i = 3 THEN '{word}' ELSE '7' END FROM range(100) t(i)"
        with odd_table(home, values) as session:
            assert session.ask("SELECT COUNT(*) FROM people WHERE code > 3", within=5).met
            for sql in (
                "SELECT COUNT(*) FROM people WHERE CAST(code AS INT) > 3",
                "SELECT COUNT(*) FROM people WHERE 1 // (code - 5) > 0",
                "SELECT COUNT(*) FROM people WHERE error('x')",
            ):
                with pytest.raises(QueryError) as caught:
                    session.ask(sql, within=5)
                outcomes.append((n, str(caught.value)))
    first, second = ([text for n, text in outcomes if n == side] for side in (0, 1))
    assert first == second


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM read_csv('/etc/passwd')",
        "SELECT COUNT(*) FROM people WHERE pg_read_file('x') = 'y'",
        "SELECT COUNT(*) FROM people WHERE CASE WHEN age = 5 THEN pg_sleep(5) END",
        "SELECT COUNT(*) FROM people; DROP TABLE people",
        "ATTACH 'x.db'",
        "SELECT COUNT(*) FROM people WHERE аge = 5",
        "SELECT COUNT(*) FROM people JOIN people p2 ON people.age = p2.age",
        "SELECT COUNT(*) FROM visits JOIN people ON visits.id = people.id",
        "SELECT SUM(age) FROM people",
        "SELECT COUNT(DISTINCT sex) FROM people",
    ],
)
def test_whatever_is_not_supported_is_refused_by_name_and_costs_nothing(tmp_path: Path, sql: str):
    with people(tmp_path, rows=100) as session:
        with pytest.raises(QueryError) as caught:
            session.ask(sql, within=50)
        error = caught.value
        assert "^" in error.caret()
        assert error.hint
        for leak in ("duckdb", "sqlglot", "Traceback", "object at 0x"):
            assert leak.lower() not in str(error).lower()
        assert session.balance()["spent_rho"] == 0


def test_spelling_does_not_matter_and_different_questions_are_not_merged(tmp_path: Path):
    with people(tmp_path, f"rho = 10\n{EXACT}") as session:
        same = [
            "SELECT COUNT(*) FROM people WHERE sex = 'F' AND age BETWEEN 30 AND 39",
            "select count(1) as n from PEOPLE where age>=30 and age<40 and sex in ('F')",
            "SELECT COUNT(*) FROM people p WHERE NOT (p.age < 30 OR p.age > 39 OR p.sex <> 'F')",
            "SELECT COUNT(*) FROM people WHERE (age BETWEEN 30 AND 33 OR age IN (34, 35, 36, 37, 38, 39)) "
            "AND 'F' = sex",
        ]
        charges = [session.ask(sql, within=50).charged_rho for sql in same]
        assert charges[0] > 0 and charges[1:] == [0, 0, 0]
        other = session.ask(same[0].replace("39", "40"), within=50)
        assert other.charged_rho == charges[0]


def test_three_rows_a_person_are_priced_and_kept(tmp_path: Path):
    unit = 'rho = 10\nunit = {column = "person", max_rows = 2}'
    with people(tmp_path, unit, rows=9000) as session:
        answer = session.ask("SELECT COUNT(*) FROM people", within=50)
        assert answer.charged_rho == pytest.approx(4 * 3.8414588 / (2 * 50**2), rel=1e-4)
        assert answer.value == pytest.approx(6000, abs=130)  # two of each person's three rows
    with pytest.raises(ContractError) as caught:
        open_session(write_contract(tmp_path, 'rho = 1\nunit = {column = "person", max_rows = 0}'))
    assert "max_rows" in str(caught.value)


def test_a_bound_that_cuts_the_data_is_pointed_out_without_looking(tmp_path: Path):
    columns = COLUMNS.replace("[0, 100000]", "[0, 100]")
    write_people(tmp_path)
    with open_session(write_contract(tmp_path, "rho = 10", columns=columns)) as session:
        answer = session.ask("SELECT SUM(income) FROM people", within=10_000)
        assert any("bounds" in note for note in answer.notes)


# -- new data, and what is written down -----------------------------------------------------------


def test_new_data_is_a_new_version_and_what_was_spent_stays_spent(tmp_path: Path):
    write_people(tmp_path, 1000)
    csv = tmp_path / "people.csv"
    duckdb.sql(f"COPY (SELECT * FROM '{tmp_path / 'people.parquet'}') TO '{csv}' (HEADER)")
    contract = write_contract(tmp_path, "rho = 1", kind="csv", path="people.csv")
    with open_session(contract) as session:
        sql = "SELECT COUNT(*) FROM people"
        paid = session.ask(sql, within=20).charged_rho
        os.utime(csv)  # touched, not changed
        assert session.ask(sql, within=20).charged_rho == 0
        with csv.open("a") as file:
            file.write("1000,30,F,5,333\n")
        answer = session.ask(sql, within=20)
        assert answer.charged_rho == paid
        assert answer.data_version == 2
        assert any("version 2" in note for note in answer.notes)
        assert session.balance()["spent_rho"] == pytest.approx(2 * paid)
        assert session.audit().ok


def test_a_changed_domain_is_a_new_version_and_a_changed_budget_is_refused(tmp_path: Path):
    from defray.errors import LedgerMismatch

    with people(tmp_path) as session:
        session.ask("SELECT COUNT(*) FROM people", within=50)
    more = COLUMNS.replace("max = 120", "max = 130")
    with open_session(write_contract(tmp_path, columns=more)) as session:
        assert session.ask("SELECT COUNT(*) FROM people", within=50).charged_rho > 0
        assert session.balance()["data_version"] == 2
    for changed in (
        "rho = 2",
        "rho = 1\nxi = 0.1",
        'rho = 1\nunit = {column = "person", max_rows = 3}',
    ):
        with pytest.raises(LedgerMismatch):
            open_session(write_contract(tmp_path, changed))


def test_no_true_value_is_written_anywhere(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """A number and a name the table holds may show in no file, log or message."""
    caplog.set_level(logging.DEBUG)
    duckdb.sql(
        f"COPY (SELECT 30 AS age, 'F' AS sex, 765432109876 AS income, 'Zyx9' AS person "
        f"FROM range(5000)) TO '{tmp_path / 'people.parquet'}'"
    )
    columns = COLUMNS.replace("[0, 100000]", "[0, 1000000000000]")
    shown = []
    with open_session(write_contract(tmp_path, "rho = 10", columns=columns)) as session:
        for sql, within in (
            ("SELECT COUNT(*) FROM people", 100),
            ("SELECT SUM(income) FROM people", 10**14),
            ("SELECT sex, AVG(income) FROM people GROUP BY sex", 10**11),
        ):
            shown.append(json.dumps(session.ask(sql, within=within).to_dict()))
        for bad in (
            "SELECT person FROM people",
            "SELECT COUNT(*) FROM people WHERE person = 'Zyx9x'",
        ):
            with pytest.raises(BadInput) as caught:
                session.ask(bad, within=10)
            shown.append(str(caught.value).replace(bad, ""))
        session._engine.ledger.backup(tmp_path / "copy.ledger")
    files = [p for p in tmp_path.iterdir() if p.suffix != ".parquet"]
    content = b"".join(p.read_bytes() for p in files) + "".join(shown).encode()
    content += caplog.text.encode()
    secrets = ("765432109876", "7654321099", str(765432109900 * 5000), "38271605", "Zyx9'")
    for secret in secrets:
        assert secret.encode() not in content.replace(b"Zyx9x", b"")


def test_a_fault_of_ours_reaches_nobody_as_a_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    with people(tmp_path, rows=100) as session:
        engine = session._engine

        def broken(*_: object) -> None:
            raise ZeroDivisionError("row 17 holds 7654321")

        engine._source.scan = broken
        with pytest.raises(InternalError) as caught:
            session.ask("SELECT COUNT(*) FROM people", within=50)
        error = caught.value
        assert error.__cause__ is None and error.__context__ is None
        assert "7654321" not in str(error) + caplog.text
        assert error.context["incident"] in caplog.text
        assert session.balance()["spent_rho"] == 0
