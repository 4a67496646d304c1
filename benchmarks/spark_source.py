"""Spark for :mod:`benchmarks.sources`: the table as Parquet, read by a session of the process's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

from defray.core.contract import Contract, SourceSpec, Unit
from defray.core.domain import Domain
from defray.data.duckdb.files import processors
from defray.data.source import Source
from defray.data.spark.session import open_session
from defray.data.spark.source import SparkSource

Opened = tuple[Callable[[Unit], Source], Callable[[str], object]]


@contextmanager
def on_spark(path: Path, domain: Domain, secret: bytes) -> Iterator[Opened]:
    """How a source over the file is opened, and how SQL over ``{table}`` is run, both in one JVM: the
    second with Spark's own defaults."""
    options = {"spark.master": f"local[{processors()}]", "spark.driver.memory": "4g"}
    held = open_session(options)
    raw = held.spark.newSession()
    raw.read.parquet(f"file://{path}").createOrReplaceTempView("people")

    def opened(unit: Unit) -> Source:
        spec = SourceSpec("spark", path.name, data_version="1", options=options)
        return SparkSource(Contract("people", Fraction(1), unit, spec, domain, path.parent), secret)

    yield opened, lambda sql: raw.sql(sql.format(table="people")).collect()
    held.close()
