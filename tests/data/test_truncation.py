"""Which rows of a unit are kept: a function of that unit's rows and the secret alone."""

from __future__ import annotations

import hashlib
import hmac
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from defray.core.column import Column
from defray.core.contract import SourceSpec, Unit
from defray.core.shapes import Whole
from defray.data.duckdb import source as module
from defray.data.duckdb.dialect import DUCKDB
from defray.data.duckdb.source import DuckDBSource
from defray.data.source import Scan
from defray.data.truncation import hmac_sha256
from defray.errors import Cancelled
from defray.query.descriptor import Axis
from defray.query.region import EVERYWHERE, Regions
from tests.data.people import SECRET, contract

VISIT = Column("visit", "integer", Whole(0, 999))
MARK = Column("mark", "integer", Whole(0, 9), null="cell", other="null")
Row = tuple[int | None, int | None, int | None]  # unit, visit, mark


def rows(seed: int = 1) -> list[Row]:
    draw = random.Random(seed)
    made: list[Row] = []
    for unit in range(60):
        for _ in range(draw.choice([0, 1, 2, 3, 4, 9])):
            made.append((unit, draw.randrange(1000), draw.choice([None, 1, 2, 3, 77])))
    made += made[::7]
    made += [(None, draw.randrange(1000), 1) for _ in range(5)]
    return made


def source(
    folder: Path,
    parts: Sequence[Sequence[Row]],
    *,
    max_rows: int = 2,
    key: tuple[str, ...] = (),
    cache: int = 10**9,
) -> DuckDBSource:
    folder.mkdir(parents=True, exist_ok=True)
    for i, part in enumerate(parts):
        columns = {
            name: [row[at] for row in part] for at, name in enumerate(("unit", "visit", "mark"))
        }
        table = pa.table(columns, pa.schema([(name, pa.int64()) for name in columns]))
        pq.write_table(table, folder / f"{i}.parquet")
    spec = SourceSpec("parquet", "*.parquet")
    made = contract(folder, spec, VISIT, MARK, unit=Unit("unit", max_rows, key))
    return DuckDBSource(made, SECRET, cache_bytes=cache)


def kept(made: DuckDBSource) -> list[int]:
    """Counts by (mark, visit)."""
    found = made.scan(Scan(EVERYWHERE, (Axis(0), Axis(1)))).rows
    made.close()
    return found


def field(value: int | None) -> str:
    return "N" if value is None else f"{len(str(value))}:{value}"


def expected(
    data: Sequence[Row], max_rows: int, key: bool = False
) -> Counter[tuple[int | None, int | None]]:
    """The definition, with Python's own HMAC."""
    units: dict[int, list[Row]] = {}
    for row in data:
        if row[0] is not None:
            units.setdefault(row[0], []).append(row)
    out: Counter[tuple[int | None, int | None]] = Counter()
    for own in units.values():

        def order(row: Row) -> tuple[str, str]:
            content = field(row[2]) + field(row[1])  # mark, visit: the domain's order
            message = field(row[0]) + (field(row[1]) if key else content)
            return hmac.new(SECRET, message.encode(), hashlib.sha256).hexdigest(), content

        out.update((row[2], row[1]) for row in sorted(own, key=order)[:max_rows])
    return out


def as_cells(counts: Counter[tuple[int | None, int | None]]) -> list[int]:
    cells = [0] * (MARK.width * VISIT.width)
    for (mark, visit), n in counts.items():
        row = 10 if mark is None or mark > 9 else mark
        cells[row * VISIT.width + (visit or 0)] += n
    return cells


def test_hmac_is_the_standard_one() -> None:
    with duckdb.connect() as connection:
        for text in ("", "it''s", "日本", "x" * 300):
            sql = "'" + text.replace("'", "''") + "'"
            got = connection.execute(f"SELECT {hmac_sha256(SECRET, sql, DUCKDB)}").fetchall()[0][0]
            assert got == hmac.new(SECRET, text.encode(), hashlib.sha256).hexdigest()
        empty = "''"
        got = connection.execute(f"SELECT {hmac_sha256(SECRET * 3, empty, DUCKDB)}").fetchall()[0][
            0
        ]
        assert got == hmac.new(SECRET * 3, b"", hashlib.sha256).hexdigest()


@pytest.mark.parametrize("cache", [10**9, 0], ids=["in memory", "every scan"])
@pytest.mark.parametrize("max_rows", [1, 2, 5, 100])
def test_the_kept_rows_are_those_of_the_definition(
    tmp_path: Path, max_rows: int, cache: int
) -> None:
    data = rows()
    made = source(tmp_path, [data], max_rows=max_rows, cache=cache)
    assert kept(made) == as_cells(expected(data, max_rows))


def test_the_kept_rows_are_chosen_by_a_window(tmp_path: Path) -> None:
    """DuckDB's rewriting of it takes longer."""
    made = source(tmp_path, [rows()])
    sql = made.kept_rows_sql()
    assert made._version is not None
    plan = made._version.opened.connection.execute(f"EXPLAIN {sql}").fetchall()[0][1]
    made.close()
    assert "window" in plan.lower()
    assert "ROW_NUMBER" in plan.upper()


