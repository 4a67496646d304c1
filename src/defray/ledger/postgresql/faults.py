"""What went wrong at the server, as typed errors.

The server's own text goes nowhere: it may quote rows.  Its SQLSTATE code is kept as the ``reason``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
from psycopg_pool import PoolTimeout

from defray import libpq
from defray.errors import LedgerBusy, LedgerCorrupt, LedgerError, LedgerUnavailable

log = logging.getLogger("defray")

_AGAIN: Final = "Try again; nothing was spent."
_RIGHTS: Final = "docs/postgresql.md has the rights that its roles need."

_MEANING: Final[dict[str, tuple[type[LedgerError], str, str]]] = {
    "55P03": (LedgerBusy, "is in use by others for longer than the timeout", _AGAIN),
    "57014": (LedgerBusy, "took too long over a statement", _AGAIN),
    "40P01": (LedgerBusy, "is locked", _AGAIN),
    "40001": (LedgerBusy, "was changed meanwhile", _AGAIN),
    "53300": (LedgerBusy, "has no connection to spare", f"{_AGAIN} Or raise max_connections."),
    "25P03": (LedgerUnavailable, "waited too long inside a transaction", _AGAIN),
    "25P04": (LedgerUnavailable, "waited too long inside a transaction", _AGAIN),
    "25006": (
        LedgerUnavailable,
        "is on a server that only reads",
        "Name the primary in its dsn, or all servers: host=a,b.",
    ),
    "P0001": (
        LedgerCorrupt,
        "refused a write that breaks its own rules",
        "Run the audit; nothing of the write was kept.",
    ),
    "42501": (LedgerError, "may not be used so by this role", _RIGHTS),
    "3D000": (LedgerError, "has no such database", "Check the dsn; createdb makes one."),
    "42P01": (LedgerCorrupt, "lacks a table, or this role may not use its schema", _RIGHTS),
    "42703": (LedgerCorrupt, "lacks a column", "Stop asking, and restore a backup."),
    "53100": (LedgerError, "cannot grow: the disk is full", "Make room and try again."),
}
_CLASSES: Final[dict[str, tuple[type[LedgerError], str, str]]] = {
    "08": (LedgerUnavailable, "cannot be reached", _AGAIN),
    "57": (LedgerUnavailable, "has a server that stops or starts", _AGAIN),
    "23": _MEANING["P0001"],
    "28": (
        LedgerError,
        "refused the login",
        "Check the user; the password comes from PGPASSWORD, ~/.pgpass or DEFRAY_LEDGER_DSN.",
    ),
    "53": (LedgerError, "has a server that lacks resources", "Look at the server's own log."),
    "58": (LedgerError, "has a server with a broken disk", "Look at the server's own log."),
    "XX": (LedgerCorrupt, "is damaged", "Stop asking, and look at the server's own log."),
}


def from_postgres(error: Exception, name: str) -> LedgerError:
    """The typed error that stands for a failure of the database."""
    code = getattr(error, "sqlstate", None) or libpq.refused(error)
    if code is None:
        lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | PoolTimeout)
        unknown = _CLASSES["08"] if lost else _FAILED
        code = type(error).__name__
    else:
        unknown = _FAILED
    kind, what, hint = _MEANING.get(code) or _CLASSES.get(code[:2]) or unknown
    log.warning("the ledger %s: %s (%s)", name, what, code)
    return kind(f"The ledger {name} {what}.", hint=hint, path=name, reason=code)


_FAILED: Final[tuple[type[LedgerError], str, str]] = (
    LedgerError,
    "failed",
    "Run the audit before you go on.",
)


@contextmanager
def translated(name: str) -> Iterator[None]:
    """Failures of the database are typed errors, and are not chained to what they stand for."""
    try:
        yield
    except (psycopg.Error, PoolTimeout) as error:
        raise from_postgres(error, name) from None


def uncertain(name: str) -> LedgerUnavailable:
    """The connection was lost at a commit, and it could not be found out whether it was made."""
    return LedgerUnavailable(
        f"The connection to the ledger {name} was lost while it kept an answer.",
        hint="Ask again: if it was kept, it is known then and costs nothing; if not, nothing was spent.",
        path=name,
    )


def lost(name: str) -> LedgerUnavailable:
    """The connection was lost at a commit, and nothing was kept."""
    return LedgerUnavailable(
        f"The connection to the ledger {name} was lost; nothing was kept.", hint=_AGAIN, path=name
    )
