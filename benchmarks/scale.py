"""``python -m benchmarks.scale``: how time and memory grow with the rows of a table, and with a ledger.

Each size is measured in a process of its own, whose largest memory is told.  Bounded by default; ``--full``
goes to 100 million rows (10 million in PostgreSQL) and a million releases, which takes some GB of disk and
minutes.  Tables lie under ``DEFRAY_BENCH_DIR`` (default ``./.bench``) and are made once.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
from rich.console import Console
from rich.table import Table

from benchmarks.postgresql import new_server
from benchmarks.table import once
from benchmarks.transcript import exact_demo, stretch
from defray.config.opening import open_contract

MILLION = 1_000_000
SIZES: dict[str, tuple[Sequence[int], Sequence[int]]] = {
    "duckdb": ((MILLION, 10 * MILLION), (MILLION, 10 * MILLION, 100 * MILLION)),
    "postgresql": ((MILLION // 10, MILLION), (MILLION, 10 * MILLION)),
    "spark": ((MILLION, 10 * MILLION), (MILLION, 10 * MILLION, 100 * MILLION)),
    "releases": ((1_000, 10_000, 100_000), (1_000, 10_000, 100_000, MILLION)),
    "overlaps": ((10, 100), (10, 100, 1_000)),
}
"""What grows, and how far: bounded, and in full."""

TITLES = {
    "duckdb": "rows of a Parquet file, through DuckDB",
    "postgresql": "rows of a table in PostgreSQL",
    "spark": "rows of a Parquet file, through Spark",
    "releases": "releases in a ledger, exact support",
    "overlaps": "questions that overlap, linear support",
}

SHOWN = {
    "open": "open",
    "first": "first ask",
    "fresh": "fresh ask",
    "grouped": "GROUP BY of 240",
    "engine": "the engine's own SQL",
    "repeat": "repeat",
    "memory": "largest memory",
}
"""What is measured of each size, in this order."""

CONTRACT = """version = 1
table = "people"
rho = 1
unit = "row"
{source}
[columns.age]
type = "integer"
min = 0
max = 119

[columns.sex]
type = "string"
values = ["F", "M"]
"""
COUNT = "SELECT COUNT(*) FROM people WHERE age BETWEEN {low} AND {high}"
GROUPED = "SELECT age, sex, COUNT(*) FROM people GROUP BY age, sex"
PEOPLE = (
    "SELECT CAST((i * 7919) % 119 AS INTEGER) AS age, CASE WHEN i % 20 = 0 THEN NULL"
    " WHEN i % 2 = 0 THEN 'F' ELSE 'M' END AS sex, CAST(i AS BIGINT) AS id"
)

Raw = Callable[[str], object]
"""Runs a statement of the engine's own."""


def parquet(rows: int) -> Path:
    """A Parquet file of so many people, made on first use."""
    folder = Path(os.environ.get("DEFRAY_BENCH_DIR", ".bench")).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"people-{rows}.parquet"
    if not path.exists():
        part = path.with_suffix(".part")
        with duckdb.connect() as sql:
            sql.execute("SET enable_progress_bar = false")
            sql.execute(f"COPY ({PEOPLE} FROM range({rows}) t(i)) TO '{part}' (FORMAT parquet)")
        part.rename(path)
    return path


@contextmanager
def in_duckdb(rows: int) -> Iterator[tuple[str, Raw]]:
    path = parquet(rows)
    with duckdb.connect() as sql:
        sql.execute(f"CREATE VIEW people AS SELECT * FROM read_parquet('{path}')")
        yield (
            f'[source]\nkind = "parquet"\npath = "{path}"\n',
            lambda text: sql.execute(text).fetchall(),
        )


@contextmanager
def in_postgresql(rows: int) -> Iterator[tuple[str, Raw]]:
    import psycopg

    server = new_server()
    with psycopg.connect(server.dsn(), autocommit=True) as sql:
        sql.execute(
            f"CREATE TABLE people AS {PEOPLE} FROM generate_series(0::bigint, {rows - 1}) t(i)"
        )
        sql.execute("VACUUM ANALYZE people")
        yield (
            f'[source]\nkind = "postgresql"\ndsn = "{server.dsn()}"\n'
            'table = "public.people"\ndata_version = "1"\n',
            lambda text: sql.execute(text).fetchall(),
        )


@contextmanager
def in_spark(rows: int) -> Iterator[tuple[str, Raw]]:
    from pyspark.sql import SparkSession

    path = parquet(rows)

    def raw(text: str) -> object:
        spark = SparkSession.getActiveSession()  # the one that Defray made
        assert spark is not None
        spark.read.parquet(str(path)).createOrReplaceTempView("people")
        return spark.sql(text).collect()

    yield f'[source]\nkind = "spark"\npath = "{path}"\n', raw


TABLES = {"duckdb": in_duckdb, "postgresql": in_postgresql, "spark": in_spark}


