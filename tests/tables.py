"""Small real tables and contracts over them, for tests that go through the whole engine."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import duckdb

from defray.config.opening import wire
from defray.config.reader import read_contract
from defray.data.source import Control, Exact, Scan, Source
from defray.session import Session
from tests.spark import OPTIONS

PEOPLE = """
    SELECT i AS id,
           (i * 7919) % 91 AS age,
           CASE WHEN i % 20 = 0 THEN NULL WHEN i % 2 = 0 THEN 'F' ELSE 'M' END AS sex,
           (i * 104729) % 100001 AS income,
           i // 3 AS person
    FROM range({rows}) t(i)
"""

COLUMNS = """
[columns.age]
type = "integer"
min = 0
max = 120

[columns.sex]
type = "string"
values = ["F", "M"]

[columns.income]
type = "integer"
bounds = [0, 100000]
unit_step = 100
"""


def write_people(folder: Path, rows: int = 10_000, name: str = "people.parquet") -> Path:
    path = folder / name
    duckdb.sql(f"COPY ({PEOPLE.format(rows=rows)}) TO '{path}'")
    return path


def write_contract(
    folder: Path, top: str = "rho = 1", *, columns: str = COLUMNS, **source: str
) -> Path:
    """A contract over ``people.parquet`` in the folder; ``top`` are its first lines."""
    kind = source.get("kind", "parquet")
    data = source.get("path", "people.parquet")
    text = f'version = 1\ntable = "people"\n{top}\n\n[source]\nkind = "{kind}"\npath = "{data}"\n'
    path = folder / "contract.toml"
    path.write_text(text + columns)
    return path


def write_spark_contract(folder: Path, top: str = "rho = 1") -> Path:
    """The same through Spark, with what makes it quick."""
    path = write_contract(folder, top, kind="spark")
    lines = (f'"{key.removeprefix("spark.")}" = "{value}"' for key, value in OPTIONS.items())
    path.write_text(path.read_text() + "\n[source.spark]\n" + "\n".join(lines) + "\n")
    return path


def people(folder: Path, top: str = "rho = 1", rows: int = 10_000) -> Session:
    """A session over a fresh ledger and ``rows`` people."""
    if not (folder / "people.parquet").exists():
        write_people(folder, rows)
    return open_session(write_contract(folder, top))


def open_session(contract: Path, source: Source | None = None) -> Session:
    return Session(wire(read_contract(contract), source=source))


class Slow:
    """A real source whose scans take longer: it widens the window of a race."""

    def __init__(self, source: Source, seconds: float) -> None:
        self.source = source
        self.seconds = seconds

    def fingerprint(self) -> str:
        return self.source.fingerprint()

    def scan(self, scan: Scan, control: Control | None = None) -> Exact:
        time.sleep(self.seconds)
        return self.source.scan(scan, control)

    def close(self) -> None:
        self.source.close()


def slow_session(contract: Path, seconds: float) -> Session:
    session = open_session(contract)
    engine: Any = session._engine
    engine._source = Slow(engine._source, seconds)
    return session
