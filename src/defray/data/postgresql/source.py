"""Exact numbers from a table or view in a PostgreSQL database.

No text of an analyst reaches the database: every statement is rendered from a Scan.  No text of the
database reaches anyone: its errors are replaced by fixed ones, outside the handler.

The scans of a question are one transaction that only reads, and sees one moment.  Its content is what the
contract's ``data_version`` declares it to be; before and after, the catalogue is asked whether the table
was written to meanwhile (:mod:`defray.data.postgresql.drift`).

Where the contract's unit is a column, the kept rows are worked out by every scan, by the same hashes as
everywhere: which rows are kept does not depend on the kind of source where the unit and its row key are
integers or text.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from defray import libpq
from defray.core.contract import Contract
from defray.data.normalise import Normal
from defray.data.physical import Raw, normal, pick
from defray.data.postgresql.connections import Connections, Transaction
from defray.data.postgresql.dialect import POSTGRESQL
from defray.data.postgresql.drift import Drift, stamp
from defray.data.postgresql.names import parse_name
from defray.data.postgresql.reading import comparable, read
from defray.data.postgresql.table import Table, find, rows_each
from defray.data.source import Control, Exact, Scan
from defray.data.statement import statement
from defray.data.together import answered
from defray.data.truncation import kept_rows, pads
from defray.data.watch import Watch
from defray.errors import SourceUnavailable
from defray.query.region import EVERYWHERE

FEW_ROWS = 2
"""Where ``max_rows`` is so many times the rows that a unit has on average, few units have more.  To tell them
from the others keeps the database from hashing in parallel: that pays only where they are few."""


@dataclass(frozen=True, slots=True)
class _Form:
    """How the table is read: ``relation`` is the FROM item with the columns that the normals name, with its
    ``parameters``; ``kept``: it has the kept rows only."""

    relation: str
    normals: tuple[Normal, ...]
    parameters: tuple[bytes, ...] = ()
    kept: bool = False


class PostgresSource:
    """A :class:`defray.data.source.Source` over the table of a contract at ``dsn``.

    ``secret`` keys the fingerprint and the choice of kept rows; ``remember`` and ``memo`` keep what was
    seen of the table between runs (opaque text).  Safe to use from several threads.
    """

    def __init__(
        self,
        contract: Contract,
        dsn: str,
        secret: bytes,
        *,
        remember: Callable[[str], str | None] = lambda key: None,
        memo: Callable[[str, str], None] = lambda key, text: None,
    ) -> None:
        spec = contract.source
        named = parse_name(spec.table or "")
        if named is None or spec.data_version is None:
            raise SourceUnavailable(
                "the contract does not name a table and its data_version",
                hint='set source.table = "schema.table" and source.data_version',
            )
        if not libpq.is_readable(dsn):
            raise SourceUnavailable(
                "the dsn of the data cannot be read",
                hint="postgresql://USER@HOST:PORT/DATABASE, or host=... dbname=... user=...",
            )
        self._contract = contract
        self._secret = secret
        self._schema, self._name = named
        self._version = spec.data_version
        unit = contract.unit
        self._read = [
            *contract.domain.names,
            *unit.row_key,
            *([unit.column] if unit.column else []),
        ]
        self._connections = Connections(dsn)
        table = ".".join(map(POSTGRESQL.name, named))
        self._drift = Drift(self._version, table, secret, remember, memo)
        _sources.add(self)

    @property
    def name(self) -> str:
        """The database and the table, without user and password."""
        return f"{self._connections.name} table {self._schema}.{self._name}"

    def fingerprint(self) -> str:
        """Of the kind, the table's name and the declared version.  Where the database is does not count, and
        it is not asked."""
        mac = hmac.new(self._secret, b"defray content\0", hashlib.sha256)
        for part in ("postgresql", self._schema, self._name, self._version):
            data = part.encode(errors="surrogateescape")
            mac.update(len(data).to_bytes(8, "big") + data)
        return mac.hexdigest()

    def close(self) -> None:
        self._connections.close()

    def after_fork(self) -> None:
        self._connections.after_fork()
        self._drift.after_fork()

    def scan(self, scan: Scan, control: Control | None = None) -> Exact:
        return self.scan_together([scan], control)[0]

    def scan_together(self, scans: Sequence[Scan], control: Control | None = None) -> list[Exact]:
        """By one pass (see :mod:`defray.data.together`), or in one transaction: all see the same rows."""
        control = control or Control()
        Watch(control, 0).check()
        with self._connections.reading() as transaction:
            table = self._find(transaction)
            before = stamp(transaction, table.oid, self._read)
            self._drift.check(before)
            form = self._form(transaction, table)
            watch = Watch(control, before.size)
            exact = answered(
                self._contract.domain,
                scans,
                lambda scan: _scanned(transaction, scan, form, watch),
            )
        with self._connections.reading() as transaction:
            self._drift.check(stamp(transaction, table.oid, self._read))
        return exact

    def probe(self) -> None:
        """Raises SourceUnavailable where a scan would, for whatever can be told without the rows."""
        with self._connections.reading() as transaction:
            form = self._form(transaction, self._find(transaction))
            whole = statement(
                Scan(EVERYWHERE), form.normals, form.relation, POSTGRESQL, kept=form.kept
            )
            transaction.rows(f"EXPLAIN {whole.sql}", form.parameters)

    def sql_of(self, scan: Scan) -> tuple[str, tuple[bytes, ...]]:
        """The statement of a scan and its parameters, for benchmarks and tests: they hold the secret where
        the unit is a column, so they go nowhere else."""
        with self._connections.reading() as transaction:
            form = self._form(transaction, self._find(transaction))
        made = statement(scan, form.normals, form.relation, POSTGRESQL, kept=form.kept)
        return made.sql, form.parameters

    # -- how the table is read --------------------------------------------------------------------

    def _find(self, transaction: Transaction) -> Table:
        return find(transaction, self._schema, self._name, self._connections.name)

    def _form(self, transaction: Transaction, table: Table) -> _Form:
        contract = self._contract
        unit = contract.unit
        raws = [_granted(table, c.name, f"columns.{c.name}") for c in contract.domain.columns]
        read_as = [
            normal(column, raw, f"c{i}", read, POSTGRESQL)
            for i, (column, raw) in enumerate(zip(contract.domain.columns, raws, strict=True))
        ]
        values = [item for item, _ in read_as]
        normals = tuple(rules for _, rules in read_as)
        if unit.column is None:
            rows = f"SELECT {', '.join(values)} FROM {table.relation}"
            return _Form(POSTGRESQL.derived(rows), normals)
        of_unit = _granted(table, unit.column, "unit.column")
        if not comparable(of_unit):
            raise SourceUnavailable(
                f"the values of column {unit.column} cannot be told apart",
                hint="declare a view that casts it to text as source.table",
                column=unit.column,
            )
        each = rows_each(transaction, table, of_unit)
        kept = kept_rows(
            unit,
            self._secret,
            table.relation,
            POSTGRESQL,
            unit_column=of_unit,
            row_key=[_granted(table, k, "unit.row_key") for k in unit.row_key],
            content=raws,
            values=values,
            keep=[n.keep for n in normals if n.keep is not None],
            apart=each is not None and each <= unit.max_rows / FEW_ROWS,
        )
        return _Form(POSTGRESQL.derived(kept), normals, pads(self._secret), kept=True)


def _scanned(transaction: Transaction, scan: Scan, form: _Form, watch: Watch) -> Exact:
    made = statement(scan, form.normals, form.relation, POSTGRESQL, kept=form.kept)
    return made.exact(map(tuple, transaction.rows(made.sql, form.parameters, watch)))


def _granted(table: Table, name: str, role: str) -> Raw:
    if name in table.hidden:
        raise SourceUnavailable(
            f"the role may not read the column {name} ({role})",
            hint=f"GRANT SELECT ({POSTGRESQL.name(name)}) ON {table.relation} TO the role",
            column=name,
        )
    return pick(table.columns, name, role)


_sources: weakref.WeakSet[PostgresSource] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for source in list(_sources):
        source.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
