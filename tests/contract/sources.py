"""The sources that the contract is tried on.  One more source is one more class in SOURCES."""

from __future__ import annotations

import csv
import datetime as dt
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, Protocol

import duckdb
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq

from defray.core.contract import Contract, SourceSpec, Unit
from defray.core.dates import EPOCH, MICROSECOND
from defray.core.domain import Domain
from defray.data.duckdb.source import DuckDBSource
from defray.data.postgresql.source import PostgresSource
from defray.data.source import Source
from defray.data.spark.source import SparkSource
from tests import spark
from tests.contract.nasty import POOLS, SECRET, UNITS
from tests.postgresql.server import new_schema, the_server

Rows = Sequence[Mapping[str, Any]]
COLUMNS: Final = (*POOLS, *UNITS, "visit", "mark")


class SourceUnderTest(Protocol):
    """A table that holds ``rows`` (of :mod:`tests.contract.nasty`), made in ``folder`` or elsewhere, and
    sources that read it."""

    trims: bool
    """Whether blanks around a text are no part of it."""

    def __init__(self, folder: Path, rows: Rows) -> None: ...

    def open(self, domain: Domain, unit: Unit) -> Source: ...


class _Files:
    trims = False

    def __init__(self, folder: Path, rows: Rows) -> None:
        self.folder = folder
        self.spec = self.write(rows)

    def write(self, rows: Rows) -> SourceSpec:
        raise NotImplementedError

    def open(self, domain: Domain, unit: Unit) -> Source:
        made = Contract("people", Fraction(1), unit, self.spec, domain, self.folder)
        return DuckDBSource(made, SECRET)


class CsvUnderTest(_Files):
    trims = True

    def write(self, rows: Rows) -> SourceSpec:
        with (self.folder / "people.csv").open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(COLUMNS)
            for i, row in enumerate(rows):
                writer.writerow([as_text(name, row.get(name), i) for name in COLUMNS])
        return SourceSpec("csv", "people.csv", options={"null": ["\\N"]})


class ParquetUnderTest(_Files):
    def write(self, rows: Rows) -> SourceSpec:
        pq.write_table(arrow(rows), self.folder / "people.parquet", row_group_size=100)
        return SourceSpec("parquet", "people.parquet")


class ManyParquetUnderTest(_Files):
    """Several files, whose columns stand in different orders."""

    def write(self, rows: Rows) -> SourceSpec:
        (self.folder / "part").mkdir()
        pq.write_table(arrow(rows[:100]), self.folder / "part" / "b.parquet")
        turned = arrow(rows[100:]).select(list(reversed(COLUMNS)))
        pq.write_table(turned, self.folder / "part" / "a.parquet")
        return SourceSpec("parquet", "part/*.parquet")


class DuckDBUnderTest(_Files):
    def write(self, rows: Rows) -> SourceSpec:
        plain = [(n, pa.string() if pa.types.is_dictionary(t) else t) for n, t in PHYSICAL.items()]
        base = arrow(rows).cast(pa.schema(plain))
        listed = ", ".join(
            "'" + v.replace("'", "''") + "'"
            for v in dict.fromkeys(POOLS['Text "More"'])
            if v is not None
        )
        with duckdb.connect(str(self.folder / "people.duckdb")) as connection:
            connection.register("base", base)
            connection.execute(
                f"CREATE TABLE people AS SELECT * REPLACE (CAST(huge AS HUGEINT) AS huge,"
                f' CAST("Text ""More""" AS ENUM({listed})) AS "Text ""More""") FROM base'
            )
        return SourceSpec("duckdb", "people.duckdb", "people")


# -- the rows as files hold them ------------------------------------------------------------------

PHYSICAL: Final[Mapping[str, pa.DataType]] = {
    "age": pa.int32(), "any": pa.float64(), "at": pa.timestamp("us", tz="Europe/Paris"),
    "bins": pa.float64(), "cuts": pa.float64(), "day": pa.date32(), "First.Third": pa.float64(),
    "flag": pa.bool_(), "flag_true": pa.int8(), "gone": pa.int64(), "grade": pa.uint8(),
    "huge": pa.decimal128(38, 0), "local": pa.timestamp("us"), "long": pa.int64(), "old": pa.date32(),
    "price": pa.decimal128(10, 2), "single": pa.float32(), "text": pa.string(),
    'Text "More"': pa.dictionary(pa.int32(), pa.string()), "whole": pa.float64(),
    "person": pa.int64(), "Name": pa.string(), "visit": pa.int32(), "mark": pa.string(),
}  # fmt: skip


