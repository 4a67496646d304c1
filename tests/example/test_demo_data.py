"""The demo table is what its provenance says, and its contract fits it."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "src" / "defray" / "example"

pq = pytest.importorskip("pyarrow.parquet")

CONTRACT = tomllib.loads((DEMO / "contract.toml").read_text())
COLUMNS: dict[str, dict[str, Any]] = CONTRACT["columns"]


@pytest.fixture(scope="module")
def table() -> Any:
    return pq.read_table(DEMO / "randhie.parquet")


@pytest.fixture(scope="module")
def builder() -> ModuleType:
    path = ROOT / "scripts" / "build_demo_data.py"
    spec = importlib.util.spec_from_file_location("build_demo_data", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_is_what_the_source_gives(table: Any, builder: ModuleType) -> None:
    try:
        source = builder.source_path()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    rebuilt = builder.build(source)
    assert table.schema.equals(rebuilt.schema)
    assert table.equals(rebuilt)


def test_rows_and_people(table: Any) -> None:
    rows = Counter(table["zper"].to_pylist())
    assert table.num_rows == 20_190 <= CONTRACT["n_max"]
    assert len(rows) == 5_912
    assert set(rows.values()) == {1, 2, 3, 4, 5}
    assert max(rows.values()) <= CONTRACT["unit"]["max_rows"]
    assert table.group_by(["zper", "year"]).aggregate([]).num_rows == table.num_rows


def test_the_file_is_small() -> None:
    assert (DEMO / "randhie.parquet").stat().st_size < 300_000


def test_each_column_but_the_unit_is_declared(table: Any) -> None:
    assert set(COLUMNS) == set(table.column_names) - {CONTRACT["unit"]["column"]}
    assert CONTRACT["source"] == {"kind": "parquet", "path": "randhie.parquet"}


def test_each_column_is_described() -> None:
    described = re.findall(r"^\| `(\w+)` \|", (DEMO / "PROVENANCE.md").read_text(), re.MULTILINE)
    assert sorted(described) == sorted([*COLUMNS, CONTRACT["unit"]["column"]])


@pytest.mark.parametrize("name", sorted(COLUMNS))
def test_the_declared_domain_fits_the_data(table: Any, name: str) -> None:
    column = COLUMNS[name]
    values = table[name].to_pylist()
    present = [value for value in values if value is not None]
    kinds = {"integer": "int", "float": "double", "string": "string", "boolean": "bool"}
    assert str(table.schema.field(name).type).startswith(kinds.get(column["type"], column["type"]))
    if len(present) < len(values):
        assert column["null"] == "cell"
    if column["type"] == "boolean":
        return
    if "values" in column:
        assert set(present) == set(column["values"])
        return
    edges = column.get("edges") or [column["min"], column["max"]]
    assert edges == sorted(set(edges))
    assert edges[0] <= min(present)
    assert max(present) <= edges[-1]
    if "step" in column:
        assert (column["max"] - column["min"]) % column["step"] == 0
    if "bounds" in column:
        low, high = column["bounds"]
        assert edges[0] <= low < high <= edges[-1]
        assert column["unit_step"] > 0
