"""How well the gates share out a scarce budget, whatever the order of arrivals, beside the offline optimum.

``python -m benchmarks.scarcity [--seeds N] [--pareto FILE.svg]``.  Every run has 60 arrivals.  The goal: in
its declared objective (steady: shortfall weighted by difficulty; modest: targets met) a gate is never more
than 15 % worse than the best of greedy, satisfy and dual.  Other workloads and wrong horizons are told too.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks.table import Line
from defray.charts import svg
from defray.policy.gates import Policy
from defray.policy.steady import Generous, Modest, Steady
from defray.policy.weights import Weights
from defray.simulate.chance import generator
from defray.simulate.figures import TARGETS, WEIGHTED, pareto
from defray.simulate.generate import GENERATORS, iid
from defray.simulate.measures import Measures, Offline
from defray.simulate.run import Budget, run
from defray.simulate.schemes import SCHEMES, Scheme, horizon_of
from defray.simulate.workload import Workload

Floats = NDArray[np.float64]
Make = Callable[[int, int], Workload]
"""``(n, seed)``: n arrivals."""

ARRIVALS = 60
SEEDS = 50
MARGIN = 0.15
XI, FLOOR = 0.05, 10.0


def scheme(name: str, policy: Callable[[int], Policy], weights: Weights | None = None) -> Scheme:
    """The policy as a scheme; with ``weights`` it buys diagnostics, as the ``qif_`` schemes do."""

    def make(budget: Budget, workload: Workload, chance: object) -> Policy:
        return policy(horizon_of(budget, name))

    return Scheme(name, make, weights=weights, diagnoses=weights is not None)


RIVALS = tuple(SCHEMES[name] for name in ("greedy", "satisfy", "qif_dual"))
BESIDE = SCHEMES["qif_fluid"]
STEADY = scheme("qif_steady", Steady, Weights())
MODEST, GENEROUS = scheme("modest", Modest), scheme("generous", Generous)
ALL = (*RIVALS, BESIDE, STEADY, MODEST, GENEROUS)

# -- who arrives -------------------------------------------------------------------------------------


def reordered(order: Callable[[Workload], Floats]) -> Make:
    """The arrivals of ``iid``, sorted by a value."""

    def make(n: int, seed: int) -> Workload:
        plain = iid(n, seed)
        places = np.argsort(order(plain), kind="stable")
        return replace(plain, demands=plain.demands[places], truths=plain.truths[places])

    return make


def drawn(demands: Callable[[np.random.Generator, int], Floats]) -> Make:
    """The arrivals of ``iid`` with other demands."""

    def make(n: int, seed: int) -> Workload:
        return replace(iid(n, seed), demands=demands(generator(seed, 40), n))

    return make


def burst_first(n: int, seed: int) -> Workload:
    """The first third needs four times as much."""
    plain = iid(n, seed)
    demands = plain.demands.copy()
    demands[: n // 3] *= 4
    return replace(plain, demands=demands)


def drifting(n: int, seed: int, sign: float) -> Workload:
    """Sorted by size, but loosely."""
    noise = generator(seed, 41).normal(0, 2, n)
    return reordered(lambda plain: sign * np.log(plain.demands) + noise)(n, seed)


MAKES: Mapping[str, Make] = {
    **{n: GENERATORS[n].make for n in ("iid", "heavy_first", "heavy_last", "burst")},
    "hard_first": reordered(lambda plain: plain.truths),
    "hard_last": reordered(lambda plain: -plain.truths),
    "burst_first": burst_first,
    "drift_down": partial(drifting, sign=-1.0),
    "drift_up": partial(drifting, sign=1.0),
    "lognormal": drawn(lambda chance, n: np.exp(chance.normal(math.log(0.01), 1.2, n))),
    "pareto": drawn(lambda chance, n: np.minimum(0.003 * (1 + chance.pareto(1.5, n)), 0.5)),
    "narrow": drawn(lambda chance, n: chance.uniform(0.01, 0.03, n)),
    "zipf reuse": partial(GENERATORS["zipf"].make, distinct=25),
    "repeats": GENERATORS["repeats"].make,
}


@dataclass(frozen=True)
class Setting:
    """An order of arrivals with a budget of ``share`` of what all targets cost, and a declared horizon that
    is ``off`` by a factor.  ``forecast``: 50 residuals of the kind that comes are known before."""

    pattern: str
    share: float = 0.5
    off: float = 1.0
    forecast: bool = False

    @property
    def name(self) -> str:
        words = [self.pattern, f"{self.share:g}"]
        if self.off != 1:
            words.append(f"N x{self.off:g}")
        if self.forecast:
            words.append("forecast")
        return " ".join(words)

    def budget(self, offline_cost: float) -> Budget:
        known = tuple(iid(50, 10**6).demands.tolist()) if self.forecast else ()
        horizon = round(ARRIVALS * self.off)
        return Budget(self.share * offline_cost, XI, horizon, FLOOR, known)


PATTERNS = (
    *(Setting(name) for name in ("iid", "heavy_first", "heavy_last", "burst")),
    Setting("iid", 0.2),
)
ELSEWHERE = (
    *(Setting(name) for name in MAKES if name not in {s.pattern for s in PATTERNS}),
    Setting("iid", 0.8),
    Setting("heavy_first", 0.2),
    Setting("heavy_first", 0.8),
    Setting("heavy_last", 0.2),
    Setting("iid", forecast=True),
)
WRONG = tuple(
    Setting(name, off=off)
    for off in (0.5, 2.0)
    for name in dict.fromkeys(s.pattern for s in PATTERNS)
)

# -- what comes of it --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Score:
    """Means over seeds: shortfall weighted by true difficulty and unweighted, targets met, each over the
    offline optimum; the part of the budget spent; mean relative error (1: no answer)."""

    jw: float
    j1: float
    met: float
    spent: float
    relerr: float


def measured(setting: Setting, seeds: int) -> dict[str, list[Measures]]:
    """Every scheme on the same workloads and noise."""
    out: dict[str, list[Measures]] = {one.name: [] for one in ALL}
    for seed in range(seeds):
        workload = MAKES[setting.pattern](ARRIVALS, seed)
        offline = Offline.of(workload, 1.0)
        budget = setting.budget(offline.cost)
        offline = Offline.of(workload, budget.rho)
        for one in ALL:
            found = run(workload, one, budget, seed)
            out[one.name].append(Measures.of(workload, found, offline))
    return out


def scored(setting: Setting, found: Mapping[str, Sequence[Measures]]) -> dict[str, Score]:
    def mean(values: Iterator[float | None]) -> float:
        return float(np.mean([v for v in values if v is not None]))

    return {
        name: Score(
            mean(m.jw_ratio for m in rows),
            mean(m.j1_ratio for m in rows),
            mean(m.nsat_ratio for m in rows),
            mean(m.cost_ratio and m.cost_ratio / setting.share for m in rows),
            mean(m.relerr for m in rows),
        )
        for name, rows in found.items()
    }


def steady_ratio(scores: Mapping[str, Score]) -> float:
    """Steady's weighted shortfall over the least of the rivals (1: equal, less: better)."""
    return scores[STEADY.name].jw / min(scores[r.name].jw for r in RIVALS)


