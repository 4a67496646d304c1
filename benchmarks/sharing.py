"""Several analysts on one budget: who is served, under the rule and without it.

``python -m benchmarks.sharing [--seeds N]``.  Five analysts with equal shares ask 60 times for the supports
of scalar functionals: six of each analyst's own and six common ones, which are asked for with the probability
``overlap``.  An ask needs up to ``load`` of the budget, one in ten up to four times that.  Every scheme is
the product's own rule: where each ask has a functional of its own, nothing is reused; where each analyst has,
only what is the analyst's own; and with one account for all there is no fairness.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from rich.console import Console
from rich.table import Table

from benchmarks.table import Line, show
from defray.policy.sharing import Pool, Rule

NAMES = tuple(f"analyst {i}" for i in range(5))
ARRIVALS, FUNCTIONALS, HEAVY = 60, 6, 0.1
STEPS = 40
TOTAL = 30 * STEPS * 2**40
"""Quanta: every ask is a whole number of them, and ties between asks and shares stay ties."""

SEEDS = 400


@dataclass(frozen=True, slots=True)
class Ask:
    """One arrival: a place in the sequence, who asks for what, and how much support it takes."""

    at: int
    who: str
    about: str
    rho_min: int


@dataclass(frozen=True, slots=True)
class Setting:
    """How much the analysts have in common, and what an ask takes of the budget at most."""

    overlap: float
    load: Fraction

    def asks(self, seed: int) -> list[Ask]:
        chance = random.Random(seed)
        found = []
        for at in range(ARRIVALS):
            who = chance.choice(NAMES)
            owner = "all" if chance.random() < self.overlap else who
            about = f"{chance.randrange(FUNCTIONALS)} of {owner}"
            steps = chance.randint(1, STEPS) * (4 if chance.random() < HEAVY else 1)
            found.append(Ask(at, who, about, int(steps * self.load * TOTAL / STEPS)))
        return found


@dataclass(frozen=True, slots=True)
class Scheme:
    """A rule, whose account pays for an ask, which functional it is looked up under, and all accounts."""

    rule: Rule
    payer: Callable[[Ask], str] = lambda ask: ask.who
    functional: Callable[[Ask], str] = lambda ask: ask.about
    payers: Sequence[str] = NAMES

    def run(self, asks: Sequence[Ask]) -> tuple[list[bool], int]:
        """Which asks reach what they need, and the quanta spent on all."""
        pool, met, spent = Pool(TOTAL), [], 0
        for payer in self.payers:
            pool = pool.assigned(payer, Fraction(1, len(self.payers)))
        for ask in asks:
            functional = self.functional(ask)
            found = pool.settle(self.rule, self.payer(ask), functional, ask.rho_min)
            pool = pool.after(functional, found)
            met.append(found.held.support >= ask.rho_min)
            spent += int(found.release)
        return met, spent


def alone(of: Callable[[Ask], str]) -> Scheme:
    """Without a rule between analysts: nothing is common, so nobody saves."""
    return Scheme(Rule("none", "none"), functional=of)


SCHEMES: Mapping[str, Scheme] = {
    "no reuse": alone(lambda ask: str(ask.at)),
    "own reuse": alone(lambda ask: f"{ask.about} by {ask.who}"),
    **{
        f"{sharing} {surplus}": Scheme(Rule(sharing, surplus))
        for sharing in ("none", "shapley")
        for surplus in ("none", "partial", "allornothing")
    },
    "pooled": Scheme(Rule("none", "none"), payer=lambda ask: "all", payers=["all"]),
}
RULE = "shapley allornothing"

LOADS = Fraction(1, 30), Fraction(1, 10)
BUSY, HALF = Setting(0.9, LOADS[1]), Setting(0.5, LOADS[1])
SETTINGS = [Setting(overlap, load) for overlap in (0.0, 0.5, 0.9) for load in LOADS]
ASKED: Mapping[tuple[Setting, str], tuple[float, float]] = {
    (BUSY, "no reuse"): (23.3, 0.26),
    (BUSY, "own reuse"): (33.7, 0.40),
    (BUSY, RULE): (52.5, 0.76),
    (BUSY, "pooled"): (54.2, 0.81),
    (HALF, RULE): (37.9, 0.47),
}
"""The figures to reach: asks satisfied, and the worst analyst's fraction."""

