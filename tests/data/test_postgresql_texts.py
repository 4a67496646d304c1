"""What a text in PostgreSQL means is what DuckDB reads in it, and no text makes a scan fail."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from defray.core.column import Column
from defray.core.contract import Contract, SourceSpec, Unit
from defray.core.dates import EPOCH, MICROSECOND
from defray.core.domain import Domain
from defray.core.shapes import Cuts, Grid, Values, Whole
from defray.data.duckdb.source import DuckDBSource
from defray.data.postgresql.dialect import POSTGRESQL
from defray.data.postgresql.source import PostgresSource
from defray.data.postgresql.texts import double, number, timestamp
from defray.data.source import Scan
from defray.query.descriptor import Axis
from defray.query.region import EVERYWHERE
from tests.data.people import SECRET
from tests.postgresql.server import new_schema, the_server

TEXTS = (
    "1", " 1 ", "\t1\n", "+1", "-1", "1.", "0.5", ".5", "-.5", "+.5", "1e5", "1E5", "1e+5", "1e-5",
    "1e", "e5", "1e999", "-1e999", "1e-999", "1e9999", "1e-9999", "inf", "-inf", "+inf", "Infinity",
    "INF", "nan", "NaN", "-nan", "1_000", "1__0", "_1", "1_", "0x10", "0b1", "1,000", "1 000", "", "  ",
    "9" * 400, "0." + "0" * 400 + "1", "1.5.2", "1d", "--1", "½", "١", "1e5.5", "1e 5", "00012",
    "1e00005", "1.e5", ".e5", ".", "-", "+", "1e_5", "1.0_0", "1_0.5", "infin",
    "1.7976931348623157e308", "1.7976931348623159e308", "5e-324", "2.5e-324", "2.4e-324",
    "4611686018427387905", "-4611686018427387905", "0.30000000000000004", "0.3", "true", "T", " yes ",
    "N", "0", "tRuE", "2020-01-02", " 2020-01-02 ", "2020-1-2", "2020/01/02", "20200102", "02-01-2020",
    "2020-02-30", "2020-02-29", "2021-02-29", "1900-02-29", "2000-02-29", "2020-13-01", "2020-00-01",
    "2020-01-00", "2020-01-32", "20000-01-01", "0001-01-01", "2020-01-02 10:11", "2020-01-02 10:11:12",
    "2020-01-02T10:11:12", "2020-01-02 10:11:12.5", "2020-01-02 10:11:12.1234567",
    "2020-01-02 10:11:12.999999999", "2020-01-02 23:59:60", "2020-01-02 1:2:3", "2020-01-02 10",
    "2020-01-02 10:11:12Z", "2020-01-02 10:11:12 UTC", "2020-01-02 10:11:12+01",
    "2020-01-02 10:11:12+01:30", "2020-01-02 10:11:12-0130", "2020-01-02+01", "2020-01-02Z",
    "2020-01-02x", "2020-01-02 25:00", "2020-01-02 10:61", "now", "today", "tomorrow", "İnf", "'", "\\",
)  # fmt: skip
DAY = 86_400 * 10**6
START = 18_262 * DAY  # 2020-01-01
EDGES = ("-1e300", "-2", "0", "1e-300", "0.3", "1", "12", "1e6")
COLUMNS = (
    Column("at", "timestamp", Grid(Fraction(START), Fraction(3600 * 10**6), 72), other="cell"),
    Column("day", "date", Whole(18_262, 18_322), other="cell"),
    Column("double", "float", Cuts(tuple(map(Fraction, EDGES))), other="cell",
           bounds=(Fraction(-5000), Fraction(5000)), unit_step=Fraction(1, 1000)),
    Column("flag", "boolean", Values((True, False)), other="cell"),
    Column("long", "integer", Whole(2**62, 2**62 + 9), other="cell",
           bounds=(Fraction(-(2**64)), Fraction(2**64)), unit_step=Fraction(1)),
    Column("text", "string", Values(tuple(t for t in TEXTS if t)), other="cell"),
)  # fmt: skip


def test_every_spelling_means_the_same_in_both(tmp_path: Path) -> None:
    server, name = the_server(), f"texts_{new_schema()}"
    columns = ", ".join(f"{c.name} text" for c in COLUMNS).replace("double", '"double"')
    server.sql(
        f"CREATE TABLE public.{name} ({columns}); GRANT SELECT ON {name} TO {server.SERVICE}"
    )
    copy = f"COPY public.{name} FROM STDIN".encode()
    with (
        psycopg.connect(server.dsn("postgres"), autocommit=True) as connection,
        connection.cursor().copy(copy) as copying,
    ):
        for text in (*TEXTS, None):
            copying.write_row([text] * len(COLUMNS))
    table = {c.name: pa.array([*TEXTS, None], pa.string()) for c in COLUMNS}
    pq.write_table(pa.table(table), tmp_path / "texts.parquet")
    domain = Domain(COLUMNS)
    spec = SourceSpec("postgresql", None, name, data_version="1")
    there = PostgresSource(
        Contract("t", Fraction(1), Unit(), spec, domain, tmp_path),
        server.dsn(server.SERVICE), SECRET,
    )  # fmt: skip
    spec = SourceSpec("parquet", "texts.parquet")
    here = DuckDBSource(Contract("t", Fraction(1), Unit(), spec, domain, tmp_path), SECRET)
    # Each text by itself: GROUP BY text, and every other column's cell.
    at_text = domain.names.index("text")
    for i, column in enumerate(COLUMNS):
        axes = (Axis(at_text), Axis(i)) if i != at_text else (Axis(i),)
        sums = (column.name,) if column.bounds is not None else ()
        scan = Scan(EVERYWHERE, axes, (column.name,), sums)
        ours, theirs = there.scan(scan), here.scan(scan)
        labels = COLUMNS[at_text].shape.items  # type: ignore[union-attr]
        ends = [
            (column.name, k // column.width, k % column.width)
            for k, (a, b) in enumerate(zip(ours.rows, theirs.rows, strict=True))
            if a != b
        ]
        odd = [(name, labels[t] if t < len(labels) else None, at) for name, t, at in ends]
        assert not odd
        assert (ours.non_null, ours.sums) == (theirs.non_null, theirs.sums)
    there.close()
    here.close()


ANY = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30),
    st.from_regex(r"[+-]?[0-9._]{0,9}([eE][+-]?[0-9]{0,6})?", fullmatch=True),
    st.from_regex(
        r"[0-9]{1,7}-[0-9]{1,2}-[0-9]{1,2}"
        r"([ T][0-9]{1,2}:[0-9]{1,2}(:[0-9]{1,2}(\.[0-9]*)?)?)?(Z|[+-][0-9]{2})?",
        fullmatch=True,
    ),
    st.datetimes().map(str),
    st.floats().map(repr),
)


@pytest.fixture(scope="module")
def connection() -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(the_server().dsn(), autocommit=True)


@settings(max_examples=200, deadline=None)
@given(text=ANY)
def test_no_text_raises(connection: psycopg.Connection[tuple[object, ...]], text: str) -> None:
    x = f"CAST({POSTGRESQL.text(text)} AS text)"
    sql = f"SELECT {number(x)}, {double(x)}, {timestamp(x)}::text".replace("%", "%%")
    connection.execute(sql.encode())


@settings(max_examples=100, deadline=None)
@given(value=st.floats(allow_nan=False), moment=st.integers(-(6 * 10**16), 25 * 10**16))
def test_what_is_written_is_read(
    connection: psycopg.Connection[tuple[object, ...]], value: float, moment: int
) -> None:
    when = str(EPOCH + moment * MICROSECOND)
    x, at = (f"CAST('{text}' AS text)" for text in (repr(value), when))
    sql = f"SELECT {double(x)}, {timestamp(at)} = TIMESTAMP '{when}'"
    assert connection.execute(sql.encode()).fetchone() == (value, True)
