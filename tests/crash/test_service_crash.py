"""A real server, killed while many ask, and started again: nobody pays twice, nothing told is lost."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from benchmarks.served import Served, load, mixed, prepared
from benchmarks.service import campaign, truths
from tests.postgresql.server import ledger_section, new_server

pytestmark = pytest.mark.crash


def stormy(
    folder: Path, support: str, *, asks: int, kills: int, seconds: float, ledger: str = ""
) -> None:
    contract, tokens = prepared(folder, support, ledger)
    tally, killed = campaign(contract, tokens, asks=asks, kills=kills, seconds=seconds, clients=16)
    assert tally.done == asks, tally.failed
    assert killed > 0
    wrong = [figure for figure in truths(contract, tokens, tally) if not figure.met]
    assert not wrong


def test_a_server_that_is_killed_while_many_ask(tmp_path: Path):
    stormy(tmp_path, "exact", asks=150, kills=3, seconds=0.3)


def test_a_server_that_is_killed_while_its_ledger_is_in_a_database(tmp_path: Path):
    stormy(tmp_path, "exact", asks=150, kills=3, seconds=0.3, ledger=ledger_section())


@pytest.mark.slow
@pytest.mark.parametrize(("support", "asks", "seconds"), [("exact", 1500, 2), ("linear", 400, 5)])
def test_a_server_that_is_killed_again_and_again(
    tmp_path: Path, support: str, asks: int, seconds: float
):
    stormy(tmp_path, support, asks=asks, kills=12, seconds=seconds)


@pytest.mark.slow
def test_a_database_that_stops_under_a_service(tmp_path: Path):
    """It goes on by itself once the database is back, and what was told is in the ledger."""
    database = new_server()
    contract, tokens = prepared(tmp_path, "exact", ledger_section(database.dsn()))
    over = threading.Event()
    stops = 0

    def stopping() -> None:
        nonlocal stops
        while stops < 4 and not over.wait(1.0):
            database.stop("immediate")
            database.start()
            stops += 1

    served = Served(contract)
    with served.running():
        stopper = threading.Thread(target=stopping)
        stopper.start()
        try:
            tally = load(served, tokens, lambda so_far: mixed(400, so_far), 16)
        finally:
            over.set()
            stopper.join()
    assert tally.done == 400, tally.failed
    assert stops > 0
    wrong = [figure for figure in truths(contract, tokens, tally) if not figure.met]
    assert not wrong
