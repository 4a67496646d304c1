"""Domains read off the rows, for ``draft(peek=True)``: handy, and a leak that the file warns of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from defray.config.blocks import is_readable, left_out
from defray.config.fields import is_name, toml_key, toml_string
from defray.config.schema import Found, connect, literal_path, sql_name, sql_text
from defray.core.numbers import show_number
from defray.errors import SourceUnavailable

if TYPE_CHECKING:
    import duckdb

MAX_VALUES: Final = 50
BINS: Final = 20
_MARKERS: Final = ("", "?", "NA", "N/A", "n/a", "NULL", "null", "None", "NaN", "nan", ".", "-")

# What all texts of a CSV column must look like for it to have a type, the narrowest first.  Numbers
# with leading zeros are codes.
_LOOKS: Final = (
    ("integer", "regexp_full_match(x, '[+-]?(0|[1-9][0-9]{0,17})')", "CAST(x AS BIGINT)"),
    (
        "float",
        "TRY_CAST(x AS DOUBLE) IS NOT NULL AND regexp_full_match(x,"
        " '[+-]?(0|[1-9][0-9]*)?([.][0-9]*)?([eE][+-]?[0-9]+)?')",
        "CAST(x AS DOUBLE)",
    ),
    ("boolean", "lower(x) IN ('true', 'false')", "CAST(x AS BOOLEAN)"),
    (
        "date",
        "regexp_full_match(x, '[0-9]{4}-[0-9]{2}-[0-9]{2}') AND TRY_CAST(x AS DATE) IS NOT NULL",
        "CAST(x AS DATE)",
    ),
    (
        "timestamp",
        "regexp_full_match(x, '[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9:.]+')"
        " AND TRY_CAST(x AS TIMESTAMP) IS NOT NULL",
        "CAST(x AS TIMESTAMP)",
    ),
)


def peek_columns(found: Found) -> tuple[Found, dict[str, str]]:
    """What was found, completed, and a finished block for every column.

    Raises SourceUnavailable where the rows cannot be read.
    """
    import duckdb

    encodings = ("utf-8", "latin-1") if found.kind == "csv" else ("utf-8",)
    if "encoding" in found.options:
        encodings = (found.options["encoding"],)
    failure: Exception | None = None
    for encoding in encodings:
        options = dict(found.options)
        if encoding != "utf-8":
            options["encoding"] = encoding
        attempt = replace(found, options=options)
        try:
            with connect(found.path if found.kind == "duckdb" else ":memory:") as con:
                return _Peek(con, attempt).result()
        except duckdb.Error as error:
            failure = error
    hint = "check that every file is whole and has the same columns, or draft without peek"
    raise SourceUnavailable(f"cannot read the rows of {found.path}", hint=hint) from failure


class _Peek:
    def __init__(self, con: duckdb.DuckDBPyConnection, found: Found) -> None:
        self.con = con
        self.found = found
        self.from_ = f"FROM {_relation(found)}"

    def result(self) -> tuple[Found, dict[str, str]]:
        known: dict[str, tuple[str, str]] = {}
        markers: set[str] = set()
        names = [name for name in self.found.columns if is_name(name)]
        for name in names:
            kind = self.found.columns[name]
            if kind is None:
                kind, typed, used = self.look(sql_name(name))
                markers |= used
            else:
                typed = sql_name(name)
            known[name] = (kind, typed)
        found = self.found
        if markers:
            null = sorted(markers | {""})
            found = replace(found, options={**found.options, "null": null})
        blocks = {}
        for name, (kind, typed) in known.items():
            if kind == "":
                blocks[name] = left_out(name, "questions about its type are not available")
                continue
            lines = self.domain(kind, typed, markers)
            head = f"[columns.{toml_key(name)}]\ntype = {toml_string(kind)}\n"
            block = head + "".join(f"{line}\n" for line in lines or ())
            if lines is None or not is_readable(block):
                why = "no domain fits what its rows hold; declare it by hand"
                block = left_out(name, f"{why} ({kind})")
            blocks[name] = block
        return found, blocks

    def one(self, sql: str) -> tuple[Any, ...]:
        row = self.con.execute(sql).fetchone()
        assert row is not None
        return tuple(row)

    def look(self, column: str) -> tuple[str, str, set[str]]:
        """The type of a CSV column, its SQL, and the NULL markers among its texts."""
        listed = ", ".join(sql_text(m) for m in _MARKERS)
        tests = ", ".join(f"count(*) FILTER ({test})" for _, test, _ in _LOOKS)
        inner = f"SELECT {column} AS x {self.from_}"
        total, *counts = self.one(
            f"SELECT count(*), {tests} FROM ({inner}) WHERE x IS NOT NULL AND x NOT IN ({listed})"
        )
        for (kind, _, typed), count in zip(_LOOKS, counts, strict=True):
            if count == total > 0:
                rows = self.con.execute(f"SELECT DISTINCT x FROM ({inner}) WHERE x IN ({listed})")
                used = {str(row[0]) for row in rows.fetchall()} - {""}
                clean = f"CASE WHEN {column} IN ({listed}) THEN NULL ELSE {column} END"
                return kind, typed.replace("CAST(x", f"CAST({clean}"), used
        return "string", f"nullif({column}, '')", set()

    def domain(self, kind: str, x: str, markers: set[str]) -> list[str] | None:
        """The lines of a domain that holds every value, or None."""
        match kind:
            case "string":
                return self.values(f"CAST({x} AS VARCHAR)", markers)
            case "boolean":
                return []
            case "date":
                low, high = self.one(f"SELECT min(year({x})), max(year({x})) {self.from_}")
                if low is None or not 1 <= low <= high <= 9999:
                    return None
                return [f"min = {low:04}-01-01", f"max = {high:04}-12-31"]
            case "timestamp":
                low, high = self.one(f"SELECT min(year({x})), max(year({x})) {self.from_}")
                if low is None or not 1 <= low <= high < 9999:
                    return None
                return [f"min = {low:04}-01-01", f"max = {high + 1:04}-01-01", 'step = "1 day"']
        finite = f" WHERE isfinite({x})" if kind == "float" else ""
        both = f"CAST(min({x}) AS VARCHAR), CAST(max({x}) AS VARCHAR)"
        low, high = self.one(f"SELECT {both} {self.from_}{finite}")
        if low is None:
            return None
        a, b = outward(Fraction(Decimal(low)), Fraction(Decimal(high)), whole=kind == "integer")
        ends = [_number(a), _number(b)]
        lines = [f"min = {ends[0]}", f"max = {ends[1]}"]
        if kind != "integer":
            lines.append(f"bins = {BINS}")
        return [*lines, f"bounds = [{ends[0]}, {ends[1]}]"] if a < b else lines

    def values(self, x: str, markers: set[str]) -> list[str] | None:
        rows = self.con.execute(
            f"SELECT DISTINCT {x} AS v {self.from_} WHERE v IS NOT NULL"
            f" ORDER BY v LIMIT {MAX_VALUES + len(markers) + 1}"
        ).fetchall()
        texts = [str(row[0]) for row in rows if row[0] not in markers]
        if not 1 <= len(texts) <= MAX_VALUES:
            return None
        return [f"values = [{', '.join(toml_string(text) for text in texts)}]"]


def outward(low: Fraction, high: Fraction, *, whole: bool) -> tuple[Fraction, Fraction]:
    """The range with its ends moved outward to a round number of the range's size.

    >>> outward(Fraction(17), Fraction(92), whole=True) == (10, 100)
    True
    """
    span = high - low or max(abs(low), Fraction(1))
    unit = Fraction(10) ** (len(str(span.numerator)) - len(str(span.denominator)))
    if unit > span:
        unit /= 10
    if whole:
        unit = max(unit, Fraction(1))
    a, b = low // unit * unit, -(-high // unit) * unit
    return (a, b) if a < b or whole else (a, a + unit)


def _number(x: Fraction) -> str:
    text = show_number(x)
    return toml_string(text) if "/" in text else text


def _relation(found: Found) -> str:
    if found.kind == "duckdb":
        assert found.table is not None
        schema, _, name = found.table.rpartition(".")
        return f"{sql_name(schema or 'main')}.{sql_name(name)}"
    path = sql_text(literal_path(found.path))
    if found.kind == "parquet":
        return f"read_parquet({path})"
    return f"read_csv({path}, {_csv_options(found.columns, found.options)})"


def _csv_options(columns: Mapping[str, str | None], options: Mapping[str, Any]) -> str:
    names = [name or f"\x01{i}" for i, name in enumerate(columns)]
    typed = ", ".join(f"{sql_text(name)}: 'VARCHAR'" for name in names)
    return (
        f"auto_detect = false, header = {options.get('header', True)}, columns = {{{typed}}},"
        f" delim = {sql_text(options.get('delimiter', ','))}, quote = '\"', escape = '\"',"
        f" encoding = {sql_text(options.get('encoding', 'utf-8'))}, nullstr = ''"
    )