def arrow(rows: Rows) -> pa.Table:
    columns = {}
    for name in COLUMNS:
        values = [row.get(name) for row in rows]
        if name == "flag_true":
            values = [None if v is None else int(v) for v in values]
        if name == "huge":
            values = [None if v is None else Decimal(v) for v in values]
        if name == "price":
            values = [None if v is None else v.quantize(Decimal("0.01")) for v in values]
        columns[name] = pa.array(values, PHYSICAL[name])
    return pa.table(columns)


POSTGRESQL: Final[Mapping[str, str]] = {
    "age": "integer", "any": "float8", "at": "timestamptz", "bins": "float8", "cuts": "float8",
    "day": "date", "First.Third": "float8", "flag": "boolean", "flag_true": "smallint", "gone": "bigint",
    "grade": "numeric", "huge": "numeric(38,0)", "local": "timestamp", "long": "bigint", "old": "date",
    "price": "numeric(10,2)", "single": "float4", "text": "text", 'Text "More"': "varchar(20)",
    "whole": "float8", "person": "bigint", "Name": "text", "visit": "integer", "mark": "text",
}  # fmt: skip


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


CYCLE = 146_097
"""Days of 400 years."""


def moment(micros: int) -> str:
    """``YYYY-MM-DD HH:MM:SS[.ffffff]``, of years beyond 9999 too."""
    day = 86_400 * 10**6
    cycles = max(0, micros // (CYCLE * day) - 10)
    shown = str(EPOCH + (micros - cycles * CYCLE * day) * MICROSECOND)
    return f"{int(shown[:4]) + 400 * cycles:04d}{shown[4:]}"


def as_text(name: str, value: Any, i: int) -> str:
    """One of the spellings that mean the value."""
    if value is None:
        texts = ("text", 'Text "More"', *UNITS, "mark")
        return "\\N" if i % 2 or name in texts else ("oops" if i % 4 else "")
    if name in ("day", "old"):
        return moment(value * 86_400 * 10**6)[:-9]
    if name == "local":
        return moment(value)
    if name == "at":
        hours = i % 3
        later = dt.timedelta(hours=hours) // MICROSECOND
        zone = f"+0{hours}:00" if hours else ""
        return f"{moment(value + later)}{zone}"
    if name.startswith("flag"):
        return (("false", "0", "F"), ("true", "1", "T"))[value][i % 3]
    if isinstance(value, float):
        return f" {value!r} " if i % 2 else repr(value)
    return str(value)


class PostgresUnderTest:
    """Column types that other databases do not have stand in for the plain ones."""

    trims = False

    def __init__(self, folder: Path, rows: Rows) -> None:
        self.server = the_server()
        self.table = f"Data.{new_schema()}"
        columns = ", ".join(f"{quoted(name)} {kind}" for name, kind in POSTGRESQL.items())
        self.server.sql(
            f"CREATE TABLE public.{quoted(self.table)} ({columns});"
            f" GRANT SELECT ON public.{quoted(self.table)} TO {self.server.SERVICE}"
        )
        with psycopg.connect(self.server.dsn("postgres"), autocommit=True) as connection:
            self.fill(connection, rows)

    def fill(self, connection: psycopg.Connection[Any], rows: Rows) -> None:
        copy = f"COPY public.{quoted(self.table)} FROM STDIN"
        with connection.cursor().copy(copy.encode()) as copying:
            for row in rows:
                copying.write_row([self.stored(name, row.get(name)) for name in POSTGRESQL])

    def stored(self, name: str, value: Any) -> Any:
        if value is None:
            return None
        if name in ("day", "old"):
            return moment(value * 86_400 * 10**6)[:-9]
        if name in ("at", "local"):
            return moment(value) + ("+00" if name == "at" else "")
        if name == "flag_true":
            return int(value)
        return repr(value) if isinstance(value, float) else value

    def open(self, domain: Domain, unit: Unit) -> Source:
        spec = SourceSpec("postgresql", None, f"public.{quoted(self.table)}", data_version="1")
        made = Contract("people", Fraction(1), unit, spec, domain, Path("/"))
        return PostgresSource(made, self.server.dsn(self.server.SERVICE), SECRET)


class SparkUnderTest(ManyParquetUnderTest):
    """The same files by their folder."""

    def __init__(self, folder: Path, rows: Rows) -> None:
        spark.needed()
        super().__init__(folder, rows)

    def open(self, domain: Domain, unit: Unit) -> Source:
        spec = SourceSpec("spark", "part", options=spark.OPTIONS)
        return SparkSource(Contract("people", Fraction(1), unit, spec, domain, self.folder), SECRET)


SOURCES: Final[Mapping[str, type[SourceUnderTest]]] = {
    "csv": CsvUnderTest,
    "parquet": ParquetUnderTest,
    "glob": ManyParquetUnderTest,
    "duckdb": DuckDBUnderTest,
    "postgresql": PostgresUnderTest,
    "spark": SparkUnderTest,
}
