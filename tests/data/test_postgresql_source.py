"""A table in a PostgreSQL database: found, read with few rights, silent about its backend, and stoppable."""

from __future__ import annotations

import os
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import pytest

from defray.core.column import Column
from defray.core.contract import Unit
from defray.core.shapes import Grid, Values, Whole
from defray.data import together
from defray.data.postgresql.source import PostgresSource
from defray.data.source import Control, Scan
from defray.errors import Cancelled, DefrayError, SourceChanged, SourceUnavailable
from defray.query.descriptor import Axis
from defray.query.region import EVERYWHERE, Regions
from tests.data.people import AGE, SECRET, SEX
from tests.data.postgresql_tables import ALL, BY_AGE, BY_SEX, SMALL, make, opened
from tests.ledger.forks import in_child
from tests.postgresql.server import Server, new_server, the_server

HIDDEN = "Jane Doe"


def silent(error: DefrayError, *words: str) -> None:
    """Neither the error nor anything chained to it holds the words."""
    assert error.__cause__ is None
    assert error.__context__ is None
    printed = "".join(traceback.format_exception(error)) + repr(error.to_dict()) + repr(error.args)
    assert not [w for w in words if w in printed]


def refused(source: PostgresSource, match: str, *words: str) -> None:
    """A probe and a scan say so alike, and hold none of the words."""
    for look in (source.probe, lambda: source.scan(ALL)):
        with pytest.raises(SourceUnavailable, match=match) as found:
            look()
        silent(found.value, *words)


# -- names and rights -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "named"),
    [
        ("people", "people"),
        ('"People"', "People"),
        ("people", "People"),
        ('"My.Table"', '"My.Table"'),
        ('"say ""hi"""', '"say ""hi"""'),
        ('"a b; DROP"', "a b; DROP"),
    ],
)
def test_a_table_is_found_by_its_name(server: Server, schema: str, made: str, named: str) -> None:
    server.sql(f"CREATE TABLE {schema}.{made} AS {SMALL}")
    source = opened(server, f"{schema}.{named}")
    assert source.scan(ALL).rows == [100]
    source.close()


def test_a_missing_table_or_column_is_named(server: Server, schema: str) -> None:
    with pytest.raises(SourceUnavailable, match=f"no table people in the schema {schema}") as found:
        opened(server, f"{schema}.people").scan(ALL)
    silent(found.value)
    make(server, schema, "SELECT 1 AS age, 'F' AS gender")
    with pytest.raises(SourceUnavailable, match=r"no column sex \(columns\.sex\)") as found:
        opened(server, f"{schema}.people").probe()
    silent(found.value, "gender")


def test_a_role_that_may_only_select(server: Server, schema: str) -> None:
    table = make(server, schema)
    source = opened(server, table)
    assert source.scan(ALL).rows == [100]
    with source._connections.reading() as transaction:
        for sql in (f"INSERT INTO {table} VALUES (1, 'F')", "CREATE TEMP TABLE t (a int)"):
            with pytest.raises(SourceUnavailable, match=r"25006|25P02"):
                transaction.rows(sql)
    source.close()


def test_what_a_role_lacks_is_said_with_its_cure(server: Server, schema: str) -> None:
    table, role = make(server, schema), server.SERVICE
    server.sql(f"REVOKE USAGE ON SCHEMA {schema} FROM {role}")
    with pytest.raises(SourceUnavailable, match="GRANT USAGE ON SCHEMA"):
        opened(server, table).scan(ALL)
    server.sql(f"GRANT USAGE ON SCHEMA {schema} TO {role}; REVOKE SELECT ON {table} FROM {role}")
    with pytest.raises(SourceUnavailable, match="GRANT SELECT ON"):
        opened(server, table).scan(ALL)
    server.sql(f"GRANT SELECT (age) ON {table} TO {role}")
    with pytest.raises(SourceUnavailable, match=r"GRANT SELECT \(\"sex\"\)") as found:
        opened(server, table).scan(ALL)
    assert found.value.to_dict()["column"] == "sex"
    server.sql(f"GRANT SELECT (sex) ON {table} TO {role}")
    assert opened(server, table).scan(ALL).rows == [100]


