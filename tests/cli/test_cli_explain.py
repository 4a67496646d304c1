"""Looking into the books on the command line: explain, balance --by, history --refresh."""

from __future__ import annotations

from typing import Any

import pytest

SEXES = "SELECT sex, COUNT(*) FROM people GROUP BY sex"
FORTIES = "SELECT COUNT(*) FROM people WHERE age >= 40"


@pytest.fixture(scope="module")
def told(shared: Any) -> Any:
    for sql, within in ((SEXES, "20"), (FORTIES, "20"), (FORTIES, "15")):
        assert shared("ask", sql, "--within", within).code == 0
    return shared


def test_an_answer_is_explained_in_words_and_as_json(told: Any) -> None:
    *_, last = told("history", "--json").json["asks"]
    explained = told("explain", last["id"], "--json").json
    assert 0 < explained["paid_before"] < 1
    assert explained["bought"] == [r["id"] for r in last["releases"]]
    assert explained["charged_rho"] == last["charged_rho"]
    words = told("explain", last["id"])
    assert words.code == 0
    assert f"{explained['paid_before']:.0%}".replace("%", " %") in words.out
    for said in ("of this answer was already paid by", "the balance fell by", "█", "before", "now"):
        assert said in words.out
    ascii_only = told("explain", last["id"], env={"PYTHONIOENCODING": "ascii"})
    assert "####" in ascii_only.out
    row = explained["rows"][0]
    assert sum(w["weight"] ** 2 * w["variance"] for p in row["parts"] for w in p["weights"]) == (
        pytest.approx(row["variance"])
    )


@pytest.mark.parametrize("name", ["4711", "x", "1"])
def test_an_unknown_answer_is_refused(told: Any, name: str) -> None:
    refused = told("explain", name, "--json")
    assert refused.code == 2
    assert refused.json["error"]["code"] == "not-found"
    assert "the history" in told("explain", name).err


def test_without_a_ledger_nothing_is_explained(defray: Any) -> None:
    assert defray("explain", "3").code == 5


def test_the_balance_by_a_column(told: Any) -> None:
    found = told("balance", "--by", "age", "--json").json
    assert found["by"]["column"] == "age"
    assert sum(v["values"] for v in found["by"]["values"]) == 101
    assert max(v["spent_rho"] for v in found["by"]["values"]) == found["answer"]["spent_rho"]
    words = told("balance", "--by", "age").out
    for said in ("by the dearest cell", "the least charged cell", "40 .. 99", "NULL"):
        assert said in words
    unknown = told("balance", "--by", "wage")
    assert unknown.code == 2
    assert "the columns are age, income, sex" in unknown.err


def test_the_balance_by_a_column_before_the_first_question(defray: Any) -> None:
    assert "0 .. 99" in defray("balance", "--by", "age").out
    assert not (defray.folder / "contract.ledger").exists()


def test_earlier_answers_as_they_are_known_now(told: Any) -> None:
    asks = told("history", "--refresh", "--json").json["asks"]
    (row,) = asks[-2]["rows"]
    assert row["then"]["half_width"] == pytest.approx(20, rel=1e-3)
    assert row["now"]["half_width"] == pytest.approx(15, rel=1e-3)
    words = told("history", "--refresh").out
    assert "then" in words
    assert "± 20" in words
    assert "then" not in told("history").out.splitlines()[0]
