"""Spark as a source: what it reads and how, silent about what it meets, stoppable.

That its numbers are those of every other source is held in ``tests/contract``.
"""

from __future__ import annotations

import datetime as dt
import logging
import os
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from defray.core.column import Column
from defray.core.contract import SourceSpec, Unit
from defray.core.shapes import Grid, Values, Whole
from defray.data import watch
from defray.data.duckdb.source import DuckDBSource
from defray.data.source import Control, Scan
from defray.data.spark.source import SparkSource
from defray.data.truncation import pads
from defray.errors import Cancelled, DefrayError, SourceChanged, SourceUnavailable
from defray.query.descriptor import Axis
from defray.query.region import EVERYWHERE, Regions
from tests import spark
from tests.data.people import AGE, SECRET, SEX, contract, parquet
from tests.ledger.forks import in_child
from tests.tables import open_session, write_people, write_spark_contract

pytestmark = pytest.mark.xdist_group("spark")

T = TypeVar("T")
ALL = Scan(EVERYWHERE)
SMALL = "SELECT i AS age, CASE WHEN i % 2 = 0 THEN 'F' ELSE 'M' END AS sex FROM range(100) t(i)"
REGIONS = Regions((AGE.width, SEX.width))


@pytest.fixture(autouse=True)
def there() -> None:
    spark.needed()


def over(
    folder: Path,
    path: str | None = "people.parquet",
    *columns: Column,
    table: str | None = None,
    version: str | None = None,
    unit: Unit | None = None,
) -> SparkSource:
    spec = SourceSpec("spark", path, table, data_version=version, options=spark.OPTIONS)
    return SparkSource(contract(folder, spec, *columns, unit=unit), SECRET)


def written(
    folder: Path, select: str = SMALL, *columns: Column, unit: Unit | None = None
) -> SparkSource:
    parquet(folder / "people.parquet", select)
    return over(folder, "people.parquet", *columns, unit=unit)


def sql(*statements: str) -> None:
    for statement in statements:
        spark.kept_session().spark.sql(statement)


@pytest.fixture
def health() -> Iterator[str]:
    """A schema of the catalogue."""
    sql("CREATE SCHEMA IF NOT EXISTS HealthX")
    yield "HealthX"
    sql("DROP SCHEMA HealthX CASCADE")


def endless(health: str) -> SparkSource:
    sql(
        "CREATE OR REPLACE VIEW HealthX.endless AS SELECT CAST((a.id * b.id) % 99 AS INT) AS age,"
        " 'F' AS sex FROM range(10000000) a CROSS JOIN range(10000000) b"
    )
    return over(Path(), None, table=f"{health}.endless", version="1")


def silent(error: DefrayError, *words: str) -> None:
    """Neither the error nor anything chained to it holds the words, nor what Spark says of itself."""
    assert error.__cause__ is None
    assert error.__context__ is None
    shown = str(error) + repr(error.to_dict()) + repr(error.args)
    assert not [w for w in (*words, "org.apache", "SQLSTATE", "Py4J") if w in shown]


# -- statements -------------------------------------------------------------------------------------


def test_a_declared_text_is_always_a_literal(tmp_path: Path) -> None:
    names = (
        "'", "''", "'; DROP TABLE people; --", "\\'", "\\", '"', "%s", "{x}", "?", ":x", "$1", "é\u202e",
        "E'\\n'", "a\nb", "${spark.app.name}", "`", "/*", "r'x'", "\x00",
    )  # fmt: skip
    column = Column("sex", "string", Values(names), other="cell")
    texts = [*names, "else"]
    table = pa.table({"age": [1] * len(texts), "sex": texts})
    pq.write_table(table, tmp_path / "people.parquet")
    source = over(tmp_path, "people.parquet", AGE, column)
    assert source.scan(Scan(EVERYWHERE, (Axis(1),))).rows == [1] * (len(names) + 1) + [0]
    regions = Regions((AGE.width, column.width))
    for few in (1, 3, 11):
        assert source.scan(Scan(regions.where(1, ((0, few),)))).rows == [few]
    source.close()


