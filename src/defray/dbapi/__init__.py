"""The Python Database API 2.0 (PEP 249) over a contract, for tools that know nothing of privacy.

>>> from defray import dbapi, demo
>>> with demo() as session:
...     with dbapi.connect(session, within=200) as connection:
...         cursor = connection.cursor().execute("SELECT COUNT(*) AS n FROM randhie WHERE year = ?", [1])
...         [column[0] for column in cursor.description]
['n', 'n_half_width', 'n_charged_rho']

Every question pays from the contract's budget, once: ``execute`` is an ask.  There are no transactions: what
was answered is kept, and asking it again is free.
"""

from defray.dbapi.connection import Connection, connect
from defray.dbapi.cursor import Cursor
from defray.dbapi.exceptions import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,
)
from defray.dbapi.types import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    Date,
    DateFromTicks,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
)

apilevel = "2.0"

threadsafety = 2
"""Threads may share the module and connections; a cursor is one thread's."""

paramstyle = "qmark"
"""``?``; a mapping of parameters binds ``:name`` instead."""

__all__ = [
    "BINARY", "DATETIME", "NUMBER", "ROWID", "STRING", "Binary", "Connection", "Cursor", "DataError",
    "DatabaseError", "Date", "DateFromTicks", "Error", "IntegrityError", "InterfaceError",
    "InternalError", "NotSupportedError", "OperationalError", "ProgrammingError", "Time",
    "TimeFromTicks", "Timestamp", "TimestampFromTicks", "Warning", "apilevel", "connect", "paramstyle",
    "threadsafety",
]  # fmt: skip
