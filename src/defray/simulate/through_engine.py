"""A scalar workload asked of the real engine, as counts of a table that is made for it.

What the accounting of :mod:`defray.simulate.run` says of a contract's gates can be held against this.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np

from defray.core.target import Lattice, two_sided
from defray.noise.sampler import Sampler
from defray.simulate.on_table import Gating, run_on_table
from defray.simulate.run import Budget, Run
from defray.simulate.tables import ITEM, TABLE, from_truths
from defray.simulate.workload import Workload, Written

MISS = 0.05
"""Every ask is made at a confidence of 95 %, which is the contract's default."""


def run_through_engine(
    workload: Workload,
    budget: Budget,
    gating: Gating | None = None,
    sampler: Sampler | None = None,
) -> Run:
    """The workload in its order, each ask within :func:`half_width` of its demand; see
    :func:`~defray.simulate.on_table.run_on_table`."""
    contract, source = from_truths(workload, budget)
    _, items = np.unique(workload.keys, return_inverse=True)
    asks = [
        Written(f"SELECT COUNT(*) FROM {TABLE} WHERE {ITEM} = {item}", str(half_width(demand)))
        for item, demand in zip(items.tolist(), workload.demands.tolist(), strict=True)
    ]
    return run_on_table(asks, workload, contract, source, gating or Gating(), sampler)


@lru_cache(maxsize=4096)
def half_width(demand: float) -> Fraction:
    """``U = z / sqrt(2 demand)``, what a demand in rho asks of a count at 95 %: to the nearest point of the
    noise's lattice, since what lies between two is rounded down to one.  Its price differs from ``demand`` by
    less than 1e-9 of it."""
    wanted = Fraction(two_sided(MISS) / math.sqrt(2 * demand))
    step = Lattice.fine_enough(wanted).step
    return step * round(wanted / step)
