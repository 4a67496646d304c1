"""Where the curator sees what was promised: check and balance."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from defray.cli import main
from defray.cli.books import promise_in_words
from tests.tables import write_contract, write_people

PROMISE = """
[[promise]]
columns = ["age"]
kind = "ranges"
within = 50
"""


def written(folder: Path, rho: float) -> str:
    write_people(folder, 1000)
    path = write_contract(folder, f"rho = {rho}")
    path.write_text(path.read_text() + PROMISE)
    return str(path)


def test_check_and_balance_say_what_is_held_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, 1)
    assert main(["check", "--contract", path, "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["promises"]
    assert promise_in_words(one) == "ranges of age within 50 at 95 %"
    assert one["needs_rho"] == one["holds_rho"] > 0.005
    assert main(["check", "--contract", path]) == 0
    assert "never refused ranges of age within 50 at 95 %: needs" in capsys.readouterr().out
    assert main(["balance", "--contract", path]) == 0
    assert "promised ranges of age within 50 at 95 %: holds back" in capsys.readouterr().out


def test_a_budget_that_is_too_small_is_a_mistake_of_the_contract(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, 0.001)
    for command in (["check"], ["quote", "SELECT COUNT(*) FROM people", "--within", "50"]):
        assert main([*command, "--contract", path]) == 2
        assert "ranges of age within 50 at 95% needs" in capsys.readouterr().err


def test_a_plan_says_what_promises_need_also_where_the_budget_is_too_small(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, 0.001)
    assert main(["plan", "--generate", "zipf:n=50", "--contract", path]) == 0
    assert "promises ranges of age within 50 at 95 %: that needs 0.0" in (
        " ".join(capsys.readouterr().out.split())
    )
