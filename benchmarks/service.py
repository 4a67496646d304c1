"""``python -m benchmarks.service``: a contract whose servers are killed while many ask, and what is true.

Four analysts, one of whom cannot have much, ask through 32 connections: fresh questions, repeats and quotes.
Every few seconds a server, or the database of their ledger, is killed (SIGKILL) and started again; what broke
off is sent again with its key.  Then the books are held against what the clients were told.  Rates are
measured apart, without kills.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.postgresql import Server, ledger_section, new_server
from benchmarks.served import (
    CLIENTS,
    SHARES,
    Kind,
    Request,
    Served,
    Tally,
    load,
    mixed,
    prepared,
    questions,
)
from benchmarks.table import Line
from defray.config.opening import open_contract

GOAL = 1500
"""Repeats and quotes a second."""

PATIENT_MS = 25.0
"""For which a repeat may take."""

PACE = 100.0
"""Requests a second where clients pause."""

FIRST = 200
"""Requests for which a server that has just begun still loads and opens things."""

HOT = 100
"""Questions that are repeated and quoted where rates are measured."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One line: what was found, and whether it is as it should be (None: there is no goal)."""

    what: str
    found: str
    goal: str = ""
    met: bool | None = None


def campaign(
    contract: Path,
    tokens: Mapping[str, str],
    *,
    asks: int,
    kills: int,
    seconds: float,
    clients: int = CLIENTS,
    servers: int = 1,
    database: Server | None = None,
) -> tuple[Tally, int]:
    """What clients saw of servers of which one is killed every so many seconds, or the database of their
    ledger, and how often that was."""
    fleet, over, killed = [Served(contract) for _ in range(servers)], threading.Event(), 0
    chance = random.Random(asks)

    def killing() -> None:
        nonlocal killed
        while killed < kills and not over.wait(seconds):
            served = chance.choice([*fleet, *([] if database is None else [None])])
            if served is None and database is not None:
                database.kill()
                database.restart()
            elif served is not None:
                served.kill()
                served.start()
            killed += 1

    with ExitStack() as running:
        for served in fleet:
            running.enter_context(served.running())
        killer = threading.Thread(target=killing)
        killer.start()
        try:
            tally = load(fleet, tokens, lambda so_far: mixed(asks, so_far), clients)
        finally:
            over.set()
            killer.join()
    return tally, killed


def truths(contract: Path, tokens: Mapping[str, str], tally: Tally) -> Iterator[Figure]:
    """What must be true after a campaign, whatever was killed."""
    yield fact("requests that were never answered", len(tally.failed))
    paid = {key: told for key, told in tally.documents.items() if told[1]["charged_rho"] > 0}
    served = Served(contract)
    with served.running():
        again = load([served], tokens, lambda _: (asked for asked, _ in paid.values()))
    said = again.documents
    changed = [key for key, (_, told) in paid.items() if said[key][1] != told]
    yield fact(
        f"of {len(paid):,} answers paid for, answered otherwise when sent again", len(changed)
    )
    with open_contract(contract) as session:
        report = session.audit()
        yield fact(
            f"faults that the audit found in {report.entries:,} entries", len(report.findings)
        )
        asks = Counter(ask["question"] for ask in session.history())
        yield fact("keys paid twice", sum(count - 1 for count in asks.values()))
        told = {document["question"] for _, document in paid.values()}
        yield fact("answers paid for that are not in the ledger", len(told - set(asks)))
        balance = session.balance()
        yield Figure(
            "rho spent of the contract",
            f"{balance['spent_rho']:.6g} of {balance['rho']:g}",
            "within it",
            balance["spent_rho"] <= balance["rho"],
        )
        for account in balance["accounts"]:
            spent, share = account["spent_rho"], SHARES[account["name"]] * balance["rho"]
            yield Figure(
                f"rho that {account['name']} spent of the share",
                f"{spent:.6g} of {share:g}",
                "within it",
                spent <= share,
            )


def fact(what: str, wrong: int) -> Figure:
    return Figure(what, f"{wrong:,}", "0", wrong == 0)


def seen(tally: Tally, killed: int, goal: float | None) -> Iterator[Figure]:
    """What the clients saw; ``goal`` is that of a repeat, in ms."""
    kinds = Counter(kind for kind, _ in tally.statuses.elements())
    listed = ", ".join(f"{count:,} {kind}" for kind, count in sorted(kinds.items()))
    yield Figure("requests answered", f"{tally.done:,} ({listed})")
    refused = sum(n for (_, status), n in tally.statuses.items() if status != 200)
    yield Figure("of them refused, the share being spent", f"{refused:,}")
    yield Figure("kills", f"{killed:,}")
    yield Figure("sent again", f"{tally.retries:,}")
    yield Figure(
        "seconds, all requests a second", f"{tally.elapsed:.0f}, {tally.done / tally.elapsed:.0f}"
    )
    for kind, taken in tally.seconds.items():
        if taken:
            yield timed(f"p50 / p99 of a {kind} meanwhile", kind, taken, goal)
            yield Figure("with its requests that broke off", percentiles(tally.whole[kind]))


def calm(support: str, requests: int, pace: float) -> Iterator[Figure]:
    """How long requests take where clients pause: so many come in a second, of all kinds, after the first
    ones, for which what they need is loaded."""
    with tempfile.TemporaryDirectory() as folder:
        contract, tokens = prepared(Path(folder), support)
        served = Served(contract)
        with served.running():
            pause = CLIENTS / pace
            load([served], tokens, lambda so_far: mixed(FIRST, so_far, seed=8), pause=pause)
            tally = load([served], tokens, lambda so_far: mixed(requests, so_far), pause=pause)
    for kind, taken in tally.seconds.items():
        what = f'p50 / p99 of a {kind} at {pace:g} requests a second, support = "{support}"'
        yield timed(what, kind, taken, PATIENT_MS)


