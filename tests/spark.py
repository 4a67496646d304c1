"""Spark for the tests: one session for each process that runs them, quick with small tables."""

from __future__ import annotations

import atexit
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from typing import Final

import pytest

from defray.data.spark.java import check_java
from defray.data.spark.session import Session, open_session
from defray.errors import SourceUnavailable

OPTIONS: Final[Mapping[str, str]] = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
}
"""A statement over a few hundred rows takes a fifth of the time it takes with Spark's defaults."""


@cache
def missing() -> str | None:
    """Why nothing of Spark can be tested here."""
    if find_spec("pyspark") is None:
        return "PySpark is not installed"
    try:
        check_java()
    except SourceUnavailable as error:
        return str(error).splitlines()[0]
    return None


@cache
def kept_session() -> Session:
    """Holds the session open between sources, for as long as the process lasts."""
    session = open_session(OPTIONS)
    atexit.register(session.close)
    return session


def needed() -> None:
    """Skips a test where there is no Spark, else sees to a session."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    kept_session()