def test_working_in_parts_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = rows(7)
    monkeypatch.setattr(module, "PART_ROWS", 20)
    assert kept(source(tmp_path, [data])) == as_cells(expected(data, 2))


def test_what_is_cut_off_halfway_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = rows(8)
    monkeypatch.setattr(module, "PART_ROWS", 20)
    made = source(tmp_path, [data])
    run, left = module._execute, [4]

    def stop(connection: Any, sql: str, watch: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            raise Cancelled("stopped")
        return run(connection, sql, watch)

    monkeypatch.setattr(module, "_execute", stop)
    with pytest.raises(Cancelled):
        made.scan(Scan(EVERYWHERE))
    assert kept(made) == as_cells(expected(data, 2))


def test_a_row_key_decides_where_one_is_declared(tmp_path: Path) -> None:
    data = rows(2)
    assert kept(source(tmp_path, [data], key=("visit",))) == as_cells(expected(data, 2, key=True))


def test_row_order_and_files_do_not_matter(tmp_path: Path) -> None:
    data = rows(3)
    first = kept(source(tmp_path / "one", [data]))
    for seed in range(3):
        mixed = random.Random(seed).sample(data, len(data))
        parts = [mixed[:50], mixed[50:53], mixed[53:]]
        assert kept(source(tmp_path / f"mixed{seed}", parts)) == first


def test_another_units_removal_moves_nothing(tmp_path: Path) -> None:
    data = rows(4)
    everything = kept(source(tmp_path / "all", [data]))
    for unit in (3, 17, 41):
        rest = kept(source(tmp_path / f"without{unit}", [[r for r in data if r[0] != unit]]))
        own = kept(source(tmp_path / f"only{unit}", [[r for r in data if r[0] == unit]]))
        assert [a + b for a, b in zip(rest, own, strict=True)] == everything


def test_where_applies_after_truncation(tmp_path: Path) -> None:
    data = rows(5)
    made = source(tmp_path, [data], max_rows=1)
    regions = Regions((MARK.width, VISIT.width))
    total = made.scan(Scan(EVERYWHERE)).rows[0]
    parts = [made.scan(Scan(regions.where(0, ((i, i + 1),)))).rows[0] for i in range(MARK.width)]
    made.close()
    assert sum(parts) == total == len({r[0] for r in data} - {None})


def test_dropped_rows_take_nobodys_place(tmp_path: Path) -> None:
    mark = Column("mark", "integer", Whole(0, 9), null="drop", other="drop")
    (tmp_path / "d").mkdir()
    table = pa.table({"unit": [1, 1, 1, None, 2], "mark": [None, 77, 5, 5, 6]})
    pq.write_table(table, tmp_path / "d" / "a.parquet")
    made = DuckDBSource(
        contract(tmp_path / "d", SourceSpec("parquet", "a.parquet"), mark, unit=Unit("unit", 1)),
        SECRET,
    )
    found = made.scan(Scan(EVERYWHERE, (Axis(0),))).rows
    made.close()
    assert [i for i, n in enumerate(found) if n] == [5, 6]


def test_nan_is_no_unit(tmp_path: Path) -> None:
    table = pa.table(
        {"unit": [1.5, float("nan"), None, 1.5], "visit": [1, 2, 3, 4], "mark": [1, 2, 3, 4]}
    )
    pq.write_table(table, tmp_path / "a.parquet")
    spec = SourceSpec("parquet", "a.parquet")
    made = DuckDBSource(contract(tmp_path, spec, VISIT, MARK, unit=Unit("unit", 1)), SECRET)
    assert made.scan(Scan(EVERYWHERE)).rows == [1]
    made.close()


def test_a_rewrite_with_the_same_bytes_during_a_scan_leaves_no_half_read_rows(
    tmp_path: Path,
) -> None:
    """Content that is the same before and after may have been half written when the rows were kept."""
    import duckdb

    from defray.errors import SourceChanged
    from tests.tables import open_session, write_contract

    rows = "SELECT i AS id, i % 90 AS age, 'F' AS sex, 5 AS income, i // 3 AS person FROM range(9000) t(i)"
    duckdb.sql(f"COPY ({rows}) TO '{tmp_path / 'people.csv'}' (HEADER)")
    whole = (tmp_path / "people.csv").read_bytes()
    unit = 'rho = 1000\nunit = {column = "person", max_rows = 3}'
    contract = write_contract(tmp_path, unit, kind="csv", path="people.csv")
    with open_session(contract) as session:
        source = session._engine._source
        run = source._run

        def half_written(*arguments: object) -> object:
            (tmp_path / "people.csv").write_bytes(whole[: len(whole) // 2])
            try:
                return run(*arguments)
            finally:
                (tmp_path / "people.csv").write_bytes(whole)

        source._run = half_written
        with pytest.raises(SourceChanged):
            session.ask("SELECT COUNT(*) FROM people", within=10)
        source._run = run
        answer = session.ask("SELECT COUNT(*) FROM people WHERE age >= 0", within=10)
        assert answer.value == pytest.approx(9000, abs=40)
        assert session.history()[0]["question"].startswith("SELECT COUNT(*) FROM people WHERE")
