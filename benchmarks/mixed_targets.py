"""Targets mixed from a thousandth to a million: met as quoted, truthful, never paid again?

    python -m benchmarks.mixed_targets --questions 10000

Random boxes of 64 days and 4 sites, counts and sums, through the whole engine over a table in memory.
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from defray.config.reader import parse_contract
from defray.data.made_up import CountedSource
from defray.engine import Engine
from defray.errors import BudgetRefused
from defray.ledger.memory import MemoryLedger
from defray.noise.opendp_sampler import OpenDPSampler
from defray.session import Session
from defray.transcript import terms_of

Z = 1.959963984540054
CONTRACT = """
version = 1
table = "t"
rho = 1e9
n_max = 100000
[source]
kind = "csv"
path = "t.csv"
[columns.day]
type = "integer"
min = 0
max = 63
null = "drop"
[columns.site]
type = "integer"
min = 0
max = 3
null = "drop"
"""


def run(questions: int, seed: int) -> dict[str, float]:
    contract = parse_contract(CONTRACT, Path("t.toml"))
    rng = np.random.default_rng(seed)
    atoms = {c.name: rng.integers(0, c.width, 3000) for c in contract.domain.columns}
    ledger = MemoryLedger(terms_of(contract))
    engine = Engine(contract, ledger, CountedSource(contract.domain, atoms), OpenDPSampler())
    session = Session(engine)
    asked: list[tuple[str, float]] = []
    scores: list[float] = []
    taken: list[float] = []
    counts = dict.fromkeys(("bought", "unmet", "other than quoted", "refused", "paid again"), 0)
    for _ in range(questions):
        first, last = sorted(int(x) for x in rng.integers(0, 64, 2))
        site = int(rng.integers(0, 6))
        where = f"day BETWEEN {first} AND {last}" + (f" AND site = {site}" if site < 4 else "")
        sql, within = (
            f"SELECT COUNT(*) FROM t WHERE {where}",
            float(f"{10 ** rng.uniform(-3, 6):.5g}"),
        )
        quote = session.quote(sql, within=within)
        start = time.perf_counter()
        try:
            answer = session.ask(sql, within=within)
        except BudgetRefused:
            counts["refused"] += 1
            continue
        taken.append(time.perf_counter() - start)
        counts["bought"] += answer.charged_rho > 0
        counts["unmet"] += not answer.met or answer.half_width > within
        counts["other than quoted"] += answer.charged_rho != quote.charged_rho
        days, sites = atoms["day"], atoms["site"]
        inside = (days >= first) & (days <= last) & ((sites == site) | (site >= 4))
        scores.append((answer.value - int(inside.sum())) / (answer.half_width / Z))
        asked.append((sql, within))
        again = asked[int(rng.integers(0, len(asked)))]
        counts["paid again"] += session.quote(again[0], within=again[1]).charged_rho > 0
    z = np.array(scores)
    half = len(taken) // 2
    return {
        **counts,
        "covered": float((np.abs(z) <= Z).mean()),
        "largest |z|": float(np.abs(z).max()),
        "ms p50, first half": 1000 * float(np.median(taken[:half])),
        "ms p50, second half": 1000 * float(np.median(taken[half:])),
        "MiB at the most": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--questions", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    table = Table(
        title=f"{given.questions:,} questions, half-widths from 1e-3 to 1e6", title_justify="left"
    )
    table.add_column("what")
    table.add_column("found", justify="right")
    for name, value in run(given.questions, given.seed).items():
        table.add_row(name, f"{value:,.4g}")
    Console().print(table)


if __name__ == "__main__":
    main()
