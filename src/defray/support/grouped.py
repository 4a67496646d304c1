"""A measure over a grouped region, as functionals of the cells of a view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from defray.core.domain import Domain
from defray.query.descriptor import Axis, Measure
from defray.query.region import Region, Regions
from defray.support.cuts import Cuts, cuts_of, joined

if TYPE_CHECKING:
    from defray.support.axes import Axes, Floats


@dataclass(frozen=True)
class Grouped:
    """A measure over a region, by groups: the indicators of its groups.  ``base`` is the region without
    "not NULL" where NULLs add nothing anyway."""

    measure: Measure
    base: Region
    axes: tuple[Axis, ...]

    @classmethod
    def of(
        cls,
        measure: Measure,
        region: Region,
        axes: tuple[Axis, ...],
        domain: Domain,
        regions: Regions,
    ) -> Grouped:
        return cls(measure, without_null(regions, domain, measure, region), axes)

    def cuts(self, domain: Domain, regions: Regions) -> dict[int, frozenset[int] | None]:
        by_group: list[Cuts] = [
            {
                a.column: None
                if a.level == "value"
                else frozenset(low for group in a.groups(domain) for low, _ in group.atoms if low)
            }
            for a in self.axes
        ]
        return joined(cuts_of(self.base, regions.nodes(self.base), domain.widths), *by_group)

    def vectors(self, on: Axes, domain: Domain, groups: Sequence[int]) -> Floats:
        """The indicators of some groups on the cells of axes, a row each."""
        import numpy as np

        number, count = np.zeros(on.shape, np.int64), 1
        for a in self.axes:
            place = on.columns.index(a.column)
            grouping = a.groups(domain)
            of_atom = np.zeros(domain.widths[a.column], np.int64)
            for i, group in enumerate(grouping):
                for low, high in group.atoms:
                    of_atom[low:high] = i
            shape = [1] * len(on.shape)
            shape[place] = on.shape[place]
            number = number * len(grouping) + of_atom[on.firsts[place]].reshape(shape)
            count *= len(grouping)
        inside = np.where(on.mask(self.base), number.reshape(-1), -1)
        vectors: Floats = (inside[None, :] == np.asarray(groups)[:, None]).astype(np.float64)
        return vectors


def without_null(regions: Regions, domain: Domain, measure: Measure, region: Region) -> Region:
    """Where a measure adds nothing for NULLs: the region as if there were none, if it asks nothing else of
    the measured column."""
    if measure.column is None:
        return region
    at = domain.names.index(measure.column)
    column = domain.columns[at]
    if not column.nulls or at not in regions.columns(region):
        return region
    rest = regions.restrict(region, at, column.non_nulls[0][0])
    whole = regions.both(rest, regions.where(at, column.non_nulls))
    return rest if whole == region else region
