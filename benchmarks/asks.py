"""Fresh asks on a large Parquet table against the same SQL in raw DuckDB."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import duckdb

from benchmarks.table import Line, ms, paired
from defray.config.opening import wire
from defray.config.reader import read_contract
from defray.session import Session

ROWS = int(os.environ.get("DEFRAY_BENCH_ROWS", "10000000"))
FOLDER = Path(os.environ.get("DEFRAY_BENCH_DIR", ".bench"))
REPEATS = 15

CONTRACT = """
version = 1
table = "people"
rho = 1000
{unit}

[source]
kind = "parquet"
path = "{path}"

[columns.age]
type = "integer"
min = 0
max = 120

[columns.sex]
type = "string"
values = ["F", "M"]

[columns.state]
type = "string"
values = [{states}]

[columns.income]
type = "integer"
bounds = [0, 200000]
"""


def table() -> Path:
    """The generated table: id, age, sex, 50 states, income, user_id (about three rows a user)."""
    FOLDER.mkdir(exist_ok=True)
    path = (FOLDER / f"people-{ROWS}.parquet").resolve()
    if not path.exists():
        fresh = path.with_suffix(".making")
        duckdb.sql(
            f"""COPY (SELECT i AS id, (hash(i) % 91)::INTEGER AS age,
                     CASE WHEN hash(i + 1) % 2 = 0 THEN 'F' ELSE 'M' END AS sex,
                     'S' || lpad((hash(i + 2) % 50)::VARCHAR, 2, '0') AS state,
                     (hash(i + 3) % 250000)::INTEGER AS income, (hash(i + 4) % {ROWS // 3}) AS user_id
                FROM range({ROWS}) t(i)) TO '{fresh}' (FORMAT parquet)"""
        )
        fresh.rename(path)
    return path


def session(folder: Path, unit: str = "") -> Session:
    """A session over the table with a fresh ledger in ``folder``."""
    states = ", ".join(f'"S{n:02}"' for n in range(50))
    contract = folder / "contract.toml"
    contract.write_text(CONTRACT.format(path=table(), unit=unit, states=states))
    return Session(wire(read_contract(contract)))


def kept_rows(path: Path) -> str:
    """At most three rows a user, chosen by a hash of user and content, as hand-written SQL."""
    return f"""(SELECT * FROM '{path}' WHERE user_id IS NOT NULL QUALIFY row_number() OVER (
        PARTITION BY user_id ORDER BY sha256(concat_ws('|', 'secret', user_id, age, sex, state, income))
        ) <= 3)"""


def lines() -> list[Line]:
    path = table()
    out: list[Line] = []
    raw = duckdb.connect()

    def compare(what: str, unit: str, ask: str, sql: str, repeats: int, source: str) -> None:
        with tempfile.TemporaryDirectory() as folder, session(Path(folder), unit) as contract:
            contract.ask("SELECT COUNT(*) FROM people WHERE sex = 'F'", within=10_000)
            within = 10_000_000 if "income" in ask else 10_000
            ours = [
                lambda n=n: contract.ask(ask.format(n=n), within=within) for n in range(repeats)
            ]
            theirs = [
                lambda n=n: raw.sql(sql.format(n=n, source=source)).fetchall()
                for n in range(repeats)
            ]
            a, b = paired(ours, theirs)
        over = (a - b) * 1000
        goal = "<= 1.15 or <= 8 ms"
        met = a / b <= 1.15 or over <= 8
        out.append(
            Line(what, ms(a), f"{ms(b)} raw DuckDB", f"{a / b:.2f} / {over:+.1f} ms", goal, met)
        )

    plain = f"'{path}'"
    compare(
        "fresh COUNT(*) WHERE",
        "",
        "SELECT COUNT(*) FROM people WHERE age >= 40 + {n} AND sex = 'F'".replace(
            "40 + {n}", "{n}4"
        ),
        "SELECT COUNT(*) FROM {source} WHERE age >= {n}4 AND sex = 'F'",
        9,
        plain,
    )
    compare(
        "fresh 50-cell GROUP BY",
        "",
        "SELECT state, COUNT(*) FROM people WHERE age > {n} GROUP BY state",
        "SELECT state, COUNT(*) FROM {source} WHERE age > {n} GROUP BY state",
        REPEATS,
        plain,
    )
    compare(
        "fresh SUM, clamped",
        "",
        "SELECT SUM(income) FROM people WHERE age > {n}",
        "SELECT SUM(least(greatest(income, 0), 200000)) FROM {source} WHERE age > {n}",
        REPEATS,
        plain,
    )
    compare(
        "fresh COUNT(*), user unit of 3 rows (kept rows in memory; first scan: below)",
        'unit = {column = "user_id", max_rows = 3}',
        "SELECT COUNT(*) FROM people WHERE age > {n}",
        "SELECT COUNT(*) FROM {source} WHERE age > {n}",
        3,
        kept_rows(path),
    )
    return out
