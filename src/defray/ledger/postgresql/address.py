"""Where a PostgreSQL ledger is: how to connect, and how it is called without saying a secret."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

from psycopg import Error, conninfo

from defray.errors import BadInput

CLOCKS: Final[dict[str, Any]] = {
    "connect_timeout": 10,
    "keepalives_idle": 20,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 40_000,
}
"""When a silent server counts as gone, unless the address says otherwise: seconds, the last milliseconds."""

_SCHEMA: Final = re.compile("(?!pg_)[a-z_][a-z0-9_]{0,62}")


@dataclass(frozen=True, slots=True)
class Address:
    """``dsn`` as libpq reads it (a URI or ``key=value`` pairs); what it leaves open, libpq takes from the
    environment (``PGPASSWORD``, ``PGSSLMODE``, ...) and ``~/.pgpass``.  ``schema`` holds one contract's
    ledger.

    BadInput where either cannot be read; the message repeats nothing of the dsn.

    >>> print(Address("postgresql://defray:secret@db.example/ledgers", "randhie"))
    postgresql://db.example/ledgers, schema randhie
    """

    dsn: str = field(repr=False)
    schema: str

    def __post_init__(self) -> None:
        if not _SCHEMA.fullmatch(self.schema):
            raise BadInput(
                f"{self.schema!r:.80} cannot be the schema of a ledger",
                hint="up to 63 lower-case letters, digits and underscores, for example randhie",
            )
        try:
            conninfo.conninfo_to_dict(self.dsn)
        except Error:
            raise BadInput(
                "the dsn of the ledger cannot be read",
                hint="postgresql://USER@HOST:PORT/DATABASE, or host=... dbname=... user=...",
            ) from None

    def conninfo(self, *, write: bool) -> str:
        """What to connect with; to write, to the server that can, where the dsn names several."""
        given = conninfo.conninfo_to_dict(self.dsn)
        standing = {"application_name": "defray", **CLOCKS}
        if write:
            standing["target_session_attrs"] = "read-write"
        return conninfo.make_conninfo("", **{**standing, **given})

    def __str__(self) -> str:
        given = conninfo.conninfo_to_dict(self.dsn)
        host = str(given.get("host") or given.get("hostaddr") or "")
        port = f":{given['port']}" if given.get("port") else ""
        service = f"?service={given['service']}" if given.get("service") else ""
        where = host if not host.startswith("/") else ""
        return (
            f"postgresql://{where}{port}/{given.get('dbname') or ''}{service}, schema {self.schema}"
        )