NEAR = 3
"""Two means of as many runs may differ by so many standard errors of their difference."""


@dataclass(frozen=True, slots=True)
class Run:
    """Asks satisfied, the fraction of the analyst who got least, and the part of the budget spent."""

    satisfied: int
    worst: float
    spent: float

    @classmethod
    def of(cls, scheme: Scheme, asks: Sequence[Ask]) -> Run:
        met, spent = scheme.run(asks)
        each: dict[str, list[bool]] = defaultdict(list)
        for ask, well in zip(asks, met, strict=True):
            each[ask.who].append(well)
        worst = min(statistics.fmean(one) for one in each.values())
        return cls(sum(met), worst, spent / TOTAL)


Score = Sequence[Run]
"""One scheme in one setting, a run for every seed."""


def scored(setting: Setting, seeds: int) -> dict[str, Score]:
    """Every scheme on the same asks."""
    sequences = [setting.asks(seed) for seed in range(seeds)]
    return {name: [Run.of(scheme, asks) for asks in sequences] for name, scheme in SCHEMES.items()}


def told(score: Score) -> str:
    satisfied = statistics.fmean(run.satisfied for run in score)
    return f"{satisfied:.1f} / {statistics.fmean(run.worst for run in score):.2f}"


def near(found: Sequence[float], asked: float, digit: float) -> bool:
    """Whether a mean is the figure asked for, which is itself a mean of as many runs, rounded to a digit."""
    error = statistics.stdev(found) * math.sqrt(2 / len(found))
    return abs(statistics.fmean(found) - asked) <= NEAR * error + digit / 2


def lines(seeds: int = SEEDS) -> list[Line]:
    """The figures asked for, beside those found."""
    return list(compared({setting: scored(setting, seeds) for setting in (HALF, BUSY)}))


def compared(found: Mapping[Setting, Mapping[str, Score]]) -> Iterator[Line]:
    for (setting, name), (satisfied, worst) in ASKED.items():
        score = found[setting][name]
        yield Line(
            f"overlap {setting.overlap:g}, load {float(setting.load):.2f}, {name}: asks satisfied of "
            f"{ARRIVALS} / worst analyst's fraction",
            told(score),
            f"{satisfied} / {worst:.2f} asked",
            f"{statistics.fmean(run.satisfied for run in score) / satisfied:.3f}",
            f"within {NEAR} standard errors",
            near([run.satisfied for run in score], satisfied, 0.1)
            and near([run.worst for run in score], worst, 0.01),
        )


def table(found: Mapping[Setting, Mapping[str, Score]], seeds: int) -> Table:
    out = Table(
        title=f"Asks satisfied of {ARRIVALS} / worst analyst's fraction / rho spent; {seeds} seeds",
        title_justify="left",
    )
    for title in ("overlap", "load", *SCHEMES):
        out.add_column(title, justify="right")
    for setting, scores in found.items():
        cells = [
            f"{told(score)} / {statistics.fmean(run.spent for run in score):.0%}"
            for score in scores.values()
        ]
        out.add_row(f"{setting.overlap:g}", f"{float(setting.load):.2f}", *cells)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    seeds = parser.parse_args().seeds
    found = {setting: scored(setting, seeds) for setting in SETTINGS}
    Console(width=200).print(table(found, seeds))
    show("The figures asked for", list(compared(found)))
    from benchmarks.sharing_engine import lines as through_engine

    show("The same through the engine", through_engine(min(seeds, 24)))


if __name__ == "__main__":
    main()