def test_a_policy_that_hides_rows_is_never_overlooked(server: Server, schema: str) -> None:
    table = make(server, schema)
    server.sql(
        f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;"
        f" CREATE POLICY young ON {table} USING (age < 10)"
    )
    with pytest.raises(SourceUnavailable, match="row security policy hides rows"):
        opened(server, table).scan(ALL)
    server.sql(f"CREATE VIEW {schema}.all_of_them AS SELECT * FROM {table}")
    assert opened(server, f"{schema}.all_of_them").scan(ALL).rows == [100]


def test_what_the_role_and_the_schema_set_changes_nothing(server: Server, schema: str) -> None:
    table = make(
        server,
        schema,
        "SELECT 5 AS age, E'back\\\\slash''s' AS sex, TIMESTAMPTZ '2020-01-01 00:30+00' AS at",
    )
    hostile = {
        "search_path": f"{schema}, public",
        "TimeZone": "'America/New_York'",
        "DateStyle": "'German, DMY'",
        "standard_conforming_strings": "off",
        "statement_timeout": "1",
        "transform_null_equals": "on",
        "row_security": "on",
        "default_transaction_isolation": "'serializable'",
    }
    for name, value in hostile.items():
        server.sql(f"ALTER ROLE {server.OWNER} SET {name} = {value}")
    server.sql(
        f"GRANT USAGE ON SCHEMA {schema} TO {server.OWNER}; GRANT SELECT ON {table} TO {server.OWNER};"
        f" CREATE FUNCTION {schema}.date_trunc(text, timestamp) RETURNS timestamp IMMUTABLE LANGUAGE sql"
        " AS $$ SELECT TIMESTAMP '1999-01-01' $$"
    )
    day = 86_400 * 10**6
    start = 18_262 * day  # 2020-01-01
    columns = (
        AGE,
        Column("at", "timestamp", Grid(Fraction(start - day), Fraction(day), 2)),
        Column("sex", "string", Values(("back\\slash's", "back\\\\slash's"))),
    )
    try:
        source = opened(server, table, *columns, dsn=server.dsn(server.OWNER))
        assert source.scan(Scan(EVERYWHERE, (Axis(2),))).rows == [1, 0, 0]
        assert source.scan(Scan(EVERYWHERE, (Axis(1),))).rows == [0, 1, 0]
        assert source.scan(Scan(EVERYWHERE, (Axis(1, "month"),))).rows == [0, 1, 0]
        source.close()
    finally:
        server.sql(f"ALTER ROLE {server.OWNER} RESET ALL")


# -- values ---------------------------------------------------------------------------------------


def test_types_that_only_postgresql_has(server: Server, schema: str) -> None:
    server.sql(
        f"CREATE EXTENSION IF NOT EXISTS citext SCHEMA public;"
        f" CREATE TYPE {schema}.mood AS ENUM ('F', 'M', 'x');"
        f" CREATE DOMAIN {schema}.years AS numeric(5,0) CHECK (VALUE >= 0);"
        f" CREATE DOMAIN {schema}.older AS {schema}.years;"
        f" CREATE COLLATION {schema}.loose"
        " (provider = icu, locale = 'und-u-ks-level1', deterministic = false)"
    )
    texts = (
        f"{schema}.mood", "public.citext", "char(3)", f'text COLLATE {schema}."loose"', "varchar(9)", "name",
    )  # fmt: skip
    for kind in texts:
        server.sql(f"CREATE TABLE {schema}.people (age {schema}.older, sex {kind})")
        server.sql(
            f"INSERT INTO {schema}.people VALUES (1, 'F'), (2, 'M'), (NULL, NULL), ('NaN', 'x')"
        )
        if "mood" not in kind:
            server.sql(f"INSERT INTO {schema}.people VALUES (3, 'f')")
        source = opened(server, f"{schema}.people", AGE, SEX)
        assert source.scan(BY_SEX).rows[:2] == [1, 1]
        by_age = source.scan(Scan(EVERYWHERE, (Axis(0),), ("age",), ("age",)))
        assert by_age.rows[1:3] == [1, 1]
        assert sum(by_age.non_null["age"]) == (2 if "mood" in kind else 3)
        assert sum(by_age.sums["age"]) == (3 if "mood" in kind else 6)
        source.close()
        server.sql(f"DROP TABLE {schema}.people")