def test_nothing_but_a_condition_in_brackets(tmp_path: Path) -> None:
    """Behind a query without an alias, ``WHERE (FALSE)`` would be an alias and a name of its column."""
    lonely = written(tmp_path, SMALL, SEX)
    for source in (lonely, written(tmp_path, SMALL)):
        assert source.scan(Scan(False)).rows == [0]
        assert source.scan(Scan(False, (Axis(0),))).rows[:2] == [0, 0]
        source.close()


def test_what_spark_is_asked_reaches_the_partitions_and_the_files(tmp_path: Path) -> None:
    parquet_by(tmp_path / "people", "SELECT i AS age, 2000 + i % 7 AS year FROM range(100) t(i)")
    year = Column("year", "integer", Whole(1990, 2020))
    source = over(tmp_path, "people", AGE, year)
    regions = Regions((AGE.width, year.width))
    region = regions.both(regions.where(0, ((40, 50),)), regions.where(1, ((12, 14),)))
    plan = source.explained(Scan(region))
    filters = {k: v for k, _, v in (line.partition(": ") for line in plan.splitlines())}
    assert ">= 2002" in filters["PartitionFilters"]
    assert "<= 2003" in filters["PartitionFilters"]
    assert "GreaterThanOrEqual(age,40), LessThanOrEqual(age,49)" in filters["PushedFilters"]
    assert source.scan(Scan(region)).rows == [
        sum(40 <= i <= 49 and i % 7 in (2, 3) for i in range(100))
    ]
    source.close()


def test_one_pass_for_any_number_of_cells(tmp_path: Path) -> None:
    source = written(tmp_path)
    for axes in ((), (Axis(0),), (Axis(0), Axis(1))):
        plan = source.explained(Scan(EVERYWHERE, axes, ("age", "sex"), ("age",)))
        assert plan.count("Scan parquet") == 2, "once in the tree, once in the list below it"
        assert "Join" not in plan
    source.close()


def jobs_of(name: str, step: Callable[[], T]) -> tuple[int, T]:
    """How many jobs Spark ran for a step."""
    context = spark.kept_session().spark.sparkContext
    context.setJobGroup(name, name)
    try:
        found = step()
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    return len(context.statusTracker().getJobIdsForGroup(name)), found


@pytest.mark.long
@pytest.mark.parametrize("unit", [Unit(), Unit("p", 2)])
def test_one_job_for_all_scans_of_a_question(tmp_path: Path, unit: Unit) -> None:
    """A question, and views that credit it: one of them tells more apart, one less."""
    select = (
        "SELECT i % 130 AS age, ['F', 'M', 'X'][i % 3 + 1] AS sex, i // 3 AS p FROM range(900) t(i)"
    )
    source = written(tmp_path, select, unit=unit)
    measured = (("age",), ("age",))
    middle = REGIONS.both(REGIONS.where(0, ((40, 66),)), REGIONS.where(1, ((0, 2),)))
    scans = [
        Scan(EVERYWHERE, (Axis(0, starts=(0, 18, 40, 66)), Axis(1)), *measured),
        Scan(EVERYWHERE, (Axis(1, starts=(0, 1)),), *measured),
        Scan(middle, (Axis(1),), *measured),
    ]
    source.scan(ALL)
    (each, apart), (together, found) = (
        jobs_of(f"{tmp_path} apart", lambda: [source.scan(scan) for scan in scans]),
        jobs_of(f"{tmp_path} together", lambda: source.scan_together(scans)),
    )
    assert [(x.rows, x.non_null, x.sums) for x in found] == [
        (x.rows, x.non_null, x.sums) for x in apart
    ]
    one = 1 if unit.column is None else jobs_of(f"{tmp_path} one", lambda: source.scan(ALL))[0]
    assert (each, together) == (3 * one, one)
    source.close()


