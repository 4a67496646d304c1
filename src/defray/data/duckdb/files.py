"""Opening a contract's files in DuckDB, locked down: the FROM item, and the columns it has.

The instance can read the declared files and nothing else: no other path, no network, no extension that is not
built in, nothing spilled to disk, and the configuration is locked before any statement is rendered.

CSV is never sniffed.  Names come from the first line (or ``csv.columns``), every field is text until it
is read as the declared type.  Blanks and tabs are taken off both ends of every field, so that ``1, 2`` and
``1,2`` are the same; then a field equal to one of ``csv.null`` (default: the empty text), quoted or not,
is NULL.  A row with too few fields is filled up with NULL, fields beyond the last column are ignored, and
a row with bytes that are not text is not a row of the table.  None of that is ever an error.  A quoted
field runs to the next quote, over ends of lines too: where quotes are not written in pairs, say so with
``csv.quote = ""``.  In Parquet, bytes that are not text are replaced (by DuckDB versions that can).
"""

from __future__ import annotations

import csv
import gzip
import json
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from defray.core.contract import Contract, SourceSpec
from defray.data.duckdb.dialect import DUCKDB
from defray.data.duckdb.reading import raw
from defray.data.physical import Raw
from defray.errors import MissingExtra, SourceUnavailable

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_ENCODINGS = {"utf-8": "utf-8-sig", "utf-16": "utf-16", "latin-1": "latin-1"}
MAX_LINE = 16_000_000

_SLOW = "top_n_window_elimination"
"""Turns the window of the kept rows into an aggregate and a second reading, at 1.3 times the time."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A locked instance, the FROM item of the table and its columns by name."""

    connection: DuckDBPyConnection
    relation: str
    columns: Mapping[str, Raw]


@dataclass(frozen=True, slots=True)
class CsvForm:
    """The ``csv.*`` options with their defaults filled in.  ``columns`` count only without a header."""

    header: bool
    delimiter: str
    quote: str
    escape: str
    null: tuple[str, ...]
    encoding: str
    columns: tuple[str, ...]

    @classmethod
    def of(cls, spec: SourceSpec) -> CsvForm:
        options = spec.options
        header = bool(options.get("header", True))
        quote = str(options.get("quote", '"'))
        nulls = options.get("null", [""])
        encoding = str(options.get("encoding", "utf-8")).lower().replace("_", "-")
        return cls(
            header,
            str(options.get("delimiter", ",")),
            quote,
            str(options.get("escape", quote)),
            tuple(sorted({nulls} if isinstance(nulls, str) else {str(n) for n in nulls})),
            _ALIASES.get(encoding, encoding),
            () if header else tuple(str(n) for n in options.get("columns") or ()),
        )


_ALIASES = {"utf8": "utf-8", "utf16": "utf-16", "latin1": "latin-1", "iso-8859-1": "latin-1"}


def how_read(contract: Contract) -> str:
    """Everything in the contract's source, but for where it is, that decides which rows the files' bytes
    are: canonical JSON, in which a default looks the same whether it is written or not."""
    spec = contract.source
    parts: dict[str, Any] = {"kind": spec.kind}
    if spec.kind == "duckdb":
        parts["table"] = _table(contract)
    if spec.kind == "csv":
        parts["csv"] = asdict(CsvForm.of(spec))
    return json.dumps(parts, sort_keys=True, separators=(",", ":"))


def _table(contract: Contract) -> list[str]:
    """The schema and name of a table in a DuckDB file."""
    return ("main." + (contract.source.table or contract.table)).split(".")[-2:]


def open_locked(contract: Contract, files: list[Path], threads: int) -> Opened:
    """Raises SourceUnavailable with a fixed text."""
    try:
        import duckdb
    except ImportError:
        raise MissingExtra(
            "reading files needs DuckDB", hint="install it: pip install duckdb"
        ) from None
    spec = contract.source
    settings: dict[str, Any] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "allow_community_extensions": "false",
        "threads": str(threads),
        "temp_directory": "",
        "preserve_insertion_order": "false",
    }
    failed: str | None = None
    step = "opened"
    try:
        connection = duckdb.connect(":memory:", config=settings)
        execute = connection.execute
        zone = "SELECT COUNT(*) FROM duckdb_settings() WHERE name = 'TimeZone'"
        if execute(zone).fetchall()[0][0]:
            execute("SET TimeZone = 'UTC'")
        if execute(f"SELECT COUNT(*) FROM duckdb_optimizers() WHERE name = '{_SLOW}'").fetchall()[
            0
        ][0]:
            execute(f"SET disabled_optimizers = '{_SLOW}'")
        if spec.kind == "duckdb":
            execute(f"ATTACH {DUCKDB.text(str(files[0]))} AS source (READ_ONLY)")
        else:
            paths = ", ".join(DUCKDB.text(str(f)) for f in files)
            execute(f"SET allowed_paths = [{paths}]")
        execute("SET enable_external_access = false")
        execute("SET lock_configuration = true")
        step = "read"
        lenient = execute(
            "SELECT COUNT(*) FROM duckdb_functions() WHERE function_name = 'read_parquet'"
            " AND list_contains(parameters, 'utf8_validation')"
        ).fetchall()
        relation = _relation(contract, files, lenient=bool(lenient[0][0]))
        if spec.kind == "csv":
            columns = _csv_columns(spec, files)
            execute(f"DESCRIBE SELECT * FROM {relation}")
        else:
            described = execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
            columns = {row[0]: raw(DUCKDB.name(row[0]), row[1]) for row in described}
    except duckdb.Error as error:
        failed = type(error).__name__
    if failed is not None:
        raise SourceUnavailable(
            f"the data could not be {step} as {_KINDS[spec.kind]} ({failed})",
            hint=_CURES[spec.kind],
        )
    return Opened(connection, relation, columns)