def of_table(kind: str, rows: int) -> dict[str, float]:
    """The seconds that each thing takes over so many rows."""
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder, TABLES[kind](rows) as (source, raw):
        contract = Path(folder) / "contract.toml"
        contract.write_text(CONTRACT.format(source=source))
        opened: list[Any] = []
        found["open"] = once(lambda: opened.append(open_contract(contract)))
        with opened[0] as session:
            within = max(rows // 1000, 400)
            asks = [COUNT.format(low=low, high=high) for low, high in ((20, 39), (5, 7), (61, 90))]
            taken = [once(lambda sql=sql: session.ask(sql, within=within)) for sql in asks]
            found["first"], found["fresh"] = taken[0], statistics.median(taken[1:])
            found["grouped"] = once(lambda: session.ask(GROUPED, within=within))
            raw(asks[0])
            found["engine"] = statistics.median(once(lambda sql=sql: raw(sql)) for sql in asks)
            found["repeat"] = statistics.median(
                once(lambda: session.ask(asks[0], within=within)) for _ in range(20)
            )
    return found


def of_releases(count: int) -> dict[str, float]:
    """The seconds that each thing takes after so many releases, with exact support."""
    sql = "SELECT COUNT(*) FROM randhie WHERE age >= {n} ERROR WITHIN 3000"
    with tempfile.TemporaryDirectory() as folder:
        with exact_demo(Path(folder)) as session:
            session.ask(sql.format(n=30))
            stretch(session, count)
        return after(Path(folder) / "contract.toml", [sql.format(n=n) for n in range(31, 37)])


def of_overlaps(count: int) -> dict[str, float]:
    """The same after so many different questions that overlap, with linear support."""
    with tempfile.TemporaryDirectory() as folder:
        contract = Path(folder) / "contract.toml"
        source = f'[source]\nkind = "parquet"\npath = "{parquet(MILLION)}"\n'
        contract.write_text(CONTRACT.format(source=source))
        ranges = [(low, high) for low in range(120) for high in range(low, 120)]
        random.Random(1).shuffle(ranges)
        asks = [
            f"{COUNT.format(low=low, high=high)} ERROR WITHIN {30_000 // (1 + n // 100)}"
            for n, (low, high) in enumerate(ranges[: count + 6])
        ]
        with open_contract(contract) as session:
            for sql in asks[:count]:
                session.ask(sql)
        return after(contract, asks[count:])


def after(contract: Path, asks: Sequence[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    opened: list[Any] = []
    found["open"] = once(lambda: opened.append(open_contract(contract)))
    with opened[0] as session:
        taken = [once(lambda sql=sql: session.ask(sql)) for sql in asks]
        found["first"], found["fresh"] = taken[0], statistics.median(taken[1:])
        found["repeat"] = statistics.median(once(lambda: session.ask(asks[0])) for _ in range(20))
    return found


def measured(kind: str, size: int) -> dict[str, Any]:
    """In a process of its own; what went wrong where nothing was measured."""
    command = [sys.executable, "-m", "benchmarks.scale", "--one", kind, str(size)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return {"failed": (done.stderr.strip().splitlines() or ["ended"])[-1]}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def one(kind: str, size: int) -> dict[str, float]:
    match kind:
        case "releases":
            found = of_releases(size)
        case "overlaps":
            found = of_overlaps(size)
        case _:
            found = of_table(kind, size)
    kib = max(
        resource.getrusage(who).ru_maxrss
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return {**found, "memory": kib / 1024}


def show(kind: str, found: dict[int, dict[str, Any]]) -> None:
    table = Table(title=TITLES[kind], title_justify="left")
    table.add_column("")
    for size in found:
        table.add_column(f"{size:,}", justify="right")
    for key, name in SHOWN.items():
        cells = [told(key, figures.get(key)) for figures in found.values()]
        if any(cells):
            table.add_row(name, *cells)
    failed = [figures["failed"] for figures in found.values() if "failed" in figures]
    Console(width=130).print(table, *failed)


def told(key: str, figure: float | None) -> str:
    if figure is None:
        return ""
    if key == "memory":
        return f"{figure:,.0f} MiB"
    return f"{figure:.2f} s" if figure >= 1 else f"{figure * 1000:.1f} ms"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="as far as the largest sizes")
    parser.add_argument("--kinds", default=",".join(SIZES), help="of " + ", ".join(SIZES))
    parser.add_argument("--one", nargs=2, metavar=("KIND", "SIZE"), help="one, as JSON")
    chosen = parser.parse_args()
    if chosen.one:
        print(json.dumps(one(chosen.one[0], int(chosen.one[1]))))
        return 0
    kinds, wrong = chosen.kinds.split(","), False
    if unknown := set(kinds) - set(SIZES):
        parser.error(f"no kind called {', '.join(sorted(unknown))}")
    for kind in kinds:
        found = {}
        for size in SIZES[kind][chosen.full]:
            print(f"{kind}, {size:,} ...", file=sys.stderr, flush=True)
            found[size] = measured(kind, size)
        wrong = wrong or any("failed" in figures for figures in found.values())
        show(kind, found)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