@pytest.mark.parametrize(
    "kind", ["int[]", "json", "jsonb", "bytea", "interval", "point", "int4range"]
)
def test_types_that_cannot_be_read_are_refused(server: Server, schema: str, kind: str) -> None:
    server.sql(f"CREATE TABLE {schema}.people (age {kind}, sex text)")
    with pytest.raises(SourceUnavailable, match="column age is declared integer") as found:
        opened(server, f"{schema}.people").probe()
    silent(found.value)


@pytest.mark.parametrize("kind", ["json", "xml", "point", "json[]", "xid"])
def test_a_unit_whose_values_cannot_be_told_apart_is_refused(
    server: Server, schema: str, kind: str
) -> None:
    server.sql(f"CREATE TABLE {schema}.people (age int, sex text, who {kind})")
    source = opened(server, f"{schema}.people", unit=Unit("who", 1))
    refused(source, r"column who .* apart\n.*casts it to text", "operator")
    server.sql(
        f"CREATE VIEW {schema}.cast AS SELECT age, sex, who::text AS who FROM {schema}.people"
    )
    cured = opened(server, f"{schema}.cast", unit=Unit("who", 1))
    cured.probe()
    assert cured.scan(ALL).rows == [0]
    source.close()
    cured.close()


def test_a_unit_of_a_type_that_holds_such_values_is_found_when_it_is_looked_at(
    server: Server, schema: str
) -> None:
    server.sql(
        f"CREATE TYPE {schema}.card AS (held json);"
        f" CREATE TABLE {schema}.people (age int, sex text, who {schema}.card)"
    )
    source = opened(server, f"{schema}.people", unit=Unit("who", 1))
    refused(source, r"a function or an operator .*\(42883\)\n.*unit")
    source.close()


def test_rows_of_a_unit_are_told_apart_by_any_type(server: Server, schema: str) -> None:
    """By its text, whatever is set for the role about how it is written."""
    table = make(
        server,
        schema,
        "SELECT i AS age, 'F'::text AS sex, 1 AS who, json_build_array(i) AS held,"
        " sha256(i::text::bytea) AS raw, i * interval '1 month' AS wait FROM generate_series(0, 9) t(i)",
    )
    for key in ("held", "raw", "wait"):
        source = opened(server, table, unit=Unit("who", 3, (key,)))
        source.probe()
        kept = source.scan(BY_AGE).rows
        assert sum(kept) == 3
        source.close()
        settings = {"bytea_output": "escape", "IntervalStyle": "iso_8601"}
        try:
            for name, value in settings.items():
                server.sql(f"ALTER ROLE {server.SERVICE} SET {name} = {value}")
            source = opened(server, table, unit=Unit("who", 3, (key,)))
            assert source.scan(BY_AGE).rows == kept
            source.close()
        finally:
            for name in settings:
                server.sql(f"ALTER ROLE {server.SERVICE} RESET {name}")


def test_numbers_and_times_without_end(server: Server, schema: str) -> None:
    price = Column(
        "price", "decimal", Grid(Fraction(0), Fraction(1, 4), 4), other="cell",
        bounds=(Fraction(-1), Fraction(2)), unit_step=Fraction(1, 100),
    )  # fmt: skip
    day = Column("day", "date", Whole(0, 9), other="cell")
    at = Column("at", "timestamp", Grid(Fraction(0), Fraction(10**6), 9), other="cell")
    server.sql(
        f"CREATE TABLE {schema}.people (price numeric, day timestamptz, at date);"
        f" INSERT INTO {schema}.people VALUES ('NaN', 'infinity', 'infinity'), ('infinity', '-infinity',"
        " '-infinity'), ('-infinity', '1970-01-02', '1970-01-01'), (1e-30, '4713-01-01 BC', '4713-01-01 BC'),"
        " (0.25, '294276-12-31', '5874897-12-31'), (1e300, NULL, NULL), (1, '1970-01-10 23:59', '1970-01-02')"
    )
    source = opened(server, f"{schema}.people", price, day, at)
    prices = source.scan(Scan(EVERYWHERE, (Axis(2),), ("price",), ("price",)))
    assert prices.rows == [1, 1, 0, 1, 3, 1]  # cells, outside, NULL
    assert prices.sums["price"] == [0, 25, 0, 100, 200 + 200 - 100, 0]
    assert source.scan(Scan(EVERYWHERE, (Axis(1),))).rows == [0, 1, *[0] * 7, 1, 4, 1]
    assert source.scan(Scan(EVERYWHERE, (Axis(0),))).rows == [1, *[0] * 8, 4, 2]
    source.close()


