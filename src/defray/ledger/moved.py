"""The mark that a ledger bears once it was copied away: two ledgers in use would be two budgets.

The mark is made twice: ``moving`` just before the copy is committed, and ``moved`` once it is.  Either ends
the use of the ledger.  Whoever stops in between leaves one that is ``moving``: the copy can be made again, to
the same place, or is found there, and is finished.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Final

from defray.errors import LedgerMismatch
from defray.ledger.sql import Place

_FENCE: Final = """CREATE TRIGGER IF NOT EXISTS {table}_{event}_moved BEFORE {event} ON {table}
    BEGIN SELECT RAISE(ABORT, 'the ledger was moved'); END"""


@dataclass(frozen=True, slots=True)
class Mark:
    """``done``: the copy is known to have been made."""

    to: str
    done: bool

    @classmethod
    def read(cls, text: str) -> Mark:
        """
        >>> Mark.read(str(Mark("people.ledger", False)))
        Mark(to='people.ledger', done=False)
        """
        how, _, to = text.partition(" ")
        return cls(to, how == "moved")

    def __str__(self) -> str:
        return f"{'moved' if self.done else 'moving'} {self.to}"


def moved_away(mark: Mark, place: Place) -> LedgerMismatch:
    """The error for whoever would go on with a ledger that was copied away."""
    if mark.done:
        what, hint = "was moved to", "Use the contract file that names its new place."
    else:
        what, hint = (
            "is on its way to",
            "Finish it: defray ledger copy with the same two contracts.",
        )
    return LedgerMismatch(
        f"The ledger {place} {what} {mark.to}: used at both places, the budget would be spent twice.",
        hint=hint,
        path=str(place),
        moved_to=mark.to,
    )


def stored_mark(sql: sqlite3.Connection) -> Mark | None:
    """The mark of a SQLite ledger."""
    row = sql.execute("SELECT value FROM meta WHERE name = 'moved'").fetchone()
    return None if row is None else Mark.read(bytes(row[0]).decode())


def write_mark(sql: sqlite3.Connection, mark: Mark) -> None:
    """Mark a SQLite ledger.  Triggers keep older programs from going on as well."""
    sql.execute(
        "INSERT INTO meta(name, value) VALUES ('moved', ?) "
        "ON CONFLICT(name) DO UPDATE SET value = excluded.value",
        (str(mark).encode(),),
    )
    for table, event in (("entries", "INSERT"), ("tokens", "INSERT"), ("tokens", "UPDATE")):
        sql.execute(_FENCE.format(table=table, event=event))
