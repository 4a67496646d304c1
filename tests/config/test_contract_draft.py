"""Drafts: without a look at the rows they list what is to fill in; with one they read as they are."""

import datetime as dt
import gzip
import subprocess
import sys
import tomllib
from decimal import Decimal
from fractions import Fraction

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from defray.config.draft import draft
from defray.config.peek import outward
from defray.config.reader import parse_contract
from defray.core.shapes import Grid, Values, Whole
from defray.errors import BadInput, ContractError, SourceUnavailable

SECRET = "zebrafish"


def read(text, path):
    return parse_contract(text, path.parent / "contract.toml")


def to_fill(text, path):
    tomllib.loads(text)
    with pytest.raises(ContractError) as caught:
        read(text, path)
    assert all(p.cure for p in caught.value.problems)
    return [p.key for p in caught.value.problems]


def csv_file(tmp_path, text, name="people.csv", encoding="utf-8"):
    path = tmp_path / name
    raw = text.encode(encoding)
    path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return path


TYPES = pa.schema(
    [
        ("i", pa.int32()),
        ("u", pa.uint64()),
        ("f", pa.float32()),
        ("d", pa.decimal128(9, 2)),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("day", pa.date32()),
        ("t", pa.timestamp("us")),
        ("tz", pa.timestamp("ms", tz="Europe/Paris")),
        ("blob", pa.binary()),
        ("list", pa.list_(pa.int8())),
        ('odd "name".x', pa.int8()),
        ("new\nline", pa.int8()),
    ]
)
ROWS = [
    {
        "i": 17, "u": 5, "f": 0.25, "d": Decimal("1.50"), "s": SECRET, "b": True,
        "day": dt.date(2020, 3, 4), "t": dt.datetime(2020, 1, 1, 5), "blob": b"x", "list": [1],
        "tz": dt.datetime(2020, 1, 1, 5), 'odd "name".x': 1, "new\nline": 2,
    },
    {"i": 92, "u": 6, "f": float("nan"), "s": 'q"u\\o\n\x7fte', "tz": dt.datetime(2021, 6, 6)},
    {"f": float("inf"), "d": Decimal("-9999999.99"), "s": "", "b": None},
]  # fmt: skip


def parquet_file(tmp_path, name="people.parquet", rows=ROWS):
    path = tmp_path / name
    full = [{key: row.get(key) for key in TYPES.names} for row in rows]
    pq.write_table(pa.Table.from_pylist(full, schema=TYPES), path)
    return path


# -- names and types only -----------------------------------------------------------------------------


def test_a_csv_draft_lists_what_is_to_fill_in(tmp_path):
    path = csv_file(tmp_path, f"id;my age;sex\n1;33;{SECRET}\n")
    text = draft(path)
    assert to_fill(text, path) == ["rho", "columns.id.type", 'columns."my age".type',
                                   "columns.sex.type"]  # fmt: skip
    assert SECRET not in text
    assert "33" not in text.replace(str(tmp_path), "")  # the folder may be numbered so
    assert tomllib.loads(text)["source"]["csv"] == {"delimiter": ";"}
    assert tomllib.loads(text)["table"] == "people"


def test_a_parquet_draft_has_the_types_and_nothing_of_the_rows(tmp_path):
    path = parquet_file(tmp_path)
    text = draft(path)
    types = {name: c["type"] for name, c in tomllib.loads(text)["columns"].items()}
    assert types == {
        "i": "integer", "u": "integer", "f": "float", "d": "decimal", "s": "string",
        "b": "boolean", "day": "date", "t": "timestamp", "tz": "timestamp", 'odd "name".x': "integer",
    }  # fmt: skip
    columns = ["i", "u", "f", "d", "s", "day", "t", "tz", '"odd \\"name\\".x"']
    assert to_fill(text, path) == ["rho", *(f"columns.{c}" for c in columns)]
    assert SECRET not in text
    assert '# "blob" is not declared' in text
    assert '# "new\\nline" is not declared' in text