@pytest.mark.parametrize("kind", ["timestamptz", "timestamp", "date"])
def test_kept_rows_never_raise_over_a_time_without_end(
    server: Server, schema: str, kind: str
) -> None:
    """Whether a scan fails would tell whether a unit has more rows than are kept, and such a time."""
    at = Column("at", "timestamp", Grid(Fraction(0), Fraction(10**6), 9), other="cell")
    server.sql(
        f"CREATE TABLE {schema}.people (at {kind}, who int);"
        f" INSERT INTO {schema}.people VALUES ('infinity', 1), ('-infinity', 1), (NULL, 1), (NULL, 2)"
    )
    for unit in (Unit("who", 2), Unit("who", 2, ("at",)), Unit("at", 1)):
        source = opened(server, f"{schema}.people", at, unit=unit)
        assert source.scan(ALL).rows == [2 if unit.column == "at" else 3]
        source.close()


def test_tiny_and_huge_doubles_never_raise(server: Server, schema: str) -> None:
    shape = Grid(Fraction(0), Fraction(5000), 40)
    income = Column(
        "income", "float", shape, other="clamp", bounds=(Fraction(0), Fraction(100_000)),
        unit_step=Fraction(1000, 3),
    )  # fmt: skip
    values = "('5e-324'), ('-5e-324'), ('1.7976931348623157e308'), ('-1e308'), ('Infinity'), ('NaN'), (NULL)"
    for kind in ("float8", "float4"):
        given = (
            values if kind == "float8" else values.replace("5e-324", "1e-45").replace("e308", "e38")
        )
        server.sql(f"CREATE TABLE {schema}.people (income {kind})")
        server.sql(f"INSERT INTO {schema}.people VALUES {given.replace('1.79769', '1.69769')}")
        source = opened(server, f"{schema}.people", income)
        found = source.scan(Scan(EVERYWHERE, (Axis(0),), ("income",), ("income",)))
        assert [(i, n) for i, n in enumerate(found.rows) if n] == [
            (0, 3),
            (20, 1),
            (39, 1),
            (40, 2),
        ]
        assert sum(found.sums["income"]) == 2 * 300
        source.close()
        server.sql(f"DROP TABLE {schema}.people")


def test_sums_beyond_64_bits_are_exact(server: Server, schema: str) -> None:
    top = 2**80 + 1
    for kind, value, units in (("float8", "1e300", 2**80), ("numeric(30,0)", str(top), top)):
        bounds = (Fraction(-units), Fraction(units))
        column = Column("age", "float" if kind == "float8" else "integer", Whole(0, 1), other="cell",
                        bounds=bounds, unit_step=Fraction(1))  # fmt: skip
        server.sql(
            f"CREATE TABLE {schema}.people AS SELECT '{value}'::{kind} AS age FROM generate_series(1, 99)"
        )
        source = opened(server, f"{schema}.people", column)
        assert source.scan(Scan(EVERYWHERE, (), (), ("age",))).sums["age"] == [99 * units]
        source.close()
        server.sql(f"DROP TABLE {schema}.people")


def test_a_declared_text_is_always_a_literal(server: Server, schema: str) -> None:
    names = ("'", "''", "'; DROP TABLE people; --", "\\'", '"', "%s", "{x}", "?", "$1", "é\u202e", "a\nb",
             "%%", "E'\\n'", "\\")  # fmt: skip
    column = Column("sex", "string", Values(names), other="cell")
    server.sql(f"CREATE TABLE {schema}.people (age int, sex text)")
    listed = ", ".join("(1, '" + n.replace("'", "''") + "')" for n in (*names, "else"))
    server.sql(f"INSERT INTO {schema}.people VALUES {listed}")
    source = opened(server, f"{schema}.people", AGE, column)
    assert source.scan(BY_SEX).rows == [1] * (len(names) + 1) + [0]
    regions = Regions((AGE.width, column.width))
    for few in (1, 3, 11):
        assert source.scan(Scan(regions.where(1, ((0, few),)))).rows == [few]
    source.close()