def test_an_ask_that_is_credited_in_a_view_is_one_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_people(tmp_path, 1000)
    session = open_session(write_spark_contract(tmp_path, "rho = 10"))
    scanned: list[int] = []
    scan_together = SparkSource.scan_together

    def counted(self: SparkSource, scans: Sequence[Scan], *args: Any) -> Any:
        scanned.append(len(scans))
        return scan_together(self, scans, *args)

    monkeypatch.setattr(SparkSource, "scan_together", counted)
    session.ask("SELECT COUNT(*) FROM people WHERE age BETWEEN 20 AND 40 ERROR WITHIN 50")
    average = (
        "SELECT AVG(income) FROM people WHERE age BETWEEN 30 AND 60 GROUP BY sex ERROR WITHIN 20000"
    )
    jobs, _ = jobs_of(str(tmp_path), lambda: session.ask(average))
    assert scanned[-1] > 1
    assert jobs == 1
    session.close()


def test_the_key_of_the_kept_rows_is_in_no_plan_and_no_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = written(
        tmp_path,
        "SELECT 1 AS age, 'F' AS sex, i AS person FROM range(3) t(i)",
        unit=Unit("person", 2),
    )
    caplog.set_level(logging.DEBUG)
    plan = source.explained(ALL)
    assert "sha2" in plan
    for pad in pads(SECRET):
        shown = (pad.hex(), pad.hex().upper(), repr(pad)[2:20], b64encode(pad).decode()[:20])
        assert not [w for w in shown if w in plan + caplog.text]
    source.close()


# -- what is read -----------------------------------------------------------------------------------


def parquet_by(folder: Path, select: str) -> None:
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({select}) TO '{folder}' (FORMAT parquet, PARTITION_BY (year))")


def test_partitions_of_a_folder_are_columns_and_text(tmp_path: Path) -> None:
    parquet_by(
        tmp_path / "people",
        "SELECT i AS age, lpad((i % 3)::VARCHAR, 2, '0') AS year FROM range(9) t(i)",
    )
    (tmp_path / "people" / "_SUCCESS").write_text("")
    (tmp_path / "people" / ".hidden").mkdir()
    (tmp_path / "people" / ".hidden" / "x.parquet").write_text("nothing")
    year = Column("year", "string", Values(("00", "01", "0")))
    for path in ("people", "people/year=0[01]", "people/*/*.parquet"):
        source = over(tmp_path, path, AGE, year)
        rows = source.scan(Scan(EVERYWHERE, (Axis(1),))).rows
        assert rows == [3, 3, 0, 0 if "01" in path else 3]
        source.close()


def test_a_table_by_its_whole_name(tmp_path: Path, health: str) -> None:
    parquet(tmp_path / "x.parquet", SMALL)
    sql(
        "CREATE VIEW HealthX.PeopleTable AS SELECT age, sex AS SEX FROM"
        f" parquet.`file://{tmp_path}/x.parquet`"
    )
    for name in (f"{health}.PeopleTable", f'spark_catalog."{health}".`PeopleTable`'):
        source = over(tmp_path, None, table=name, version="1")
        assert source.scan(Scan(EVERYWHERE, (Axis(1),))).rows == [50, 50, 0]
        source.close()


def test_dates_before_1582_whoever_wrote_them(tmp_path: Path) -> None:
    """Spark before 3.0 took dates for Julian ones, and moves them still where it is told to."""
    days = [dt.date(1, 1, 1), dt.date(1500, 2, 28), dt.date(1582, 10, 10), dt.date(1970, 1, 1)]
    first = (days[2] - dt.date(1970, 1, 1)).days
    day = Column("day", "date", Whole(first, first + 3))
    at = Column("at", "date", Whole(first, first + 3))
    moments = [dt.datetime.combine(d, dt.time(5)) for d in days]
    table = pa.table({"day": days, "at": pa.array(moments, pa.timestamp("us"))})
    pq.write_table(table, tmp_path / "plain.parquet")
    pq.write_table(table, tmp_path / "int96.parquet", use_deprecated_int96_timestamps=True)
    for name in ("plain", "int96"):
        source = over(tmp_path, f"{name}.parquet", day, at)
        for axis in (0, 1):
            assert source.scan(Scan(EVERYWHERE, (Axis(axis),))).rows == [1, 0, 0, 0, 3]
        source.close()


