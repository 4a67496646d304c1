"""Small tables and contracts for the tests of file sources."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb

from defray.core.column import Column
from defray.core.contract import Contract, SourceSpec, Unit
from defray.core.domain import Domain
from defray.core.shapes import Values, Whole
from defray.data.duckdb.source import DuckDBSource

SECRET = bytes(range(32))
AGE = Column(
    "age", "integer", Whole(0, 120), bounds=(Fraction(0), Fraction(100)), unit_step=Fraction(1)
)
SEX = Column("sex", "string", Values(("F", "M")))


def contract(
    folder: Path, spec: SourceSpec, *columns: Column, unit: Unit | None = None
) -> Contract:
    domain = Domain(tuple(sorted(columns or (AGE, SEX), key=lambda c: c.name)))
    return Contract("people", Fraction(1), unit or Unit(), spec, domain, folder)


def csv_source(folder: Path, text: str | bytes, *columns: Column, **options: Any) -> DuckDBSource:
    data = text.encode() if isinstance(text, str) else text
    (folder / "people.csv").write_bytes(data)
    spec = SourceSpec("csv", "people.csv", options=options)
    return DuckDBSource(contract(folder, spec, *columns), SECRET)


def parquet(path: Path, select: str) -> None:
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({select}) TO '{path}' (FORMAT parquet)")