@pytest.mark.parametrize(("heavy", "apart"), [(20, True), (2000, False)])
def test_the_same_rows_are_kept_however_many_units_have_too_many(
    server: Server, schema: str, heavy: int, apart: bool
) -> None:
    """What the planner knows decides how they are found."""
    table = make(
        server,
        schema,
        "SELECT (u * 7 + r * 13) % 90 AS age, CASE r % 2 WHEN 0 THEN 'F' ELSE 'M' END AS sex, u AS person"
        f" FROM generate_series(1, 2000) u, generate_series(1, CASE WHEN u <= {heavy} THEN 12 ELSE 1 END) r",
    )
    source = opened(server, table, unit=Unit("person", 3))
    assert "heavy_" not in source.sql_of(ALL)[0]
    before = source.scan(BY_AGE).rows
    assert sum(before) == 3 * heavy + 2000 - heavy
    server.sql(f"ANALYZE {table}")
    assert ("heavy_" in source.sql_of(ALL)[0]) == apart
    assert source.scan(BY_AGE).rows == before
    source.close()


def test_the_same_rows_are_kept_where_the_role_may_not_see_statistics(
    server: Server, schema: str
) -> None:
    """They only decide how the rows are found: a role needs nothing but to read the table."""
    table = make(
        server,
        schema,
        "SELECT i % 90 AS age, 'F'::text AS sex, i % 300 AS person FROM generate_series(1, 900) t(i)",
    )
    server.sql(f"ANALYZE {table}")
    source = opened(server, table, unit=Unit("person", 6))
    before = source.scan(BY_AGE).rows
    assert "heavy_" in source.sql_of(ALL)[0]
    server.sql("REVOKE SELECT ON pg_stats FROM PUBLIC")
    try:
        source.probe()
        assert source.scan(BY_AGE).rows == before
        assert "heavy_" not in source.sql_of(ALL)[0]
    finally:
        server.sql("GRANT SELECT ON pg_stats TO PUBLIC")
        source.close()


def test_the_key_of_kept_rows_is_in_no_statement(server: Server, schema: str) -> None:
    table = make(
        server,
        schema,
        "SELECT i AS age, 'F' AS sex, i % 7 AS person FROM generate_series(0, 99) t(i)",
    )
    source = opened(server, table, unit=Unit("person", 3))
    assert source.scan(ALL).rows == [21]
    sql, parameters = source.sql_of(ALL)
    assert not [p for p in parameters if p.hex() in sql]
    assert SECRET.hex()[:16] not in sql
    source.close()


# -- errors ---------------------------------------------------------------------------------------


