"""``[source]`` and ``[ledger]``: where the rows are and where the transcript is kept."""

from __future__ import annotations

import re
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any, Final, cast

from defray.config.fields import Section, shown
from defray.config.server import has_password
from defray.config.spark import read_spark
from defray.core.contract import MOST_CUBED, LedgerSpec, SourceSpec
from defray.core.domain import Domain
from defray.data.postgresql.names import parse_name

_SCHEMA: Final = re.compile("(?!pg_)[a-z_][a-z0-9_]{0,62}")


def read_source(top: Section) -> SourceSpec:
    """The source; a stand-in after a noted mistake."""
    nowhere = SourceSpec("csv")
    if "source" not in top:
        cure = 'add [source] with kind = "parquet" and path = "people.parquet"'
        top.problem("source", "where the rows are is missing", cure)
        return nowhere
    source = top.table("source", "source")
    if source is None:
        return nowhere
    cube = source.choice("cube", ("memory", "disk"))
    return replace(_place(source), cube=cast(Any, cube))


def check_cube(top: Section, source: SourceSpec, domain: Domain) -> None:
    """Note a cube of more cells than one may have."""
    cells = prod(domain.widths)
    if source.cube is not None and cells > MOST_CUBED:
        message = f"a cube of {cells:,} cells is too large: at most {MOST_CUBED:,} can be kept"
        cure = "remove cube, or declare fewer columns or wider bins"
        top.findings.add(("source", "cube"), message, cure)


def _place(source: Section) -> SourceSpec:
    """Which rows, of what kind of database or file."""
    synonyms = {"duck": "duckdb", "db": "duckdb", "tsv": "csv", "pq": "parquet", "sqlite": "duckdb",
                "postgres": "postgresql", "pg": "postgresql"}  # fmt: skip
    kinds = ("csv", "parquet", "duckdb", "postgresql", "spark")
    kind = source.choice("kind", kinds, synonyms=synonyms)
    if kind == "postgresql":
        return _table_on_server(source)
    if kind == "spark":
        return read_spark(source)
    path, table = source.text("path"), source.text("table")
    if "kind" not in source:
        cure = 'add kind = "csv", "parquet", "duckdb", "postgresql" or "spark"'
        source.problem("kind", "the kind is missing", cure)
    if "dsn" in source:
        cure = 'remove dsn, or write kind = "postgresql": files are named by path'
        source.problem("dsn", f"dsn does not apply to {kind or 'files'}", cure)
    if "path" not in source:
        source.problem("path", "the path is missing", 'add path = "people.parquet"')
    if kind == "duckdb" and "table" not in source:
        source.problem(
            "table", "the table is missing", 'add table = "people": one inside the database'
        )
    options: dict[str, Any] = {}
    if "csv" in source:
        csv = source.table("csv", "source.csv")
        if csv is not None:
            options = _csv(csv)
        if kind in ("parquet", "duckdb"):
            source.problem("csv", f"csv does not apply to {kind}", "remove [source.csv]")
    if "spark" in source:
        source.problem("spark", f"spark does not apply to {kind}", "remove [source.spark]")
    version = source.text("data_version")
    return SourceSpec(cast(Any, kind or "csv"), path, table, None, version, options)


def _table_on_server(source: Section) -> SourceSpec:
    """A table in a PostgreSQL database.  Its dsn may come from the environment; a password has to."""
    for key in ("path", "csv", "spark"):
        if key in source:
            source.problem(key, f"{key} does not apply to postgresql", f"remove {key}")
    dsn, table = source.text("dsn"), source.text("table")
    if dsn is not None and has_password(dsn):
        cure = "take it out: it comes from PGPASSWORD, ~/.pgpass or DEFRAY_SOURCE_DSN"
        source.problem("dsn", "a password does not belong in a contract", cure)
        dsn = None
    if "table" not in source:
        source.problem("table", "the table is missing", 'add table = "public.people"')
    elif table is not None and parse_name(table) is None:
        cure = "write schema.name; a name with a dot or a quote in it stands in double quotes"
        source.problem("table", f"{shown(table)} cannot be read as a table", cure)
        table = None
    if "data_version" not in source:
        cure = 'add data_version = "1", and change it whenever the rows change'
        source.problem("data_version", "the data_version is missing", cure)
    version = source.text("data_version")
    return SourceSpec("postgresql", None, table, dsn, version)


