"""Exact numbers from CSV, Parquet and DuckDB files, through an embedded DuckDB.

No text of an analyst reaches the database: every statement is rendered from a Scan.  No text of the
database reaches anyone: its errors are replaced by fixed ones, outside the handler, so that not even the
error's context holds them.

Where the contract's unit is a column, the kept rows (see :mod:`defray.data.truncation`) are worked out once
for each version of the data and held in memory, in DuckDB's own table, if they are expected to fit in
``cache_bytes``; otherwise every scan works them out.  Nothing of it is ever written to disk.

DuckDB's threads do not survive a fork.  The child leaves what it inherited as it is, opens the files anew
with its first scan and works the kept rows out again; the parent is not affected.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from defray.core.contract import Contract
from defray.data.duckdb.dialect import DUCKDB
from defray.data.duckdb.files import Opened, how_read, open_locked, processors
from defray.data.duckdb.reading import read
from defray.data.fingerprint import Fingerprint, Stamp
from defray.data.normalise import Normal
from defray.data.physical import Raw, normal, pick
from defray.data.source import Control, Exact, Scan
from defray.data.statement import statement
from defray.data.still import read_still
from defray.data.together import answered
from defray.data.truncation import kept_rows
from defray.data.watch import POLL_SECONDS, Watch
from defray.errors import SourceUnavailable

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

CACHE_BYTES = 1 << 30
"""Default bound of the kept rows held in memory."""

PART_ROWS = 4_000_000
"""Kept rows are worked out for about this many rows at a time, which bounds the memory that takes."""

Truncated = Callable[[int, int], str]
"""The kept rows of a part of the units, as SQL."""


@dataclass(slots=True)
class _Version:
    """One version of the data, opened: its own instance, so nothing cached outlives the version.

    ``seen`` are the files' stamps and the fingerprint that it was opened under.
    """

    seen: tuple[tuple[Stamp, ...], str]
    opened: Opened
    normals: tuple[Normal, ...]
    table: str
    truncated: Truncated | None
    row_bytes: int
    in_memory: bool = False
    cached: bool | None = None
    rows: int = 0
    lock: Lock = field(default_factory=Lock)


class DuckDBSource:
    """A :class:`defray.data.source.Source` over the files of a contract.

    ``secret`` keys the fingerprint and the choice of kept rows; ``remember`` and ``memo`` keep the
    fingerprint between runs (opaque text).  Safe to use from several threads.
    """

    def __init__(
        self,
        contract: Contract,
        secret: bytes,
        *,
        remember: Callable[[str], str | None] = lambda key: None,
        memo: Callable[[str, str], None] = lambda key, text: None,
        threads: int | None = None,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        spec = contract.source
        if spec.path is None:
            raise SourceUnavailable("the contract names no data file", hint="set source.path")
        self._contract = contract
        self._secret = secret
        self._threads = threads or processors()
        self._cache_bytes = cache_bytes
        self._identity = Fingerprint(
            contract.directory.absolute() / spec.path,
            secret,
            remember,
            memo,
            spec.data_version,
            (".wal",) if spec.kind == "duckdb" else (),
            how_read(contract),
        )
        self._version: _Version | None = None
        self._lock = Lock()
        _sources.add(self)

    def fingerprint(self) -> str:
        return self._identity.current()[1]

    def glance(self) -> str | None:
        return self._identity.glance()

    def close(self) -> None:
        with self._lock:
            version, self._version = self._version, None
        if version is not None:
            version.opened.connection.close()

    def after_fork(self) -> None:
        """In the child: nothing inherited may be closed either, since that waits for threads that are
        not here.  The reference is leaked on purpose."""
        if self._version is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._version))
        self._version = None
        self._lock = Lock()
        self._identity.after_fork()

    def scan(self, scan: Scan, control: Control | None = None) -> Exact:
        return self.scan_together([scan], control)[0]

    def scan_together(self, scans: Sequence[Scan], control: Control | None = None) -> list[Exact]:
        """By one pass (see :mod:`defray.data.together`)."""

        def read(version: _Version, watch: Watch) -> list[Exact]:
            return answered(
                self._contract.domain, scans, lambda scan: self._run(version, scan, watch)
            )

        return read_still(self._identity.current, lambda state: self._open(*state), read, control)

    def kept_rows_sql(self) -> str | None:
        """The truncation as SQL, for benchmarks and tests: it holds the secret, so it goes nowhere else."""
        truncated = self._open(*self._identity.current()).truncated
        return None if truncated is None else truncated(0, 1)

    # -- versions ---------------------------------------------------------------------------------

    def _open(self, files: Sequence[Stamp], fingerprint: str) -> _Version:
        with self._lock:
            seen = (tuple(files), fingerprint)
            if self._version is None or self._version.seen != seen:
                self._version = self._make(files, fingerprint)
            return self._version

    def _make(self, files: Sequence[Stamp], fingerprint: str) -> _Version:
        contract = self._contract
        opened = open_locked(contract, [Path(f.path) for f in files], self._threads)
        columns = contract.domain.columns
        raws = [pick(opened.columns, c.name, f"columns.{c.name}") for c in columns]
        read_as = [
            normal(column, raw, f"c{i}", read, DUCKDB)
            for i, (column, raw) in enumerate(zip(columns, raws, strict=True))
        ]
        values = [item for item, _ in read_as]
        normals = tuple(rules for _, rules in read_as)
        table = f"(SELECT {', '.join(values)} FROM {opened.relation})"
        truncated: Truncated | None = None
        unit = contract.unit
        if unit.column is not None:
            of_unit = pick(opened.columns, unit.column, "unit.column")
            if of_unit.physical.startswith("UNION"):
                raise SourceUnavailable(
                    f"the unit column {unit.column} is of type UNION, which cannot be compared safely",
                    hint="declare a view that casts it to text as the source",
                )
            keys = [pick(opened.columns, k, "unit.row_key") for k in unit.row_key]

            def kept(part: int, parts: int) -> str:
                return kept_rows(
                    unit,
                    self._secret,
                    opened.relation,
                    DUCKDB,
                    unit_column=of_unit,
                    row_key=keys,
                    content=raws,
                    values=values,
                    keep=[n.keep for n in normals if n.keep is not None],
                    among=f"hash({of_unit.x}) % {parts} = {part}" if parts > 1 else None,
                )

            truncated = kept
        return _Version(
            (tuple(files), fingerprint), opened, normals, table, truncated, sum(map(_width, raws))
        )

    # -- running ----------------------------------------------------------------------------------

    def _run(self, version: _Version, scan: Scan, watch: Watch) -> Exact:
        truncated = version.truncated
        table = version.table if truncated is None else self._kept(version, truncated, watch)
        made = statement(scan, version.normals, table, DUCKDB, kept=truncated is not None)
        return made.exact(_execute(version.opened.connection, made.sql, watch))

    def _kept(self, version: _Version, truncated: Truncated, watch: Watch) -> str:
        """The FROM item of the kept rows; the first scan of a version may make the table."""
        while not version.lock.acquire(timeout=POLL_SECONDS):
            watch.check()
        try:
            connection = version.opened.connection
            if version.cached is None:
                counted = f"SELECT COUNT(*) FROM {version.opened.relation}"
                version.rows = _execute(connection, counted, watch)[0][0]
                version.cached = version.rows * version.row_bytes <= self._cache_bytes
            if version.cached and not version.in_memory:
                parts = version.rows // PART_ROWS + 1
                for part in range(parts):
                    into = "INSERT INTO kept" if part else "CREATE OR REPLACE TABLE kept AS"
                    _execute(connection, f"{into} {truncated(part, parts)}", watch)
                version.in_memory = True
            return "kept" if version.cached else f"({truncated(0, 1)})"
        finally:
            version.lock.release()


_sources: weakref.WeakSet[DuckDBSource] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for source in list(_sources):
        source.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def _execute(connection: DuckDBPyConnection, sql: str, watch: Watch) -> list[Any]:
    """All rows of a statement.  Whatever goes wrong in the backend becomes a fixed error here."""
    import duckdb

    rows: list[Any] | None = None
    failed = ""
    watch.check()
    try:
        cursor = connection.cursor()
        with watch.over(cursor.interrupt):
            rows = cursor.execute(sql).fetchall()
    except (duckdb.OutOfMemoryException, MemoryError):
        failed = "memory"
    except (duckdb.Error, RuntimeError, ValueError, OverflowError) as error:
        failed = type(error).__name__
    if rows is not None:
        return rows
    if watch.fault is not None or watch.why is not None:
        watch.check()
    if failed == "memory":
        raise SourceUnavailable(
            "the scan needs more memory than there is",
            hint="use a machine with more, or fewer groups",
        )
    raise SourceUnavailable(
        f"the scan of the data failed ({failed})",
        hint="check that the files are complete and still as they were when the contract was opened",
    )


_WIDTHS = {"BOOLEAN": 1, "TINYINT": 1, "UTINYINT": 1, "SMALLINT": 2, "USMALLINT": 2}
_WIDTHS |= {"INTEGER": 4, "UINTEGER": 4, "FLOAT": 4, "DATE": 4, "VARCHAR": 32}


def _width(raw: Raw) -> int:
    """About how many bytes a value takes in memory."""
    return _WIDTHS.get(
        raw.physical, 16 if "INT" in raw.physical or "DECIMAL" in raw.physical else 8
    )
