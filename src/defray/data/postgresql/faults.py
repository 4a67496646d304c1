"""What went wrong at the server, as fixed texts.

The server's own text goes nowhere: it may quote rows.  The SQLSTATE code is shown; it names a kind of error.
"""

from __future__ import annotations

from typing import Final

import psycopg

from defray import libpq
from defray.errors import SourceUnavailable

_AGAIN: Final = "nothing was spent; ask again"
_RIGHTS: Final = "docs/postgresql.md has the rights that its role needs"
_LOG: Final = "the server's own log says more"

_MEANING: Final[dict[str, tuple[str, str]]] = {
    "3D000": ("has no such database", "check the dsn"),
    "42501": (
        "does not let this role read the table",
        f"GRANT SELECT on it, and let no row security policy hide rows from the role; {_RIGHTS}",
    ),
    "42883": (
        "lacks a function or an operator that the scan needs",
        "the unit's column must be of a type whose values can be compared, and a view must name the schema of"
        " the functions it calls",
    ),
    "42P01": ("has no such table", "check source.table"),
    "42703": ("has no such column any more", "check the contract's columns against the table"),
    "40001": ("is a standby whose rows were changed while they were read", _AGAIN),
    "40P01": ("is locked", _AGAIN),
    "53300": ("has no connection to spare", f"{_AGAIN}, or raise max_connections"),
    "55P03": ("is locked by others", _AGAIN),
    "57014": ("stopped the statement", f"its statement_timeout may be too short; {_AGAIN}"),
}
_CLASSES: Final[dict[str, tuple[str, str]]] = {
    "08": ("cannot be reached", f"check the dsn and the server; {_AGAIN}"),
    "22": (
        "failed over a value",
        "where source.table is a view, correct it: it must not raise whatever a row holds",
    ),
    "28": (
        "refused the login",
        "check the user; the password comes from PGPASSWORD, ~/.pgpass or DEFRAY_SOURCE_DSN",
    ),
    "53": ("lacks memory, disk or connections", _LOG),
    "57": ("stops or starts", _AGAIN),
    "58": ("has a broken disk", _LOG),
    "XX": ("is damaged", _LOG),
}


def unavailable(error: psycopg.Error, name: str) -> SourceUnavailable:
    """The typed error that stands for a failure at the database ``name``; to be raised where the failure is
    handled no more, so that it is not in its context either."""
    code = error.sqlstate or libpq.refused(error)
    if code is None:
        lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
        what, hint = _CLASSES["08"] if lost else ("failed", _LOG)
        code = type(error).__name__
    else:
        what, hint = _MEANING.get(code) or _CLASSES.get(code[:2]) or ("failed", _LOG)
    return SourceUnavailable(f"the database {name} {what} ({code})", hint=hint)
