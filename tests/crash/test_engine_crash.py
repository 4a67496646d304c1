"""kill -9 at every stage of an ask: nothing is overspent, nothing released is lost, nothing hangs.

A real process asks one question after another.  It announces each stage (scan, before, during and after
the commit, reply) and lingers there; the parent kills it at a stage, at a random moment of it.  Then the
same questions are asked again: what had been committed comes back unchanged and free.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.postgresql.server import ledger_section
from tests.tables import COLUMNS, open_session, write_contract, write_people

STAGES = ("scan", "before-commit", "during-commit", "after-commit", "reply")
TOP = "rho = 2\nsupport = 'exact'"

WORKER = """
import contextlib, json, sys, time
from pathlib import Path
from tests.tables import open_session

contract, round_, linger = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])

def stage(name):
    print(json.dumps({"stage": name}), flush=True)
    time.sleep(linger)

session = open_session(contract)
engine = session._engine
source, ledger = engine._source, engine.ledger
scan, transaction = source.scan, ledger.transaction

def slow_scan(*args):
    stage("scan")
    return scan(*args)

@contextlib.contextmanager
def watched():
    with transaction() as tx:
        yield tx
        stage("before-commit")
        print(json.dumps({"stage": "during-commit"}), flush=True)
    stage("after-commit")

source.scan, ledger.transaction = slow_scan, watched
for n in range(4):
    sql = f"SELECT COUNT(*) FROM people WHERE age >= {n} AND age <> {round_ % 80 + 10}"
    answer = session.ask(sql, within=60)
    print(json.dumps({"stage": "reply", "sql": sql, "value": answer.value}), flush=True)
"""


def one_round(contract: Path, number: int, rng: random.Random) -> dict[str, float]:
    """Kill a worker at a random stage and moment; returns the answers it got to say."""
    target = STAGES[number % len(STAGES)]
    linger = 0.004
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(contract), str(number), str(linger)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert worker.stdout is not None
    said: dict[str, float] = {}
    skip = rng.randrange(4)
    for line in worker.stdout:
        event = json.loads(line)
        if "sql" in event:
            said[event["sql"]] = event["value"]
        if event["stage"] == target:
            if skip == 0:
                time.sleep(rng.random() * linger * 1.5)
                worker.kill()
                break
            skip -= 1
    for line in worker.stdout:
        event = json.loads(line)
        if "sql" in event:
            said[event["sql"]] = event["value"]
    worker.wait(timeout=60)
    assert worker.returncode in (0, -9), worker.stderr.read() if worker.stderr else ""
    return said


def campaign(folder: Path, rounds: int, seed: int, ledger: str = "") -> None:
    write_people(folder)
    contract = write_contract(folder, TOP, columns=ledger + COLUMNS)
    rng = random.Random(seed)
    for number in range(rounds):
        said = one_round(contract, number, rng)
        with open_session(contract) as session:
            started = time.monotonic()
            report = session.audit()
            assert report.ok, report.findings
            balance = session.balance()
            assert balance["spent_rho"] <= 2
            committed = {e["question"]: e["charged_rho"] for e in session.history()}
            assert balance["spent_rho"] == pytest.approx(sum(committed.values()))
            for sql, value in said.items():
                again = session.ask(sql, within=60)
                assert again.value == value
                assert again.charged_rho == 0
            for question in committed:
                assert session.ask(question).charged_rho == 0
            assert time.monotonic() - started < 20  # no lock was left behind


@pytest.mark.crash
def test_killed_at_every_stage(tmp_path: Path):
    campaign(tmp_path, 12, seed=1)


@pytest.mark.slow
@pytest.mark.crash
def test_killed_at_every_stage_of_an_ask_of_a_ledger_in_a_database(tmp_path: Path):
    campaign(tmp_path, 15, seed=3, ledger=ledger_section())


@pytest.mark.crash
@pytest.mark.slow
def test_two_hundred_kills(tmp_path: Path):
    campaign(tmp_path, 200, seed=2)
