"""Cursors: a question at a time."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from defray.core.answer import DRY_RUN, Answer
from defray.dbapi.binding import Parameters, bind, written
from defray.dbapi.columns import Column, table_of
from defray.dbapi.exceptions import (
    InterfaceError,
    NotSupportedError,
    ProgrammingError,
    translated,
)

if TYPE_CHECKING:
    from defray.dbapi.connection import Connection


class Cursor:
    """``answer`` is the whole answer to the question that was executed last: intervals, bill, notes."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.arraysize = 1
        self.answer: Answer | None = None
        self.description: tuple[Column, ...] | None = None
        self._rows: list[tuple[Any, ...]] = []
        self._at = 0
        self._closed = False

    @property
    def rowcount(self) -> int:
        """How many rows the answer has; -1 before there is one."""
        return -1 if self.answer is None else len(self._rows)

    def execute(self, operation: str, parameters: Parameters | None = None) -> Cursor:
        """Ask a question.  An accuracy that it has in its own text goes before the connection's."""
        self._check_open()
        self.answer, self.description, self._rows, self._at = None, None, [], 0
        if not isinstance(operation, str):
            raise ProgrammingError(f"a question is a text, not {type(operation).__name__}")
        with translated():
            sql = bind(operation, parameters)
            answer = self.connection.session.ask(sql, **_unwritten(self.connection.wish, sql))
            table = table_of(answer)
        if answer.dry_run:
            warnings.warn(DRY_RUN, stacklevel=2)
        self.answer, self.description, self._rows = answer, table.description, table.rows
        return self

    def executemany(self, operation: str, seq_of_parameters: Sequence[Parameters]) -> NoReturn:
        """Raises NotSupportedError: the answers of all questions but the last would be lost."""
        raise NotSupportedError("one question is asked at a time: use execute")

    def fetchone(self) -> tuple[Any, ...] | None:
        found = self.fetchmany(1)
        return found[0] if found else None

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        self._check_answered()
        begin = self._at
        self._at = min(begin + max(self.arraysize if size is None else size, 0), len(self._rows))
        return self._rows[begin : self._at]

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self.fetchmany(len(self._rows))

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        while (row := self.fetchone()) is not None:
            yield row

    def setinputsizes(self, sizes: Any) -> None:
        """There is nothing to set."""

    def setoutputsize(self, size: Any, column: Any = None) -> None:
        """There is nothing to set."""

    def close(self) -> None:
        self._closed = True
        self._rows = []

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise InterfaceError("the cursor is closed")
        self.connection.check_open()

    def _check_answered(self) -> None:
        self._check_open()
        if self.answer is None:
            raise ProgrammingError("nothing was asked yet: execute a question first")


def _unwritten(wish: dict[str, Any], sql: str) -> dict[str, Any]:
    """The connection's arguments without those that the question's own accuracy clause replaces."""
    clause = written(sql)
    if clause is None:
        return wish
    replaced = {
        "within": bool(clause.goals),
        "rho": bool(clause.goals),
        "confidence": clause.confidence is not None,
        "simultaneous": clause.simultaneous is not None,
        "validity": clause.validity is not None,
    }
    return {name: value for name, value in wish.items() if not replaced.get(name)}
