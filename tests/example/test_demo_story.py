"""The demonstration tells its story: each scene shows what it says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import defray
from defray.core.answer import Answer
from defray.errors import BudgetRefused, QueryError
from defray.example import open_demo
from defray.example.story import STORY, Told, tell
from defray.session import Session

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with open_demo() as opened:
        yield opened


@pytest.fixture(scope="module")
def told(session: Session) -> list[Told]:
    begun = time.monotonic()
    scenes = list(tell(session))
    assert time.monotonic() - begun < 20
    return scenes


def answer(told: list[Told], number: int) -> Answer:
    outcome = told[number - 1].outcome
    assert isinstance(outcome, Answer)
    return outcome


def test_ten_scenes_and_a_running_total(told: list[Told]) -> None:
    assert len(told) == len(STORY) == 10
    charges = [t.outcome.charged_rho if isinstance(t.outcome, Answer) else 0.0 for t in told]
    assert told[-1].spent_rho == pytest.approx(sum(charges))


def test_repeats_of_any_spelling_are_free(told: list[Told]) -> None:
    first, second = answer(told, 1), answer(told, 2)
    assert first.charged_rho > 0 == first.reused_rho
    assert (second.charged_rho, second.value) == (0, first.value)
    assert second.question == first.question


def test_more_accuracy_costs_the_difference(told: list[Told]) -> None:
    first, third = answer(told, 1), answer(told, 3)
    assert third.reused_rho == pytest.approx(first.charged_rho)
    assert third.charged_rho == pytest.approx(
        3 * first.charged_rho
    )  # within 50 costs four times 100
    assert third.half_width <= 50


def test_less_accuracy_is_free_and_keeps_the_tighter_interval(told: list[Told]) -> None:
    assert answer(told, 4).charged_rho == 0
    assert answer(told, 4).half_width <= 50


def test_groups_cost_one_charge_and_each_is_known_afterwards(told: list[Told]) -> None:
    table, cell = answer(told, 5), answer(told, 6)
    assert {row.group["plan"] for row in table} == {"free", "25%", "50%", "95%", "deductible"}
    assert table.charged_rho == pytest.approx(max(row.charged_rho for row in table))
    assert cell.charged_rho == 0
    assert cell.value in [row.value for row in table]


def test_averages_use_the_counts_that_are_known(told: list[Told]) -> None:
    averages = answer(told, 7)
    assert all(row.reused_rho > 0 and row.met for row in averages)
    assert all(row.half_width <= 0.6 for row in averages)


def test_a_percentage_uses_the_diagnostic_purse(told: list[Told], session: Session) -> None:
    relative = answer(told, 8)
    assert relative.met
    assert relative.value is not None
    assert relative.half_width <= 0.05 * abs(relative.value) * 1.1
    assert session.balance()["diagnostic"]["spent_rho"] > 0


def test_refusals(told: list[Told]) -> None:
    unsupported, dear = told[8].outcome, told[9].outcome
    assert isinstance(unsupported, QueryError)
    assert "MAX" in unsupported.caret()
    assert isinstance(dear, BudgetRefused)
    assert dear.context["best"]["count"]


def test_the_books_agree(told: list[Told], session: Session) -> None:
    balance = session.balance()
    assert 0 < balance["spent_rho"] <= told[-1].spent_rho  # what the dearest cell paid
    assert balance["spent_rho"] < balance["rho"] / 2  # enough is left to go on playing
    assert session.audit().ok


def test_the_demo_can_be_opened_again_and_again() -> None:
    for _ in range(2):
        with defray.demo() as opened:
            assert opened.balance()["spent_rho"] == 0


@pytest.mark.long
def test_the_command(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "utf-8"}

    def type_in(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "defray", *words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
        )

    shown = type_in("demo", "--keep", "kept")
    assert shown.returncode == 0, shown.stderr
    for scene in STORY:
        assert scene.title in shown.stdout
    for words in ("credited", "free", "^^^", "best accuracy that still fits", "nothing wrong"):
        assert words in shown.stdout
    again = type_in("ask", "-c", "kept/contract.toml", STORY[0].sql, "--within", "100", "--json")
    assert json.loads(again.stdout)["charged_rho"] == 0
    refused = type_in("demo", "--keep", "kept")
    assert refused.returncode == 2
    assert "not empty" in refused.stderr
    document = json.loads(type_in("demo", "--json").stdout)
    assert len(document["scenes"]) == 10
    assert document["audit"]["ok"]
