"""What a table in a PostgreSQL database says about itself without its rows: column names and types."""

from __future__ import annotations

import os
import re
from contextlib import closing
from typing import Final

from defray.config.schema import Found
from defray.core.shapes import Kind
from defray.data.postgresql.names import parse_name
from defray.errors import BadInput, MissingExtra

_KINDS: Final[dict[str, Kind]] = {
    "smallint": "integer", "integer": "integer", "bigint": "integer",
    "real": "float", "double precision": "float", "numeric": "decimal",
    "boolean": "boolean", "date": "date",
    "timestamp without time zone": "timestamp", "timestamp with time zone": "timestamp",
    "text": "string", "character varying": "string", "character": "string", "bpchar": "string",
    "name": "string", "citext": "string", "enum": "string", "uuid": "string",
}  # fmt: skip

_PASSWORD: Final = re.compile(r"\w+://[^@?]*:[^?]*@|(^|[\s?&])(ssl)?password\s*=", re.IGNORECASE)


def has_password(dsn: str) -> bool:
    return _PASSWORD.search(dsn) is not None


def is_dsn(text: str) -> bool:
    """Whether a text names a database server rather than a file.

    >>> is_dsn("postgresql://db.example/people"), is_dsn("host=db dbname=x"), is_dsn("people.csv")
    (True, True, False)
    """
    return bool(
        re.match(r"postgres(ql)?://", text) or re.match(r"(host|dbname|service|user)\s*=", text)
    )


def table_on_server(dsn: str, table: str | None) -> Found:
    """Raises BadInput, MissingExtra or SourceUnavailable.  ``DEFRAY_SOURCE_DSN`` is used in place of ``dsn``
    where it is set."""
    if has_password(dsn):
        raise BadInput(
            "a password would be written into the contract",
            hint="take it out: it comes from PGPASSWORD, ~/.pgpass or DEFRAY_SOURCE_DSN",
        )
    named = None if table is None else parse_name(table)
    if table is None or named is None:
        raise BadInput("the table is missing", hint="say which: --table schema.name")
    try:
        from defray import libpq
        from defray.data.postgresql.connections import Connections
        from defray.data.postgresql.table import find
    except ImportError:
        raise missing() from None
    where = os.environ.get("DEFRAY_SOURCE_DSN") or dsn
    if not libpq.is_readable(where):
        raise BadInput(
            "the dsn cannot be read",
            hint="postgresql://USER@HOST:PORT/DATABASE, or host=... dbname=...",
        )
    with closing(Connections(where)) as connections, connections.reading() as transaction:
        found = find(transaction, *named, connections.name)
    columns = {
        name: _KINDS.get(re.sub(r"\(.*?\)", "", raw.physical), "")
        for name, raw in found.columns.items()
    }
    return Found("postgresql", dsn, columns, table)


def missing() -> MissingExtra:
    return MissingExtra("data in PostgreSQL needs psycopg", hint='pip install "defray[postgres]"')
