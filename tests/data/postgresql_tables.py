"""Small tables in PostgreSQL, and sources that read them."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from defray.core.column import Column
from defray.core.contract import Contract, SourceSpec, Unit
from defray.core.domain import Domain
from defray.data.postgresql.source import PostgresSource
from defray.data.source import Scan
from defray.query.descriptor import Axis
from defray.query.region import EVERYWHERE
from tests.data.people import AGE, SECRET, SEX
from tests.postgresql.server import Server

ALL = Scan(EVERYWHERE)
BY_AGE, BY_SEX = Scan(EVERYWHERE, (Axis(0),)), Scan(EVERYWHERE, (Axis(1),))
SMALL = "SELECT i AS age, CASE WHEN i % 2 = 0 THEN 'F' ELSE 'M' END AS sex FROM generate_series(0, 99) t(i)"


def opened(
    server: Server,
    table: str,
    *columns: Column,
    unit: Unit | None = None,
    version: str = "1",
    memory: dict[str, str] | None = None,
    dsn: str | None = None,
) -> PostgresSource:
    memory = {} if memory is None else memory
    domain = Domain(tuple(sorted(columns or (AGE, SEX), key=lambda c: c.name)))
    spec = SourceSpec("postgresql", None, table, data_version=version)
    made = Contract("people", Fraction(1), unit or Unit(), spec, domain, Path("/"))
    return PostgresSource(
        made,
        dsn or server.dsn(server.SERVICE),
        SECRET,
        remember=memory.get,
        memo=memory.__setitem__,
    )


def make(server: Server, schema: str, select: str = SMALL, kind: str = "TABLE") -> str:
    server.sql(f"CREATE {kind} {schema}.people AS {select}")
    return f"{schema}.people"