def test_following_the_suggestions_completes_a_draft(tmp_path):
    text = draft(parquet_file(tmp_path))
    lines = [
        line.removeprefix("# ")
        if line.startswith(
            ("# rho =", "# unit =", "# min", "# max", "# step", "# values", "# bounds")
        )
        else line
        for line in text.splitlines()
    ]
    contract = read("\n".join(lines), tmp_path / "x")
    assert len(contract.domain.columns) == 10
    assert contract.rho == Fraction(1, 2)


def test_a_draft_is_the_same_whatever_the_rows(tmp_path):
    path = parquet_file(tmp_path)
    before = draft(path)
    parquet_file(tmp_path, rows=ROWS[2:])
    assert draft(path) == before


def test_a_first_line_of_numbers_is_a_row_and_is_not_written_down(tmp_path):
    text = draft(csv_file(tmp_path, f"{SECRET},4711,x\nb,2,y\n"))
    assert SECRET not in text
    assert "4711" not in text.replace(str(tmp_path), "")
    csv = tomllib.loads(text)["source"]["csv"]
    assert csv == {"header": False, "columns": ["column1", "column2", "column3"]}


@pytest.mark.parametrize(
    ("text", "encoding", "options"),
    [
        ("a,b\n1,2\n", "utf-8", {}),
        ("\ufeffa,b\r\n1,2\r\n", "utf-8", {}),
        ("a\tb\n1\t2\n", "utf-8", {"delimiter": "\t"}),
        ("a|b", "utf-8", {"delimiter": "|"}),
        ("é,b\n1,2\n", "latin-1", {"encoding": "latin-1"}),
        ("a,b\n1,é\n", "latin-1", {}),
        ("é,b\n1,2\n", "utf-16", {"encoding": "utf-16"}),
        ('"a;b,\n""c""";d\n1;2\n', "utf-8", {"delimiter": ";"}),
    ],
)
def test_how_a_csv_is_written_is_seen_from_its_header(tmp_path, text, encoding, options):
    path = csv_file(tmp_path, text, encoding=encoding)
    document = tomllib.loads(draft(path))
    assert document["source"].get("csv", {}) == options
    assert len(document["columns"]) == (1 if '"' in text else 2)  # a name of two lines is none


def test_odd_names(tmp_path):
    path = csv_file(tmp_path, '"","a ""b"".c",ключ,"x\ny",=\n1,2,3,4,5\n')
    document = tomllib.loads(draft(path))
    assert list(document["columns"]) == ['a "b".c', "ключ", "="]
    assert read(draft(path, peek=True), path).domain.names == ("=", 'a "b".c', "ключ")


def test_a_glob_and_a_name_with_glob_signs(tmp_path):
    parquet_file(tmp_path, "part-1.parquet")
    parquet_file(tmp_path, "part-2.parquet")
    document = tomllib.loads(draft(tmp_path / "part-*.parquet"))
    assert document["source"]["path"].endswith("part-*.parquet")
    assert document["table"] == "part"
    odd = parquet_file(tmp_path, "it's [1]*.parquet")
    assert read(draft(odd, peek=True), odd).domain["i"].shape == Whole(10, 100)


def duckdb_file(tmp_path, *statements):
    path = tmp_path / "people.duckdb"
    with duckdb.connect(str(path)) as con:
        for statement in statements:
            con.execute(statement)
    return path


def test_duckdb_tables(tmp_path):
    path = duckdb_file(tmp_path, 'CREATE TABLE "my people" AS SELECT 5 AS age, \'x\' AS "a.b"')
    document = tomllib.loads(draft(path))
    assert document["source"]["table"] == "my people"
    assert document["table"] == "my_people"
    assert read(draft(path, peek=True), path).domain["a.b"].shape == Values(("x",))
    duckdb_file(tmp_path, "CREATE SCHEMA s", "CREATE VIEW s.v AS SELECT 1 AS x")
    with pytest.raises(BadInput, match="2 tables") as caught:
        draft(path)
    assert "my people | s.v" in caught.value.hint
    assert tomllib.loads(draft(path, table="s.v", peek=True))["columns"]["x"]["type"] == "integer"
    with pytest.raises(BadInput, match="no table t"):
        draft(path, table="t")


