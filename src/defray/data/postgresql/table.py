"""The table of a source as the catalogue has it: its columns with their types, and who may read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from defray.data.physical import Raw
from defray.data.postgresql.connections import Transaction
from defray.data.postgresql.dialect import POSTGRESQL
from defray.data.postgresql.reading import raw
from defray.errors import SourceUnavailable

_TABLE: Final = """
SELECT c.oid, c.relname, n.nspname,
       has_schema_privilege(n.oid, 'USAGE'), has_any_column_privilege(c.oid, 'SELECT'),
       row_security_active(c.oid)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE lower(n.nspname) = lower($1) AND lower(c.relname) = lower($2) AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
"""
# A domain is followed to the type that it is made of.
_COLUMNS: Final = """
WITH RECURSIVE parts AS (
  SELECT attname, attnum, atttypid AS type, atttypmod AS mod, attcollation
  FROM pg_attribute WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped
  UNION ALL
  SELECT attname, attnum, typbasetype, CASE typtypmod WHEN -1 THEN mod ELSE typtypmod END, attcollation
  FROM parts JOIN pg_type t ON t.oid = parts.type WHERE t.typtype = 'd'
)
SELECT attname,
       CASE WHEN t.typtype = 'e' THEN 'enum'
            WHEN n.nspname = 'pg_catalog' THEN format_type(parts.type, parts.mod)
            WHEN t.typname = 'citext' THEN 'citext'
            ELSE 'other' END,
       coalesce(c.collisdeterministic, true),
       has_column_privilege($1, attnum, 'SELECT')
FROM parts JOIN pg_type t ON t.oid = parts.type JOIN pg_namespace n ON n.oid = t.typnamespace
     LEFT JOIN pg_collation c ON c.oid = parts.attcollation
WHERE t.typtype <> 'd' ORDER BY attnum
"""
_STATISTICS: Final = "SELECT has_table_privilege(to_regclass('pg_catalog.pg_stats'), 'SELECT')"
_ROWS_EACH: Final = """
SELECT CASE WHEN s.n_distinct < 0 THEN -1 / s.n_distinct
            WHEN s.n_distinct > 0 AND c.reltuples > 0 THEN c.reltuples / s.n_distinct END
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     JOIN pg_stats s ON (s.schemaname, s.tablename, s.attname) = (n.nspname, c.relname, $2)
WHERE c.oid = $1 ORDER BY s.inherited DESC LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class Table:
    """``relation`` is the FROM item; ``columns`` are those that the role may read, ``hidden`` the others."""

    oid: int
    relation: str
    columns: Mapping[str, Raw]
    hidden: frozenset[str]


def find(transaction: Transaction, schema: str, name: str, database: str) -> Table:
    """Raises SourceUnavailable where there is no such table, or the role may not read it."""
    found = transaction.rows(_TABLE, (schema, name))
    exact = [row for row in found if (row[2], row[1]) == (schema, name)]
    if not exact and len(found) != 1:
        raise SourceUnavailable(
            f"the database {database} has no table {name} in the schema {schema}",
            hint='name it as the catalogue does, "schema.table": source.table, or --table of init',
        )
    oid, relname, nspname, usable, readable, filtered = (exact or found)[0]
    called = ".".join(map(POSTGRESQL.name, (nspname, relname)))
    if not usable:
        raise SourceUnavailable(
            f"the role may not use the schema {nspname} of the database {database}",
            hint=f"GRANT USAGE ON SCHEMA {POSTGRESQL.name(nspname)} TO the role",
        )
    if not readable:
        raise SourceUnavailable(
            f"the role may not read the table {called} of the database {database}",
            hint=f"GRANT SELECT ON {called} TO the role; it needs nothing else",
        )
    if filtered:
        raise SourceUnavailable(
            f"a row security policy hides rows of {called} from the role",
            hint="give the role BYPASSRLS, or declare a view of the table's owner as source.table",
        )
    columns: dict[str, Raw] = {}
    hidden = set()
    for row in transaction.rows(_COLUMNS, (oid,)):
        column, physical, deterministic, granted = row
        if granted:
            columns[column] = raw(POSTGRESQL.name(column), physical, bytewise=deterministic)
        else:
            hidden.add(column)
    return Table(oid, called, columns, frozenset(hidden))


def rows_each(transaction: Transaction, table: Table, column: Raw) -> float | None:
    """About how many rows have one value of a column, as the planner has it; None where it does not, as for
    views and tables that were never analysed, and where the role may not see what the planner has."""
    if not transaction.rows(_STATISTICS)[0][0]:
        return None
    (name,) = (name for name, raw in table.columns.items() if raw is column)
    found = transaction.rows(_ROWS_EACH, (table.oid, name))
    return None if not found or found[0][0] is None else float(found[0][0])
