"""CSV is read by what the contract says, and one odd row never decides how the others are read."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from defray.core.column import Column
from defray.core.contract import SourceSpec
from defray.core.shapes import Values, Whole
from defray.data.duckdb.source import DuckDBSource
from defray.data.source import Scan
from defray.errors import SourceUnavailable
from defray.query.descriptor import Axis
from defray.query.region import EVERYWHERE
from tests.data.people import AGE, SECRET, SEX, contract, csv_source

GOOD = b"".join(b"%d,%s,x\n" % (i % 100, b"FM"[i % 2 : i % 2 + 1]) for i in range(50))


def by(source: DuckDBSource, axis: int = 0) -> dict[int, int]:
    """The atoms that rows lie in."""
    found = source.scan(Scan(EVERYWHERE, (Axis(axis),))).rows
    source.close()
    return {i: n for i, n in enumerate(found) if n}


def test_types_come_from_the_contract(tmp_path: Path) -> None:
    code = Column("code", "string", Values(("007", "7", "1e3", "true")))
    source = csv_source(tmp_path, "age,code\n1,007\n2,7\n3,1e3\n4,true\n5,1000\n", AGE, code)
    assert by(source, 1) == {0: 1, 1: 1, 2: 1, 3: 1, 4: 1}


def test_one_unreadable_value_is_null(tmp_path: Path) -> None:
    body = "age,sex\n1,F\n2,M\noops,F\n3.5,F\n1e1,M\n 7 ,M\n,M\n0x10,M\n999,M\n"
    assert by(csv_source(tmp_path, body)) == {1: 1, 2: 1, 7: 1, 10: 1, AGE.null_atom: 5}


@pytest.mark.parametrize(
    "line",
    [
        b"41",
        b"41,F,x,more",
        b'41,"F,x',
        b"41,F\xff\xfe,x",
        b'4"1,F,x',
        b"",
        b"4,F,\0",
        b'"',
        b",,,,,",
    ],
)
def test_a_malformed_row_leaves_the_others_as_they_are(tmp_path: Path, line: bytes) -> None:
    whole = by(csv_source(tmp_path, b"age,sex,rest\n" + GOOD))
    found = by(csv_source(tmp_path, b"age,sex,rest\n" + GOOD + line + b"\n"))
    for atom, n in whole.items():
        assert n <= found[atom] <= n + 1


def test_short_rows_are_filled_up_with_null(tmp_path: Path) -> None:
    assert by(csv_source(tmp_path, "age,sex\n1\n2,F\n"), 1) == {0: 1, 2: 1}


def test_what_is_beyond_the_last_column_is_ignored(tmp_path: Path) -> None:
    assert by(csv_source(tmp_path, "age,sex\n1,F,x\n2,F\n")) == {1: 1, 2: 1}


def test_bytes_that_are_not_text_make_no_row(tmp_path: Path) -> None:
    """Neither where that column is asked for nor where it is not."""
    body = b"age,sex,rest\n1,F,\n2,\xff,\n3,F,\n4,F,\xff\n"
    assert by(csv_source(tmp_path, body)) == {1: 1, 3: 1}
    assert by(csv_source(tmp_path, body), 1) == {0: 2}
    assert csv_source(tmp_path, body).scan(Scan(EVERYWHERE)).rows == [2]


def test_ends_of_lines_may_differ(tmp_path: Path) -> None:
    assert by(csv_source(tmp_path, "age,sex\n1,F\r\n2,M\n3,F\r4,M")) == {1: 1, 2: 1, 3: 1, 4: 1}


PIECES = (
    b'"',
    b",",
    b"\r",
    b"\n",
    b"\r\n",
    b" ",
    b"\0",
    b"a",
    b"\\",
    b"\xff",
    b"\xc3\xa9",
    b'""',
    b"#",
)


@pytest.mark.long
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(st.binary(max_size=40) | st.lists(st.sampled_from(PIECES)).map(b"".join), max_size=6),
    st.booleans(),
)
def test_no_bytes_after_the_header_are_an_error(
    tmp_path: Path, lines: list[bytes], good_first: bool
) -> None:
    odd = b"\n".join(lines) + b"\n"
    body = GOOD + odd if good_first else odd + GOOD
    source = csv_source(tmp_path, b"age,sex,rest\n" + body)
    total = source.scan(Scan(EVERYWHERE)).rows[0]
    assert sum(by(source).values()) == total


def test_very_long_fields_are_no_error(tmp_path: Path) -> None:
    for size in (3_000_000, 40_000_000):
        odd = b"5," + b"F" * size + b",x\n"
        source = csv_source(tmp_path, b"age,sex,rest\n" + GOOD + odd + GOOD)
        assert source.scan(Scan(EVERYWHERE)).rows[0] in (100, 101)
        source.close()


def test_blanks_and_null_markers(tmp_path: Path) -> None:
    source = csv_source(tmp_path, "age, sex\n1, F\n2,\tM \n3, ?\n4,?\n5,\n", null=["?"])
    assert by(source, 1) == {0: 1, 1: 1, 2: 3}
    empty = Column("sex", "string", Values(("", "F")))
    for null, found in (([""], {1: 1, 2: 2}), (["?"], {0: 2, 1: 1}), ("NA", {0: 2, 1: 1})):
        source = csv_source(tmp_path, 'age,sex\n1,\n2,""\n3,F\n', AGE, empty, null=null)
        assert by(source, 1) == found


def test_quotes_lines_and_delimiters(tmp_path: Path) -> None:
    text = Column("text", "string", Values(("a;b", "two\nlines", 'say "hi"', "it's")))
    body = "age;text\r\n1;'a;b'\r\n2;'two\nlines'\r\n3;say \"hi\"\r\n4;'it\\'s'\r\n"
    source = csv_source(tmp_path, body, AGE, text, delimiter=";", quote="'", escape="\\")
    assert by(source, 1) == {0: 1, 1: 1, 2: 1, 3: 1}
    source = csv_source(
        tmp_path, "age\ttext\n1\t\"x\n2\tit's\n", AGE, text, delimiter="\t", quote=""
    )
    assert by(source, 1) == {3: 1, 4: 1}


def test_without_a_header(tmp_path: Path) -> None:
    source = csv_source(tmp_path, "1,F\n2,M\n", header=False, columns=["age", "sex"])
    assert by(source) == {1: 1, 2: 1}
    source = csv_source(tmp_path, "1,F\n2,M\n", header=False)
    with pytest.raises(SourceUnavailable, match=r"names no columns\n.*csv\.columns"):
        source.scan(Scan(EVERYWHERE))


@pytest.mark.parametrize(
    ("name", "codec"),
    [("utf-8", "utf-8-sig"), ("utf-8", "utf-8"), ("latin-1", "latin-1"), ("utf-16", "utf-16")],
)
def test_encodings(tmp_path: Path, name: str, codec: str) -> None:
    text = Column("ort", "string", Values(("Zürich", "Genève")))
    body = "age,ort\n1,Zürich\n2,Genève\n3,Wien\n".encode(codec)
    assert by(csv_source(tmp_path, body, AGE, text, encoding=name), 1) == {0: 1, 1: 1, 2: 1}


def test_an_unknown_encoding_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable, match=r"cp037.*\n.*utf-8, utf-16 or latin-1"):
        csv_source(tmp_path, "age,sex\n", encoding="cp037").scan(Scan(EVERYWHERE))


def test_gzip_and_globs(tmp_path: Path) -> None:
    for i in range(3):
        (tmp_path / f"p{i}.csv.gz").write_bytes(gzip.compress(b"age,sex\n%d,F\n" % i))
    spec = SourceSpec("csv", "*.csv.gz")
    assert by(DuckDBSource(contract(tmp_path, spec, AGE, SEX), SECRET)) == {0: 1, 1: 1, 2: 1}
    (tmp_path / "p9.csv.gz").write_bytes(gzip.compress(b"sex,age\nF,9\n"))
    with pytest.raises(SourceUnavailable, match="same header line"):
        DuckDBSource(contract(tmp_path, spec, AGE, SEX), SECRET).scan(Scan(EVERYWHERE))


@pytest.mark.parametrize("head", [b"", b"\xff\xfe\xfa\n1,2\n"])
def test_a_header_that_cannot_be_read(tmp_path: Path, head: bytes) -> None:
    with pytest.raises(SourceUnavailable, match="header line"):
        csv_source(tmp_path, head).scan(Scan(EVERYWHERE))


def test_a_name_that_occurs_twice_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable, match="no column age"):
        csv_source(tmp_path, "age,sex,age\n1,F,2\n").scan(Scan(EVERYWHERE))


def test_integers_of_any_size(tmp_path: Path) -> None:
    big = 2**63
    column = Column("id", "integer", Whole(big, big + 3), other="cell")
    body = "age,id\n" + "".join(
        f"1,{v}\n" for v in (big, big + 1, f"{big}.5", "1e40", "-1e40", "x", big + 4)
    )
    assert by(csv_source(tmp_path, body, AGE, column), 1) == {0: 1, 1: 1, 4: 4, 5: 1}
