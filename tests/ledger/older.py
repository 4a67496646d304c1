"""Ledgers as earlier versions would have left them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from defray.ledger.schema import APPLICATION, STEPS, advance, version_of


def turned_back(path: Path, version: int) -> None:
    """Make the ledger what that version would have written of the same asks, by its own steps."""
    old = path.with_name("old")
    with closing(sqlite3.connect(old, isolation_level=None)) as sql:
        sql.execute(f"PRAGMA application_id = {APPLICATION}")
        sql.execute("PRAGMA journal_mode = WAL")
        advance(sql, STEPS[:version])
        assert version_of(sql) == version
        sql.execute("ATTACH ? AS new", (str(path),))
        tables = sql.execute("SELECT name FROM main.sqlite_master WHERE type = 'table'").fetchall()
        for (table,) in tables:
            columns = ", ".join(r[1] for r in sql.execute(f"PRAGMA main.table_info({table})"))
            sql.execute(f"INSERT INTO {table}({columns}) SELECT {columns} FROM new.{table}")
        sql.execute("DETACH new")
    path.unlink()
    old.chmod(0o600)
    old.rename(path)