TEXTS = (
    "", " ", "1", " 12 ", "\t12", "1e1", "1E1", "12d", "12f", "12L", "0x10", "inf", "-inf", "Infinity", "nan",
    "1e999", "+5", ".5", "5.", ".", "-", "e5", "1e", "1,5", "--5", "1 2", "$5", "007", "-0", "0x1p3",
    "twelve",
    "9007199254740993", "１２",
)  # fmt: skip
DATES = (
    "2020-01-01", "2020-1-5", "2020-01-05 11:00", "2020-01-05T11:00:00Z", " 2020-01-02 ", "2020-01-01x",
    "now",
    "today", "2020", "2020-01", "2020-02-30", "2020-13-01", "2020-01-04 25:00", "2020-01-03 12:00:00+02:00",
    "2020-01-03 00:30:00+02:00", "2020-01-03 23:30:00-02", "20200105", "12:00",
    "infinity", "-infinity", " INF ", "-Inf", "+infinity", "+inf", "Infinit", "--inf",
    "2020-01-05 12:00:00.1234567", "2020-01-05 12:00:00 UTC", "2020-01-05T12:00Z", "2020-01-05 12:60",
)  # fmt: skip


@pytest.mark.parametrize("kind", ["integer", "float", "date", "timestamp", "boolean"])
def test_text_is_read_as_duckdb_reads_it(tmp_path: Path, kind: Any) -> None:
    start = (dt.date(2020, 1, 1) - dt.date(1970, 1, 1)).days
    shape: Any = {
        "integer": Whole(-10, 20),
        "float": Grid(Fraction(-10), Fraction(1, 2), 60),
        "date": Whole(start, start + 9),
        "timestamp": Grid(Fraction(start * 86400 * 10**6), Fraction(1800 * 10**6), 480),
        "boolean": Values((True, False)),
    }[kind]
    column = Column("x", kind, shape, other="cell")
    number = Column("n", "integer", Whole(0, 99))
    texts = [
        *(DATES if kind in ("date", "timestamp") else TEXTS),
        "TRUE",
        " f ",
        "yes",
        "No",
        "0",
        "maybe",
    ]
    table = pa.table({"n": list(range(len(texts))), "x": texts})
    pq.write_table(table, tmp_path / "people.parquet")
    source = over(tmp_path, "people.parquet", number, column)
    other = DuckDBSource(
        contract(tmp_path, SourceSpec("parquet", "people.parquet"), number, column), SECRET
    )
    scan = Scan(EVERYWHERE, (Axis(0), Axis(1)))
    found, expected = source.scan(scan).rows, other.scan(scan).rows

    def read(cells: list[int]) -> dict[str, int]:
        width = column.width
        return {t: cells[i * width : (i + 1) * width].index(1) for i, t in enumerate(texts)}

    assert read(found) == read(expected)
    source.close()
    other.close()


@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP", "TIMESTAMPTZ"])
def test_times_without_end_in_files_of_others(tmp_path: Path, kind: str) -> None:
    """Spark knows none; what stands for them is outside of every domain."""
    shapes = {"date": Whole(0, 8), "timestamp": Grid(Fraction(0), Fraction(3600 * 10**6), 9)}
    columns = [
        Column(f"{name}{other}", name, shape, other=other)  # type: ignore[arg-type]
        for name, shape in shapes.items()
        for other in ("cell", "clamp")
    ]
    ends = ", ".join(f"CAST(x AS {kind}) AS {column.name}" for column in columns)
    source = written(
        tmp_path, f"SELECT {ends} FROM (VALUES ('infinity'), ('-infinity'), (NULL)) t(x)", *columns
    )
    for i, column in enumerate(sorted(columns, key=lambda c: c.name)):
        expected = [0] * 9 + [2, 1] if column.other == "cell" else [1] + [0] * 7 + [1, 1]
        assert source.scan(Scan(EVERYWHERE, (Axis(i),))).rows == expected
    source.close()


