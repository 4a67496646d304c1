"""A measure over a grouped region, as functionals of the cells of a view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from defray.core.domain import Domain
from defray.query.descriptor import Axis, Measure
from defray.query.region import Region, Regions
from defray.support.cuts import cuts_of, joined

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from defray.core.grouping import Group
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
        by_region = cuts_of(self.base, regions.nodes(self.base), domain.widths)
        return joined(by_region, cuts_by(self.axes, domain))

    def vectors(self, on: Axes, domain: Domain, groups: Sequence[int]) -> Floats:
        """The indicators of some groups on the cells of axes, a row each."""
        import numpy as np

        numbers, _ = numbers_on(on, self.axes, domain)
        inside = np.where(on.mask(self.base), numbers, -1)
        vectors: Floats = (inside[None, :] == np.asarray(groups)[:, None]).astype(np.float64)
        return vectors


def cuts_by(axes: Sequence[Axis], domain: Domain) -> dict[int, frozenset[int] | None]:
    """Where a grouping tells the atoms of its columns apart."""

    def cuts(axis: Axis) -> frozenset[int] | None:
        if axis.starts is not None:
            return frozenset(axis.starts) - {0}
        if axis.level == "value":
            return None
        return frozenset(low for group in axis.groups(domain) for low, _ in group.atoms if low)

    return joined(*({axis.column: cuts(axis)} for axis in axes))


def numbers_on(on: Axes, axes: Sequence[Axis], domain: Domain) -> tuple[NDArray[np.int64], int]:
    """The number of the group that each cell of ``on`` lies in, both row-major, and how many groups there
    are.  ``on`` has to tell the groups apart."""
    import numpy as np

    numbers, count = np.zeros(on.shape, np.int64), 1
    for axis in axes:
        place = on.columns.index(axis.column)
        groups = axis.groups(domain)
        shape = [1] * len(on.shape)
        shape[place] = on.shape[place]
        numbers = numbers * len(groups) + _numbers(on.firsts[place], groups).reshape(shape)
        count *= len(groups)
    return numbers.reshape(-1), count


def _numbers(firsts: NDArray[np.int64], groups: Sequence[Group]) -> NDArray[np.int64]:
    """The number of the group that each class of a column lies in, of which the first atoms are given.  It
    takes as long as there are classes and groups, however many atoms there are."""
    import numpy as np

    runs = [(number, *atoms) for number, group in enumerate(groups) for atoms in group.atoms]
    places = np.searchsorted(firsts, [atoms for _, *atoms in runs]).tolist()
    numbers = np.zeros(len(firsts), np.int64)
    for (number, _, _), (first, end) in zip(runs, places, strict=True):
        numbers[first:end] = number
    return numbers


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
