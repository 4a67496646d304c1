"""The command line as a curator and an analyst type it, one process a command."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from typing import Any

import pytest

from defray.cli.numbers import rho
from defray.core.answer import DRY_RUN
from tests.cli.conftest import WRITTEN

FORTIES = "SELECT COUNT(*) FROM people WHERE age >= 40"
SPELT_DIFFERENTLY = "SELECT COUNT(1) FROM people WHERE NOT age < 40"
BY_SEX = "SELECT sex, COUNT(*) FROM people GROUP BY sex"
FILE = """\
-- three questions; the second repeats the first
SELECT COUNT(*) FROM people WHERE age >= 40 ERROR WITHIN 10 AT CONFIDENCE 95%;
SELECT COUNT(*) FROM people WHERE age > 39 ERROR WITHIN 10 AT CONFIDENCE 95%;
SELECT sex, COUNT(*) FROM people GROUP BY sex /* a; comment */ ERROR WITHIN 20;
"""


@pytest.mark.long
def test_from_a_csv_to_an_audit(bare: Any) -> None:
    drafted = bare("init", "people.csv", "--peek")
    assert drafted.code == 0
    assert "next:" in drafted.out
    path = bare.folder / "contract.toml"
    assert "WARNING" in path.read_text()
    again = bare("init", "people.csv")
    assert again.code == 2
    assert "--force" in again.err

    path.write_text(path.read_text().replace("rho = 1.0 ", "rho = 0.5 "))
    checked = bare("check")
    assert checked.code == 0
    for words in ("is valid", "rho = 0.5", "epsilon = 5.22", "one row", "add/remove", "no"):
        assert words in checked.out
    assert not (bare.folder / "contract.ledger").exists()

    fresh = bare("balance")
    assert "0.5 of 0.5 rho remain" in fresh.out
    assert not (bare.folder / "contract.ledger").exists()  # reading the books makes none

    quoted = bare("quote", FORTIES, "--within", "10", "--json").json
    assert quoted["exact"]
    assert quoted["fits"]
    beyond = bare("quote", FORTIES, "--within", "0.1")
    needs = bare("quote", FORTIES, "--within", "0.1", "--json").json["needs_rho"]
    assert beyond.code == 0
    assert beyond.out.startswith(f"needs {rho(needs)} rho, more than is granted")
    asked = bare("ask", FORTIES, "--within", "10")
    assert asked.code == 0
    assert re.match(r"\d+ ± 10 \(95 %: \d+ \.\. \d+\)   target met   charged", asked.out)
    repeated = bare("ask", SPELT_DIFFERENTLY, "--within", "10", "--json").json
    assert repeated["charged_rho"] == 0
    assert repeated["reused_rho"] > 0
    assert f"{repeated['rows'][0]['value']:.0f} ±" in asked.out

    (ask,) = bare("history", "--json").json["asks"]
    assert ask["charged_rho"] == quoted["charged_rho"]
    balance = bare("balance", "contract.toml", "--json").json
    assert balance["spent_rho"] == quoted["charged_rho"]
    audited = bare("audit")
    assert audited.code == 0
    assert "nothing wrong" in audited.out


@pytest.mark.long
def test_the_budget_lives_in_the_ledger_and_not_in_the_process(defray: Any) -> None:
    first = defray("ask", FORTIES, "--rho", "0.6", "--json").json
    assert abs(first["charged_rho"] - 0.6) < 1e-12
    balance = defray("balance", "--json").json
    assert abs(balance["remaining_rho"] - 0.4) < 1e-12
    refused = defray("ask", "SELECT COUNT(*) FROM people WHERE age < 45", "--within", "1", "--json")
    assert refused.code == 3
    error = refused.json["error"]
    assert error["code"] == "budget-exceeded"
    assert abs(error["remaining"] - 0.3) < 1e-12  # 0.1 are kept for diagnostics
    best = error["best"]["count"]
    fitting = defray("ask", "SELECT COUNT(*) FROM people WHERE age < 45", "--within", best)
    assert fitting.code == 0
    # another region has a budget of its own
    assert defray("ask", "SELECT COUNT(*) FROM people WHERE age < 40", "--rho", "0.6").code == 0


@pytest.mark.long
def test_a_file_of_questions(defray: Any) -> None:
    (defray.folder / "q.sql").write_text(FILE)
    quoted = defray("quote", "q.sql", "--delta", "1e-6", "--json").json
    assert [q["charged_rho"] > 0 for q in quoted["quotes"]] == [True, False, True]
    total = quoted["total"]
    assert total["charged_rho"] == sum(q["charged_rho"] for q in quoted["quotes"])
    assert total["epsilon"]["high"] > 0
    shown = defray("quote", "q.sql", "--delta", "1e-6").out
    assert "total 0.02414 rho" in shown
    assert "epsilon" in shown
    assert defray("history", "--json").json == {"asks": [], "total": 0}  # quotes spend nothing

    asked = defray("ask", "q.sql")
    assert asked.code == 0
    assert "3 questions charged 0.02414 rho in all" in asked.out
    for group in ("F", "M", "NULL"):
        assert re.search(rf"^ {group} .* yes ", asked.out, re.MULTILINE)
    assert "█" in asked.out
    again = defray("ask", "-", "--json", stdin=FILE).json
    assert [a["charged_rho"] for a in again["answers"]] == [0, 0, 0]
    assert defray("history", "--limit", "1", "--json").json["total"] == 2


@pytest.mark.long
def test_a_validity_is_priced_shown_and_counted(defray: Any) -> None:
    quoted = defray("quote", FORTIES, "--within", "20", "--validity", "anytime")
    assert "VALIDITY ANYTIME\nvalid whenever you stop asking this question" in quoted.out
    for within in ("30", "20"):
        asked = defray("ask", FORTIES, "--within", within, "--validity", "anytime")
        assert asked.code == 0
    assert "valid whenever you stop asking" in asked.out
    assert "asks so far: 2" in asked.out
    refused = defray("ask", f"{FORTIES} ERROR WITHIN 5 VALIDITY LOOKS 2", "--json")
    assert refused.code == 3
    assert refused.json["error"]["code"] == "too-many-looks"
    confirmed = defray("ask", FORTIES, "--within", "20", "--validity", "confirm", "--json").json
    assert confirmed["asks_so_far"] == confirmed["rows"][0]["asks"] == 1
    assert confirmed["validity"].startswith("valid whatever was asked before")
    (defray.folder / "q.sql").write_text(f"{FORTIES} ERROR WITHIN 20 VALIDITY ANYTIME;" * 2)
    listed = defray("quote", "q.sql", "--validity", "confirm")
    assert listed.code == 2
    assert "q.sql, line 1 (question 1): the validity is given twice" in listed.err
    assert defray("quote", "q.sql").out.count("valid whenever you stop") == 1
    assert defray("audit").code == 0


def test_a_file_with_a_mistake_costs_nothing_and_says_where(defray: Any) -> None:
    (defray.folder / "q.sql").write_text(
        FILE + "SELECT COUNT(*) FROM people\nWHERE age = 'x'\nERROR WITHIN 10;\n"
    )
    for command in ("quote", "ask"):
        said = defray(command, "q.sql")
        assert said.code == 2
        assert "q.sql, line 5 (question 4): " in said.err
        assert "    WHERE age = 'x'\n                ^^^" in said.err
    document = defray("ask", "q.sql", "--json").json
    assert document["error"]["code"] == "query-refused"
    assert defray("balance", "--json").json["spent_rho"] == 0


def test_a_file_stops_where_the_budget_ends(defray: Any) -> None:
    (defray.folder / "q.sql").write_text(FILE + "SELECT COUNT(*) FROM people ERROR WITHIN 0.01;\n")
    document = defray("ask", "q.sql", "--json").json
    assert len(document["answers"]) == 3
    assert document["error"]["code"] == "budget-exceeded"


def test_sql_from_stdin_is_one_question(shared: Any) -> None:
    said = shared("ask", "-", "--within", "20", "--json", stdin="SELECT COUNT(*) FROM people;\n")
    assert said.json["charged_rho"] == 0
    assert said.json["rows"][0]["aggregate"] == "count"


def test_errors_of_sql_have_a_caret(shared: Any) -> None:
    said = shared("ask", "SELECT MAX(age) FROM people", "--within", "5")
    assert said.code == 2
    assert said.out == ""
    assert "    SELECT MAX(age) FROM people\n           ^^^" in said.err
    error = shared("ask", "SELECT MAX(age) FROM people", "--within", "5", "--json").json["error"]
    assert error["code"] == "query-refused"
    assert error["caret"].endswith("       ^^^")


def test_within_by_name(shared: Any) -> None:
    sql = "SELECT COUNT(*) AS n, SUM(income) AS s FROM people"
    said = shared("quote", sql, "--within", "n=20", "--within", "s=500000", "--json")
    assert said.json["question"].endswith("ERROR WITHIN 20 FOR n, 500000 FOR s AT CONFIDENCE 95%")


def test_dearer_than_max_rho_is_refused(shared: Any) -> None:
    said = shared("ask", FORTIES, "--within", "10", "--max-rho", "0.001")
    assert said.code == 3
    assert "--max-rho" in said.err


def test_missing_data(defray: Any) -> None:
    (defray.folder / "people.csv").unlink()
    said = defray("ask", FORTIES, "--within", "10", "--json")
    assert said.code == 4
    assert said.json["error"]["code"] == "source-unavailable"


def test_a_contract_by_name_or_environment(shared: Any) -> None:
    elsewhere = {"DEFRAY_CONTRACT": str(shared.folder / "contract.toml")}
    other = type(shared)(shared.folder.parent)
    assert other("check").code == 2
    assert other("check", env=elsewhere).code == 0
    assert other("history", "-c", elsewhere["DEFRAY_CONTRACT"]).code == 0


def test_every_mistake_of_a_contract(defray: Any) -> None:
    path = defray.folder / "contract.toml"
    path.write_text(
        path.read_text().replace("rho = 1\n", "rho = -1\n").replace("min = 0", "mn = 0")
    )
    said = defray("check", "contract.toml")
    assert said.code == 2
    assert "line 2: rho:" in said.err
    assert "mn" in said.err
    assert len(defray("check", "--json").json["error"]["problems"]) >= 3


@pytest.mark.long
def test_backup_and_close(defray: Any) -> None:
    assert defray("ledger", "backup", "copy.ledger").code == 5  # there is none yet
    defray("ask", FORTIES, "--within", "10")
    assert defray("ledger", "backup", "copy.ledger").code == 0
    assert defray("ledger", "backup", "copy.ledger").code == 5  # never overwritten
    with sqlite3.connect(defray.folder / "copy.ledger") as copy:
        assert copy.execute("SELECT count(*) FROM entries").fetchone() == (3,)

    assert defray("close").code == 2
    certificate = defray("close", "--yes", "--json").json
    assert certificate["entries"] == 4
    assert "charged 0 rho" in defray("ask", FORTIES, "--within", "10").out  # known, so still free
    late = defray("ask", FORTIES, "--within", "5")
    assert late.code == 5
    assert "closed" in late.err


def test_an_audit_that_finds_something_fails(defray: Any) -> None:
    defray("ask", FORTIES, "--within", "10")
    with sqlite3.connect(defray.folder / "contract.ledger") as ledger:
        for (trigger,) in ledger.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall():
            ledger.execute(f'DROP TRIGGER "{trigger}"')
        ledger.execute("UPDATE totals SET quanta = 0")
    said = defray("audit", "--json")
    assert said.code == 5
    assert not said.json["ok"]
    assert said.json["findings"]


def test_colour_is_for_terminals_only(shared: Any) -> None:
    forced = {"FORCE_COLOR": "1"}
    question = ("ask", "SELECT COUNT(*) FROM people", "--within", "20")
    assert "\x1b[" not in shared(*question).out
    assert "\x1b[" in shared(*question, env=forced).out
    assert "\x1b[" not in shared(*question, env={**forced, "NO_COLOR": "1"}).out


def test_a_terminal_without_unicode(shared: Any) -> None:
    said = shared("ask", "SELECT COUNT(*) FROM people", "--within", "20",
                  env={"PYTHONIOENCODING": "ascii"})  # fmt: skip
    assert "+/- 20" in said.out


def test_a_reader_that_leaves_early(shared: Any) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "defray", "history"],
        cwd=shared.folder,
        env=shared.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    with process:
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_a_dry_run_says_what_it_is_and_costs_nothing(bare: Any) -> None:
    (bare.folder / "contract.toml").write_text(WRITTEN)
    (bare.folder / "people.csv").unlink()  # there is no data yet
    told = bare("ask", BY_SEX, "--within", "5", "--dry-run")
    assert told.code == 0
    assert told.out.splitlines()[0] == DRY_RUN
    assert "nothing was charged" in told.out
    machine = bare("ask", BY_SEX, "--within", "5", "--dry-run", "--json").json
    assert machine["dry_run"] is True
    (bare.folder / "asks.sql").write_text(FILE)
    assert bare("ask", "asks.sql", "--dry-run").out.count(f"{DRY_RUN}\n") >= 3
    assert bare("history", "--json").json["asks"] == []
    assert bare("ask", "SELECT COUNT(*) FROM nobody", "--within", "5", "--dry-run").code == 2
