"""What each cell of the declared domain pays for a release.

A release measures linear functionals of the table's cells; its ``weights`` say which, by kind (all of them
are spelled out in :mod:`defray.ledger.records`):

* ``region``    the indicators of a region's groups, each with noise of its own;
* ``residual``  the centred table ``t_A`` of an attribute set (:mod:`defray.support.marginal.lattice`);
* ``cells``     one functional of real weights on the cells of an attribute set
  (:mod:`defray.support.view.lattice`).

Charges are whole quanta of the contract, each rounded up once.  They come from the declared domain and the
noise that was drawn, so an audit computes the same from the log.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from defray.core.domain import Domain
from defray.query.descriptor import Axis
from defray.query.region import Node, Region, Regions
from defray.support.cell_charges import LARGEST, charges
from defray.support.charges import DENSE, Added
from defray.support.weights import KINDS, charge_for

Mask = NDArray[np.bool_]
Quanta = NDArray[np.int64]


def paid_of(
    weights: Mapping[str, Any],
    attributes: Sequence[str],
    domain: Domain,
    *,
    reach: Fraction,
    sigmas: Sequence[float | None],
    charge: int,
    rho: Fraction,
    by_cell: bool,
) -> tuple[Added, ...]:
    """What each cell pays for a release, as :meth:`defray.support.charges.Charges.plus` takes it.

    ``reach`` is k * Delta of a row of weight 1 and ``sigmas`` are those really drawn, both in units.  Where
    releases are not charged by cell, where all cells pay the same (residuals), or where there are more than
    ``DENSE`` of them, the ``charge`` counts for every cell.  The dearest cells pay exactly ``charge``, which
    may exceed what the noise costs where it was given first.

    Raises ValueError where the weights do not fit the domain.
    """
    columns = tuple(domain.names.index(name) for name in attributes)
    if any(i >= j for i, j in pairwise(columns)):
        raise ValueError(f"attributes are not in the order of the domain: {list(attributes)}")
    widths = [domain.widths[i] for i in columns]
    kind = weights["kind"]
    if kind not in KINDS:
        raise ValueError(f"unknown weights: {kind!r}")
    if kind == "residual" and widths != list(weights["atoms"]):
        raise ValueError(f"the columns have {widths} atoms, not {weights['atoms']}")
    if not by_cell or kind == "residual" or math.prod(widths) > DENSE:
        return (((), charge),)
    if kind == "cells":
        (sigma,) = sigmas
        paid = _of_cells(weights, widths, reach, sigma, charge, rho)
    else:
        paid = _of_groups(weights, columns, domain, reach, sigmas, charge, rho)
    return ((columns, paid),)


def mask(region: Region, columns: Sequence[int], widths: Sequence[int]) -> Mask:
    """A region on the product of ``columns`` (ascending; all that make a difference to it), as the shape of
    their atoms: true in its cells.

    >>> regions = Regions((2, 3, 2))
    >>> odd = regions.both(regions.where(0, ((0, 1),)), regions.where(1, ((0, 1), (2, 3))))
    >>> mask(odd, (0, 1), regions.widths).astype(int).tolist()
    [[1, 0, 1], [0, 0, 0]]
    """
    at = {column: axis for axis, column in enumerate(columns)}
    made: dict[Node, Mask] = {}

    def walk(r: Region, axis: int) -> Mask:
        """The region below, over the axes from ``axis`` on; 1 long where they make no difference."""
        if isinstance(r, bool):
            return np.full([1] * (len(columns) - axis), r)
        table = made.get(r)
        if table is None:
            table = made[r] = decide(r, at[r.column])
        return table.reshape([1] * (at[r.column] - axis) + list(table.shape))

    def decide(node: Node, axis: int) -> Mask:
        below = [(atoms, walk(child, axis + 1)) for atoms, child in node.edges]
        rest = np.broadcast_shapes(*(table.shape for _, table in below))
        out = np.empty((widths[node.column], *rest), np.bool_)
        for atoms, table in below:
            for low, high in atoms:
                out[low:high] = table
        return out

    return np.broadcast_to(walk(region, 0), [widths[i] for i in columns])


def _of_groups(
    weights: Mapping[str, Any],
    columns: Sequence[int],
    domain: Domain,
    reach: Fraction,
    sigmas: Sequence[float | None],
    charge: int,
    rho: Fraction,
) -> Quanta:
    """A cell pays for the group that it lies in, if it lies in the region."""
    region = Regions(domain.widths).from_json(weights["region"])
    axes = [Axis(domain.names.index(name), level) for name, level in weights["group"]]
    costs = {s: charge_for(reach**2, s, rho) for s in set(sigmas) if s is not None}
    paid = _whole([0 if s is None else costs[s] for s in sigmas], charge)
    here = paid[_group_of(axes, columns, domain, len(sigmas))]
    return np.where(mask(region, columns, domain.widths), here, 0)


def _group_of(
    axes: Sequence[Axis], columns: Sequence[int], domain: Domain, groups: int
) -> NDArray[np.intp]:
    """The number of each cell's group, in the row-major order of a grouping; to be broadcast over the cells
    of ``columns``."""
    number = np.zeros([1] * len(columns), np.intp)
    count = 1
    for axis in axes:
        grouping = domain.columns[axis.column].groups(axis.level)
        of_atom = np.zeros(domain.widths[axis.column], np.intp)
        for i, group in enumerate(grouping):
            for low, high in group.atoms:
                of_atom[low:high] = i
        shape = [1] * len(columns)
        shape[columns.index(axis.column)] = of_atom.size
        number = number * len(grouping) + of_atom.reshape(shape)
        count *= len(grouping)
    if count != groups:
        raise ValueError(f"{groups} values, but its weights are {count}")
    return number


def _of_cells(
    weights: Mapping[str, Any],
    widths: Sequence[int],
    reach: Fraction,
    sigma: float | None,
    charge: int,
    rho: Fraction,
) -> Quanta:
    """A cell pays for its squared weight.  Classes of atoms are spelled out."""
    if sigma is None:
        raise ValueError("nothing is measured")
    runs = [_runs(starts, width) for starts, width in zip(weights["classes"], widths, strict=True)]
    steps = np.abs(np.asarray(weights["steps"], np.int64))
    sizes, which = np.unique(steps, return_inverse=True)
    exact = np.ldexp(sizes.astype(np.float64), -weights["bits"])
    paid = _whole(charges(exact, sigma, rho / reach**2).tolist(), charge)
    table = paid[which.reshape([len(run) for run in runs])]
    for axis, run in enumerate(runs):
        if len(run) < widths[axis]:
            table = np.repeat(table, run, axis=axis)
    return table


def _runs(starts: Sequence[int] | None, width: int) -> list[int]:
    """The lengths of the classes of a column's atoms that begin at ``starts``; None: one for every atom.

    >>> _runs([0, 2, 7], 10), _runs(None, 3)
    ([2, 5, 3], [1, 1, 1])
    """
    if starts is None:
        return [1] * width
    ends = [*starts, width]
    if ends[0] != 0 or any(i >= j for i, j in pairwise(ends)):
        raise ValueError(f"classes of {width} atoms cannot begin at {starts}")
    return [j - i for i, j in pairwise(ends)]


def _whole(costs: Iterable[int], charge: int) -> Quanta:
    """What is paid: the dearest pay the whole charge."""
    listed = list(costs)
    most = max(listed)
    return np.array([min(charge if c == most else c, LARGEST) for c in listed], np.int64)
