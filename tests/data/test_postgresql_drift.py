"""A table that is written to under one declared version is noticed, as far as the server counts."""

from __future__ import annotations

import time
from typing import Any

import pytest

from defray.core.domain import Domain
from defray.data.cube import CubedSource
from defray.data.postgresql.source import PostgresSource
from defray.errors import SourceChanged
from tests.data.people import AGE, SECRET, SEX
from tests.data.postgresql_tables import ALL, SMALL, make, opened
from tests.postgresql.server import Server, the_server


def changed(source: PostgresSource) -> str:
    """What is said once the server has counted a change, which takes it up to a second or so."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            source.scan(ALL)
        except SourceChanged as error:
            return str(error)
        time.sleep(0.05)
    raise AssertionError("the change was not noticed")


def counted(server: Server, table: str) -> str:
    return server.sql(f"SELECT pg_stat_get_tuples_inserted('{table}'::regclass)")


@pytest.fixture
def settled(server: Server, schema: str) -> str:
    """A table whose first rows the server has counted."""
    table = make(server, schema)
    server.sql(f"INSERT INTO {table} VALUES (1, 'F')")
    deadline = time.monotonic() + 30
    while counted(server, table) == "0" and time.monotonic() < deadline:
        time.sleep(0.05)
    return table


@pytest.mark.parametrize(
    "change",
    [
        "INSERT INTO {t} VALUES (1, 'F')",
        "UPDATE {t} SET age = 2 WHERE age = 1",
        "DELETE FROM {t} WHERE age = 1",
        "TRUNCATE {t}",
        "DROP TABLE {t}; CREATE TABLE {t} AS SELECT 1 AS age, 'F'::text AS sex",
        "ALTER TABLE {t} DROP COLUMN age; ALTER TABLE {t} ADD COLUMN age int DEFAULT 4",
        "ALTER TABLE {t} RENAME sex TO old; ALTER TABLE {t} ADD COLUMN sex text DEFAULT 'F'",
    ],
)
def test_a_table_that_was_written_to_needs_a_new_version(
    server: Server, settled: str, change: str
) -> None:
    memory: dict[str, str] = {}
    source = opened(server, settled, memory=memory)
    assert source.scan(ALL).rows == [101]
    server.sql(f"VACUUM ANALYZE {settled}")
    assert source.scan(ALL).rows == [101]
    before = source.fingerprint()
    server.sql(change.format(t=settled))
    said = changed(source)
    assert 'data_version "1"' in said
    assert "declare a new data_version" in said
    source.close()
    assert "data_version" in changed(opened(server, settled, memory=memory))
    new = opened(server, settled, memory=memory, version="2")
    new.scan(ALL)
    assert new.fingerprint() != before
    assert "data_version" in changed(opened(server, settled, memory=memory))
    assert not [v for v in memory.values() if "101" in v.split(":")]
    new.close()


def test_counts_that_were_reset_are_a_new_beginning(server: Server, settled: str) -> None:
    memory: dict[str, str] = {}
    source = opened(server, settled, memory=memory)
    assert source.scan(ALL).rows == [101]
    server.sql(f"SELECT pg_stat_reset_single_table_counters('{settled}'::regclass)")
    assert opened(server, settled, memory=memory).scan(ALL).rows == [101]
    server.sql(f"INSERT INTO {settled} VALUES (1, 'F')")
    changed(opened(server, settled, memory=memory))
    source.close()


def test_a_change_below_a_view_or_in_a_partition_is_noticed(server: Server, schema: str) -> None:
    server.sql(
        f"CREATE TABLE {schema}.parts (age int, sex text) PARTITION BY RANGE (age);"
        f" CREATE TABLE {schema}.low PARTITION OF {schema}.parts FOR VALUES FROM (0) TO (50);"
        f" CREATE TABLE {schema}.high PARTITION OF {schema}.parts FOR VALUES FROM (50) TO (999);"
        f" INSERT INTO {schema}.parts {SMALL};"
        f" CREATE VIEW {schema}.people AS SELECT * FROM {schema}.parts"
    )
    deadline = time.monotonic() + 30
    while counted(server, f"{schema}.high") == "0" and time.monotonic() < deadline:
        time.sleep(0.05)
    source = opened(server, f"{schema}.people")
    assert source.scan(ALL).rows == [100]
    server.sql(f"INSERT INTO {schema}.parts VALUES (60, 'F')")
    changed(source)
    source.close()


def test_the_fingerprint_is_of_the_table_and_its_version() -> None:
    server = the_server()
    other = server.dsn(server.OWNER)

    def of(table: str, version: str = "1", **more: Any) -> str:
        return opened(server, table, version=version, **more).fingerprint()

    assert of("public.people") == of("people") == of('"people"', dsn=other)
    assert len({of("people"), of("people", "2"), of("People"), of("x.people")}) == 4


def test_what_is_remembered_is_opaque(server: Server, settled: str) -> None:
    memory: dict[str, str] = {}
    source = opened(server, settled, memory=memory)
    source.scan(ALL)
    source.close()
    ((key, value),) = memory.items()
    assert key.startswith("source:")
    assert len(value) == 64 + 1 + 32 + 1 + 32
    assert set(value) <= set("0123456789abcdef:")


def test_a_cube_stays_of_the_moment_that_it_was_made(server: Server, settled: str) -> None:
    table = opened(server, settled)
    cube = CubedSource(table, Domain((AGE, SEX)), SECRET)
    assert cube.scan(ALL).rows == [101]
    server.sql(f"INSERT INTO {settled} VALUES (1, 'F')")
    changed(table)
    assert cube.scan(ALL).rows == [101]
    cube.close()
