"""A source in the child of a fork: it reads anew, and the parent goes on."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from defray.core.contract import SourceSpec, Unit
from defray.data.duckdb.source import DuckDBSource
from defray.data.source import Scan
from defray.query.descriptor import Axis
from defray.query.region import EVERYWHERE
from tests.data.people import SECRET, contract, parquet
from tests.ledger.forks import in_child

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")

SCAN = Scan(EVERYWHERE, (Axis(0),))
ROWS = (
    "SELECT i % 7 AS age, CASE WHEN i % 2 = 0 THEN 'F' ELSE 'M' END AS sex, i // 3 AS person"
    " FROM range(60000) t(i)"
)


@pytest.fixture(params=["csv", "parquet", "duckdb", "unit"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> DuckDBSource:
    kind = "parquet" if request.param == "unit" else request.param
    if kind == "duckdb":
        with duckdb.connect(str(tmp_path / "people.duckdb")) as connection:
            connection.execute(f"CREATE TABLE people AS {ROWS}")
    elif kind == "csv":
        with duckdb.connect() as connection:
            connection.execute(f"COPY ({ROWS}) TO '{tmp_path / 'people.csv'}' (HEADER)")
    else:
        parquet(tmp_path / "people.parquet", ROWS)
    unit = Unit("person", 2) if request.param == "unit" else None
    return DuckDBSource(contract(tmp_path, SourceSpec(kind, f"people.{kind}"), unit=unit), SECRET)


def child(run: Callable[[], object]) -> str:
    def limited() -> str:
        signal.alarm(30)
        return str(run())

    return in_child(limited)


def test_both_go_on_after_a_fork(source: DuckDBSource) -> None:
    rows = source.scan(SCAN).rows
    for _ in range(3):
        assert child(lambda: source.scan(SCAN).rows) == str(rows)
        assert source.scan(SCAN).rows == rows
    source.close()


def test_a_fork_before_the_first_scan(source: DuckDBSource) -> None:
    said = child(lambda: source.scan(SCAN).rows)
    assert said == str(source.scan(SCAN).rows)
    source.close()


def test_a_childs_child_and_closing_in_each(source: DuckDBSource) -> None:
    rows = source.scan(SCAN).rows

    def both() -> str:
        own = source.scan(SCAN).rows
        grandchild = child(lambda: (source.scan(SCAN).rows, source.close())[0])
        source.close()
        return f"{own} {grandchild}"

    assert child(both) == f"{rows} {rows}"
    assert child(source.close) == "None"
    assert source.scan(SCAN).rows == rows
    source.close()


@pytest.mark.long
def test_a_fork_while_other_threads_scan(source: DuckDBSource) -> None:
    rows = source.scan(SCAN).rows
    done = threading.Event()
    found: list[list[int]] = []

    def work() -> None:
        while not done.is_set():
            found.append(source.scan(SCAN).rows)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(8):
            assert child(lambda: source.scan(SCAN).rows) == str(rows)
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert all(f == rows for f in found)
    source.close()


def test_threads_of_the_child(source: DuckDBSource) -> None:
    rows = source.scan(SCAN).rows

    def many() -> bool:
        found: list[list[int]] = []
        threads = [
            threading.Thread(target=lambda: found.append(source.scan(SCAN).rows)) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return found == [rows] * 4

    assert child(many) == "True"
    source.close()


def test_a_child_that_ends_as_programs_do(source: DuckDBSource) -> None:
    """With finalizers and all: what is inherited is not closed at the end either."""
    rows = source.scan(SCAN).rows
    pid = os.fork()
    if pid == 0:
        signal.alarm(30)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(1, 2)
        import gc

        same = source.scan(SCAN).rows == rows
        del source
        gc.collect()
        os._exit(0 if same else 1)
    assert os.waitpid(pid, 0)[1] == 0
    source.close()
