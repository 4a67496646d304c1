"""Where a PostgreSQL ledger is: how to connect, and how it is called without saying a secret."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from defray import libpq
from defray.errors import BadInput

_SCHEMA: Final = re.compile("(?!pg_)[a-z_][a-z0-9_]{0,62}")


@dataclass(frozen=True, slots=True)
class Address:
    """``dsn`` as :mod:`defray.libpq` has it; ``schema`` holds one contract's ledger.

    BadInput where either cannot be read; the message repeats nothing of the dsn.

    >>> print(Address("postgresql://defray:secret@db.example/ledgers", "randhie"))
    postgresql://db.example/ledgers, schema randhie
    """

    dsn: str = field(repr=False)
    schema: str

    def __post_init__(self) -> None:
        if not _SCHEMA.fullmatch(self.schema):
            raise BadInput(
                f"{self.schema!r:.80} cannot be the schema of a ledger",
                hint="up to 63 lower-case letters, digits and underscores, for example randhie",
            )
        if not libpq.is_readable(self.dsn):
            raise BadInput(
                "the dsn of the ledger cannot be read",
                hint="postgresql://USER@HOST:PORT/DATABASE, or host=... dbname=... user=...",
            )

    def conninfo(self, *, write: bool) -> str:
        """What to connect with; to write, to the server that can, where the dsn names several."""
        return libpq.completed(
            self.dsn, **({"target_session_attrs": "read-write"} if write else {})
        )

    def __str__(self) -> str:
        return f"{libpq.shown(self.dsn)}, schema {self.schema}"
