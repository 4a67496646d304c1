"""Addresses of PostgreSQL databases: how they are read, completed, and shown without a secret.

What a dsn leaves open, libpq takes from the environment (``PGPASSWORD``, ``PGSSLMODE``, ...) and
``~/.pgpass``.  Needs psycopg.
"""

from __future__ import annotations

from typing import Any, Final

from psycopg import Error, conninfo

CLOCKS: Final[dict[str, Any]] = {
    "connect_timeout": 10,
    "keepalives_idle": 20,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 40_000,
}
"""When a silent server counts as gone, unless the address says otherwise: seconds, the last milliseconds."""


def is_readable(dsn: str) -> bool:
    """Whether libpq can read it: a URI or ``key=value`` pairs."""
    readable = True
    try:
        conninfo.conninfo_to_dict(dsn)
    except Error:
        readable = False
    return readable


def completed(dsn: str, **standing: Any) -> str:
    """A readable dsn, with ``standing`` and the clocks where it says nothing else."""
    given = conninfo.conninfo_to_dict(dsn)
    return conninfo.make_conninfo(
        "", **{"application_name": "defray", **CLOCKS, **standing, **given}
    )


def shown(dsn: str) -> str:
    """Host, port, database and service of a readable dsn.

    >>> shown("postgresql://defray:secret@db.example/ledgers")
    'postgresql://db.example/ledgers'
    """
    given = conninfo.conninfo_to_dict(dsn)
    host = str(given.get("host") or given.get("hostaddr") or "")
    port = f":{given['port']}" if given.get("port") else ""
    service = f"?service={given['service']}" if given.get("service") else ""
    where = host if not host.startswith("/") else ""
    return f"postgresql://{where}{port}/{given.get('dbname') or ''}{service}"
