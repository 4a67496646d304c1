"""What a data file says about itself without its rows: column names, and types where it has them."""

from __future__ import annotations

import codecs
import csv
import glob
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from defray.config.fields import toml_string
from defray.core.shapes import Kind
from defray.errors import BadInput, SourceUnavailable

if TYPE_CHECKING:
    import duckdb

FileKind = Literal["csv", "parquet", "duckdb"]

_SUFFIXES: Final[Mapping[str, FileKind]] = {
    ".csv": "csv", ".tsv": "csv", ".txt": "csv", ".csv.gz": "csv", ".tsv.gz": "csv",
    ".parquet": "parquet", ".pq": "parquet", ".duckdb": "duckdb", ".ddb": "duckdb", ".db": "duckdb",
}  # fmt: skip
_HEADER_BYTES: Final = 2**20

_TYPES: Final[tuple[tuple[str, Kind], ...]] = (
    (r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|UINTEGER", "integer"),
    (r"FLOAT|DOUBLE|REAL", "float"),
    (r"DECIMAL\(.*\)", "decimal"),
    (r"VARCHAR|ENUM\(.*\)|UUID", "string"),
    (r"BOOLEAN", "boolean"),
    (r"DATE", "date"),
    (r"TIMESTAMP.*", "timestamp"),
)


@dataclass(frozen=True)
class Found:
    """What data says about itself: columns by name and type (None: unknown to the file, ``""``: a
    type that Defray cannot ask about), and how it is to be read."""

    kind: FileKind | Literal["postgresql"]
    path: str
    columns: Mapping[str, str | None]
    table: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    remarks: Sequence[str] = ()


def names_and_types(path: Path, table: str | None = None) -> Found:
    """Of the first file that matches.  Raises BadInput or SourceUnavailable."""
    first, kind = _file(path)
    if kind != "duckdb" and table is not None:
        raise BadInput(f"a {kind} file has no tables", hint="leave table out")
    return _csv_header(path, first) if kind == "csv" else _schema(path, kind, table)


def _file(path: Path) -> tuple[str, FileKind]:
    name = Path(path).name.lower()
    kind = next((k for suffix, k in _SUFFIXES.items() if name.endswith(suffix)), None)
    text = str(path)
    if Path(path).is_file():
        files = [text]
    else:
        files = sorted(f for f in glob.glob(text, recursive=True) if Path(f).is_file())
    if kind == "duckdb" and files != [text]:
        files = []
    if not files:
        raise BadInput(f"no file matches {text}", hint="name a data file, or a glob in quotes")
    if kind is None:
        known = ", ".join(_SUFFIXES)
        raise BadInput(f"{text} is of no known kind", hint=f"the name must end in one of: {known}")
    return files[0], kind


def connect(database: str = ":memory:") -> duckdb.DuckDBPyConnection:
    """DuckDB without downloads; a database file is opened read-only."""
    import duckdb

    settings: dict[str, Any] = {"autoinstall_known_extensions": "false"}
    return duckdb.connect(database, read_only=database != ":memory:", config=settings)


def sql_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def sql_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal_path(path: str) -> str:
    """The path as DuckDB takes it: a file whose own name has glob characters stands for itself."""
    return re.sub(r"[*?\[]", r"[\g<0>]", path) if Path(path).is_file() else path


def _schema(path: Path, kind: FileKind, table: str | None) -> Found:
    import duckdb

    try:
        with connect(str(path) if kind == "duckdb" else ":memory:") as con:
            if kind == "duckdb":
                table = _pick_table(con, path, table)
                schema, _, name = table.rpartition(".")
                relation = f"{sql_name(schema or 'main')}.{sql_name(name)}"
            else:
                relation = f"read_parquet({sql_text(literal_path(str(path)))})"
            rows = con.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
    except duckdb.Error as error:
        hint = "check that it is one, whole, and not opened for writing elsewhere"
        raise SourceUnavailable(f"cannot read {path} as {kind}", hint=hint) from error
    return Found(kind, str(path), {row[0]: _kind_of(row[1]) for row in rows}, table)


def _pick_table(con: duckdb.DuckDBPyConnection, path: Path, table: str | None) -> str:
    rows = con.execute(
        "SELECT table_schema, table_name FROM information_schema.tables"
        " WHERE table_catalog = current_database() ORDER BY ALL"
    ).fetchall()
    names = [name if schema == "main" else f"{schema}.{name}" for schema, name in rows]
    if table is None and len(names) == 1:
        return str(names[0])
    if table in names:
        return str(table)
    what = f"has no table {table}" if table else f"has {len(names)} tables"
    hint = (
        f"say which: --table {' | '.join(names[:20])}" if names else "create a table or view in it"
    )
    raise BadInput(f"{path} {what}", hint=hint)


def _kind_of(sql_type: str) -> str:
    fits = (kind for pattern, kind in _TYPES if re.fullmatch(pattern, sql_type, re.DOTALL))
    return next(fits, "")


def _csv_header(path: Path, first: str) -> Found:
    try:
        with _open(first) as file:
            raw = file.read(_HEADER_BYTES)
    except (OSError, EOFError) as error:
        raise SourceUnavailable(f"cannot read {first}", hint="check its permissions") from error
    text, encoding = _decoded(raw)
    names, delimiter = _split(text)
    if not names:
        raise BadInput(f"{first} is empty", hint="it needs a header line")
    options: dict[str, Any] = {}
    if delimiter != ",":
        options["delimiter"] = delimiter
    if encoding != "utf-8":
        options["encoding"] = encoding
    remarks = ["names are from the first line; if that is a row, set header = false and columns"]
    if any(re.fullmatch(r"\s*[-+]?[\d.,:/-]*\d[\d.,:/-]*\s*", name) for name in names):
        names = [f"column{i}" for i in range(1, len(names) + 1)]
        options |= {"header": False, "columns": names}
        remarks = [
            "the first line holds numbers, so it is taken for a row; name the columns yourself"
        ]
    doubled = next((name for i, name in enumerate(names) if name in names[:i] and name), None)
    if doubled is not None:
        raise BadInput(
            f"{first} has two columns called {toml_string(doubled)}", hint="rename one of them"
        )
    return Found("csv", str(path), dict.fromkeys(names), None, options, remarks)


def _open(name: str) -> Any:
    if name.lower().endswith(".gz"):
        import gzip

        return gzip.open(name, "rb")
    return open(name, "rb")


def _decoded(raw: bytes) -> tuple[str, str]:
    """The first record's text (and what follows it), and the encoding that its bytes tell."""
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return codecs.getincrementaldecoder("utf-16")("replace").decode(raw), "utf-16"
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    header = raw.partition(b"\n")[0]
    try:
        header.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1"), "latin-1"
    return raw.decode("utf-8", "replace"), "utf-8"


def _split(text: str) -> tuple[list[str], str]:
    """The fields of the first record, and the delimiter that gives the most of them."""
    best: list[str] = []
    chosen = ","
    for delimiter in (",", ";", "\t", "|"):
        try:
            fields = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), [])
        except csv.Error:
            continue
        if len(fields) > len(best):
            best, chosen = fields, delimiter
    return best, chosen
