"""Addresses of databases: what is read, and what is never shown."""

from __future__ import annotations

import pytest

from defray import libpq

SECRET = "S3cr"


@pytest.mark.parametrize(
    ("dsn", "shown"),
    [
        ("postgresql://me:S3cr@db.example:5433/x", "postgresql://db.example:5433/x"),
        ("postgresql://me:S3cr%2Fet%40Pw@db/x", "postgresql://db/x"),
        ("postgresql://me:S3cr?et@db/x", "postgresql://db/x"),
        ("postgresql://me@a:5432,b:5433/x", "postgresql://a,b:5432,5433/x"),
        ("postgresql://me@[::1]:5432/x", "postgresql://::1:5432/x"),
        ("host=/run/postgresql dbname=x password=S3cr", "postgresql:///x"),
        ("service=people", "postgresql:///?service=people"),
        ("host=fe80::1%eth0 dbname=x", "postgresql://fe80::1%eth0/x"),
    ],
)
def test_what_is_shown(dsn: str, shown: str):
    assert libpq.is_readable(dsn)
    assert libpq.shown(dsn) == shown
    assert SECRET not in libpq.shown(dsn)


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://me:S3cr/etPw@127.0.0.1/db",  # a port S3cr, a database etPw@127.0.0.1/db
        "postgresql://me:S3cr@etPw@127.0.0.1/db",  # a host etPw@127.0.0.1
        "postgresql://me:S3cr:et@Pw@127.0.0.1/db",
        "host=db dbname=postgresql://me:S3cr@db/x",
        "host=postgresql://me:S3cr@db/x",
        "db.example",
    ],
)
def test_what_would_show_a_part_of_a_password_is_unreadable(dsn: str):
    assert not libpq.is_readable(dsn)


def test_text_is_utf8_whatever_a_dsn_says():
    made = libpq.completed("host=db client_encoding=SQL_ASCII connect_timeout=3")
    assert "client_encoding=UTF8" in made
    assert "connect_timeout=3" in made