def test_what_cannot_be_drafted(tmp_path):
    cases = [("x.xlsx", b"1"), ("empty.csv", b""), ("twice.csv", b"a,a\n1,2\n")]
    for name, raw in cases:
        (tmp_path / name).write_bytes(raw)
        with pytest.raises(BadInput) as caught:
            draft(tmp_path / name)
        assert caught.value.hint
    for path in (tmp_path / "none.csv", tmp_path / "none*.csv", tmp_path, tmp_path / "*.duckdb"):
        with pytest.raises(BadInput, match="no file matches"):
            draft(path)
    with pytest.raises(BadInput, match="no tables"):
        draft(csv_file(tmp_path, "a\n"), table="x")
    for name in ("x.parquet", "x.duckdb", "x.csv.gz"):
        (tmp_path / name).write_bytes(b"no such format, but long enough to be looked at" * 100)
        with pytest.raises(SourceUnavailable):
            draft(tmp_path / name)
    ragged = csv_file(tmp_path, f"a,b\n1,2\n{SECRET}\n1,2,3,4\n")
    with pytest.raises(SourceUnavailable) as unreadable:
        draft(ragged, peek=True)
    assert SECRET not in str(unreadable.value)


def test_duckdb_is_imported_only_when_it_is_needed():
    code = "import sys, defray.config.draft; sys.exit('duckdb' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


# -- with a look at the rows ----------------------------------------------------------------------------


def test_peek_fills_domains_and_warns(tmp_path):
    path = parquet_file(tmp_path)
    text = draft(path, peek=True)
    assert "WARNING" in text
    assert "READ FROM THE DATA" in text
    assert "WARNING" not in draft(path)
    contract = read(text, path)
    shapes = {c.name: c.shape for c in contract.domain.columns}
    assert shapes["i"] == Whole(10, 100)
    assert shapes["f"] == Grid(Fraction(0), Fraction(1, 20), 20)
    assert set(shapes["s"].items) == {SECRET, "", 'q"u\\o\n\x7fte'}
    assert shapes["b"] == Values((False, True))
    assert shapes["day"].count == 366
    assert shapes["t"].count == 366
    assert shapes["d"].edge(0) <= Fraction("-9999999.99")
    assert contract.domain["i"].bounds == (10, 100)
    assert contract.rho == 1


def test_peek_at_a_csv_finds_types_and_null_markers(tmp_path):
    rows = [
        "id,age,zip,when,at,ok,x,city,mixed,none",
        "1,33,01234,2020-02-29,2020-01-01 10:00:00,true,1e3,Rome,1,",
        '2,?,99999,2021-01-01,2020-01-01T11:00:00.5,FALSE,-.5,"New\nYork",a,',
        "3,41,00000,,?,,NA,,?,",
    ]
    path = csv_file(tmp_path, "\n".join(rows) + "\n")
    text = draft(path, peek=True)
    contract = read(text, path)
    kinds = {c.name: c.kind for c in contract.domain.columns}
    assert kinds == {
        "id": "integer", "age": "integer", "zip": "string", "when": "date", "at": "timestamp",
        "ok": "boolean", "x": "float", "city": "string", "mixed": "string",
    }  # fmt: skip
    assert contract.source.options == {"null": ["", "?", "NA"]}
    assert contract.domain["age"].shape == Whole(33, 41)
    assert set(contract.domain["city"].shape.items) == {"Rome", "New\nYork"}
    assert set(contract.domain["mixed"].shape.items) == {"1", "a"}
    assert '# "none" is not declared' in text


