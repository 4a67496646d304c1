"""Other rows of the same bytes are another version of the data; other words for the same rows are not."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import duckdb
import pytest

from defray.core.contract import SourceSpec
from defray.data.duckdb.files import how_read
from defray.data.duckdb.source import DuckDBSource
from defray.data.source import Scan
from defray.query.region import EVERYWHERE
from tests.data.people import SECRET, contract, parquet


class Memory(dict[str, str]):
    """One ledger's notes."""


@pytest.fixture
def notes() -> Memory:
    return Memory()


def identity(
    folder: Path, notes: Memory, kind: Any, path: str, table: str | None = None, **options: Any
) -> str:
    for file in folder.glob("*.*"):
        os.utime(file, (1e9, 1e9))
    spec = SourceSpec(kind, path, table, options=options)
    source = DuckDBSource(
        contract(folder, spec), SECRET, remember=notes.get, memo=notes.__setitem__
    )
    try:
        return source.fingerprint()
    finally:
        source.close()


def test_another_table_of_a_database(tmp_path: Path, notes: Memory) -> None:
    with duckdb.connect(str(tmp_path / "x.duckdb")) as made:
        made.execute("CREATE SCHEMA s")
        for name in ("people", "t2", "s.people"):
            made.execute(f"CREATE TABLE {name} AS SELECT 1 AS age, 'F' AS sex")
    tables = (None, "people", "main.people", "t2", "s.people")
    default, *others = [identity(tmp_path, notes, "duckdb", "x.duckdb", t) for t in tables]
    assert others[:2] == [default, default]
    assert len({default, *others}) == 3


@pytest.mark.parametrize(
    "options",
    [
        {"header": False, "columns": ["age", "sex"]},
        {"delimiter": ";"},
        {"quote": ""},
        {"quote": "'"},
        {"escape": "\\"},
        {"null": ["", "3"]},
        {"null": []},
        {"encoding": "latin-1"},
    ],
    ids=str,
)
def test_another_way_to_read_a_csv_file(
    tmp_path: Path, notes: Memory, options: dict[str, Any]
) -> None:
    (tmp_path / "x.csv").write_text("age,sex\n3,F\n")
    first = identity(tmp_path, notes, "csv", "x.csv")
    other = identity(tmp_path, notes, "csv", "x.csv", **options)
    assert other != first
    assert identity(tmp_path, notes, "csv", "x.csv") == first
    assert identity(tmp_path, Memory(), "csv", "x.csv", **options) == other


@pytest.mark.parametrize(
    "options",
    [
        {"header": True},
        {"delimiter": ","},
        {"quote": '"'},
        {"escape": '"'},
        {"null": [""]},
        {"null": ""},
        {"null": ["", ""]},
        {"encoding": "UTF8"},
        {"encoding": "utf-8"},
        {"columns": ["these", "do", "not", "count", "with", "a", "header"]},
    ],
    ids=str,
)
def test_a_default_may_be_written(tmp_path: Path, notes: Memory, options: dict[str, Any]) -> None:
    (tmp_path / "x.csv").write_text("age,sex\n3,F\n")
    first = identity(tmp_path, notes, "csv", "x.csv")
    assert identity(tmp_path, notes, "csv", "x.csv", **options) == first


def test_the_order_of_null_texts_does_not_count(tmp_path: Path, notes: Memory) -> None:
    (tmp_path / "x.csv").write_text("age,sex\n3,F\n")
    one = identity(tmp_path, notes, "csv", "x.csv", null=["", "?"])
    assert identity(tmp_path, notes, "csv", "x.csv", null=["?", ""]) == one


def test_names_without_a_header_count_in_their_order(tmp_path: Path, notes: Memory) -> None:
    (tmp_path / "x.csv").write_text("3,F\n")
    given = [
        identity(tmp_path, notes, "csv", "x.csv", header=False, columns=names)
        for names in (["age", "sex"], ["sex", "age"])
    ]
    assert given[0] != given[1]


def test_another_kind(tmp_path: Path, notes: Memory) -> None:
    parquet(tmp_path / "x.parquet", "SELECT 1 AS age, 'F' AS sex")
    kinds = ("parquet", "csv", "duckdb")
    assert len({identity(tmp_path, notes, kind, "x.parquet") for kind in kinds}) == 3


def test_where_a_file_lies_does_not_count(tmp_path: Path, notes: Memory) -> None:
    (tmp_path / "x.csv").write_text("age,sex\n3,F\n")
    (tmp_path / "d").mkdir()
    for copy in ("y.csv", "d/x.csv", "x.csv.gz"):
        shutil.copy(tmp_path / "x.csv", tmp_path / copy)
    first = identity(tmp_path, notes, "csv", "x.csv")
    assert identity(tmp_path, notes, "csv", "y.csv") == first
    assert identity(tmp_path, notes, "csv", "d/x.csv") == first
    assert identity(tmp_path, notes, "csv", "x.csv.gz") != first, "the same bytes, but unpacked"


def test_for_files_the_table_is_only_a_name(tmp_path: Path, notes: Memory) -> None:
    parquet(tmp_path / "x.parquet", "SELECT 1 AS age, 'F' AS sex")
    first = identity(tmp_path, notes, "parquet", "x.parquet")
    assert identity(tmp_path, notes, "parquet", "x.parquet", "other") == first


def test_what_counts_is_what_is_read(tmp_path: Path) -> None:
    """Every option that a scan goes by is spelled out."""
    spec = SourceSpec("csv", "x.csv", options={"header": False, "columns": ["age", "sex"]})
    said = how_read(contract(tmp_path, spec))
    assert said == (
        '{"csv":{"columns":["age","sex"],"delimiter":",","encoding":"utf-8","escape":"\\"",'
        '"header":false,"null":[""],"quote":"\\""},"kind":"csv"}'
    )
    (tmp_path / "x.csv").write_text("3,F\n4,M\n")
    source = DuckDBSource(contract(tmp_path, spec), SECRET)
    assert source.scan(Scan(EVERYWHERE)).rows == [2]
    source.close()
