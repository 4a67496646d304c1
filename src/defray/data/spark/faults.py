"""What Spark says when it fails, replaced by fixed texts: its own may quote rows, and quotes stack traces.

A fault is told by the name of Spark's error condition and the names of the Java classes that were raised,
never by a message.  PySpark logs every error of a statement, with its trace, on standard error as well, and
Py4J, where it logs, all that it sends; what is said here is kept out of these logs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final, TypeVar

from defray.errors import DefrayError, SourceUnavailable

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Fault:
    said: str
    cure: str

    def error(self) -> SourceUnavailable:
        return SourceUnavailable(self.said, hint=self.cure)


GONE: Final = Fault(
    "the Spark session has ended",
    "ask again: a new one is made; if it ends again, give it more memory (spark.driver.memory)",
)
_NO_TABLE: Final = Fault(
    "Spark finds no such table",
    "correct source.table (schema.table or catalog.schema.table), or name its catalog in [source.spark]",
)
NO_PATH: Final = Fault(
    "there is no data at source.path", "check source.path; every node of a cluster must see it"
)
_NOT_PARQUET: Final = Fault(
    "the data could not be read as Parquet",
    "check source.path: every matching file must be Parquet, and complete",
)
_UNLIKE: Final = Fault(
    "a column has different types in different Parquet files, or another than the table declares",
    "write it with one type in all of them: Spark does not even join integers of 32 and of 64 bits",
)
_ILLEGAL_TYPE: Final = Fault(
    "a column of the Parquet files has a type that Spark cannot read",
    "write the files without it (times in microseconds, not nanoseconds)",
)
_FORBIDDEN: Final = Fault(
    "Spark may not read the data",
    "let the user that Spark runs as read it: the files and their folders, or SELECT on the table",
)
_NO_LIBRARY: Final = Fault(
    "Spark lacks a library that the source needs",
    'name it in [source.spark], for example: jars.packages = "org.apache.hadoop:hadoop-aws:3.4.1"',
)
_NO_ANSWER: Final = Fault(
    "where the data is, nothing answers Spark", "check the host in source.path, and that it is up"
)
_MEMORY: Final = Fault(
    "the scan needs more memory than Spark has",
    "raise driver.memory or executor.memory in [source.spark], or ask for fewer groups",
)
_PYTHON: Final = Fault(
    "the table is a view with Python functions, and they did not run on Spark's workers",
    "set PYSPARK_PYTHON to the same Python everywhere, or name a table without Python functions",
)

_BY_CONDITION: Final = {
    "TABLE_OR_VIEW_NOT_FOUND": _NO_TABLE,
    "SCHEMA_NOT_FOUND": _NO_TABLE,
    "CATALOG_NOT_FOUND": _NO_TABLE,
    "REQUIRES_SINGLE_PART_NAMESPACE": _NO_TABLE,
    "IDENTIFIER_TOO_MANY_NAME_PARTS": _NO_TABLE,
    "PATH_NOT_FOUND": NO_PATH,
    "UNABLE_TO_INFER_SCHEMA": _NOT_PARQUET,
    "CANNOT_MERGE_SCHEMAS": _UNLIKE,
    "FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH": _UNLIKE,
    "CANNOT_READ_FILE_FOOTER": _NOT_PARQUET,
    "FAILED_READ_FILE": _NOT_PARQUET,
    "UNSUPPORTED_TIME_TYPE": _ILLEGAL_TYPE,
    "PARQUET_TYPE_ILLEGAL": _ILLEGAL_TYPE,
    "PARQUET_TYPE_NOT_SUPPORTED": _ILLEGAL_TYPE,
    "PARQUET_TYPE_NOT_RECOGNIZED": _ILLEGAL_TYPE,
    "INSUFFICIENT_PERMISSIONS": _FORBIDDEN,
}
_BY_CLASS: Final = {
    "OutOfMemoryError": _MEMORY,
    "SparkOutOfMemoryError": _MEMORY,
    "AccessControlException": _FORBIDDEN,
    "AccessDeniedException": _FORBIDDEN,
    "PythonException": _PYTHON,
    "FileNotFoundException": NO_PATH,
    "ClassNotFoundException": _NO_LIBRARY,
    "ConnectException": _NO_ANSWER,
    "UnknownHostException": _NO_ANSWER,
    "NoSuchTableException": _NO_TABLE,
    "NoSuchNamespaceException": _NO_TABLE,
    "Py4JNetworkError": GONE,
    "ConnectionRefusedError": GONE,
    "ConnectionResetError": GONE,
    "BrokenPipeError": GONE,
    "IllegalStateException": GONE,  # "Cannot call methods on a stopped SparkContext"
}


def guarded(step: Callable[[], T], doing: str, cure: str) -> T:
    """What ``step`` returns.  Whatever Spark raises in it becomes a fixed error, outside the handler."""
    fault: Fault | None = None
    with quiet():
        try:
            return step()
        except DefrayError:
            raise
        except Exception as error:
            fault = _fault(error, doing, cure)
    raise fault.error()


def _fault(error: Exception, doing: str, cure: str) -> Fault:
    conditions, classes = names(error)
    for condition in conditions:
        known = _BY_CONDITION.get(condition) or _BY_CONDITION.get(condition.partition(".")[0])
        if known is not None:
            return known
    for name in reversed(classes):
        if name in _BY_CLASS:
            return _BY_CLASS[name]
    return Fault(f"{doing} ({[*classes, *conditions][-1]})", cure)


def names(error: BaseException) -> tuple[list[str], list[str]]:
    """The error conditions, and the simple names of the classes raised; those of the root cause last."""
    conditions, classes = [], [type(error).__name__]
    try:
        from py4j.java_gateway import is_instance_of
        from pyspark import SparkContext

        thrown: Any = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
        while thrown is not None and len(classes) < 20:
            classes.append(str(thrown.getClass().getSimpleName()))
            if is_instance_of(SparkContext._gateway, thrown, "org.apache.spark.SparkThrowable"):
                conditions.append(str(thrown.getCondition() or ""))
            thrown = thrown.getCause()
    except Exception:  # Spark is gone: what is known by now has to do
        classes.append("Py4JNetworkError")
    return [c for c in conditions if c], classes


# -- the logs of PySpark ------------------------------------------------------------------------------

_ours: Final[ContextVar[bool]] = ContextVar("defray_spark_ours", default=False)
_lock: Final = Lock()
_OF_PYSPARK: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_OF_PY4J: Final = ("py4j.java_gateway", "py4j.clientserver", "py4j.protocol", "py4j.finalizer")


class _NotOurs(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return not _ours.get()


_filter: Final = _NotOurs()


@contextmanager
def quiet() -> Iterator[None]:
    """What is sent and raised in the block is in no log of PySpark's or Py4J's; that of others still is."""
    from pyspark.logger import PySparkLogger

    with _lock:
        for name in _OF_PYSPARK:  # which have to be made as its own kind
            PySparkLogger.getLogger(name).addFilter(_filter)
        for name in _OF_PY4J:
            logging.getLogger(name).addFilter(_filter)
    token = _ours.set(True)
    try:
        yield
    finally:
        _ours.reset(token)