@pytest.mark.parametrize("odd", ["oops", "3.5", "1e999", "99999999999999999999", "NaN", ""])
def test_one_row_never_decides_whether_a_scan_raises(tmp_path: Path, odd: str) -> None:
    base = "SELECT CAST(i AS VARCHAR) AS age, 'F' AS sex FROM range(50) t(i)"
    scan = Scan(EVERYWHERE, (Axis(0),), ("age",), ("age",))
    without = written(tmp_path, base).scan(scan)
    with_it = written(tmp_path, f"{base} UNION ALL SELECT '{odd}', 'F'").scan(scan)
    assert sum(with_it.rows) == sum(without.rows) + 1
    moved = [i for i, (a, b) in enumerate(zip(without.rows, with_it.rows, strict=True)) if a != b]
    assert len(moved) == 1


def test_a_cell_counts_the_same_with_compiled_code(tmp_path: Path) -> None:
    """The other tests run without it: compiling takes longer than their statements."""
    source = written(
        tmp_path,
        "SELECT i % 130 AS age, 'F' AS sex, i // 3 AS p FROM range(2000) t(i)",
        unit=Unit("p", 2),
    )
    scan = Scan(REGIONS.where(1, ((0, 2),)), (Axis(0),), ("age",), ("age",))
    plain = source.scan(scan)
    conf = source._open(source._state()).session.spark.conf
    conf.set("spark.sql.codegen.wholeStage", "true")
    conf.set("spark.sql.codegen.factoryMode", "CODEGEN_ONLY")
    conf.set("spark.sql.adaptive.enabled", "true")
    compiled = source.scan(scan)
    assert (plain.rows, plain.non_null, plain.sums) == (
        compiled.rows,
        compiled.non_null,
        compiled.sums,
    )
    source.close()


# -- errors -----------------------------------------------------------------------------------------


