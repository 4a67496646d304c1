"""What a scan costs over the SQL that a person would write, on every kind of source, in the same run.

``python -m benchmarks.sources --rows 10000000 --kinds duckdb,postgresql``

The two are run in turns.  The goal, at most 1.15 times the database's own SQL, is for scans that take longer
than a second.  Where the unit is a column, the SQL keeps the same rows of each unit, by one window over all
rows; it is run once.

A question that is credited in views scans these too: all its scans together are held against a scan each.

The table is made under ``DEFRAY_BENCH_DIR`` (default ``./.bench``) once; PostgreSQL runs as a server of its
own, which is removed at the end.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import duckdb

from benchmarks.table import Line, once, show
from defray.core.column import Column
from defray.core.contract import Contract, SourceSpec, Unit
from defray.core.domain import Domain
from defray.core.shapes import Grid, Values, Whole
from defray.data.duckdb.files import processors
from defray.data.duckdb.source import DuckDBSource
from defray.data.source import Scan, Source, scan_all
from defray.data.truncation import pads
from defray.query.descriptor import Axis
from defray.query.region import EVERYWHERE, Regions

SECRET: Final = b"benchmark secret of 32 bytes...."
STATES: Final = tuple(f"S{i:02d}" for i in range(50))
MAX_ROWS: Final = 3
GOAL: Final = "at most 1.15 beyond 1 s"
EASED: Final = "at most 1 beyond 1 s"
MONEY: Final = {"other": "clamp", "bounds": (Fraction(0), Fraction(100_000))}
DOMAIN: Final = Domain(
    (
        Column("age", "integer", Whole(0, 120)),
        Column("income", "float", Grid(Fraction(0), Fraction(5000), 40), unit_step=Fraction(1), **MONEY),
        Column("price", "decimal", Grid(Fraction(0), Fraction(5000), 40),
               unit_step=Fraction(1, 100), **MONEY),
        Column("sex", "string", Values(("F", "M"))),
        Column("state", "string", Values(STATES)),
    )
)  # fmt: skip
AGE, INCOME, PRICE, SEX, STATE = range(5)
REGIONS: Final = Regions(DOMAIN.widths)


@dataclass(frozen=True)
class Question:
    """The same question as a scan, and as SQL over ``{table}``."""

    name: str
    scan: Scan
    sql: str


def _questions() -> Iterator[Question]:
    middle = REGIONS.where(AGE, ((40, 66),))
    women = REGIONS.both(middle, REGIONS.where(SEX, ((0, 1),)))
    earners = REGIONS.where(INCOME, DOMAIN.columns[INCOME].non_nulls)
    priced = REGIONS.where(PRICE, DOMAIN.columns[PRICE].non_nulls)
    total = "COUNT(*), SUM(CAST(round(least(greatest(income, 0), 100000)) AS BIGINT))"
    where = "FROM {table} WHERE"
    yield Question(
        "COUNT WHERE age BETWEEN",
        Scan(middle),
        f"SELECT COUNT(*) {where} age BETWEEN 40 AND 65",
    )
    yield Question(
        "COUNT WHERE age BETWEEN AND sex =",
        Scan(women),
        f"SELECT COUNT(*) {where} age BETWEEN 40 AND 65 AND sex = 'F'",
    )
    yield Question(
        "COUNT GROUP BY sex, state",
        Scan(EVERYWHERE, (Axis(SEX), Axis(STATE))),
        "SELECT sex, state, COUNT(*) FROM {table} GROUP BY sex, state",
    )
    yield Question(
        "COUNT WHERE income BETWEEN GROUP BY age",
        Scan(REGIONS.where(INCOME, ((2, 10),)), (Axis(AGE),)),
        f"SELECT age, COUNT(*) {where} income >= 10000 AND income < 50000 GROUP BY age",
    )
    yield Question(
        "clamped SUM(income)",
        Scan(earners, (), (), ("income",)),
        f"SELECT {total} {where} income IS NOT NULL",
    )
    yield Question(
        "clamped SUM(income) GROUP BY state",
        Scan(earners, (Axis(STATE),), (), ("income",)),
        f"SELECT state, {total} {where} income IS NOT NULL GROUP BY state",
    )
    yield Question(
        "clamped SUM(price), a DECIMAL",
        Scan(priced, (), (), ("price",)),
        f"SELECT COUNT(*), SUM(least(greatest(price, 0), 100000)) {where} price IS NOT NULL",
    )


QUESTIONS: Final = tuple(_questions())

BYTES: Final = {"duckdb": "strlen", "postgresql": "octet_length", "spark": "octet_length"}
TEXT: Final = {"duckdb": "VARCHAR", "postgresql": "text", "spark": "STRING"}
KEYED: Final = {
    "duckdb": "sha256(unhex('{outer}') || unhex(sha256(unhex('{inner}') || encode({row}))))",
    "postgresql": r"sha256('\x{outer}'::bytea || sha256('\x{inner}'::bytea || convert_to({row}, 'UTF8')))",
    "spark": "sha2(concat(X'{outer}', unhex(sha2(concat(X'{inner}', CAST({row} AS BINARY)), 256))), 256)",
}
"""HMAC-SHA256 of a text in the engine's own SQL."""


