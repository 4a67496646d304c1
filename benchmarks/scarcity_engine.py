"""The gates on the real engine: noise drawn, charges in quanta of a ledger, beside the accounting alone.

``python -m benchmarks.scarcity_engine [--seeds N]``: 60 different questions in no order, half of the budget
that they need, the horizon known; with a forecast of 50 residuals where the line says so.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.table import Line
from defray.policy.choices import NEED_HORIZON
from defray.policy.weights import Weights
from defray.simulate.generate import iid
from defray.simulate.measures import Measures, Offline
from defray.simulate.run import Budget, run
from defray.simulate.schemes import SCHEMES
from defray.simulate.through_engine import Gating, run_through_engine
from defray.simulate.workload import Workload

ARRIVALS, SEEDS, XI, FLOOR = 60, 10, 0.05, 10.0

GATES = (
    "refuse",
    "greedy",
    "satisfy",
    "modest",
    "generous",
    "qif_paper",
    "qif_dual",
    "qif_fluid",
    "qif_steady",
)
FORECAST = ("qif_dual", "qif_fluid", "qif_steady")


@dataclass(frozen=True)
class Case:
    """A gate, with or without difficulty weights and a forecast."""

    name: str
    forecast: bool = False

    @property
    def gate(self) -> str:
        return self.name.removeprefix("qif_")

    @property
    def weighted(self) -> bool:
        return self.name.startswith("qif_")

    def budget(self, workload: Workload, rho: float) -> Budget:
        typical = tuple(iid(50, 10**6).demands.tolist()) if self.forecast else ()
        forecast = typical if self.gate in NEED_HORIZON else ()
        return Budget(rho, XI if self.weighted else 0.0, len(workload), FLOOR, forecast)


def whole(seed: int) -> Workload:
    """An ``iid`` workload whose true counts are whole rows."""
    plain = iid(ARRIVALS, seed)
    return replace(plain, truths=np.rint(plain.truths))


def measured(case: Case, seeds: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Means of (Jw, J1, N_sat, relative error, spent) over the optimum: engine, accounting; ms an ask."""
    scheme = SCHEMES[case.name]
    if case.weighted:
        scheme = replace(scheme, weights=Weights(floor=FLOOR))
    found: list[list[float]] = [[], []]
    seconds = 0.0
    for seed in range(seeds):
        workload = whole(seed)
        rho = 0.5 * float(workload.demands.sum())
        offline, budget = Offline.of(workload, rho), case.budget(workload, rho)
        start = perf_counter()
        engine = run_through_engine(workload, budget, Gating(case.gate))
        seconds += perf_counter() - start
        for rows, made in zip(found, (engine, run(workload, scheme, budget, seed)), strict=True):
            m = Measures.of(workload, made, offline)
            rows.append([m.jw_ratio, m.j1_ratio, m.nsat_ratio, m.relerr, m.spent / rho])
    means = [np.mean(rows, axis=0) for rows in found]
    return means[0], means[1], 1000 * seconds / seeds / ARRIVALS


def cases() -> list[Case]:
    return [*map(Case, GATES), *(Case(name, forecast=True) for name in FORECAST)]


def lines(seeds: int = SEEDS) -> list[Line]:
    """For ``make bench``: the engine's objective beside that of the accounting, which draws other noise."""
    out = []
    for case in cases():
        engine, accounting, _ = measured(case, seeds)
        at, name = (0, "Jw/OPT") if case.weighted or case.gate == "greedy" else (2, "N_sat/OPT")
        ratio = engine[at] / accounting[at]
        title = f"{case.name}{', forecast' if case.forecast else ''}: {name} on the engine"
        met = 0.9 <= ratio <= 1.1
        ours, other = f"{engine[at]:.2f}", f"{accounting[at]:.2f} accounting"
        out.append(Line(title, ours, other, f"{ratio:.3f}", "0.9 .. 1.1", met))
    return out


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    seeds = parser.parse_args(arguments).seeds
    table = Table(title=f"iid, half of the budget, {seeds} seeds; in brackets: accounting alone")
    for name in ("gate", "Jw/OPT", "J1/OPT", "N_sat/OPT", "rel. error", "spent", "ms an ask"):
        table.add_column(name, justify="left" if name == "gate" else "right")
    for case in cases():
        engine, accounting, ms = measured(case, seeds)
        cells = [f"{a:.3f} ({b:.3f})" for a, b in zip(engine, accounting, strict=True)]
        table.add_row(case.name + (", forecast" if case.forecast else ""), *cells, f"{ms:.2f}")
    Console(width=130).print(table)


if __name__ == "__main__":
    main()
