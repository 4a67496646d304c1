"""Several scans of one moment by one pass, whatever the database.

What is scanned is finer: the cells that all of them tell apart, as the classes of a view.  The cells of each
are unions of these, since a row lies in the same cell under WHERE as under GROUP BY; counts and sums are
whole numbers, so adding them up is exact.  As a rule a question's view tells the question apart, and its
cells are all that is scanned.  A condition that all have in common stays one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np

from defray.core.domain import Domain
from defray.data.grouping import MAX_TREE
from defray.data.source import Exact, Scan
from defray.query.descriptor import Axis
from defray.query.region import EVERYWHERE, Regions
from defray.support.axes import Axes, Starts
from defray.support.cuts import Cuts, cuts_of, joined
from defray.support.grouped import cuts_by, numbers_on

MOST_GROUPS: Final = 1 << 15
"""The most groups that a database may have to make for a pass that several scans share, unless one of them
makes as many by itself: with many more, two passes are quicker than one."""


@dataclass(frozen=True, slots=True)
class Pass:
    """``scan`` answers several at once; its cells are those of ``axes``."""

    scan: Scan
    axes: Axes

    def answer(self, domain: Domain, exact: Exact, wanted: Scan) -> Exact:
        """What one of them has by itself, of what the pass found."""
        numbers, size = numbers_on(self.axes, wanted.axes, domain)
        if wanted.region != self.scan.region:
            numbers = np.where(self.axes.mask(wanted.region), numbers, -1)
        places = [(i, number) for i, number in enumerate(numbers.tolist()) if number >= 0]

        def added(amounts: list[int]) -> list[int]:
            totals = [0] * size
            for i, number in places:
                totals[number] += amounts[i]
            return totals

        return Exact(
            added(exact.rows),
            {name: added(exact.non_null[name]) for name in wanted.columns},
            {name: added(exact.sums[name]) for name in wanted.sums},
        )


def answered(domain: Domain, scans: Sequence[Scan], run: Callable[[Scan], Exact]) -> list[Exact]:
    """What each of the scans has by itself, from as few runs as there can be with at most
    :data:`MOST_GROUPS` groups each.  All runs have to see the same rows."""
    found: dict[Scan, Exact] = {}
    for several in _packed(domain, list(dict.fromkeys(scans))):
        one = shared(domain, several) if len(several) > 1 else None
        exact = run(several[0] if one is None else one.scan)
        for scan in several:
            found[scan] = exact if one is None else one.answer(domain, exact, scan)
    return [found[scan] for scan in scans]


def _packed(domain: Domain, scans: Sequence[Scan]) -> list[list[Scan]]:
    """The scans by passes: each goes to the first that has room for it."""
    packed: list[list[Scan]] = []
    for scan in scans:
        for several in packed:
            if shared(domain, [*several, scan]) is not None:
                several.append(scan)
                break
        else:
            packed.append([scan])
    return packed


def shared(domain: Domain, scans: Sequence[Scan]) -> Pass | None:
    """One pass for all; None where it would make too many groups."""
    regions = {scan.region for scan in scans}
    by_axes = [cuts_by(scan.axes, domain) for scan in scans]
    cuts = joined(*by_axes)
    if len(regions) > 1:
        nodes = Regions(domain.widths).nodes
        by_region = (cuts_of(region, nodes(region), domain.widths) for region in regions)
        cuts = joined(cuts, *by_region)
    if _groups(domain, cuts) > max(MOST_GROUPS, *(_groups(domain, own) for own in by_axes)):
        return None
    axes = _axes(domain, cuts)
    by = tuple(_axis(domain, axes, place) for place in range(len(axes.columns)))
    columns = dict.fromkeys(name for scan in scans for name in scan.columns)
    sums = dict.fromkeys(name for scan in scans for name in scan.sums)
    region = scans[0].region if len(regions) == 1 else EVERYWHERE
    return Pass(Scan(region, by, tuple(columns), tuple(sums)), axes)


def _groups(domain: Domain, cuts: Cuts) -> int:
    """How many groups a database makes of the classes at most: of short columns, and of text, one for every
    atom (see :mod:`defray.data.grouping`)."""

    def of(at: int, wanted: frozenset[int] | None) -> int:
        column = domain.columns[at]
        if wanted is None or column.width <= MAX_TREE or column.kind == "string":
            return column.width
        return len(wanted) + 1

    return prod(of(at, wanted) for at, wanted in cuts.items())


def _axes(domain: Domain, cuts: Cuts) -> Axes:
    columns = tuple(sorted(cuts))
    starts: list[Starts] = [
        None if (wanted := cuts[at]) is None else tuple(sorted({0, *wanted})) for at in columns
    ]
    return Axes(columns, tuple(starts), tuple(domain.widths[at] for at in columns))


def _axis(domain: Domain, axes: Axes, place: int) -> Axis:
    """The classes of a column; where every atom is one, as a question would group by it."""
    at, firsts = axes.columns[place], axes.firsts[place]
    column = domain.columns[at]
    if len(firsts) == column.width and column.levels:
        return Axis(at)
    return Axis(at, starts=tuple(firsts.tolist()))