def truncated(kind: str, rows: int) -> str:
    """COUNT WHERE age BETWEEN over the same ``rows`` rows of each user, by one window over all rows."""
    texts = [
        f"CAST({name} AS {TEXT[kind]})" for name in ("user_id", *(c.name for c in DOMAIN.columns))
    ]
    row = ", ".join(f"coalesce({BYTES[kind]}({text}) || ':' || {text}, 'N')" for text in texts)
    outer, inner = (pad.hex() for pad in pads(SECRET))
    keyed = KEYED[kind].format(outer=outer, inner=inner, row=f"concat({row})")
    place = f"row_number() OVER (PARTITION BY user_id ORDER BY {keyed}) AS place"
    kept = f"SELECT age, {place} FROM {{table}} WHERE user_id IS NOT NULL"
    return f"SELECT COUNT(*) FROM ({kept}) AS kept WHERE place <= {rows} AND age BETWEEN 40 AND 65"


@dataclass(frozen=True)
class Ask:
    """A question that is credited in views: its own scan comes last."""

    name: str
    scans: Sequence[Scan]


def _asks() -> Iterator[Ask]:
    middle = REGIONS.where(AGE, ((40, 66),))
    ages = Axis(AGE, starts=tuple(range(0, 120, 5)))
    incomes = Axis(INCOME, starts=(0, 2, 4, 8, 16, 32))
    measured = ("income",), ("income",)
    yield Ask(
        "COUNT WHERE age BETWEEN, a view",
        (Scan(EVERYWHERE, (ages,)), Scan(middle)),
    )
    yield Ask(
        "AVG(income) GROUP BY sex, two views",
        (
            Scan(EVERYWHERE, (ages, Axis(SEX)), *measured),
            Scan(EVERYWHERE, (Axis(SEX), Axis(INCOME, starts=(0, 40))), *measured),
            Scan(middle, (Axis(SEX),), *measured),
        ),
    )
    yield Ask(
        "COUNT GROUP BY state, two views too large for one pass",
        (
            Scan(EVERYWHERE, (ages, Axis(STATE))),
            Scan(EVERYWHERE, (incomes, Axis(SEX))),
            Scan(middle, (Axis(STATE),)),
        ),
    )


ASKS: Final = tuple(_asks())

Opened = tuple[Callable[[Unit], Source], Callable[[str], Any]]
"""How the source is opened, and how SQL over ``{table}`` is run."""


def folder() -> Path:
    made = Path(os.environ.get("DEFRAY_BENCH_DIR", ".bench")).absolute()
    made.mkdir(parents=True, exist_ok=True)
    return made


def parquet(rows: int) -> Path:
    """The table as one file, made on first use."""
    path = folder() / f"sources-{rows}.parquet"
    if not path.exists():
        part = path.with_suffix(".part")
        money = "round(exp(8 + 4 * random()), 2)"
        with duckdb.connect() as connection:
            connection.execute("SELECT setseed(0.25)")
            connection.execute(
                f"COPY (SELECT CAST(floor(random() * 100) AS INTEGER) AS age,"
                f" CASE WHEN random() < 0.02 THEN NULL ELSE {money} END AS income,"
                f" CASE WHEN random() < 0.02 THEN NULL ELSE CAST({money} AS DECIMAL(10,2)) END AS price,"
                f" CASE WHEN random() < 0.49 THEN 'M' ELSE 'F' END AS sex,"
                f" 'S' || lpad(CAST(CAST(floor(random() * 50) AS INTEGER) AS VARCHAR), 2, '0') AS state,"
                f" CAST(floor(random() * {max(1, rows // 4)}) AS BIGINT) AS user_id"
                f" FROM range({rows}) t(i)) TO '{part}' (FORMAT parquet)"
            )
        part.rename(path)
    return path


@contextmanager
def on_duckdb(rows: int) -> Iterator[Opened]:
    path = parquet(rows)
    raw = duckdb.connect(config={"threads": str(processors())})

    def opened(unit: Unit) -> Source:
        spec = SourceSpec("parquet", path.name)
        made = Contract("people", Fraction(1), unit, spec, DOMAIN, path.parent)
        source = DuckDBSource(made, SECRET)
        source.fingerprint()
        return source

    table = f"read_parquet('{path}')"
    yield opened, lambda sql: raw.execute(sql.format(table=table)).fetchall()
    raw.close()