def modest_ratio(scores: Mapping[str, Score], name: str = MODEST.name) -> float:
    """Targets met over the most of the rivals (1: equal, more: better)."""
    return scores[name].met / max(scores[r.name].met for r in RIVALS)


def table(setting: Setting, scores: Mapping[str, Score]) -> Table:
    out = Table(title=setting.name, title_justify="left")
    for title in (
        "gate",
        "Jw/OPT",
        "to best",
        "J1/OPT",
        "N_sat/OPT",
        "to best",
        "spent",
        "rel. error",
    ):
        out.add_column(title, justify="left" if title == "gate" else "right")
    best_jw = min(scores[r.name].jw for r in RIVALS)
    best_met = max(scores[r.name].met for r in RIVALS)
    for name, s in scores.items():
        out.add_row(
            name,
            f"{s.jw:.2f}",
            f"{s.jw / best_jw:.2f}",
            f"{s.j1:.2f}",
            f"{s.met:.3f}",
            f"{s.met / best_met:.2f}",
            f"{100 * s.spent:.0f} %",
            f"{s.relerr:.3f}",
        )
    return out


def summary(title: str, found: Mapping[Setting, Mapping[str, Score]]) -> Table:
    """One line a setting: each new gate against the best of greedy, satisfy and dual in its objective."""
    out = Table(title=title, title_justify="left")
    for name in ("setting", "Jw: dual", "fluid", "steady", "to best", "N_sat: satisfy", "modest", "to best",
                 "generous", "rel. error: satisfy", "modest", "generous"):  # fmt: skip
        out.add_column(name, justify="left" if name == "setting" else "right")
    for setting, s in found.items():
        out.add_row(
            setting.name,
            f"{s['qif_dual'].jw:.2f}",
            f"{s['qif_fluid'].jw:.2f}",
            f"{s['qif_steady'].jw:.2f}",
            f"{steady_ratio(s):.2f}",
            f"{s['satisfy'].met:.3f}",
            f"{s['modest'].met:.3f}",
            f"{modest_ratio(s):.2f}",
            f"{s['generous'].met:.3f}",
            f"{s['satisfy'].relerr:.3f}",
            f"{s['modest'].relerr:.3f}",
            f"{s['generous'].relerr:.3f}",
        )
    return out


