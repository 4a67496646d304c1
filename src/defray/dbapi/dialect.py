"""A dialect of SQLAlchemy 2, for tools that speak only that: the extra ``[sqlalchemy]``.

::

    defray:///contract.toml?within=50             a file beside; with four slashes an absolute path
    defray+https://:TOKEN@stats.example?within=50  a service
    defray+http://:TOKEN@127.0.0.1:8310            one on this machine

What follows ``?`` is how every question is asked; an accuracy clause in the SQL goes before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import types
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.engine.url import URL
from sqlalchemy.exc import NoSuchTableError
from sqlalchemy.sql.compiler import IdentifierPreparer

from defray import dbapi
from defray.dbapi.connection import Connection
from defray.query.refusals import RESERVED
from defray.session import Session

TYPES: dict[str, type[types.TypeEngine[Any]]] = {
    "boolean": types.Boolean,
    "date": types.Date,
    "decimal": types.Numeric,
    "float": types.Float,
    "integer": types.Integer,
    "string": types.String,
    "timestamp": types.DateTime,
}


class Names(IdentifierPreparer):
    """Quotes what Defray's grammar reserves."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.reserved_words = {word.lower() for word in RESERVED}


class DefrayDialect(DefaultDialect):
    """One table, its declared columns, and no transactions."""

    name = "defray"
    driver = "file"
    preparer = Names
    default_paramstyle = "qmark"
    supports_statement_cache = True
    supports_native_boolean = True
    supports_alter = False
    supports_sane_rowcount = False
    postfetch_lastrowid = False

    @classmethod
    def import_dbapi(cls) -> Any:
        return dbapi

    def create_connect_args(self, url: URL) -> tuple[list[Any], dict[str, Any]]:
        wish = {name: _written(value) for name, value in url.query.items()}
        if self.driver == "file":
            return [url.database or ""], wish
        host = f"[{url.host}]" if ":" in (url.host or "") else url.host
        port = "" if url.port is None else f":{url.port}"
        place = f"{self.driver}://{host}{port}/{url.database or ''}"
        return [place, url.password or ""], wish

    def initialize(self, connection: Any) -> None:
        """There is nothing to find out about the server."""

    def do_ping(self, dbapi_connection: Any) -> bool:
        return True

    # -- what there is to ask about ---------------------------------------------------------------

    def get_schema_names(self, connection: Any, **_: Any) -> list[str]:
        return []

    def get_table_names(self, connection: Any, schema: str | None = None, **_: Any) -> list[str]:
        return [] if schema else [_declared(connection)[0]]

    def get_view_names(self, connection: Any, schema: str | None = None, **_: Any) -> list[str]:
        return []

    def has_table(
        self, connection: Any, table_name: str, schema: str | None = None, **_: Any
    ) -> bool:
        return table_name in self.get_table_names(connection, schema)

    def get_columns(
        self, connection: Any, table_name: str, schema: str | None = None, **_: Any
    ) -> list[Any]:
        table, columns = _declared(connection)
        if schema or table_name != table:
            raise NoSuchTableError(table_name)
        return [
            {"name": name, "type": TYPES[kind](), "nullable": null != "drop", "default": None}
            for name, kind, null in columns
        ]

    def get_pk_constraint(self, *_: Any, **__: Any) -> Any:
        return {"constrained_columns": [], "name": None}

    def get_foreign_keys(self, *_: Any, **__: Any) -> list[Any]:
        return []

    def get_indexes(self, *_: Any, **__: Any) -> list[Any]:
        return []


class HttpDialect(DefrayDialect):
    driver = "http"
    supports_statement_cache = True


class HttpsDialect(DefrayDialect):
    driver = "https"
    supports_statement_cache = True


def _written(value: str | Sequence[str]) -> Any:
    """An argument of :func:`defray.dbapi.connect` from a URL."""
    text = value if isinstance(value, str) else value[-1]
    return {"true": True, "false": False}.get(text.lower(), text)


def _declared(connection: Any) -> tuple[str, list[tuple[str, str, str]]]:
    """The table, and its columns with their kinds and what becomes of NULL."""
    held: Connection = connection.connection.dbapi_connection
    session = held.session
    if isinstance(session, Session):
        contract = session.contract
        return contract.table, [(c.name, c.kind, c.null) for c in contract.domain.columns]
    told = session.schema()
    return told["table"], [(c["name"], c["kind"], c["null"]) for c in told["columns"]]