def _csv(csv: Section) -> dict[str, Any]:
    options: dict[str, Any] = {}
    header = csv.data.get("header", True)
    if not isinstance(header, bool):
        csv.problem(
            "header", f"{shown(header)} is not true or false", "write header = true or false"
        )
        header = None
    elif "header" in csv:
        options["header"] = header
    for key in ("delimiter", "quote", "escape"):
        if key in csv:
            value = csv.data[key]
            least = 1 if key == "delimiter" else 0
            short = isinstance(value, str) and least <= len(value) <= 1
            if not short or value in ("\r", "\n", "\0"):
                csv.problem(key, f"{shown(value)} is not one character")
            else:
                options[key] = value
    if "null" in csv:
        markers = csv.data["null"]
        markers = [markers] if isinstance(markers, str) else markers
        if not isinstance(markers, list) or not all(isinstance(m, str) for m in markers):
            csv.problem("null", f"{shown(markers)} is not a list of texts")
        else:
            options["null"] = list(dict.fromkeys(markers))
    encodings = {"utf8": "utf-8", "latin1": "latin-1", "iso-8859-1": "latin-1", "utf16": "utf-16"}
    encoding = csv.choice("encoding", ("utf-8", "utf-16", "latin-1"), synonyms=encodings)
    if encoding:
        options["encoding"] = encoding
    columns = csv.names("columns")
    if columns:
        options["columns"] = list(columns)
    if header is False and "columns" not in csv:
        cure = 'add columns = ["age", "sex"]: a name for every column of the file, in order'
        csv.problem("columns", "header = false, and no names are given", cure)
    elif header and "columns" in csv:
        cure = "remove columns, or write header = false where the first line is a row"
        csv.problem("columns", "columns are given though the file has a header", cure)
    return options


def read_ledger(top: Section, contract: Path, source: SourceSpec) -> LedgerSpec:
    """The ledger; by default a file beside the contract that is named after it."""
    default = f"{contract.stem}.ledger"
    if default == contract.name:
        default += ".sqlite"
    ledger = top.table("ledger", "ledger")
    if ledger is None:
        return LedgerSpec("sqlite", default)
    synonyms = {"file": "sqlite", "postgres": "postgresql", "pg": "postgresql"}
    kind = ledger.choice("kind", ("sqlite", "postgresql"), synonyms=synonyms)
    if kind == "postgresql":
        return _on_server(ledger, source, contract)
    for key in ("dsn", "schema") if ledger.data.get("kind", "sqlite") == "sqlite" else ():
        if key in ledger:
            cure = f'remove {key}, or write kind = "postgresql": a sqlite ledger is named by path'
            ledger.problem(key, f"{key} does not apply to sqlite", cure)
    path = ledger.text("path")
    if path is not None and path in (source.path, contract.name):
        taken = "the data" if path == source.path else "the contract"
        ledger.problem("path", f"{shown(path)} is {taken}", f'for example: path = "{default}"')
    witness = ledger.text("witness")
    if witness is not None and witness in (path or default, source.path, contract.name):
        cure = f'for example: witness = "{path or default}.witness"'
        ledger.problem("witness", f"{shown(witness)} is the ledger, the data or the contract", cure)
    return LedgerSpec("sqlite", path or default, witness=witness)


def _on_server(ledger: Section, source: SourceSpec, contract: Path) -> LedgerSpec:
    """A ledger in a schema of a database.  Its dsn may come from the environment; a password has to."""
    if "path" in ledger:
        ledger.problem("path", "path does not apply to postgresql", "remove path")
    dsn, schema, witness = ledger.text("dsn"), ledger.text("schema"), ledger.text("witness")
    if dsn is not None and has_password(dsn):
        cure = "take it out: it comes from PGPASSWORD, ~/.pgpass or DEFRAY_LEDGER_DSN"
        ledger.problem("dsn", "a password does not belong in a contract", cure)
        dsn = None
    if "schema" not in ledger:
        ledger.problem("schema", "the schema is missing: one for each contract")
    elif schema is not None and not _SCHEMA.fullmatch(schema):
        cure = "up to 63 lower-case letters, digits and underscores, not beginning with pg_"
        ledger.problem("schema", f"{shown(schema)} cannot be the schema of a ledger", cure)
    if witness is not None and witness in (source.path, contract.name):
        cure = f'for example: witness = "{contract.stem}.witness"'
        ledger.problem("witness", f"{shown(witness)} is the data or the contract", cure)
    return LedgerSpec("postgresql", None, dsn, witness, schema)


def table_name(source: SourceSpec) -> str:
    """The name for SQL where none is given: the database table's or the file's, as an identifier.

    >>> table_name(SourceSpec("csv", "data/2024 people.csv"))
    't_2024_people'
    """
    if source.kind == "postgresql":
        name = (parse_name(source.table or "") or ("", "data"))[1]
    else:
        name = source.table.rpartition(".")[2] if source.table else _stem(source.path or "")
    name = re.sub(r"\W+", "_", name).strip("_")
    if name[:1].isdigit():
        name = f"t_{name}"
    return name or "data"


def _stem(path: str) -> str:
    """The file name up to its first dot; the innermost folder's where a glob has none itself."""
    for part in reversed(Path(path).parts):
        stem = re.sub(r"\[[^\]]*\]", "", part).partition(".")[0]
        if re.search(r"\w", stem):
            return stem
    return ""
