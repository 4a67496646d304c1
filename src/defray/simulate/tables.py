"""Tables made from the public domain alone, for what needs no data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from defray.core.amounts import exact
from defray.core.column import Column
from defray.core.contract import Contract, SourceSpec, Unit
from defray.core.domain import Domain
from defray.core.shapes import Anything, Whole
from defray.data.counted import CountedSource
from defray.errors import BadInput
from defray.simulate.chance import generator
from defray.simulate.run import Budget
from defray.simulate.workload import Workload


def synthetic(
    domain: Domain,
    rows: int,
    seed: int,
    weights: Mapping[str, Sequence[float]] | None = None,
) -> CountedSource:
    """``rows`` independent rows, each column independent of the others: uniform over the column's declared
    values, or by ``weights`` of its atoms (OTHER and NULL are the last, and weigh nothing where they are not
    named).  Columns without a declared domain are uniform between their bounds."""
    atoms: dict[str, NDArray[np.int64]] = {}
    units: dict[str, NDArray[np.int64]] = {}
    for place, column in enumerate(domain.columns):
        chance = generator(seed, place)
        given = None if weights is None else weights.get(column.name)
        if given is None:
            drawn = chance.integers(column.proper, size=rows)
        else:
            heft = np.array(given, float)
            if len(heft) not in (column.proper, column.width) or not heft.sum() > 0:
                raise BadInput(
                    f"column {column.name} has {column.proper} values, or {column.width} atoms with OTHER "
                    f"and NULL, and {len(heft)} weights"
                )
            drawn = chance.choice(len(heft), size=rows, p=heft / heft.sum())
        atoms[column.name] = drawn
        if isinstance(column.shape, Anything) and column.bounds is not None:
            amounts = chance.integers(column.low_units, column.high_units + 1, size=rows)
            units[column.name] = amounts * (drawn < column.proper)
    return CountedSource(domain, atoms, units=units)


TABLE, ITEM = "items", "item"
"""The table and the one column of a scalar workload."""


def from_truths(workload: Workload, budget: Budget) -> tuple[Contract, CountedSource]:
    """A contract and a table in which the i-th different question of a workload (in the order of the keys) is
    ``SELECT COUNT(*) FROM items WHERE item = i``, with its true count to the nearest row."""
    keys, first = np.unique(workload.keys, return_index=True)
    counts = np.rint(workload.truths[first]).astype(np.int64)
    if len(counts) and counts.min() < 0:
        raise BadInput("a workload with negative true values is none of counts")
    cells = max(len(keys), 1)
    domain = Domain((Column(ITEM, "integer", Whole(0, cells - 1), null="drop", other="drop"),))
    contract = Contract(
        support="exact",
        table=TABLE,
        rho=exact(budget.rho),
        unit=Unit(),
        source=SourceSpec("csv"),
        domain=domain,
        directory=Path(),
        xi=exact(budget.xi),
        horizon=budget.horizon,
        forecast=tuple(exact(residual) for residual in budget.forecast),
        m_floor=exact(budget.m_floor),
    )
    items = np.arange(len(keys), dtype=np.int64)
    return contract, CountedSource(domain, {ITEM: items}, counts)