_KINDS = {"csv": "CSV", "parquet": "Parquet", "duckdb": "a DuckDB database"}
_CURES = {
    "csv": "check source.path and the csv options in the contract",
    "parquet": "check source.path: every matching file must be Parquet, with columns of like types",
    "duckdb": "check source.path and source.table; no other process may have the file open for writing",
}


def _relation(contract: Contract, files: list[Path], *, lenient: bool) -> str:
    spec = contract.source
    if any(c in str(f) for f in files for c in "*?["):
        raise SourceUnavailable(
            "a data file has * ? or [ in its name or folder",
            hint="rename it: DuckDB reads these as patterns",
        )
    paths = "[" + ", ".join(DUCKDB.text(str(f)) for f in files) + "]"
    if spec.kind == "duckdb":
        return "source." + ".".join(DUCKDB.name(part) for part in _table(contract))
    if spec.kind == "parquet":
        union = ", union_by_name = true" if len(files) > 1 else ""
        replace = ", utf8_validation = 'replace'" if lenient else ""
        return f"read_parquet({paths}, hive_partitioning = false{union}{replace})"
    if spec.kind == "csv":
        form = CsvForm.of(spec)
        names = _csv_names(form, files)
        listed = ", ".join(f"'f{i}': 'VARCHAR'" for i in range(len(names)))
        given = {
            "header": str(form.header).lower(),
            "delim": DUCKDB.text(form.delimiter),
            "quote": DUCKDB.text(form.quote),
            "escape": DUCKDB.text(form.escape),
            "encoding": DUCKDB.text(_encoding(form)),
            "columns": f"{{{listed}}}",
            "nullstr": "'\x01\x02\x03'",
            "auto_detect": "false",
            "ignore_errors": "true",
            "null_padding": "true",
            "strict_mode": "false",
            "parallel": "false",
            "max_line_size": str(MAX_LINE),
        }
        read = f"read_csv({paths}, {', '.join(f'{k} = {v}' for k, v in given.items())})"
        # A column that is not asked for is not decoded: without looking at all of them, a row with bytes
        # that are not text would be there for some questions and not for others.
        every = ", ".join(f"f{i}" for i in range(len(names)))
        return f"(SELECT * FROM {read} WHERE hash({every}) IS NOT NULL)"
    raise SourceUnavailable(f"a source of kind {spec.kind} is not a file", hint="see source.kind")


# -- CSV --------------------------------------------------------------------------------------------


def _encoding(form: CsvForm) -> str:
    if form.encoding not in _ENCODINGS:
        raise SourceUnavailable(
            f"csv.encoding {form.encoding} is not supported",
            hint="use utf-8, utf-16 or latin-1, or convert the file",
        )
    return form.encoding


def _csv_names(form: CsvForm, files: list[Path]) -> list[str]:
    if not form.header:
        if not form.columns:
            raise SourceUnavailable(
                "the CSV has no header line and the contract names no columns",
                hint='list them all, in order: csv.columns = ["id", "age", ...]',
            )
        return list(form.columns)
    headers = [_header(form, f) for f in files]
    if any(h != headers[0] for h in headers):
        raise SourceUnavailable(
            "the CSV files do not have the same header line",
            hint="give every file the same columns in the same order",
        )
    return headers[0]


def _header(form: CsvForm, file: Path) -> list[str]:
    """The names in the first line."""
    fields: list[str] | None = None
    try:
        opener = gzip.open if file.suffix == ".gz" else open
        codec = _ENCODINGS[_encoding(form)]
        # Rows behind the first line are decoded with it; they must not make this fail.
        with opener(file, "rt", encoding=codec, errors="replace", newline="") as stream:
            line = stream.readline(MAX_LINE)
        reader = csv.reader(
            [line],
            delimiter=form.delimiter,
            quotechar=form.quote or None,
            quoting=csv.QUOTE_MINIMAL if form.quote else csv.QUOTE_NONE,
            skipinitialspace=True,
        )
        fields = next(reader, None)
    except (OSError, UnicodeError, csv.Error, EOFError, TypeError):
        fields = None
    if not fields or any("\ufffd" in f for f in fields):
        raise SourceUnavailable(
            "the header line of a CSV file cannot be read",
            hint="check csv.encoding, csv.delimiter and csv.quote, or set csv.header = false",
        )
    return [f.strip(" \t") for f in fields]


def _csv_columns(spec: SourceSpec, files: list[Path]) -> dict[str, Raw]:
    form = CsvForm.of(spec)
    names = _csv_names(form, files)
    twice = Counter(names)
    out = {}
    for i, name in enumerate(names):
        if twice[name] > 1:
            continue
        x = f"trim(f{i}, ' \t')"
        for marker in form.null:
            x = f"NULLIF({x}, {DUCKDB.text(marker)})"
        out[name] = raw(x, "VARCHAR")
    return out


def processors() -> int:
    """How many this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1
