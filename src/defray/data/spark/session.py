"""The Spark session of the process: the one that is there, or one made for Defray.

A session that is active already is used and left alone: statements run in a child of it, with settings
of its own.  Otherwise one is made, by the options of the contract, when it is first needed; all sources of
the process share it, and the last one to close stops it.  No Python runs on Spark's workers, whatever
Python these have.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from defray.data.spark.faults import GONE, guarded, quiet
from defray.data.spark.making import await_executors, check_pyspark, make, stop
from defray.data.spark.settings import SETTINGS
from defray.data.watch import Watch
from defray.errors import SourceUnavailable

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


@dataclass(slots=True)
class _Own:
    """The session that Defray made, and how many sources use it."""

    context: SparkContext
    users: int = 0


_own: _Own | None = None
_lock = threading.Lock()


class Session:
    """A session to run statements in, until it is closed."""

    def __init__(self, spark: SparkSession, own: _Own | None) -> None:
        self.spark = spark
        self._own = own

    def alive(self) -> bool:
        """Whether statements can still be run."""
        with quiet():
            return _is_alive(self.spark.sparkContext)

    def rows(self, sql: str, watch: Watch) -> Sequence[Sequence[Any]]:
        """All rows of a statement.  Raises Cancelled, or SourceUnavailable with a fixed text."""
        context, tag = self.spark.sparkContext, f"defray-{uuid4().hex}"

        def cancel() -> None:
            with quiet(), suppress(Exception):  # where Spark is gone, the statement says so itself
                context.cancelJobsWithTag(tag)

        def run() -> list[Any]:
            with _tagged(context, tag), watch.over(cancel):
                done = False
                try:
                    rows = self.spark.sql(sql).collect()
                    done = True
                finally:
                    if not done:
                        cancel()
            return rows

        watch.check()
        failure: SourceUnavailable | None = None
        try:
            return guarded(
                run,
                "the scan of the data failed",
                "check that the data is complete and still as it was when the contract was opened",
            )
        except SourceUnavailable as error:
            failure = error
        watch.check()
        raise failure.with_traceback(None)

    def close(self) -> None:
        """Stops the session if Defray made it and nobody else uses it."""
        global _own
        with _lock:
            mine, self._own = self._own, None
            if mine is None:
                return
            mine.users -= 1
            if mine.users > 0:
                return
            if _own is mine:
                _own = None
            stop(mine.context)


@contextmanager
def _tagged(context: SparkContext, tag: str) -> Iterator[None]:
    """Jobs that this thread starts bear the tag, besides those that they bear anyway."""
    context.addJobTag(tag)
    try:
        yield
    finally:
        with suppress(Exception):
            context.removeJobTag(tag)


def open_session(options: Mapping[str, str]) -> Session:
    """A session for one source.  ``options`` are Spark's own, by their whole names; they count only where
    a session is made.  Raises MissingExtra, or SourceUnavailable with a fixed text."""
    check_pyspark()
    with _lock:
        return _found() or _made(options)


def _found() -> Session | None:
    """A session in the one that is there, if there is one."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context = SparkContext._active_spark_context
    if context is None:
        return None
    with quiet():
        if not _is_alive(context):
            stop(context)
            return None
    mine = _own if _own is not None and _own.context is context else None
    session = _child(SparkSession(context))
    if mine is not None:
        mine.users += 1
    return Session(session, mine)


def _made(options: Mapping[str, str]) -> Session:
    global _own
    from pyspark.sql import SparkSession

    context = make(options)
    try:
        await_executors(context, options)
        child = _child(SparkSession(context))
    except SourceUnavailable:
        stop(context)
        raise
    _own = _Own(context, 1)
    return Session(child, _own)


def _child(base: SparkSession) -> SparkSession:
    """A session beside ``base`` with settings and views of its own."""

    def make() -> SparkSession:
        child = base.newSession()
        for key, value in SETTINGS.items():
            child.conf.set(key, value)
        return child

    return guarded(make, "the Spark session cannot be used", GONE.cure)


def _is_alive(context: SparkContext) -> bool:
    try:
        return context._jsc is not None and not context._jsc.sc().isStopped()
    except Exception:  # nothing answers any more
        return False
