"""Making a ledger and moving it, on the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, closing
from typing import Any

from defray import books
from defray.cli.books import existing
from defray.cli.screen import say
from defray.config.opening import (
    ledger_address,
    ledger_exists,
    ledger_name,
    ledger_path,
    open_ledger,
)
from defray.core.contract import Contract
from defray.errors import BadInput, LedgerCorrupt, LedgerError
from defray.ledger.moving import move
from defray.ledger.sql import Sql
from defray.ledger.store import Ledger
from defray.transcript import terms_of


def init(contract: Contract, grant: str | None) -> dict[str, Any]:
    """Make the ledger if there is none; give a role the rights of a service."""
    if grant is not None and contract.ledger.kind != "postgresql":
        raise BadInput("only a postgresql ledger has roles", hint="leave --grant out")
    there = ledger_exists(contract)
    with closing(open_ledger(contract)) as ledger:
        if grant is not None:
            from defray.ledger.postgresql.ledger import PostgresLedger

            assert isinstance(ledger, PostgresLedger)
            ledger.grant(grant)
    return {"ledger": ledger_name(contract), "made": not there, "granted": grant}


def show_init(done: Mapping[str, Any]) -> None:
    say(f"{'made' if done['made'] else 'found'} the ledger {done['ledger']}")
    if done["granted"]:
        say(f"{done['granted']} may append to it, and may not change what is in its log")


def copy(source: Contract, target: Contract) -> dict[str, Any]:
    """Move the ledger of a contract to where another contract of the same terms keeps it."""
    old, new = ledger_name(source), ledger_name(target)
    if old == new:
        raise BadInput(f"both contracts keep their ledger at {new}", hint="change its [ledger]")
    if terms_of(source) != terms_of(target):
        raise BadInput(
            "the two contracts have different terms",
            hint="copy the contract file and change nothing but its [ledger]",
        )
    if not ledger_exists(source):
        raise LedgerError(f"there is no ledger at {old}", hint="name the old contract first")
    arriving, arrived = _ways(target)
    with closing(open_ledger(source, leaving=True)) as ledger:
        if ledger.mark() is None and not books.run_audit(ledger, source).ok:
            raise LedgerCorrupt(
                f"The ledger {old} is not moved: the audit finds faults in it.",
                hint="See defray audit.",
                path=old,
            )
        entries = move(ledger, new, arriving, arrived)
    with existing(target) as copied:
        found = books.run_audit(copied, target)
    return {"from": old, "to": new, "entries": entries, "head": found.head, "ok": found.ok}


def show_copy(done: Mapping[str, Any]) -> None:
    say(f"moved {done['entries']} entries to {done['to']}")
    say(f"{done['from']} is marked as moved and answers no more", "bold")
    if not done["ok"]:
        say("the audit of the copy finds faults: see defray audit", "bold red")
    say(f"head {done['head']}", "dim")


def _ways(
    target: Contract,
) -> tuple[Callable[[], AbstractContextManager[Sql]], Callable[[], Ledger | None]]:
    """How a ledger comes to be at the target, and how it is found there."""
    if target.ledger.kind == "postgresql":
        address = ledger_address(target)
        from defray.ledger.postgresql.ledger import PostgresLedger
        from defray.ledger.postgresql.writing import arriving

        return lambda: arriving(
            address
        ), lambda: PostgresLedger.read(address) if PostgresLedger.exists(address) else None
    path = ledger_path(target)
    from defray.ledger.creation import fresh_file
    from defray.ledger.sqlite import SqliteLedger

    return lambda: fresh_file(path), lambda: SqliteLedger.read(path) if path.exists() else None