def test_a_failing_view_says_nothing_of_its_rows(
    health: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    sql(
        "CREATE VIEW HealthX.failing AS SELECT CAST(s AS INT) AS age, s AS sex"
        " FROM VALUES ('1'), ('Jane Doe') t(s)"
    )
    source = over(Path(), None, table=f"{health}.failing", version="1")
    caplog.set_level(logging.INFO)
    with pytest.raises(
        SourceUnavailable, match=r"the scan of the data failed \(CAST_INVALID_INPUT\)"
    ) as found:
        source.scan(Scan(EVERYWHERE, (Axis(0),)))
    silent(found.value, "Jane", "Doe")
    assert "Jane" not in caplog.text
    assert capfd.readouterr() == ("", "")
    source.close()


def test_no_such_table_and_no_such_path(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name in ("nowhere.at_all", "nothing", "a.b.c.d"):
        with pytest.raises(SourceUnavailable, match="finds no such table") as found:
            over(tmp_path, None, table=name, version="1").scan(ALL)
        silent(found.value)
    for path in ("nothing.parquet", "nothing/*.parquet"):
        with pytest.raises(SourceUnavailable, match="no data"):
            over(tmp_path, path).scan(ALL)
    with pytest.raises(SourceUnavailable, match=r"there is no data at source\.path") as found:
        over(tmp_path, "nothing.parquet", version="1").scan(ALL)
    silent(found.value, str(tmp_path))
    assert capfd.readouterr() == ("", "")


def test_not_parquet(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "people.parquet").write_text("age,sex\n41,F\n")
    with pytest.raises(SourceUnavailable, match=r"could not be read as Parquet") as found:
        over(tmp_path).scan(ALL)
    silent(found.value, "41,F", "magic")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("one", "other"),
    [("1::INTEGER", "'oops'"), ("1::INTEGER", "1::BIGINT"), ("1.5::FLOAT", "1.5::DOUBLE")],
)
def test_files_of_unlike_types_are_refused(tmp_path: Path, one: str, other: str) -> None:
    (tmp_path / "p").mkdir()
    parquet(tmp_path / "p" / "a.parquet", f"SELECT {one} AS age, 'F' AS sex")
    parquet(tmp_path / "p" / "b.parquet", f"SELECT {other} AS age, 'F' AS sex")
    for path, version in (("p/*.parquet", None), ("p", "1")):
        with pytest.raises(
            SourceUnavailable, match=r"different types in different.*\n.*one type in all"
        ) as found:
            over(tmp_path, path, version=version).scan(ALL)
        silent(found.value, "oops")


def test_a_table_whose_files_have_other_types_than_it_declares(tmp_path: Path, health: str) -> None:
    parquet(tmp_path / "a.parquet", "SELECT 'oops' AS age, 'F' AS sex")
    sql(
        f"CREATE TABLE HealthX.other (age INT, sex STRING) USING parquet LOCATION 'file://{tmp_path}'"
    )
    with pytest.raises(SourceUnavailable, match=r"different types in different") as found:
        over(Path(), None, table=f"{health}.other", version="1").scan(Scan(EVERYWHERE, (Axis(0),)))
    silent(found.value, "oops")


def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    parquet(tmp_path / "people.parquet", SMALL)
    (tmp_path / "people.parquet").chmod(0)
    with pytest.raises(SourceUnavailable, match="cannot be read"):
        over(tmp_path).scan(ALL)


def test_a_missing_column_and_a_type_that_can_never_be_read(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable, match=r"no column sex \(columns\.sex\)") as found:
        written(tmp_path, "SELECT 1 AS age, 'x' AS gender").scan(ALL)
    silent(found.value, "gender")
    for age in ("DATE '2020-01-01'", "[1, 2]", "{'a': 1}", "'x'::BLOB"):
        with pytest.raises(SourceUnavailable, match="column age is declared integer") as found:
            written(tmp_path, f"SELECT {age} AS age, 'F' AS sex").scan(ALL)
        silent(found.value)
    with pytest.raises(SourceUnavailable, match="column p cannot be told apart"):
        written(tmp_path, "SELECT 1 AS age, 'F' AS sex, [1] AS p", unit=Unit("p", 1)).scan(ALL)


def test_nanoseconds_have_a_cure(tmp_path: Path) -> None:
    table = pa.table({"age": [1], "sex": ["F"], "at": pa.array([1], pa.timestamp("ns"))})
    pq.write_table(table, tmp_path / "people.parquet")
    source = over(tmp_path)
    try:
        assert source.scan(ALL).rows == [1], "later versions of Spark read them"
    except SourceUnavailable as error:
        assert "a type that Spark cannot read" in str(error)
        assert "microseconds" in (error.hint or "")
    source.close()


def test_special_characters_in_a_path(tmp_path: Path) -> None:
    folder = tmp_path / "a b%20c#d"
    folder.mkdir()
    parquet(folder / "people.parquet", SMALL)
    source = over(folder)
    assert source.scan(ALL).rows == [100]
    source.close()
    odd = tmp_path / "a{b}"
    odd.mkdir()
    parquet(odd / "people.parquet", SMALL)
    with pytest.raises(SourceUnavailable, match="in its name or folder"):
        over(odd).scan(ALL)


# -- versions ---------------------------------------------------------------------------------------


def test_a_declared_version_is_the_fingerprint(tmp_path: Path) -> None:
    marks = [
        over(tmp_path, None, table=table, version=version).fingerprint()
        for table in ("a.people", "b.people")
        for version in ("1", "2")
    ]
    assert len(set(marks)) == 4
    assert over(tmp_path, None, table='a."people"', version="1").fingerprint() == marks[0]
    other = SourceSpec("spark", None, "a.people", data_version="1")
    assert SparkSource(contract(tmp_path, other), b"another").fingerprint() != marks[0]
    for path in (None, "s3a://bucket/people"):
        with pytest.raises(SourceUnavailable, match=r"cannot be fingerprinted.*\n.*data_version"):
            over(tmp_path, path, table=None if path else "a.people")


def test_new_files_of_a_folder_are_another_version(tmp_path: Path) -> None:
    (tmp_path / "people").mkdir()
    parquet(tmp_path / "people" / "a.parquet", SMALL)
    source = over(tmp_path, "people")
    first = source.fingerprint()
    assert source.scan(ALL).rows == [100]
    parquet(tmp_path / "people" / "b.parquet", SMALL)
    assert source.fingerprint() != first
    assert source.scan(ALL).rows == [200]
    source.close()


def test_a_change_during_the_scan_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = written(tmp_path)
    run = SparkSource._run

    def meddle(self: SparkSource, *args: Any) -> Any:
        out = run(self, *args)
        parquet(tmp_path / "new.parquet", "SELECT 1 AS age, 'F' AS sex")
        (tmp_path / "new.parquet").replace(tmp_path / "people.parquet")
        return out

    monkeypatch.setattr(SparkSource, "_run", meddle)
    with pytest.raises(SourceChanged, match="changed while it was being read") as found:
        source.scan(ALL)
    silent(found.value)
    monkeypatch.undo()
    assert source.scan(ALL).rows == [1]
    source.close()


# -- control ----------------------------------------------------------------------------------------


def test_a_scan_can_be_cancelled_and_time_out(
    health: str, capfd: pytest.CaptureFixture[str]
) -> None:
    source = endless(health)
    start = time.monotonic()
    with pytest.raises(Cancelled, match="was cancelled") as found:
        source.scan(ALL, Control(cancelled=lambda: time.monotonic() - start > 0.5))
    silent(found.value)
    with pytest.raises(Cancelled, match=r"timeout of 0\.3 s"):
        source.scan(ALL, Control(timeout=0.3))
    with pytest.raises(Cancelled):
        source.scan(ALL, Control(cancelled=lambda: True))
    tracker = spark.kept_session().spark.sparkContext.statusTracker()
    last = time.monotonic() + 30
    while tracker.getActiveJobsIds() and time.monotonic() < last:
        time.sleep(0.05)
    assert not tracker.getActiveJobsIds(), "nothing goes on in Spark"
    assert capfd.readouterr() == ("", "")
    source.close()


def test_a_callers_own_error_is_handed_back(health: str) -> None:
    source = endless(health)
    calls = iter([False, False, False, False])
    with pytest.raises(StopIteration):
        source.scan(ALL, Control(cancelled=lambda: next(calls)))
    source.close()


def test_progress_is_told_for_long_scans(health: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[float] = []
    monkeypatch.setattr(watch, "QUIET_SECONDS", 0.1)
    source = endless(health)
    with pytest.raises(Cancelled):
        source.scan(ALL, Control(progress=told.append, timeout=0.8))
    source.close()
    assert told == sorted(told)
    assert told
    assert 0 < told[0] <= told[-1] < 1


def test_one_cancelled_scan_leaves_the_others_running(tmp_path: Path, health: str) -> None:
    source, other = endless(health), written(tmp_path)
    with ThreadPoolExecutor(3) as pool:
        short = pool.submit(source.scan, ALL, Control(timeout=0.5))
        beside = [pool.submit(other.scan, Scan(EVERYWHERE, (Axis(1),))) for _ in range(6)]
        with pytest.raises(Cancelled):
            short.result()
        assert [b.result().rows for b in beside] == [[50, 50, 0]] * 6
    source.close()
    other.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_session_does_not_survive_a_fork(tmp_path: Path) -> None:
    source = written(tmp_path)
    rows = source.scan(ALL).rows

    def child() -> str:
        try:
            source.scan(ALL)
        except SourceUnavailable as error:
            source.close()
            return str(error)
        return "went on"

    assert "does not survive a fork" in in_child(child)
    assert source.scan(ALL).rows == rows
    source.close()
