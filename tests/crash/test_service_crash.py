"""A real server, killed while many ask, and started again: nobody pays twice, nothing told is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.served import prepared
from benchmarks.service import campaign, truths
from tests.postgresql.server import Server, ledger_section, new_server

pytestmark = pytest.mark.crash


def stormy(
    folder: Path,
    support: str,
    *,
    asks: int,
    kills: int,
    seconds: float,
    servers: int = 1,
    database: Server | None = None,
) -> None:
    section = "" if database is None else ledger_section(database.dsn())
    contract, tokens = prepared(folder, support, section)
    tally, killed = campaign(
        contract,
        tokens,
        asks=asks,
        kills=kills,
        seconds=seconds,
        clients=16,
        servers=servers,
        database=database,
    )
    assert tally.done == asks, tally.failed
    assert killed > 0
    wrong = [figure for figure in truths(contract, tokens, tally) if not figure.met]
    assert not wrong


@pytest.mark.long
@pytest.mark.parametrize(
    ("ledger", "servers"),
    [
        ("sqlite", 1),
        pytest.param("sqlite", 2, marks=pytest.mark.slow),
        pytest.param("postgresql", 1, marks=pytest.mark.slow),
        ("postgresql", 2),
    ],
)
def test_servers_that_are_killed_while_many_ask(tmp_path: Path, ledger: str, servers: int):
    """The database of the ledger is killed as well, where there is one."""
    database = None if ledger == "sqlite" else new_server()
    stormy(tmp_path, "exact", asks=80, kills=3, seconds=0.5, servers=servers, database=database)


@pytest.mark.slow
@pytest.mark.parametrize(("support", "asks", "seconds"), [("exact", 1500, 2), ("linear", 400, 5)])
def test_a_server_that_is_killed_again_and_again(
    tmp_path: Path, support: str, asks: int, seconds: float
):
    stormy(tmp_path, support, asks=asks, kills=12, seconds=seconds)


@pytest.mark.slow
def test_two_servers_and_their_database_that_are_killed_again_and_again(tmp_path: Path):
    stormy(tmp_path, "exact", asks=1500, kills=20, seconds=2, servers=2, database=new_server())
