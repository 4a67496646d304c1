"""The outcome of ``defray simulate --paper``: each statement with its bound and what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from rich.text import Text

from defray.cli import screen
from defray.cli.answers import new_table
from defray.cli.screen import say
from defray.simulate.theorems import Row

FAILED = 1
"""The exit code where a statement does not hold."""


def show(rows: Sequence[Row], sequences: int) -> int:
    """The table, and the exit code."""
    failed = sum(not row.verdict for row in rows)
    if screen.json_wanted():
        statements = [asdict(row) for row in rows]
        screen.show({"sequences": sequences, "holds": not failed, "statements": statements})
        return FAILED if failed else 0
    table = new_table()
    for name in ("statement", "source", "bound", "measured", "holds"):
        table.add_column(name, overflow="fold")
    for row in rows:
        verdict = Text("yes", "green") if row.verdict else Text("NO", "bold red")
        texts = (row.statement, row.source, row.bound, row.measured)
        table.add_row(*(Text(text) for text in texts), verdict)
    say(table)
    words = f"{failed} of them FAILED" if failed else "all of them hold"
    say(f"{len(rows)} statements over {sequences:,} random sequences: {words}", "bold")
    return FAILED if failed else 0