GOAL = "four orders, and iid at 0.2"


def lines(seeds: int = SEEDS) -> list[Line]:
    """The goals, each in its worst setting."""
    found = {s: scored(s, measured(s, seeds)) for s in PATTERNS}
    return list(worst(GOAL, PATTERNS, found))


def worst(
    words: str, settings: Sequence[Setting], found: Mapping[Setting, Mapping[str, Score]]
) -> Iterator[Line]:
    """Where each gate does worst in its objective, beside the best of greedy, satisfy and dual."""
    where = max(settings, key=lambda s: steady_ratio(found[s]))
    ratio = steady_ratio(found[where])
    yield Line(
        f"steady, weighted shortfall over the offline optimum: {words}",
        f"{found[where][STEADY.name].jw:.2f} ({where.name})",
        f"{min(found[where][r.name].jw for r in RIVALS):.2f} best of three",
        f"{ratio:.2f}",
        f"<= {1 + MARGIN:g}",
        ratio <= 1 + MARGIN,
    )
    where = min(settings, key=lambda s: modest_ratio(found[s]))
    ratio = modest_ratio(found[where])
    yield Line(
        f"modest, targets met over the offline optimum: {words}",
        f"{found[where][MODEST.name].met:.3f} ({where.name})",
        f"{max(found[where][r.name].met for r in RIVALS):.3f} best of three",
        f"{ratio:.2f}",
        f">= {1 - MARGIN:g}",
        ratio >= 1 - MARGIN,
    )


def told(line: Line) -> str:
    return f"{line.what}; at worst {line.ours} to {line.compared}, ratio {line.ratio}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--pareto", type=Path, metavar="FILE.svg")
    asked = parser.parse_args()
    console = Console(width=150)
    groups: dict[str, Sequence[Setting]] = {
        f"Four orders and a small budget, {asked.seeds} seeds": PATTERNS,
        "Other workloads": ELSEWHERE,
        "A declared horizon N that is wrong": WRONG,
    }
    found: dict[Setting, dict[str, Score]] = {}
    totals = []
    for title, settings in groups.items():
        for setting in settings:
            measures = measured(setting, asked.seeds)
            found[setting] = scored(setting, measures)
            if settings is PATTERNS:
                console.print(table(setting, found[setting]))
                totals += [
                    {
                        "scheme": name,
                        "seed": seed,
                        "jw_ratio": m.jw_ratio,
                        "nsat_ratio": m.nsat_ratio,
                    }
                    for name, rows in measures.items()
                    for seed, m in enumerate(rows)
                ]
        console.print(summary(title, {s: found[s] for s in settings}))
    for line in worst(GOAL, PATTERNS, found):
        console.print(f"{'holds' if line.met else 'FAILS'}: {told(line)}, goal {line.goal}")
    for words, settings in {"other workloads": ELSEWHERE, "a wrong horizon": WRONG}.items():
        for line in worst(words, settings, found):
            console.print(f"no goal: {told(line)}")
    if asked.pareto:
        figure = pareto(totals, [one.name for one in ALL], WEIGHTED, TARGETS)
        if figure is not None:
            asked.pareto.write_text(svg(figure), encoding="utf-8")


if __name__ == "__main__":
    main()