def test_a_failing_view_says_nothing_of_its_rows(
    server: Server, schema: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    values = f"VALUES ('1'), ('{HIDDEN}')"
    make(server, schema, f"SELECT CAST(s AS integer) AS age, s AS sex FROM ({values}) t(s)", "VIEW")
    source = opened(server, f"{schema}.people")
    for _ in range(2):
        with pytest.raises(SourceUnavailable, match="22P02") as found:
            source.scan(BY_AGE)
        silent(found.value, "Jane", "invalid input syntax")
    server.sql(f"CREATE OR REPLACE VIEW {schema}.people AS SELECT 1 AS age, 'F'::text AS sex")
    with pytest.raises(SourceChanged):  # it is another view now
        source.scan(ALL)
    seen = capfd.readouterr()
    assert "Jane" not in caplog.text + seen.out + seen.err
    source.close()


def test_nothing_but_the_code_is_said_of_a_server(tmp_path: Path) -> None:
    server = the_server()
    for dsn, words in (
        (f"host={server.folder} dbname=nowhere user=owner password=hunter2", "no such database"),
        (f"host={server.folder} dbname=ledgers user=nobody password=hunter2", "refused the login"),
        (f"host={tmp_path} dbname=ledgers user=owner password=hunter2", "cannot be reached"),
    ):
        with pytest.raises(SourceUnavailable, match=words) as found:
            opened(server, "people", dsn=dsn).scan(ALL)
        silent(found.value, "hunter2", "FATAL")
    unreadable = "postgresql://me:hunter2@[x"
    with pytest.raises(SourceUnavailable, match="dsn of the data cannot be read") as found:
        opened(server, "people", dsn=unreadable)
    silent(found.value, "hunter2")


def test_restarts_and_dropped_connections_are_survived() -> None:
    server = new_server()
    server.sql(f"CREATE TABLE public.people AS {SMALL}; GRANT SELECT ON people TO {server.SERVICE}")
    source = opened(server, "public.people")
    assert source.scan(ALL).rows == [100]
    server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'service'")
    assert source.scan(ALL).rows == [100]
    server.stop("immediate")
    with pytest.raises(SourceUnavailable):
        source.scan(ALL)
    server.start()
    assert source.scan(ALL).rows == [100]  # the counts were lost in the crash: not a change
    source.close()
    server.stop()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_both_go_on_after_a_fork(server: Server, schema: str) -> None:
    source = opened(server, make(server, schema))
    rows = source.scan(BY_SEX).rows
    for _ in range(2):
        assert in_child(lambda: str(source.scan(BY_SEX).rows)) == str(rows)
        assert source.scan(BY_SEX).rows == rows
    source.close()


# -- watching -------------------------------------------------------------------------------------


def endless(server: Server, schema: str) -> PostgresSource:
    series = "generate_series(1, 100000)"
    columns = "CAST((a * b) % 99 AS integer) AS age, 'F'::text AS sex"
    make(server, schema, f"SELECT {columns} FROM {series} a, {series} b(b)", "VIEW")
    return opened(server, f"{schema}.people")


def running(server: Server) -> str:
    return server.sql(
        "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND usename = 'service'"
    )


def test_a_scan_can_be_stopped(server: Server, schema: str) -> None:
    source = endless(server, schema)
    told: list[float] = []
    start = time.monotonic()
    with pytest.raises(Cancelled, match=r"timeout of 1\.5 s") as found:
        source.scan(ALL, Control(progress=told.append, timeout=1.5))
    assert found.value.__context__ is None
    with pytest.raises(Cancelled, match="was cancelled"):
        source.scan(ALL, Control(cancelled=lambda: time.monotonic() > start + 2))
    assert told == sorted(told)
    assert 0 < told[0] < told[-1] < 1
    while running(server) != "0":
        assert time.monotonic() < start + 60
        time.sleep(0.05)
    source.close()


def test_one_cancelled_scan_leaves_the_others_running(server: Server, schema: str) -> None:
    source = endless(server, schema)
    with ThreadPoolExecutor(2) as pool:
        short = pool.submit(source.scan, ALL, Control(timeout=0.2))
        long = pool.submit(source.scan, ALL, Control(timeout=1.0))
        with pytest.raises(Cancelled, match=r"0\.2"):
            short.result()
        with pytest.raises(Cancelled, match="1 s"):
            long.result()
    source.close()


def test_several_threads_at_once(server: Server, schema: str) -> None:
    table = make(
        server, schema, "SELECT i % 90 AS age, 'F'::text AS sex FROM generate_series(1, 20000) t(i)"
    )
    source = opened(server, table)
    regions = Regions((AGE.width, SEX.width))
    scans = [
        Scan(regions.where(0, ((i, i + 30),)), (Axis(1),), ("age",), ("age",)) for i in range(12)
    ]
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(source.scan, scans))
    for scan, exact in zip(scans, found, strict=True):
        again = source.scan(scan)
        assert (exact.rows, exact.sums) == (again.rows, again.sums)
    source.close()


def test_the_scans_of_a_question_see_one_moment(
    server: Server, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that is committed between two of them is in neither, where they are too large for one pass."""
    monkeypatch.setattr(together, "MOST_GROUPS", 0)
    table = make(server, schema)
    server.sql(f"CREATE VIEW {schema}.slow AS SELECT age, sex FROM {table}, pg_sleep(0.3)")
    source = opened(server, f"{schema}.slow")
    with ThreadPoolExecutor(1) as pool:
        both = pool.submit(source.scan_together, [ALL, BY_AGE, BY_SEX])
        time.sleep(0.2)
        server.sql(f"INSERT INTO {table} VALUES (1, 'F')")
        try:
            first, second, third = both.result()
        except SourceChanged:
            return  # the server had counted it already
    assert first.rows == [sum(second.rows)] == [sum(third.rows)]
    source.close()
