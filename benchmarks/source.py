"""What a scan costs over hand-written SQL on 10 M rows, in the same run on the same machine.

The raw statement runs on a plain DuckDB connection with the same number of threads.  For the user unit
it holds the same truncation; the source works the kept rows out once for each version of the data and
holds them in memory, so the first scan and the later ones are shown apart.

The table lives under ``DEFRAY_BENCH_DIR`` (default ``./.bench``) and is made once.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import duckdb

from benchmarks.table import Line, show
from defray.core.column import Column
from defray.core.contract import Contract, SourceSpec, Unit
from defray.core.domain import Domain
from defray.core.shapes import Grid, Values, Whole
from defray.data.duckdb.files import processors
from defray.data.duckdb.source import DuckDBSource
from defray.data.source import Scan
from defray.query.descriptor import Axis
from defray.query.region import EVERYWHERE, Regions

ROWS = 10_000_000
REPEATS = 25
SECRET = b"benchmark secret of 32 bytes...."
STATES = tuple(f"S{i:02d}" for i in range(50))
MAX_ROWS = 3


GOAL = "at most 1.15 times, or 8 ms more"


def line(what: str, scan: float, raw: float) -> Line:
    """Medians in milliseconds as a line of the report."""
    over = scan - raw
    met = scan <= 1.15 * raw or over <= 8.0
    ratio = f"{scan / raw:.2f} ({over:+.1f} ms)"
    return Line(what, f"{scan:.1f} ms", f"raw SQL {raw:.1f} ms", ratio, GOAL, met)


def table() -> Path:
    """The Parquet file, made on first use."""
    folder = Path(os.environ.get("DEFRAY_BENCH_DIR", ".bench"))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder.absolute() / f"scans-{ROWS}.parquet"
    if not path.exists():
        part = path.with_suffix(".part")
        with duckdb.connect() as connection:
            connection.execute("SELECT setseed(0.25)")
            connection.execute(
                f"COPY (SELECT i AS id, CAST(floor(random() * 100) AS INTEGER) AS age,"
                f" CASE WHEN random() < 0.49 THEN 'M' ELSE 'F' END AS sex,"
                f" 'S' || lpad(CAST(CAST(floor(random() * 50) AS INTEGER) AS VARCHAR), 2, '0') AS state,"
                f" CASE WHEN random() < 0.02 THEN NULL ELSE round(exp(8 + 4 * random()), 2) END AS income,"
                f" CAST(floor(random() * {ROWS // 4}) AS BIGINT) AS user_id"
                f" FROM range({ROWS}) t(i)) TO '{part}' (FORMAT parquet)"
            )
        part.rename(path)
    return path


def contract(path: Path, unit: Unit) -> Contract:
    columns = (
        Column("age", "integer", Whole(0, 120)),
        Column(
            "income", "float", Grid(Fraction(0), Fraction(5000), 40), other="clamp",
            bounds=(Fraction(0), Fraction(100_000)), unit_step=Fraction(1),
        ),
        Column("sex", "string", Values(("F", "M"))),
        Column("state", "string", Values(STATES)),
    )  # fmt: skip
    spec = SourceSpec("parquet", path.name)
    return Contract("people", Fraction(1), unit, spec, Domain(columns), path.parent)


def medians(
    first: Callable[[], object], second: Callable[[], object], times: int
) -> tuple[float, float]:
    """Both are run in turns, so that a slow moment of the machine meets both."""
    taken: tuple[list[float], list[float]] = ([], [])
    first(), second()
    for _ in range(times):
        for run, into in zip((first, second), taken, strict=True):
            start = time.perf_counter()
            run()
            into.append(1e3 * (time.perf_counter() - start))
    return statistics.median(taken[0]), statistics.median(taken[1])


def rows() -> list[Line]:
    path = table()
    read = f"read_parquet('{path}')"
    raw = duckdb.connect(config={"threads": str(processors())})
    source = DuckDBSource(contract(path, Unit()), SECRET)
    source.fingerprint()
    domain = contract(path, Unit()).domain
    regions = Regions(domain.widths)
    age, income, sex, state = range(4)
    middle = regions.where(age, ((40, 66),))
    women = regions.both(middle, regions.where(sex, ((0, 1),)))
    earners = regions.where(income, domain.columns[income].non_nulls)
    clamped = "SUM(CAST(round(least(greatest(income, 0), 100000)) AS BIGINT))"
    questions = [
        (
            "COUNT WHERE age BETWEEN",
            Scan(middle),
            f"SELECT COUNT(*) FROM {read} WHERE age BETWEEN 40 AND 65",
        ),
        (
            "COUNT WHERE age BETWEEN AND sex =",
            Scan(women),
            f"SELECT COUNT(*) FROM {read} WHERE age BETWEEN 40 AND 65 AND sex = 'F'",
        ),
        (
            "COUNT GROUP BY state (50)",
            Scan(EVERYWHERE, (Axis(state),)),
            f"SELECT state, COUNT(*) FROM {read} GROUP BY state",
        ),
        (
            "COUNT GROUP BY age (121)",
            Scan(EVERYWHERE, (Axis(age),)),
            f"SELECT age, COUNT(*) FROM {read} GROUP BY age",
        ),
        (
            "COUNT GROUP BY age, sex, state (12,100)",
            Scan(EVERYWHERE, (Axis(age), Axis(sex), Axis(state))),
            f"SELECT age, sex, state, COUNT(*) FROM {read} GROUP BY age, sex, state",
        ),
        (
            "clamped SUM(income)",
            Scan(earners, (), (), ("income",)),
            f"SELECT COUNT(*), {clamped} FROM {read} WHERE income IS NOT NULL",
        ),
        (
            "clamped SUM(income) GROUP BY state",
            Scan(earners, (Axis(state),), (), ("income",)),
            f"SELECT state, COUNT(*), {clamped} FROM {read} WHERE income IS NOT NULL GROUP BY state",
        ),
    ]
    out = []
    for name, scan, sql in questions:
        scan_ms, raw_ms = medians(
            lambda s=scan: source.scan(s),  # type: ignore[misc]
            lambda q=sql: raw.execute(q).fetchall(),  # type: ignore[misc]
            REPEATS,
        )
        out.append(line(name, scan_ms, raw_ms))
    source.close()
    out += _user_unit(path, raw, Scan(middle))
    return out


def _user_unit(path: Path, raw: duckdb.DuckDBPyConnection, scan: Scan) -> list[Line]:
    """COUNT WHERE with at most three rows of a user."""
    remembered: dict[str, str] = {}

    def opened() -> DuckDBSource:
        unit = Unit("user_id", MAX_ROWS)
        made = DuckDBSource(
            contract(path, unit), SECRET, remember=remembered.get, memo=remembered.__setitem__
        )
        made.fingerprint()
        return made

    source = opened()
    truncated = source.kept_rows_sql()
    sql = f"SELECT COUNT(*) FROM ({truncated}) WHERE c0 BETWEEN 40 AND 65"
    first_ms, raw_first_ms = medians(
        lambda: opened().scan(scan), lambda: raw.execute(sql).fetchall(), 3
    )
    later_ms, _ = medians(lambda: source.scan(scan), lambda: None, REPEATS)
    source.close()
    return [
        line("user unit, COUNT WHERE: first scan", first_ms, raw_first_ms),
        line("user unit, COUNT WHERE: later scans", later_ms, raw_first_ms),
    ]


lines = rows

if __name__ == "__main__":
    show("Scans of 10 M rows of Parquet", rows())
