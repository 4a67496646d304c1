"""The embedded source: locked down, silent about its backend, stoppable, and safe from several threads."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

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
from defray.errors import Cancelled, DefrayError, SourceChanged, SourceUnavailable
from defray.query.descriptor import Axis
from defray.query.region import EVERYWHERE, Regions
from tests.data.people import AGE, SECRET, SEX, contract, csv_source, parquet

ALL = Scan(EVERYWHERE)
SMALL = "SELECT i AS age, CASE WHEN i % 2 = 0 THEN 'F' ELSE 'M' END AS sex FROM range(100) t(i)"


def open_parquet(
    folder: Path, select: str = SMALL, *columns: Column, unit: Unit | None = None
) -> DuckDBSource:
    parquet(folder / "people.parquet", select)
    spec = SourceSpec("parquet", "people.parquet")
    return DuckDBSource(contract(folder, spec, *columns, unit=unit), SECRET)


def open_view(folder: Path, view: str) -> DuckDBSource:
    with duckdb.connect(str(folder / "people.duckdb")) as connection:
        connection.execute(f"CREATE VIEW people AS {view}")
    return DuckDBSource(contract(folder, SourceSpec("duckdb", "people.duckdb", "people")), SECRET)


def endless(folder: Path) -> DuckDBSource:
    return open_view(
        folder,
        "SELECT CAST((a.i * b.i) % 99 AS INTEGER) AS age, 'F' AS sex"
        " FROM range(10000000) a(i), range(10000000) b(i)",
    )


def raw(source: DuckDBSource) -> duckdb.DuckDBPyConnection:
    source.scan(ALL)
    assert source._version is not None
    return source._version.opened.connection


# -- locked down ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csv", "parquet", "duckdb"])
def test_nothing_but_the_declared_files_can_be_reached(tmp_path: Path, kind: str) -> None:
    (tmp_path / "other.csv").write_text("a\n1\n")
    parquet(tmp_path / "other.parquet", "SELECT 1 AS a")
    duckdb.connect(str(tmp_path / "other.duckdb")).close()
    if kind == "csv":
        source = csv_source(tmp_path, "age,sex\n1,F\n")
    elif kind == "parquet":
        source = open_parquet(tmp_path)
    else:
        source = open_view(tmp_path, SMALL)
    connection = raw(source)
    for sql in (
        f"SELECT * FROM read_csv('{tmp_path}/other.csv')",
        f"SELECT * FROM '{tmp_path}/other.parquet'",
        f"SELECT * FROM read_text('{tmp_path}/*')",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM glob('/etc/*')",
        f"ATTACH '{tmp_path}/other.duckdb' AS other",
        f"COPY (SELECT 1) TO '{tmp_path}/out.csv'",
        f"EXPORT DATABASE '{tmp_path}/out'",
        "SELECT * FROM read_parquet('https://example.com/a.parquet')",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET lock_configuration = false",
        "SET temp_directory = '/tmp'",
        "RESET allowed_paths",
        "SET autoload_known_extensions = true",
    ):
        with pytest.raises(duckdb.Error):
            connection.execute(sql).fetchall()
    assert connection.execute("SELECT current_setting('temp_directory')").fetchall() == [("",)]
    source.close()


def test_a_database_is_read_only(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "people.duckdb")) as made:
        made.execute(f"CREATE TABLE people AS {SMALL}")
    source = DuckDBSource(
        contract(tmp_path, SourceSpec("duckdb", "people.duckdb", "main.people")), SECRET
    )
    connection = raw(source)
    for sql in ("DROP TABLE source.people", "INSERT INTO source.people VALUES (1, 'F')"):
        with pytest.raises(duckdb.Error):
            connection.execute(sql)
    source.close()


def test_a_declared_text_is_always_a_literal(tmp_path: Path) -> None:
    names = (
        "'",
        "''",
        "'; DROP TABLE people; --",
        "\\'",
        '"',
        "%s",
        "{x}",
        "?",
        "$1",
        "é\u202e",
        "E'\\n'",
        "a\nb",
    )
    column = Column("sex", "string", Values(names), other="cell")
    quoted = ", ".join("('" + n.replace("'", "''") + "')" for n in (*names, "else"))
    source = open_parquet(
        tmp_path, f"SELECT 1 AS age, s AS sex FROM (VALUES {quoted}) t(s)", AGE, column
    )
    assert source.scan(Scan(EVERYWHERE, (Axis(1),))).rows == [1] * (len(names) + 1) + [0]
    regions = Regions((AGE.width, column.width))
    for few in (1, 3, 11):
        assert source.scan(Scan(regions.where(1, ((0, few),)))).rows == [few]
    source.close()


def test_duckdb_is_not_imported_with_the_module() -> None:
    code = "import sys, defray.data.source, defray.data.duckdb; print('duckdb' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


# -- errors -----------------------------------------------------------------------------------------


def silent(error: DefrayError, *words: str) -> None:
    """Neither the error nor anything chained to it holds the words."""
    assert error.__cause__ is None
    assert error.__context__ is None
    shown = str(error) + repr(error.to_dict()) + repr(error.args)
    assert not [w for w in words if w in shown]


def test_a_failing_view_says_nothing_of_its_rows(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = open_view(
        tmp_path,
        "SELECT CAST(s AS INTEGER) AS age, s AS sex FROM (VALUES ('1'), ('Jane Doe')) t(s)",
    )
    with pytest.raises(SourceUnavailable) as found:
        source.scan(Scan(EVERYWHERE, (Axis(0),)))
    silent(found.value, "Jane", "Doe", "Error:")
    assert "the scan of the data failed (ConversionException)" in str(found.value)
    printed = "".join(traceback.format_exception(found.value))
    assert "Jane" not in printed + caplog.text


def test_a_view_over_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("age,sex\n1,F\n")
    source = open_view(tmp_path, f"SELECT * FROM read_csv('{tmp_path}/x.csv')")
    with pytest.raises(SourceUnavailable) as found:
        source.scan(ALL)
    silent(found.value, "x.csv", "Permission Error")


def test_not_parquet(tmp_path: Path) -> None:
    (tmp_path / "people.parquet").write_text("age,sex\n41,F\n")
    source = DuckDBSource(contract(tmp_path, SourceSpec("parquet", "people.parquet")), SECRET)
    with pytest.raises(
        SourceUnavailable, match=r"could not be read as Parquet.*\n.*every matching file"
    ) as found:
        source.scan(ALL)
    silent(found.value, "41,F", "magic")


def test_not_a_database_and_no_such_table(tmp_path: Path) -> None:
    (tmp_path / "people.duckdb").write_text("age,sex\n41,F\n")
    spec = SourceSpec("duckdb", "people.duckdb", "people")
    with pytest.raises(SourceUnavailable, match="could not be opened as a DuckDB database"):
        DuckDBSource(contract(tmp_path, spec), SECRET).scan(ALL)
    (tmp_path / "people.duckdb").unlink()
    duckdb.connect(str(tmp_path / "people.duckdb")).close()
    with pytest.raises(
        SourceUnavailable, match=r"could not be read as a DuckDB database.*\n.*source\.table"
    ):
        DuckDBSource(contract(tmp_path, spec), SECRET).scan(ALL)


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    source = open_parquet(tmp_path, "SELECT 1 AS age, 'x' AS gender")
    with pytest.raises(SourceUnavailable, match=r"no column sex \(columns\.sex\)") as found:
        source.scan(ALL)
    assert found.value.to_dict()["column"] == "sex"
    silent(found.value, "gender")
    source = open_parquet(tmp_path, SMALL, unit=Unit("person", 2))
    with pytest.raises(SourceUnavailable, match=r"no column person \(unit\.column\)"):
        source.scan(ALL)


def test_names_differ_in_case_only(tmp_path: Path) -> None:
    source = open_parquet(tmp_path, "SELECT 5 AS AGE, 'F' AS Sex")
    assert source.scan(Scan(EVERYWHERE, (Axis(1),))).rows == [1, 0, 0]
    source.close()


def test_a_type_that_can_never_be_read(tmp_path: Path) -> None:
    source = open_parquet(tmp_path, "SELECT DATE '2020-01-01' AS age, 'F' AS sex")
    with pytest.raises(SourceUnavailable, match="column age is declared integer") as found:
        source.scan(ALL)
    silent(found.value)


def test_files_of_different_types_are_widened(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    parquet(tmp_path / "p" / "a.parquet", "SELECT CAST(1 AS TINYINT) AS age, 'F' AS sex")
    parquet(
        tmp_path / "p" / "b.parquet", "SELECT 'M' AS sex, 'oops' AS age UNION ALL SELECT 'M', '2'"
    )
    source = DuckDBSource(contract(tmp_path, SourceSpec("parquet", "p/*.parquet")), SECRET)
    rows = source.scan(Scan(EVERYWHERE, (Axis(0),))).rows
    assert {i: n for i, n in enumerate(rows) if n} == {1: 1, 2: 1, AGE.null_atom: 1}
    source.close()


@pytest.mark.parametrize(
    "odd", ["oops", "3.5", "1e999", "99999999999999999999", "-1", "NaN", "Infinity", ""]
)
def test_one_row_never_decides_whether_a_scan_raises(tmp_path: Path, odd: str) -> None:
    base = "SELECT CAST(i AS VARCHAR) AS age, 'F' AS sex FROM range(50) t(i)"
    scan = Scan(EVERYWHERE, (Axis(0),), ("age",), ("age",))
    without = open_parquet(tmp_path, base).scan(scan)
    with_it = open_parquet(tmp_path, f"{base} UNION ALL SELECT '{odd}', 'F'").scan(scan)
    assert sum(with_it.rows) == sum(without.rows) + 1
    moved = [i for i, (a, b) in enumerate(zip(without.rows, with_it.rows, strict=True)) if a != b]
    assert len(moved) == 1
    assert 0 <= sum(with_it.sums["age"]) - sum(without.sums["age"]) <= 100


def test_bytes_that_are_not_text_in_parquet(tmp_path: Path) -> None:
    offsets, data = struct.pack("<4i", 0, 1, 3, 4), b"F\xff\xfeM"
    text = pa.StringArray.from_buffers(3, pa.py_buffer(offsets), pa.py_buffer(data))
    pq.write_table(pa.table({"age": [1, 2, 3], "sex": text}), tmp_path / "people.parquet")
    source = DuckDBSource(contract(tmp_path, SourceSpec("parquet", "people.parquet")), SECRET)
    if "utf8_validation" not in parameters("read_parquet"):
        pytest.skip("this DuckDB refuses the whole file")
    assert source.scan(Scan(EVERYWHERE, (Axis(1),))).rows == [1, 1, 1]
    source.close()


def parameters(function: str) -> set[str]:
    with duckdb.connect() as connection:
        sql = (
            f"SELECT unnest(parameters) FROM duckdb_functions() WHERE function_name = '{function}'"
        )
        return {row[0] for row in connection.execute(sql).fetchall()}


# -- numbers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP", "TIMESTAMPTZ", "VARCHAR"])
def test_times_without_end_are_outside_or_at_the_ends(tmp_path: Path, kind: str) -> None:
    days = Whole(0, 8)
    hours = Grid(Fraction(0), Fraction(3600 * 10**6), 9)
    columns = [
        Column(f"{name}{other}", name, shape, other=other)
        for name, shape in (("date", days), ("timestamp", hours))
        for other in ("cell", "clamp")
        if (kind, name) != ("VARCHAR", "timestamp")
    ]
    ends = ", ".join(f"CAST(x AS {kind}) AS {column.name}" for column in columns)
    parquet(
        tmp_path / "people.parquet",
        f"SELECT {ends}, 1 AS person FROM (VALUES ('infinity'), ('-infinity'), (NULL)) t(x)",
    )
    spec = SourceSpec("parquet", "people.parquet")
    for unit in (Unit(), Unit("person", 3)):
        source = DuckDBSource(contract(tmp_path, spec, *columns, unit=unit), SECRET)
        for i, column in enumerate(sorted(columns, key=lambda c: c.name)):
            expected = [0] * 9 + [2, 1] if column.other == "cell" else [1] + [0] * 7 + [1, 1]
            assert source.scan(Scan(EVERYWHERE, (Axis(i),))).rows == expected
        source.close()


def test_floats_on_the_edge_of_a_cell(tmp_path: Path) -> None:
    column = Column("age", "float", Grid(Fraction(0), Fraction(1, 10), 10))
    for kind, i in (("DOUBLE", 3), ("DOUBLE", 7), ("FLOAT", 3), ("FLOAT", 7)):
        source = open_parquet(
            tmp_path, f"SELECT CAST(0.{i} AS {kind}) AS age, 'F' AS sex", column, SEX
        )
        rows = source.scan(Scan(EVERYWHERE, (Axis(0),))).rows
        assert rows.index(1) == i
        assert source.scan(Scan(Regions((11, 3)).where(0, ((i, i + 1),)))).rows == [1]
        source.close()


@pytest.mark.parametrize(
    ("kind", "step"), [("FLOAT", Fraction(1, 7)), ("DOUBLE", Fraction(1, 2**50 + 1))]
)
def test_grids_beyond_arithmetic(tmp_path: Path, kind: str, step: Fraction) -> None:
    """Too many cells for a tree, and edges that doubles cannot compute: grouped by value."""
    column = Column("age", "float", Grid(Fraction(0), step, 5000), other="cell")
    select = (
        f"SELECT CAST(i * {float(step)!r} AS {kind}) AS age, 'F' AS sex FROM range(-2, 5003) t(i)"
    )
    source = open_parquet(tmp_path, select, column, SEX)
    rows = source.scan(Scan(EVERYWHERE, (Axis(0),))).rows
    assert sum(rows) == 5005
    regions = Regions((column.width, SEX.width))
    for atom in (0, 1, 2, 777, 4998, 4999, 5000):
        assert source.scan(Scan(regions.where(0, ((atom, atom + 1),)))).rows == [rows[atom]]
    source.close()


def test_sums_beyond_64_bits(tmp_path: Path) -> None:
    top = Fraction(2**80)
    column = Column(
        "age", "float", Whole(0, 1), other="cell", bounds=(-top, top), unit_step=Fraction(1)
    )
    source = open_parquet(tmp_path, "SELECT 1e300 AS age, 'F' AS sex FROM range(1000)", column, SEX)
    assert source.scan(Scan(EVERYWHERE, (), (), ("age",))).sums["age"] == [1000 * 2**80]
    source.close()


# -- versions ---------------------------------------------------------------------------------------


def test_new_content_is_read_after_it_was_replaced(tmp_path: Path) -> None:
    source = open_parquet(tmp_path)
    first = source.fingerprint()
    assert source.scan(ALL).rows == [100]
    parquet(tmp_path / "new.parquet", f"{SMALL} UNION ALL SELECT 5, 'F'")
    (tmp_path / "new.parquet").replace(tmp_path / "people.parquet")
    assert source.fingerprint() != first
    assert source.scan(ALL).rows == [101]
    source.close()


def test_a_change_during_the_scan_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = open_parquet(tmp_path)
    run = DuckDBSource._run

    def meddle(self: DuckDBSource, *args: object) -> object:
        out = run(self, *args)  # type: ignore[arg-type]
        parquet(tmp_path / "new.parquet", "SELECT 1 AS age, 'F' AS sex")
        (tmp_path / "new.parquet").replace(tmp_path / "people.parquet")
        return out

    monkeypatch.setattr(DuckDBSource, "_run", meddle)
    with pytest.raises(SourceChanged, match="changed while it was being read") as found:
        source.scan(ALL)
    silent(found.value)
    monkeypatch.undo()
    assert source.scan(ALL).rows == [1]
    same = (tmp_path / "people.parquet").read_bytes()
    times = 1

    def rewrite(self: DuckDBSource, *args: object) -> object:
        nonlocal times
        out = run(self, *args)  # type: ignore[arg-type]
        if times:
            times -= 1
            (tmp_path / "people.parquet").write_bytes(same)
        return out

    monkeypatch.setattr(DuckDBSource, "_run", rewrite)
    assert source.scan(ALL).rows == [1], "the same content again is no change: it is read once more"
    times = 99
    with pytest.raises(SourceChanged):
        source.scan(ALL)
    source.close()


def test_a_file_that_disappears(tmp_path: Path) -> None:
    source = open_parquet(tmp_path)
    source.scan(ALL)
    os.remove(tmp_path / "people.parquet")
    with pytest.raises(SourceUnavailable, match=r"no data file at people\.parquet"):
        source.scan(ALL)


# -- control ----------------------------------------------------------------------------------------


def test_a_scan_can_be_cancelled(tmp_path: Path) -> None:
    source = endless(tmp_path)
    start = time.monotonic()
    with pytest.raises(Cancelled, match="was cancelled") as found:
        source.scan(ALL, Control(cancelled=lambda: time.monotonic() - start > 0.3))
    assert time.monotonic() - start < 5
    silent(found.value, "INTERRUPT", "Interrupt")
    source.close()


def test_a_scan_can_time_out(tmp_path: Path) -> None:
    source = endless(tmp_path)
    start = time.monotonic()
    with pytest.raises(Cancelled, match=r"timeout of 0\.2 s"):
        source.scan(ALL, Control(timeout=0.2))
    assert time.monotonic() - start < 5
    source.close()


def test_cancelled_before_it_starts_and_usable_afterwards(tmp_path: Path) -> None:
    source = open_parquet(tmp_path)
    with pytest.raises(Cancelled):
        source.scan(ALL, Control(cancelled=lambda: True))
    assert source.scan(ALL, Control(cancelled=lambda: False, timeout=60)).rows == [100]
    source.close()


def test_a_callers_own_error_is_handed_back(tmp_path: Path) -> None:
    source = endless(tmp_path)
    calls = iter([False, False, False])
    with pytest.raises(StopIteration):
        source.scan(ALL, Control(cancelled=lambda: next(calls)))
    source.close()


def test_progress_is_told_for_long_scans_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[float] = []
    source = open_parquet(tmp_path)
    source.scan(ALL, Control(progress=told.append))
    source.close()
    assert told == []
    monkeypatch.setattr(watch, "QUIET_SECONDS", 0.1)
    source = endless(tmp_path)
    with pytest.raises(Cancelled):
        source.scan(ALL, Control(progress=told.append, timeout=0.5))
    source.close()
    assert told == sorted(told)
    assert len(told) > 3
    assert 0 < told[0] < told[-1] < 1


def test_several_threads_at_once(tmp_path: Path) -> None:
    select = "SELECT i % 90 AS age, 'F' AS sex, i % 1000 AS person FROM range(200000) t(i)"
    for unit in (Unit(), Unit("person", 3)):
        source = open_parquet(tmp_path, select, unit=unit)
        regions = Regions((AGE.width, SEX.width))
        scans = [
            Scan(regions.where(0, ((i, i + 30),)), (Axis(1),), ("age",), ("age",))
            for i in range(16)
        ]
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(source.scan, scans))
        for scan, exact in zip(scans, found, strict=True):
            again = source.scan(scan)
            assert (exact.rows, exact.non_null, exact.sums) == (
                again.rows,
                again.non_null,
                again.sums,
            )
        source.close()


def test_one_cancelled_scan_leaves_the_others_running(tmp_path: Path) -> None:
    source = endless(tmp_path)
    start = time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        short = pool.submit(source.scan, ALL, Control(timeout=0.2))
        long = pool.submit(source.scan, ALL, Control(timeout=1.0))
        with pytest.raises(Cancelled, match=r"0\.2"):
            short.result()
        assert time.monotonic() - start < 0.95
        with pytest.raises(Cancelled, match="1 s"):
            long.result()
    source.close()
