"""Never pay twice: the controller's residual, exactly, in quanta and dyadic precisions.

A charge that follows from a target is rounded up to a whole quantum, and its sigma down by at most one float
step (2^-52, less than a quantum of a whole budget): a sequence is dearer than the real numbers say by less
than one quantum a release and one more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from defray.controller.plan import plan
from defray.core.allocate import residual
from defray.core.amounts import QUANTA, dyadic_down, quanta_up, rho_of
from defray.core.target import Spend, Within, precision_for, two_sided
from defray.simulate.chance import generator
from defray.simulate.theorems.desk import QUESTIONS, SURE, Desk, Planner
from defray.simulate.theorems.row import Row, figure, most

if TYPE_CHECKING:
    import numpy as np

SURENESS: Final = (Fraction(9, 10), SURE, Fraction(99, 100))

Target = tuple[int, Fraction, Fraction]
"""(question, U, confidence)."""


def support_for(within: Fraction, sure: Fraction) -> Fraction:
    """rho_min of a count: what the target needs from scratch, on the product's lattice."""
    return precision_for(within, two_sided(float(1 - sure))) / 2


def targets(chance: np.random.Generator, most_asks: int = 8) -> list[Target]:  # noqa: TID251
    """Up to so many asks of few questions, so that many are repeats."""
    asks = int(chance.integers(1, most_asks + 1))
    among = int(chance.integers(1, 5))
    questions = chance.integers(0, among, asks).tolist()
    withins = (4 * chance.uniform(1, 8, asks) ** 2).astype(int).tolist()
    sures = chance.integers(0, len(SURENESS), asks).tolist()
    return [
        (q, Fraction(u, 4), SURENESS[s]) for q, u, s in zip(questions, withins, sures, strict=True)
    ]


def offline_cost(asked: list[Target]) -> Fraction:
    """C(OPT): of every question the largest rho_min."""
    largest: dict[int, Fraction] = {}
    for question, within, sure in asked:
        largest[question] = max(largest.get(question, Fraction(0)), support_for(within, sure))
    return sum(largest.values(), Fraction(0))


def minimality(
    sequences: int,
    seed: int = 0,
    planner: Planner = plan,
    credit: Callable[[Fraction, Fraction], Fraction] = residual,
) -> Row:
    """What is bought meets the target after fusion; a smaller release, in whatever combination with what is
    held, would not; the charge is the least number of quanta or one more."""
    chance = generator(seed, 11)
    missed, excess, smaller = 0, 0, 0
    for _ in range(sequences):
        *past, (_, within, sure) = targets(chance, 4)
        desk = Desk(Fraction(16), planner=planner)
        for _, u, s in past:
            desk.ask(0, Within(u), s)
        wanted, held = support_for(within, sure), desk.support(0)
        charge = desk.ask(0, Within(within), sure)
        missing = credit(wanted, held)
        missed += charge is None or desk.support(0) < wanted
        excess = max(excess, (charge or 0) - quanta_up(missing, desk.rho))
        if held + missing < wanted:
            missed += 1
        if missing:
            less = dyadic_down(missing * (1 - Fraction(1, 2**52)))
            share = Fraction(int(chance.integers(0, 65)), 64)
            best = held / (held + less)  # inverse-variance weights
            smaller += any(
                _support(part, held, less) >= wanted for part in (best, share, Fraction(0))
            )
    return Row(
        "residual minimality: the release meets its target and no smaller one does",
        "Section 4; A.1",
        "0 missed; 0 smaller releases suffice; charge <= least + 1 quantum",
        f"{missed} missed; {smaller} smaller; charge <= least + {excess}",
        missed == smaller == 0 and excess <= 1,
    )


def _support(part: Fraction, held: Fraction, new: Fraction) -> Fraction:
    """The support of ``part`` of what is held and the rest of a new release."""
    if (part and not held) or (part != 1 and not new):
        return Fraction(0)
    spread = (part**2 / held if part else Fraction(0)) + (1 - part) ** 2 / (new or 1)
    return 1 / spread


def one_competitive(sequences: int, seed: int = 0, planner: Planner = plan) -> Row:
    """Feasible exact repeats cost what the offline optimum costs: of every question the dearest ask."""
    chance = generator(seed, 12)
    most_over, below, refused, largest = -math.inf, 0, 0, 0.0
    for _ in range(sequences):
        asked = targets(chance)
        cost = offline_cost(asked)
        desk = Desk(
            cost * Fraction(float(chance.uniform(1.001, 4))).limit_denominator(1000),
            planner=planner,
        )
        refused += sum(desk.ask(q, Within(u), s) is None for q, u, s in asked)
        optimum = cost * QUANTA / desk.rho
        most_over = max(most_over, float(desk.spent - optimum) - desk.releases)
        below += desk.spent < optimum
        largest = max(largest, float(desk.spent / optimum))
    return Row(
        "1-competitive on feasible exact repeats: total = sum over questions of max rho_min",
        "Theorem 7",
        "C(OPT) <= total <= C(OPT) + 1 quantum a release + 1",
        f"total <= C(OPT) + releases {most_over:+.3f} quanta; ratio {most(largest)}; {refused} refused",
        most_over <= 1 and not below and not refused,
    )


def overhead(sequences: int, seed: int = 0, planner: Planner = plan) -> Row:
    """A whole diagnostic purse on top of the answers, credited to nothing (the worst case): half of the
    sequences end with an ask for all that is left, so that C(OPT) reaches rho_ans."""
    chance = generator(seed, 13)
    apart, above, filled = 0.0, -math.inf, 0
    for i in range(sequences):
        asked = targets(chance)
        xi = Fraction(int(chance.integers(1, 400)), 1000)
        cost = offline_cost(asked)
        rho = cost * Fraction(int(chance.integers(1001, 4000)), 1000) / (1 - xi)
        desk = Desk(rho, xi, planner)
        for q, u, s in asked:
            desk.ask(q, Within(u), s)
        if i % 2:
            rest = rho_of(desk.cap - desk.spent, rho)
            desk.ask(QUESTIONS - 1, Spend(rest))
            cost += rest
        purse = rho_of(QUANTA - desk.cap, rho)
        ratio = (purse + rho_of(desk.spent, rho)) / cost
        apart = max(apart, abs(float(ratio / (1 + purse / cost)) - 1))
        if i % 2:
            filled += 1
            above = max(above, float(ratio * (1 - xi)))
    return Row(
        "overhead of diagnostics: ratio = 1 + rho_est / C(OPT), and <= 1/(1-xi) where C(OPT) >= rho_ans",
        "Proposition 4; F.1",
        "|ratio / (1 + rho_est/C) - 1| <= 1e-12; ratio (1-xi) <= 1 + 1e-12",
        f"{apart:.1e}; {most(above)} over {filled} filled",
        apart <= 1e-12 and (not filled or above <= 1 + 1e-12),
    )


def prices(sequences: int, seed: int = 0, planner: Planner = plan) -> Row:
    """The prices of a count that the documents print: to 10 at 95 %, again, and then to 5."""
    desk = Desk(Fraction(1), planner=planner)
    paid = [desk.ask(0, Within(Fraction(u))) or 0 for u in (10, 10, 5)]
    shown = [f"{float(rho_of(c, desk.rho)):.6f}" for c in paid]
    return Row(
        "price of a count: within 10 at 95 %, the same again, then within 5",
        "Section 2; A.1",
        "rho 0.019207; 0; 0.057622 more",
        f"rho {shown[0]}; {figure(paid[1])}; {shown[2]} more",
        shown == ["0.019207", "0.000000", "0.057622"] and paid[1] == 0,
    )
