"""A scalar workload asked of the real engine: noise is drawn, charges are quanta of a ledger in memory.

What the accounting of :mod:`defray.simulate.run` says of a contract's gates can be held against this.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from defray.controller.goals import Wish
from defray.core.amounts import rho_of, support_of
from defray.core.contract import Contract, Purse, Weighing
from defray.core.target import Lattice, two_sided
from defray.engine import Engine
from defray.errors import BudgetRefused
from defray.ledger.memory import MemoryLedger
from defray.noise.opendp_sampler import OpenDPSampler
from defray.noise.sampler import Sampler
from defray.simulate.run import Budget, Run
from defray.simulate.tables import ITEM, TABLE, from_truths
from defray.simulate.workload import Workload
from defray.transcript import terms_of

MISS = 0.05
"""Every ask is made at a confidence of 95 %, which is the contract's default."""


@dataclass(frozen=True, slots=True)
class Gating:
    """What a contract says of scarcity, beside its budget."""

    gate: str = "refuse"
    weights: Weighing = field(default_factory=Weighing)

    def applied(self, contract: Contract) -> Contract:
        return replace(contract, gate=self.gate, weights=self.weights)


def run_through_engine(
    workload: Workload,
    budget: Budget,
    gating: Gating | None = None,
    sampler: Sampler | None = None,
) -> Run:
    """The workload in its order, each ask within :func:`half_width` of its demand.

    Noise is drawn from the operating system, so that only what does not rest on noisy answers is the same
    every time: charges without difficulty weights.  Asked again while it is unmet, a question at the same
    accuracy is no new arrival to the engine's gates, but is one in the accounting.
    """
    gating = gating or Gating()
    contract, source = from_truths(workload, budget)
    contract = gating.applied(contract)
    ledger = MemoryLedger(terms_of(contract))
    engine = Engine(contract, ledger, source, sampler or OpenDPSampler())
    _, items = np.unique(workload.keys, return_inverse=True)
    spent: dict[Purse, int] = {"answer": 0, "diagnostic": 0}
    charged: dict[Purse, list[float]] = {purse: [] for purse in spent}
    supports, weights, arrived = [], [], 0
    for item, demand in zip(items.tolist(), workload.demands.tolist(), strict=True):
        sql, wish = f"SELECT COUNT(*) FROM {TABLE} WHERE {ITEM} = {item}", _wish(demand)
        with suppress(BudgetRefused):  # the books show what it was not granted
            engine.ask(sql, wish)
        (block,) = engine.prepare(sql, wish).compiled.blocks
        with ledger.view() as view:
            for purse, before in spent.items():
                spent[purse] = view.spent(purse)
                charged[purse].append(float(rho_of(spent[purse] - before, contract.rho)))
            supports.append(float(support_of(view.known(block.keys)[0].precision, block.reach)))
            weights.append(1.0)
            for arrival in view.arrivals(arrived, 1):
                arrived, weights[-1] = arrival.number, arrival.weight
    engine.close()
    return Run(
        f"{gating.gate} (engine)",
        workload.demands,
        np.array(charged["answer"]),
        np.array(charged["diagnostic"]),
        np.array(supports),
        np.array(weights),
        float(rho_of(sum(spent.values()), contract.rho)),
    )


def half_width(demand: float) -> Fraction:
    """``U = z / sqrt(2 demand)``, what a demand in rho asks of a count at 95 %: to the nearest point of the
    noise's lattice, since what lies between two is rounded down to one.  Its price differs from ``demand`` by
    less than 1e-9 of it."""
    wanted = Fraction(two_sided(MISS) / math.sqrt(2 * demand))
    step = Lattice.fine_enough(wanted).step
    return step * round(wanted / step)


@lru_cache(maxsize=4096)
def _wish(demand: float) -> Wish:
    return Wish.of(half_width(demand), None, None, None, None)