def timed(what: str, kind: Kind, taken: Sequence[float], goal: float | None) -> Figure:
    """How long requests of one kind took; a repeat may have a goal, in ms."""
    goal = goal if kind == "repeat" else None
    return Figure(
        what,
        percentiles(taken),
        "" if goal is None else f"p99 <= {goal:g} ms",
        None if goal is None else percentile(taken, 0.99) <= goal,
    )


def measured(support: str) -> Iterator[Figure]:
    """Times and rates of a server that nobody kills."""
    yield from calm(support, 3000, PACE if support == "exact" else PACE / 5)
    for kind, fresh in (("exact", 600), ("linear", 60)):
        yield from rates(kind, fresh, 6000)


def rates(support: str, fresh: int, requests: int) -> Iterator[Figure]:
    """Requests a second of each kind, without kills."""
    with tempfile.TemporaryDirectory() as folder:
        contract, tokens = prepared(Path(folder), support)
        names, served = [name for name, share in SHARES.items() if share > 0.1], Served(contract)

        def sent(kind: Kind, asked: Sequence[str], round_: str) -> Tally:
            key = f"{round_}-{{}}" if kind != "quote" else ""
            requests = [
                Request(kind, names[i % len(names)], sql, key.format(i))
                for i, sql in enumerate(asked)
            ]
            return load([served], tokens, lambda _: iter(requests))

        with served.running():
            first = [*islice(questions(2), fresh)]
            yield rate(support, "fresh", sent("fresh", first, "first"))
            hot = [sql for sql in first[:HOT] for _ in names]
            sent("repeat", hot, "second")  # whoever did not pay has it noted once
            many = [*islice(cycle(hot), requests)]
            for kind in ("repeat", "quote"):
                anew = sent(kind, hot, f"anew-{kind}")  # each once: the ledger went on since
                yield rate(support, kind, anew, f"{kind}, worked out anew,", goal=False)
                yield rate(support, kind, sent(kind, many, f"rate-{kind}"))


def lines() -> list[Line]:
    """Requests a second, each kind of support."""
    found = [
        *rates("exact", 300, 6000),
        *calm("exact", 2000, PACE),
        *rates("linear", 60, 6000),
    ]
    return [
        Line(f.what, f.found, f"{CLIENTS} clients at once", "", f.goal, f.met is not False)
        for f in found
    ]


def rate(support: str, kind: Kind, tally: Tally, what: str = "", *, goal: bool = True) -> Figure:
    found = tally.done / tally.elapsed
    asked = f">= {GOAL:,}" if goal and kind != "fresh" else ""
    wrong = sum(n for (_, status), n in tally.statuses.items() if status != 200)
    told = f"{found:,.0f}/s; p50 / p99 {percentiles(tally.seconds[kind])}"
    return Figure(
        f'{what or kind} a second, support = "{support}"',
        told + (f"; {wrong} refused" if wrong else ""),
        asked,
        found >= GOAL if asked else None,
    )


def percentiles(seconds: Sequence[float]) -> str:
    return f"{percentile(seconds, 0.5):.1f} / {percentile(seconds, 0.99):.1f} ms"


def percentile(seconds: Sequence[float], part: float) -> float:
    """In ms: so large a part of them took no longer."""
    return sorted(seconds)[min(int(len(seconds) * part), len(seconds) - 1)] * 1000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--asks", type=int, default=20_000, help="requests of the campaign")
    parser.add_argument("--kills", type=int, default=20, help="at most so many")
    parser.add_argument("--seconds", type=float, default=3.0, help="between two kills")
    parser.add_argument("--support", choices=("exact", "linear"), default="exact")
    parser.add_argument("--clients", type=int, default=CLIENTS, help="connections at once")
    parser.add_argument("--servers", type=int, default=1, help="that serve the one contract")
    parser.add_argument(
        "--ledger",
        choices=("sqlite", "postgresql"),
        default="sqlite",
        help="with postgresql the database is killed as well",
    )
    parser.add_argument("--no-rates", action="store_true", help="the campaign alone")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    database = new_server() if chosen.ledger == "postgresql" else None
    section = "" if database is None else ledger_section(database.dsn(), "defray")
    with tempfile.TemporaryDirectory() as folder:
        contract, tokens = prepared(Path(folder), chosen.support, section)
        tally, killed = campaign(
            contract,
            tokens,
            asks=chosen.asks,
            kills=chosen.kills,
            seconds=chosen.seconds,
            clients=chosen.clients,
            servers=chosen.servers,
            database=database,
        )
        goal = PATIENT_MS if chosen.ledger == "sqlite" else None
        figures = [*seen(tally, killed, goal), *truths(contract, tokens, tally)]
    if not chosen.no_rates:
        figures += measured(chosen.support)
    if chosen.json:
        print(json.dumps([asdict(figure) for figure in figures], indent=1))
    else:
        show(figures)
    return 0 if all(figure.met is not False for figure in figures) else 1


def show(figures: Sequence[Figure]) -> None:
    table = Table(title="A served contract, killed while many ask", title_justify="left")
    for name in ("what", "found", "goal", "met"):
        table.add_column(name, overflow="fold")
    for figure in figures:
        met = {None: "", True: "yes", False: "NO"}[figure.met]
        table.add_row(figure.what, figure.found, figure.goal, met)
    Console(width=130).print(table)


if __name__ == "__main__":
    sys.exit(main())
