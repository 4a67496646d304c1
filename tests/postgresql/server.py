"""The PostgreSQL servers of tests; what one is stands in :mod:`benchmarks.postgresql`."""

from __future__ import annotations

import functools
import os
import uuid

import pytest

from benchmarks import postgresql
from benchmarks.postgresql import Server, binaries


def new_server() -> Server:
    """Another server, running; removed at the end of the process."""
    try:
        return postgresql.new_server()
    except FileNotFoundError as missing:
        if "CI" in os.environ:
            pytest.fail(str(missing))
        pytest.skip(str(missing))


@functools.cache
def the_server() -> Server:
    """The one server of this process, for tests that do not stop it."""
    return new_server()


def new_schema() -> str:
    return f"t{uuid.uuid4().hex[:12]}"


def ledger_section(dsn: str | None = None, schema: str | None = None) -> str:
    """The part of a contract that names a new ledger."""
    return postgresql.ledger_section(dsn or the_server().dsn(), schema or new_schema())


__all__ = ["Server", "binaries", "ledger_section", "new_schema", "new_server", "the_server"]