@contextmanager
def on_postgresql(rows: int) -> Iterator[Opened]:
    import psycopg

    from defray.data.postgresql.source import PostgresSource
    from tests.postgresql.server import new_server

    server = new_server()
    dsn = server.dsn("postgres")
    columns = (
        "age integer, income float8, price numeric(10,2), sex text, state text, user_id bigint"
    )
    with psycopg.connect(dsn, autocommit=True) as raw:
        raw.execute(f"CREATE TABLE people ({columns})")
        print(f"loading {rows:,} rows into PostgreSQL ...", file=sys.stderr)
        text = folder() / f"sources-{os.getpid()}.csv"
        try:
            duckdb.sql(f"COPY (FROM '{parquet(rows)}') TO '{text}' (HEADER false)")
            with (
                text.open("rb") as lines,
                raw.cursor().copy("COPY people FROM STDIN (FORMAT csv)") as copy,
            ):
                while block := lines.read(1 << 20):
                    copy.write(block)
        finally:
            text.unlink(missing_ok=True)
        raw.execute("VACUUM ANALYZE people")

        def opened(unit: Unit) -> Source:
            spec = SourceSpec("postgresql", None, "people", data_version="1")
            return PostgresSource(
                Contract("people", Fraction(1), unit, spec, DOMAIN, Path()), dsn, SECRET
            )

        yield opened, lambda sql: raw.execute(sql.format(table="people")).fetchall()  # type: ignore[arg-type]
    server.stop("immediate")


def on_spark(rows: int) -> AbstractContextManager[Opened]:
    from benchmarks import spark_source

    return spark_source.on_spark(parquet(rows), DOMAIN, SECRET)


KINDS: Final[Mapping[str, Any]] = {
    "duckdb": on_duckdb,
    "postgresql": on_postgresql,
    "spark": on_spark,
}


def in_turns(
    first: Callable[[], object], second: Callable[[], object], times: int
) -> tuple[float, float, float]:
    """Median seconds of both, and the median of their ratios: a slow moment meets both of a pair."""
    first(), second()
    pairs = []
    for turn in range(times):
        both = []
        for run in (first, second) if turn % 2 else (second, first):
            both.append(once(run))
        pairs.append(tuple(both) if turn % 2 else tuple(reversed(both)))
    ours, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
    return ours, theirs, statistics.median(a / b for a, b in pairs)


def measured(kind: str, rows: int, repeats: int) -> Iterator[Line]:
    with KINDS[kind](rows) as (opened, run):
        source = opened(Unit())
        for question in QUESTIONS:
            ours, theirs, ratio = in_turns(
                lambda q=question: source.scan(q.scan),  # type: ignore[misc]
                lambda q=question: run(q.sql),  # type: ignore[misc]
                repeats,
            )
            met = ratio <= 1.15 or theirs < 1
            yield _line(f"{kind}: {question.name}", ours, theirs, f"{ratio:.2f}", GOAL, met)
        for ask in ASKS:
            yield _asked(f"{kind}: {ask.name}", source, ask, repeats)
        source.close()
        source = opened(Unit("user_id", MAX_ROWS))
        plain = QUESTIONS[0]
        counts: list[int] = []
        theirs = once(lambda: counts.append(run(truncated(kind, MAX_ROWS))[0][0]))
        for name in ("first scan", "second scan"):
            took = once(lambda: counts.extend(source.scan(plain.scan).rows))
            if counts[0] != counts[-1]:
                raise ValueError(f"{kind}: other rows are kept than by the plain SQL")
            what = f"{kind}: {MAX_ROWS} rows of a user, {name}"
            ratio = took / theirs
            yield _line(what, took, theirs, f"{ratio:.2f}", GOAL, ratio <= 1.15 or theirs < 1)
        ask = ASKS[0]
        together = once(lambda: scan_all(source, ask.scans, None))
        apart = once(lambda: [source.scan(scan) for scan in ask.scans])
        yield _eased(
            f"{kind}: {MAX_ROWS} rows of a user, {ask.name}", together, apart, together / apart
        )
        source.close()


def _asked(what: str, source: Source, ask: Ask, repeats: int) -> Line:
    together, apart, ratio = in_turns(
        lambda: scan_all(source, ask.scans, None),
        lambda: [source.scan(scan) for scan in ask.scans],
        repeats,
    )
    return _eased(what, together, apart, ratio)


def _eased(what: str, together: float, apart: float, ratio: float) -> Line:
    met = ratio <= 1 or apart < 1
    return Line(what, f"{together:.3f} s", f"a scan each {apart:.3f} s", f"{ratio:.2f}", EASED, met)


def _line(what: str, ours: float, theirs: float, ratio: str, goal: str, met: bool) -> Line:
    return Line(what, f"{ours:.3f} s", f"plain SQL {theirs:.3f} s", ratio, goal, met)


def lines(
    kinds: Sequence[str] = tuple(KINDS), rows: int = 10_000_000, repeats: int = 5
) -> list[Line]:
    out = []
    for kind in kinds:
        for line in measured(kind, rows, repeats):
            print(f"{line.what}: {line.ours}, {line.compared}, {line.ratio}", file=sys.stderr)
            out.append(line)
    return out


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sources", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--kinds", default=",".join(KINDS), help=f"of {', '.join(KINDS)}")
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    chosen = given.kinds.split(",")
    if unknown := set(chosen) - set(KINDS):
        parser.error(f"no kind called {', '.join(sorted(unknown))}")
    show(f"Scans of {given.rows:,} rows", lines(chosen, given.rows, given.repeats))
