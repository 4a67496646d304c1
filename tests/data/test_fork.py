"""A source in the child of a fork: it reads anew, and the parent goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
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


KINDS = ("csv", "parquet", "duckdb", "unit")


def write(kind: str, folder: Path) -> None:
    """The rows of :func:`source_of`."""
    if kind == "duckdb":
        with duckdb.connect(str(folder / "people.duckdb")) as connection:
            connection.execute(f"CREATE TABLE people AS {ROWS}")
    elif kind == "csv":
        with duckdb.connect() as connection:
            connection.execute(f"COPY ({ROWS}) TO '{folder / 'people.csv'}' (HEADER)")
    else:
        parquet(folder / "people.parquet", ROWS)


def source_of(kind: str, folder: Path) -> DuckDBSource:
    """A source of that kind, or one that keeps two rows of each unit."""
    unit = Unit("person", 2) if kind == "unit" else None
    kind = "parquet" if kind == "unit" else kind
    return DuckDBSource(contract(folder, SourceSpec(kind, f"people.{kind}"), unit=unit), SECRET)


@pytest.fixture(params=KINDS)
def source(request: pytest.FixtureRequest, tmp_path: Path) -> DuckDBSource:
    write(request.param, tmp_path)
    return source_of(request.param, tmp_path)


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


PROGRAM = """
import os, sys
from pathlib import Path
from tests.data.test_fork import SCAN, source_of

source = source_of(sys.argv[1], Path(sys.argv[2]))
rows = source.scan(SCAN).rows
child = os.fork()
same = source.scan(SCAN).rows == rows
status = os.waitpid(child, 0)[1] if child else 0
sys.exit(0 if same and status == 0 else 1)
"""


@pytest.mark.parametrize("kind", KINDS)
def test_a_child_that_ends_as_programs_do(kind: str, tmp_path: Path) -> None:
    """With finalizers and all: what is inherited is not closed at the end either."""
    write(kind, tmp_path)
    command = [sys.executable, "-c", PROGRAM, kind, str(tmp_path)]
    subprocess.run(command, check=True, timeout=60, cwd=Path(__file__).parents[2])