def test_peek_at_nasty_numbers(tmp_path):
    path = duckdb_file(
        tmp_path,
        "CREATE TABLE t(small DOUBLE, large DOUBLE, wide DOUBLE, nan DOUBLE, hash BIGINT, huge HUGEINT,"
        " one INTEGER, dec DECIMAL(38, 30), far DATE, bc TIMESTAMP, e ENUM('x', 'y'), tz TIMESTAMPTZ,"
        " many VARCHAR, gone VARCHAR, c TIME)",
        "INSERT INTO t SELECT 5e-324, 1.7e308, 1e-5, 'nan', -9223372036854775808, '1e38'::HUGEINT, 7,"
        " 0.000000000000000000000000000001, 'infinity', '0044-03-15 (BC) 00:00:00', 'x',"
        " '2020-01-01 00:00:00+02', range::VARCHAR, NULL, '10:00:00' FROM range(60)",
        "INSERT INTO t(large, wide, hash) VALUES (-1.7e308, 1e12, 9223372036854775807)",
    )
    text = draft(path, peek=True)
    contract = read(text, path)
    assert contract.domain["one"].shape == Whole(7, 7)
    assert set(contract.domain.names) >= {"one", "e", "tz", "wide"}
    assert not set(contract.domain.names) & {
        "nan",
        "hash",
        "huge",
        "far",
        "bc",
        "many",
        "gone",
        "c",
    }
    for name in ("nan", "hash", "huge", "far", "bc", "many", "gone", "c"):
        assert f'# "{name}" is not declared' in text


def test_peek_at_an_encoding_that_the_header_does_not_tell(tmp_path):
    path = csv_file(tmp_path, "a,b\n1,é\n", encoding="latin-1")
    contract = read(draft(path, peek=True), path)
    assert contract.source.options == {"encoding": "latin-1"}
    assert contract.domain["b"].shape == Values(("é",))


@pytest.mark.parametrize("name", ["people.csv.gz", "people.tsv", "people.txt"])
def test_peek_at_other_spellings_of_csv(tmp_path, name):
    path = csv_file(tmp_path, "a\tb\r\n1\t2020-01-01\r\n", name)
    assert read(draft(path, peek=True), path).domain["b"].kind == "date"


def test_peek_without_a_header(tmp_path):
    path = csv_file(tmp_path, "1,f\n5,m\n")
    contract = read(draft(path, peek=True), path)
    assert contract.domain["column1"].shape == Whole(1, 5)
    assert contract.domain["column2"].shape == Values(("f", "m"))


@given(st.fractions(), st.fractions(), st.booleans())
def test_outward_holds_the_range(a, b, whole):
    low, high = min(a, b), max(a, b)
    if whole:
        low, high = Fraction(int(low)), Fraction(int(high))
    start, end = outward(low, high, whole=whole)
    assert start <= low <= high <= end
    assert whole or start < end
    assert end - start <= 3 * max(high - low, abs(low), 1)


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)


@pytest.mark.long
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.dictionaries(
        TEXTS.filter(bool),
        st.lists(TEXTS | st.none(), min_size=2, max_size=2)
        | st.lists(st.floats(), min_size=2, max_size=2)
        | st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=2)
        | st.lists(st.dates(), min_size=2, max_size=2)
        | st.lists(st.datetimes(), min_size=2, max_size=2)
        | st.lists(st.decimals(-(10**20), 10**20, places=9), min_size=2, max_size=2),
        min_size=1,
        max_size=4,
    )
)
def test_any_parquet_drafts_to_a_valid_contract(tmp_path_factory, columns):
    names = {name.casefold() for name in columns}
    if len(names) < len(columns):
        return  # DuckDB renames columns that differ by case only
    path = tmp_path_factory.mktemp("draft") / "x.parquet"
    pq.write_table(pa.table(columns), path)
    tomllib.loads(draft(path))
    text = draft(path, peek=True)
    if "columns" in tomllib.loads(text):
        contract = read(text, path)
        assert set(contract.domain.names) <= set(columns)
    else:
        assert to_fill(text, path) == ["columns"]
