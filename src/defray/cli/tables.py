"""``defray simulate --table``: which rows are asked, and what must be said about that."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from defray.cli.progress import Bar
from defray.errors import BadInput

if TYPE_CHECKING:
    from defray.core.contract import Contract
    from defray.data.source import Source
    from defray.simulate.results import Results
    from defray.simulate.run import Budget
    from defray.simulate.schemes import Scheme
    from defray.simulate.workload import Workload

KINDS: Final = ("synthetic", "data")
ROWS, MOST_ROWS = 10_000, 10_000_000

CURATOR: Final = "computed from the true table and charged to nobody: for the curator's eyes only"


@dataclass(frozen=True, slots=True)
class Table:
    """``synthetic``: so many rows, made from the declared domain alone; ``data``: the contract's own."""

    kind: str
    contract: Contract
    rows: int | None = None

    @property
    def notes(self) -> list[str]:
        """What must be told beside every figure."""
        if self.rows is None:
            return [CURATOR, "asked of the engine itself, over the contract's own data"]
        rows = f"{self.rows:,} rows" if self.rows != 1 else "1 row"
        return [f"asked of the engine itself, over a made table of {rows}: no data was read"]

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "rows": self.rows}

    @contextmanager
    def sources(self) -> Iterator[Callable[[int], Source]]:
        """The table of every seed.  The contract's ledger is left alone."""
        from defray.simulate.truths import ScannedOnce

        if self.rows is not None:
            from functools import lru_cache

            from defray.simulate.tables import synthetic

            domain, rows = self.contract.domain, self.rows
            yield lru_cache(maxsize=1)(lambda seed: ScannedOnce(synthetic(domain, rows, seed)))
            return
        from contextlib import closing

        from defray.config.opening import open_source
        from defray.ledger.memory import MemoryLedger
        from defray.transcript import terms_of

        ledger = MemoryLedger(terms_of(self.contract))
        with closing(ledger), closing(open_source(self.contract, ledger)) as data:
            once = ScannedOnce(data)
            yield lambda seed: once


def table_of(kind: str, rows: int | None, file: Path | None, contract: Contract | None) -> Table:
    """The table that was named.  Raises BadInput."""
    if kind not in KINDS:
        raise BadInput(
            f"--table must be synthetic or data, not {kind[:40] or 'nothing'}",
            hint="--table synthetic makes one from the declared domain; no data is read",
        )
    if file is None or contract is None:
        raise BadInput(
            "--table asks a table in SQL: name a workload file and its contract",
            hint="defray simulate asks.jsonl -c contract.toml --table synthetic",
        )
    if kind == "data":
        if rows is not None:
            raise BadInput("--rows belongs to --table synthetic", hint="leave --rows out")
        return Table(kind, contract)
    most = min(MOST_ROWS, contract.n_max or MOST_ROWS)
    if rows is not None and not 1 <= rows <= most:
        why = f", the contract's n_max is {contract.n_max:,}" if most == contract.n_max else ""
        raise BadInput(
            f"--rows must lie from 1 to {most:,}, not {rows:,}{why}",
            hint=f"--rows {min(ROWS, most)}",
        )
    return Table(kind, contract, min(ROWS, most) if rows is None else rows)


def compare(
    table: Table,
    workload: Workload,
    schemes: Sequence[Scheme],
    budget: Budget,
    seeds: int,
) -> Results:
    """Every scheme on the table of every seed."""
    from defray.simulate import results
    from defray.simulate.on_table import OnTable, shared

    with table.sources() as source_of:
        runner = OnTable(workload, table.contract, source_of)
        with Bar("reading the table") as bar:
            runner.workload(0, bar)
        with Bar("asking") as bar:
            found = results.simulate(runner.workload, schemes, budget, seeds, bar, runner)
    notes = table.notes
    if table.rows is not None and seeds > 1:
        notes.append("each seed has a table of its own")
    if budget.xi:
        notes.append("every policy keeps xi for diagnostics, as the contract does")
    if shared(workload, table.contract):
        notes.append(
            "some questions rest on counts or sums of others, which are bought once; OPT and the cost "
            "ratio take questions apart, so that both can be beaten"
        )
    return replace(found, notes=tuple(notes))
