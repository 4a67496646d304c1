"""Exact numbers from Spark: a table of its catalogue, or Parquet files that it reads.

Each scan is one aggregation, rendered from a Scan; no text of an analyst reaches Spark, and no text of Spark
reaches anyone: its errors are replaced by fixed ones (:mod:`defray.data.spark.faults`).  Where the contract's
unit is a column, every scan works the kept rows out (see :mod:`defray.data.truncation`).

A session does not survive a fork: in the child the source is refused.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from threading import Lock
from typing import Any

from defray.core.contract import Contract
from defray.data.fingerprint import Fingerprint, declared
from defray.data.normalise import Normal
from defray.data.physical import normal, pick
from defray.data.source import Control, Exact, Scan
from defray.data.spark import making
from defray.data.spark.dialect import KEY, SPARK
from defray.data.spark.faults import guarded
from defray.data.spark.naming import is_local
from defray.data.spark.reading import comparable, read
from defray.data.spark.relation import Opened, files, how_read, opened, pattern
from defray.data.spark.session import Session, open_session
from defray.data.statement import Statement, statement
from defray.data.still import State, read_still
from defray.data.together import answered
from defray.data.truncation import kept_rows, pads
from defray.data.watch import Watch
from defray.errors import SourceUnavailable


@dataclass(frozen=True, slots=True)
class _Version:
    """One version of the data, opened in a session of its own."""

    seen: State
    session: Session
    normals: tuple[Normal, ...]
    table: str
    kept: bool


class SparkSource:
    """A :class:`defray.data.source.Source` over a table or a path that Spark reads.

    ``secret`` keys the fingerprint and the choice of kept rows; ``remember`` and ``memo`` keep the
    fingerprint of local files between runs (opaque text).  Safe to use from several threads.
    """

    def __init__(
        self,
        contract: Contract,
        secret: bytes,
        *,
        remember: Callable[[str], str | None] = lambda key: None,
        memo: Callable[[str, str], None] = lambda key, text: None,
    ) -> None:
        spec = contract.source
        self._contract = contract
        self._secret = secret
        self._files: Fingerprint | None = None
        if spec.data_version is not None:
            self._declared = declared(secret, how_read(contract), spec.data_version)
        elif spec.path is not None and is_local(spec.path):
            reading = how_read(contract)
            self._files = Fingerprint(
                pattern(contract), secret, remember, memo, reading=reading, lister=files
            )
        else:
            raise SourceUnavailable(
                "the rows of a Spark table cannot be fingerprinted",
                hint='declare which ones they are: data_version = "1", and another label when they change',
            )
        self._version: _Version | None = None
        self._lock = Lock()
        self._forked = False
        _sources.add(self)

    def fingerprint(self) -> str:
        return self._state()[1]

    def glance(self) -> str | None:
        return self._declared if self._files is None else self._files.glance()

    def close(self) -> None:
        with self._lock:
            version, self._version = self._version, None
        if version is not None:
            version.session.close()

    def after_fork(self) -> None:
        """In the child: what is inherited is neither used nor closed, since it speaks to the parent's JVM.
        The reference is leaked on purpose."""
        if self._version is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._version))
            self._forked = True
        self._version = None
        self._lock = Lock()
        if self._files is not None:
            self._files.after_fork()

    def scan(self, scan: Scan, control: Control | None = None) -> Exact:
        return self.scan_together([scan], control)[0]

    def scan_together(self, scans: Sequence[Scan], control: Control | None = None) -> list[Exact]:
        """By one aggregation (see :mod:`defray.data.together`)."""

        def read(state: State, watch: Watch) -> list[Exact]:
            version = self._open(state)
            return answered(
                self._contract.domain, scans, lambda scan: self._run(version, scan, watch)
            )

        return read_still(self._state, lambda state: state, read, control)

    def explained(self, scan: Scan) -> str:
        """The formatted physical plan of a scan, for benchmarks and tests."""
        version = self._open(self._state())
        sql = f"EXPLAIN FORMATTED {self._statement(version, scan).sql}"
        return str(version.session.rows(sql, Watch(Control(), 0))[0][0])

    def _state(self) -> State:
        if self._files is not None:
            return self._files.current()
        return (), self._declared

    # -- versions ---------------------------------------------------------------------------------

    def _open(self, state: State) -> _Version:
        if self._forked:
            raise SourceUnavailable(
                "a Spark session does not survive a fork", hint="open the contract in the child"
            )
        with self._lock:
            version = self._version
            if version is not None and version.seen == state and version.session.alive():
                return version
            if version is not None:
                self._version = None
                version.session.close()
            session = open_session(self._contract.source.options)
            try:
                self._version = self._make(state, opened(session, self._contract))
            finally:
                if self._version is None:
                    session.close()
            return self._version

    def _make(self, state: State, found: Opened) -> _Version:
        contract, unit = self._contract, self._contract.unit
        columns = contract.domain.columns
        raws = [pick(found.columns, c.name, f"columns.{c.name}") for c in columns]
        read_as = [
            normal(column, raw, f"c{i}", read, SPARK)
            for i, (column, raw) in enumerate(zip(columns, raws, strict=True))
        ]
        values = [item for item, _ in read_as]
        normals = tuple(rules for _, rules in read_as)
        table = SPARK.derived(f"SELECT {', '.join(values)} FROM {found.relation}")
        if unit.column is not None:
            of_unit = pick(found.columns, unit.column, "unit.column")
            row_key = [pick(found.columns, k, "unit.row_key") for k in unit.row_key]
            for name, raw in zip((unit.column, *unit.row_key), (of_unit, *row_key), strict=True):
                if not comparable(raw):
                    raise SourceUnavailable(
                        f"the values of column {name} cannot be told apart safely",
                        hint="declare a view that casts it to text as the source",
                        column=name,
                    )
            _show_key(found.session, self._secret)
            kept = kept_rows(
                unit,
                self._secret,
                found.relation,
                SPARK,
                unit_column=of_unit,
                row_key=row_key,
                content=raws,
                values=values,
                keep=[n.keep for n in normals if n.keep is not None],
            )
            table = SPARK.derived(kept)
        return _Version(state, found.session, normals, table, unit.column is not None)

    # -- running ----------------------------------------------------------------------------------

    def _statement(self, version: _Version, scan: Scan) -> Statement:
        return statement(scan, version.normals, version.table, SPARK, kept=version.kept)

    def _run(self, version: _Version, scan: Scan, watch: Watch) -> Exact:
        made = self._statement(version, scan)
        return made.exact(map(_whole, version.session.rows(made.sql, watch)))


def check(contract: Contract) -> None:
    """PySpark, Java, the master and local files, looked at without beginning a session.

    Raises MissingExtra or SourceUnavailable."""
    making.check(contract.source.options)
    if contract.source.path is not None and is_local(contract.source.path):
        files(pattern(contract))


def _whole(row: Sequence[Any]) -> tuple[Any, ...]:
    """A row with its decimals, which are whole numbers, as integers."""
    return tuple(int(x) if isinstance(x, Decimal) else x for x in row)


def _show_key(session: Session, secret: bytes) -> None:
    """Makes the view of the HMAC's keys: rows of the driver's memory, in no text, plan or log."""
    spark, keys = session.spark, pads(secret)

    def make() -> None:
        jvm, gateway = spark._jvm, spark._sc._gateway
        assert jvm is not None and gateway is not None
        schema = jvm.org.apache.spark.sql.types.StructType.fromDDL("outer_ BINARY, inner_ BINARY")
        values = gateway.new_array(jvm.java.lang.Object, 2)
        values[0], values[1] = keys
        rows = jvm.java.util.ArrayList()
        rows.add(jvm.org.apache.spark.sql.RowFactory.create(values))
        spark._jsparkSession.createDataFrame(rows, schema).createOrReplaceTempView(KEY)

    guarded(make, "the Spark session cannot be used", "ask again")


_sources: weakref.WeakSet[SparkSource] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for source in list(_sources):
        source.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
