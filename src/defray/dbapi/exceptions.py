"""The exceptions of PEP 249, and which of them stands for an error of Defray.

Each keeps what it stands for as ``error``, with its ``code``, ``hint`` and ``context``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from defray import errors
from defray.errors import DefrayError


class Warning(Exception):
    """Something important that is no error."""


class Error(Exception):
    """Base of all errors.  ``error`` is what went wrong as :mod:`defray.errors` has it, if it came from
    there."""

    def __init__(self, message: str, error: DefrayError | None = None) -> None:
        super().__init__(message)
        self.error = error
        self.code = "" if error is None else error.code
        self.hint = "" if error is None else error.hint
        self.context: Mapping[str, Any] = {} if error is None else error.context


class InterfaceError(Error):
    """The use of this module, not the contract."""


class DatabaseError(Error):
    """The contract, the service or the question."""


class DataError(DatabaseError):
    """A parameter that cannot be a value."""


class OperationalError(DatabaseError):
    """Not in the hands of who asks: the budget, the data, the ledger, the network."""


class IntegrityError(DatabaseError):
    """Contract and ledger disagree, or the ledger is damaged."""


class InternalError(DatabaseError):
    """A fault of Defray."""


class ProgrammingError(DatabaseError):
    """A mistake in the question, the accuracy or the contract file."""


class NotSupportedError(DatabaseError):
    """SQL that is not answered."""


KINDS: tuple[tuple[type[DefrayError], type[Error]], ...] = (
    (errors.BadInput, ProgrammingError),
    (errors.LedgerMismatch, IntegrityError),
    (errors.LedgerCorrupt, IntegrityError),
    (errors.InternalError, InternalError),
    (errors.MissingExtra, InterfaceError),
    (DefrayError, OperationalError),
)
"""The first that fits decides; SQL outside of the grammar is NotSupportedError."""


def error_of(error: DefrayError) -> Error:
    if isinstance(error, errors.QueryError) and error.kind == "unsupported":
        return NotSupportedError(str(error), error)
    kind = next(kind for fits, kind in KINDS if isinstance(error, fits))
    return kind(str(error), error)


@contextmanager
def translated() -> Iterator[None]:
    """Errors of Defray leave as those of PEP 249."""
    try:
        yield
    except DefrayError as error:
        raise error_of(error) from error
