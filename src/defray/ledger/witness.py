"""A witness to a ledger: a small file that holds the newest entry that was seen, so that an older copy of
the ledger put back in its place, which has forgotten what was spent since, is refused.

It is written after every commit, once something was spent, and read when the ledger is opened: the log must
hold the witnessed entry.  It is no part of the ledger, holds nothing private, and does not come along with a
copy of the ledger; keep it (``[ledger] witness``) where a restored backup does not put an older one back.
Without one nothing is refused: it guards against mistakes, not against whoever may write both files.
"""

from __future__ import annotations

import json
import logging
import os
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from defray.errors import LedgerMismatch
from defray.ledger.records import PURSES
from defray.ledger.sql import Place
from defray.ledger.store import Ledger

Seen = tuple[int, str]
"""The seq and the hash of an entry."""

ACCEPTED: Final = "older-ledger-accepted"
"""The name of the note in a ledger that says which witnesses were overruled, as a JSON list."""

log = logging.getLogger("defray")


class Witness:
    """The witness at a path; it may be missing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._warned = False

    def seen(self) -> Seen | None:
        """The entry that was seen last; None where there is no witness, or none that can be read."""
        try:
            document = json.loads(self.path.read_text("utf-8"))
            seq, head = document["seq"], document["head"]
        except FileNotFoundError:
            return None
        except (OSError, ValueError, LookupError, TypeError) as error:
            self._warn(f"cannot be read ({type(error).__name__}): an older ledger goes unnoticed")
            return None
        return (seq, head) if type(seq) is int and isinstance(head, str) else None

    def see(self, seq: int, head: str) -> None:
        """Note an entry that was committed.  Where that cannot be written the ledger goes on, with a warning
        in the log.

        It is whole after a kill; after a loss of power it may be the one before, which refuses less."""
        fresh = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            fresh.write_text(json.dumps({"seq": seq, "head": head}), "utf-8")
            os.replace(fresh, self.path)
        except OSError as error:
            self._warn(f"cannot be written ({os.strerror(error.errno or 0)})")
            with suppress(OSError):
                fresh.unlink()

    def _warn(self, what: str) -> None:
        if not self._warned:
            self._warned = True
            log.warning("the ledger's witness %s %s", self.path, what)


def check(ledger: Ledger, path: Place, witness: Witness, seen: Seen | None) -> None:
    """Raise LedgerMismatch unless the log holds the entry that was ``seen``, which was read before the ledger
    was.  Where there was no witness there is one from now on."""
    with ledger.view() as view:
        newest, spent = (view.seq, view.head), any(view.spent(purse) for purse in PURSES)
    if seen is None:
        if spent:
            witness.see(*newest)
        return
    entry = next(ledger.entries(seen[0]), None)
    if entry is None or entry.hash != seen[1]:
        raise older(path, witness.path, seen, newest[0])


def accept(ledger: Ledger, witness: Witness, at: datetime) -> list[dict[str, Any]]:
    """Let a ledger go on that its witness disowns.  The ledger notes it; returned is all that was ever
    noted."""
    with ledger.view() as view:
        newest = view.seq, view.head
    seen = witness.seen()
    told = accepted(ledger)
    if seen is not None:
        told.append({"at": at.isoformat(), "entries": newest[0], "head": newest[1]})
        told[-1] |= {"instead_of": {"entries": seen[0], "head": seen[1]}}
        ledger.remember(ACCEPTED, json.dumps(told))
    witness.see(*newest)
    return told


def accepted(ledger: Ledger) -> list[dict[str, Any]]:
    """Every time that :func:`accept` overruled a witness of this ledger, oldest first."""
    told: list[dict[str, Any]] = json.loads(ledger.remembered(ACCEPTED) or "[]")
    return told


def older(ledger: Place, witness: Path, seen: Seen, newest: int | None) -> LedgerMismatch:
    """The error for a ledger whose log, which ends at ``newest`` (None: there is no ledger), does not hold
    the entry that was ``seen``."""
    hint = "Put the newest ledger back. If it is lost: defray ledger accept-older says what that means."
    if newest is None:
        what = f"The ledger {ledger} is gone"
        hint = (
            "Put it back, or its newest backup. If there is none, delete the witness to begin anew: that "
            "is a new budget, on top of what was spent."
        )
    elif newest < seen[0]:
        what = f"The ledger {ledger} ends at entry {newest}"
    else:
        what = f"The ledger {ledger} is another one"
    return LedgerMismatch(
        f"{what}, but {witness} saw its entry {seen[0]}: an older copy forgets what was spent since, "
        "and would let it be spent again.",
        hint=hint,
        path=str(ledger),
        witness=str(witness),
        seen=seen[0],
        newest=newest,
    )
