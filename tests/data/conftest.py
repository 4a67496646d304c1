"""A schema in the PostgreSQL server of the tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.postgresql.server import Server, new_schema, the_server


@pytest.fixture
def server() -> Server:
    return the_server()


@pytest.fixture
def schema(server: Server) -> Iterator[str]:
    """A new schema that the role of the service may use."""
    name = new_schema()
    server.sql(
        f"CREATE SCHEMA {name}; GRANT USAGE ON SCHEMA {name} TO {server.SERVICE};"
        f" ALTER DEFAULT PRIVILEGES IN SCHEMA {name} GRANT SELECT ON TABLES TO {server.SERVICE}"
    )
    yield name
    server.sql(f"DROP SCHEMA {name} CASCADE")
