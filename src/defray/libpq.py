"""Addresses of PostgreSQL databases: how they are read, completed, and shown without a secret.

What a dsn leaves open, libpq takes from the environment (``PGPASSWORD``, ``PGSSLMODE``, ...) and
``~/.pgpass``.  Needs psycopg.
"""

from __future__ import annotations

import re
from typing import Any, Final

from psycopg import Error, OperationalError, conninfo

CLOCKS: Final[dict[str, Any]] = {
    "connect_timeout": 10,
    "keepalives_idle": 20,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 40_000,
}
"""When a silent server counts as gone, unless the address says otherwise: seconds, the last milliseconds."""


_PORTS: Final = re.compile(r"\d*(,\d*)*")
_HOST: Final = re.compile(r"/.*|[^@/:]*|[0-9a-fA-F.]*:[0-9a-fA-F:.]*(%\w+)?")
"""A socket's folder, a name, or an IPv6 address."""


def is_readable(dsn: str) -> bool:
    """Whether libpq can read it, a URI or ``key=value`` pairs, and every part is what it stands for: a ``/``
    or ``@`` that is not percent-encoded makes libpq take part of a password for a host, a port or a database.
    """
    given: dict[str, Any] | None = None
    try:
        given = conninfo.conninfo_to_dict(dsn)
    except Error:
        given = None
    return (
        given is not None
        and all(_HOST.fullmatch(host) for host in str(given.get("host") or "").split(","))
        and _PORTS.fullmatch(str(given.get("port") or "")) is not None
        and re.search("@|://", str(given.get("dbname") or "")) is None
    )


def completed(dsn: str, **standing: Any) -> str:
    """A readable dsn, with ``standing`` and the clocks where it says nothing else; text is UTF-8 whatever it
    says."""
    given = conninfo.conninfo_to_dict(dsn)
    made = {"application_name": "defray", **CLOCKS, **standing, **given, "client_encoding": "UTF8"}
    return conninfo.make_conninfo("", **made)


_REFUSALS: Final = {
    "password": "28P01",
    "authentication": "28000",
    "pg_hba.conf": "28000",
    'FATAL:  role "': "28000",
    'FATAL:  database "': "3D000",
    "too many clients": "53300",
    "remaining connection slots": "53300",
}
"""Parts of libpq's words for a refused connection."""


def refused(error: Exception) -> str | None:
    """The SQLSTATE of a refused connection, for which libpq has no code; None where its English text is not
    one of these."""
    text = str(error) if isinstance(error, OperationalError) else ""
    return next((code for part, code in _REFUSALS.items() if part in text), None)


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
