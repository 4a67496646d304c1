"""What the databases of ledgers have in common: the statements of reading and appending are the same text.

A statement marks its parameters with ``?``.  What differs is said here, once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

Place = Path | str
"""Where a ledger is, for messages: a file, or an address without a password."""


class Rows(Protocol):
    """What a statement found."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Sql(Protocol):
    """A connection.  ``everywhere`` is the column of ``charges`` that holds what every cell has paid."""

    @property
    def everywhere(self) -> str: ...

    def execute(self, statement: str, parameters: Sequence[Any] = ..., /) -> Rows: ...

    def executemany(self, statement: str, parameters: Iterable[Sequence[Any]], /) -> object: ...
