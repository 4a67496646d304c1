"""SQLite connections for many threads, safe across ``fork``.

A connection is used by one thread at a time: it is lent, given back and lent again.  SQLite's state must
not cross a fork, so the idle connections are closed before one.  If a connection was in use at that
moment, the child can never use that file safely and is told so; the parent is not affected.
"""

from __future__ import annotations

import ctypes
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from defray.errors import LedgerError
from defray.ledger import files
from defray.ledger.sql import Place


class Connection(sqlite3.Connection):
    """``seen`` is what was written by others and by itself when it was last asked, in numbers that count on;
    ``sides`` which log and index it uses (see :func:`defray.ledger.files.sides`), where it may write."""

    everywhere: Final = "quanta"
    seen: tuple[int, int] | None = None
    sides: tuple[files.Identity | None, ...] | None = None


class Pool:
    """Lends connections made by ``connect``; all are closed by :meth:`close`."""

    def __init__(self, path: Path, connect: Callable[[], Connection]) -> None:
        self._path = path
        self._connect = connect
        self._idle: list[Connection] = []
        self._lent = 0
        self._closed = False
        self.mutex = threading.Lock()
        self.writer = threading.Lock()
        self.pid = os.getpid()
        with _register:
            _pools.add(self)

    @contextmanager
    def lend(self) -> Iterator[Connection]:
        with self.mutex:
            if self._closed:
                raise LedgerError(
                    f"The ledger {self._path} was closed.",
                    hint="Open it again.",
                    path=str(self._path),
                )
            if self._path in _tainted:
                raise forked(self._path)
            connection = self._idle.pop() if self._idle else None
            self._lent += 1
        pid = os.getpid()
        try:
            if connection is None:
                connection = self._connect()
            yield connection
        finally:
            if os.getpid() != pid:
                _abandon(connection)
            else:
                with self.mutex:
                    self._lent -= 1
                    if connection is not None:
                        if self._closed or connection.in_transaction:
                            connection.close()
                        else:
                            self._idle.append(connection)

    def close(self) -> None:
        """Close what is idle now and what is lent when it comes back."""
        with self.mutex:
            self._closed = True
            self._drain()

    def _drain(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def before_fork(self) -> None:
        self.mutex.acquire()
        self._drain()

    def after_fork_in_child(self) -> None:
        if self._lent:
            _tainted.add(self._path)
        self._lent = 0
        self.pid = os.getpid()
        self.writer = threading.Lock()
        self.mutex.release()


def forked(path: Place) -> LedgerError:
    return LedgerError(
        f"The ledger {path} was in use when this process was forked from its parent.",
        hint="Fork before using the ledger, or start the process by spawning.",
        path=str(path),
    )


def tainted(path: Path) -> bool:
    """Whether this process inherited a connection to the file that was in use."""
    return path in _tainted


def _abandon(connection: Connection | None) -> None:
    """Keep an inherited connection from ever being closed here: closing it would touch the parent's
    files.  The reference is leaked on purpose."""
    if connection is not None:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


_register = threading.Lock()
_pools: weakref.WeakSet[Pool] = weakref.WeakSet()
_tainted: set[Path] = set()
_forking: list[Pool] = []


def _before_fork() -> None:
    _register.acquire()
    _forking[:] = list(_pools)
    for pool in _forking:
        pool.before_fork()


def _after_fork_in_parent() -> None:
    for pool in _forking:
        pool.mutex.release()
    _forking.clear()
    _register.release()


def _after_fork_in_child() -> None:
    for pool in _forking:
        pool.after_fork_in_child()
    _forking.clear()
    _register.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
