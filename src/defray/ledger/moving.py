"""Moving a ledger to another place: a copy, and a mark at the old place that ends its use.

    target, uncommitted  <-  all rows, under the lock of the source
    source               <-  "moving": nobody spends from it any more
    target               <-  commit: from here on there is one ledger
    source               <-  "moved": it will not be copied again

At no moment can both be used.  Stopped anywhere, the same call again goes on: before the first mark nothing
had happened, after it the target is there whole, or not at all and is copied anew.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from defray.errors import LedgerMismatch
from defray.ledger.copying import copy_rows
from defray.ledger.moved import Mark, moved_away
from defray.ledger.sql import Place, Sql
from defray.ledger.store import Ledger


class Movable(Ledger, Protocol):
    """A ledger that can be left."""

    @property
    def name(self) -> str:
        """How it is called in marks."""

    def mark(self) -> Mark | None:
        """Where it went; None where it did not."""

    def leaving(self, mark: Mark) -> AbstractContextManager[Sql]:
        """Hold the lock of all writers, and mark it at the normal exit.  LedgerMismatch if it was marked
        otherwise."""


def move(
    source: Movable,
    to: Place,
    arriving: Callable[[], AbstractContextManager[Sql]],
    arrived: Callable[[], Ledger | None],
) -> int:
    """Move a ledger; the number of its entries.

    ``to`` names the target.  ``arriving`` makes its empty tables in a transaction, or a file, that is kept at
    the normal exit, and refuses where something is; ``arrived`` opens it to be read (None: it is not there).

    LedgerMismatch where the source was moved elsewhere, or entirely; LedgerError where the target is not
    empty; LedgerCorrupt where the chain is broken."""
    onward = Mark(str(to), False)
    mark = source.mark()
    if mark not in (None, onward):
        assert mark is not None
        raise moved_away(mark, source.name)
    if mark is None or not _found(source, to, arrived):
        with arriving() as target, source.leaving(onward) as rows:
            copy_rows(rows, target, source.name)
    with source.leaving(Mark(str(to), True)):
        pass  # marked, and no more
    with source.view() as view:
        return view.seq


def _found(source: Movable, to: Place, arrived: Callable[[], Ledger | None]) -> bool:
    """Whether what is at the target is what was copied, and perhaps went on."""
    target = arrived()
    if target is None:
        return False
    try:
        with source.view() as view:
            seq, head = view.seq, view.head
        entry = next(target.entries(seq), None)
        if entry is None or entry.hash != head:
            raise LedgerMismatch(
                f"The ledger {source.name} was on its way to {to}, where another one is.",
                hint="Take away what is there, if it is not in use.",
                path=str(to),
            )
    finally:
        target.close()
    return True
