"""Connections to a contract, at hand or served elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from defray.dbapi import exceptions
from defray.dbapi.cursor import Cursor
from defray.dbapi.exceptions import InterfaceError, ProgrammingError, translated
from defray.remote import Client
from defray.session import Session

WISHES = (
    "within", "confidence", "rho", "max_rho", "simultaneous", "snap", "validity", "timeout", "dry_run",
)  # fmt: skip
"""What every question of a connection is asked with, where its text does not say otherwise."""


def connect(
    contract: str | Path | Session | Client,
    token: str | Callable[[], str] | None = None,
    **wish: Any,
) -> Connection:
    """Connect to a contract file, to the address of a service (with a ``token``), or to a session or client
    that is open already and stays so.

    ``wish`` is how every question is asked, as :meth:`Session.ask <defray.session.Session.ask>` takes it:
    ``within``, ``confidence``, ``rho``, ``max_rho``, ``simultaneous``, ``snap``, ``validity``, ``timeout``
    and ``dry_run``.
    """
    unknown = [name for name in wish if name not in WISHES]
    if unknown:
        raise ProgrammingError(f"connect takes no {unknown[0]}; it takes {', '.join(WISHES)}")
    if isinstance(contract, Session | Client):
        return Connection(contract, wish, owned=False)
    import defray

    with translated():
        if str(contract).startswith(("http://", "https://")):
            return Connection(defray.connect(str(contract), token or ""), wish)
        return Connection(defray.open(contract), wish)


class Connection:
    """``session`` is what asks.  There are no transactions: every answer is kept at once."""

    autocommit = True

    Warning = exceptions.Warning
    Error = exceptions.Error
    InterfaceError = exceptions.InterfaceError
    DatabaseError = exceptions.DatabaseError
    DataError = exceptions.DataError
    OperationalError = exceptions.OperationalError
    IntegrityError = exceptions.IntegrityError
    InternalError = exceptions.InternalError
    ProgrammingError = exceptions.ProgrammingError
    NotSupportedError = exceptions.NotSupportedError

    def __init__(
        self, session: Session | Client, wish: dict[str, Any], *, owned: bool = True
    ) -> None:
        self.session = session
        self.wish = wish
        self._owned = owned
        self._closed = False

    def cursor(self) -> Cursor:
        self.check_open()
        return Cursor(self)

    def commit(self) -> None:
        """What was answered is kept already."""
        self.check_open()

    def rollback(self) -> None:
        """Nothing is pending, and what was answered cannot be taken back."""
        self.check_open()

    def close(self) -> None:
        if not self._closed and self._owned:
            self.session.close()
        self._closed = True

    def check_open(self) -> None:
        if self._closed:
            raise InterfaceError("the connection is closed")

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
