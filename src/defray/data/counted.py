"""A table without a database: columns of atoms, each entry standing for as many rows as its count says.

A scan is exact: it gives what DuckDB gives for the same rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from defray.core.canonical import canonical
from defray.core.domain import Domain
from defray.core.intervals import Atoms
from defray.data.source import Control, Exact, Scan
from defray.data.values import representative, units_of
from defray.data.watch import Watch
from defray.query.descriptor import Axis
from defray.query.region import Region, Regions

MAX_TOTAL: Final = 2**53
"""Whole numbers up to this add up exactly in doubles."""

Entries = NDArray[np.int64] | slice


class CountedSource:
    """A :class:`~defray.data.source.Source` that needs no database.

    ``atoms[name][i]`` is the atom of entry i in a declared column, and ``counts[i]`` the number of its rows
    (one where there are no counts).  ``units[name][i]`` is what each of them adds to SUM(name), in whole
    ``unit_step``s: where it is not given, that of the value the atom stands for.  ``totals[name][i]`` is what
    all rows of the entry add, where they are not alike.
    """

    def __init__(
        self,
        domain: Domain,
        atoms: Mapping[str, NDArray[np.int64]],
        counts: NDArray[np.int64] | None = None,
        units: Mapping[str, NDArray[np.int64]] | None = None,
        totals: Mapping[str, NDArray[Any]] | None = None,
    ) -> None:
        columns = [np.asarray(atoms[c.name], dtype=np.int64) for c in domain.columns]
        self.domain = domain
        self.entries = len(columns[0])
        self.counts = np.ones(self.entries, np.int64) if counts is None else counts
        self.rows = sum(self.counts.tolist())
        self._columns = columns
        self._regions = Regions(domain.widths)
        self._given = dict(units or {})
        self._units: dict[str, NDArray[Any]] = {}
        self._totals = dict(totals or {})
        held = [*columns, self.counts, *self._given.values(), *self._totals.values()]
        if any(column.shape != (self.entries,) for column in held):
            raise ValueError("the columns of a table differ in length")
        if self.entries and (self.counts.min() < 0 or self.rows > MAX_TOTAL):
            raise ValueError("a table has between 0 and 2**53 rows")
        for column, found in zip(domain.columns, columns, strict=True):
            if self.entries and (found.min() < 0 or found.max() >= column.width):
                raise ValueError(f"column {column.name} has no such atom")
        self._ascending = [bool((c[1:] >= c[:-1]).all()) for c in columns]

    def atoms(self, name: str) -> NDArray[np.int64]:
        """The atoms of a column, one an entry."""
        return self._columns[self.domain.names.index(name)]

    def units(self, name: str) -> NDArray[Any]:
        """What each row of an entry adds to SUM(name): 64-bit integers where all sums of them are exact in
        doubles, else Python's."""
        found = self._units.get(name)
        if found is None:
            found = self._units[name] = self._made_units(name)
        return found

    def totals(self, name: str) -> NDArray[Any]:
        """What all rows of an entry add to SUM(name)."""
        found = self._totals.get(name)
        if found is None:
            found = self._totals[name] = self.units(name) * self.counts
        return found

    @cached_property
    def _fingerprint(self) -> str:
        whole = hashlib.sha256(canonical(self.domain.to_json()))
        for column in [*self._columns, self.counts]:
            whole.update(np.ascontiguousarray(column).tobytes())
        for name in sorted(self._given):
            whole.update(name.encode() + b"\0" + self._given[name].tobytes())
        return whole.hexdigest()

    def fingerprint(self) -> str:
        """It is keyed by nothing: there is no person in the table."""
        return self._fingerprint

    def scan(self, scan: Scan, control: Control | None = None) -> Exact:
        if control is not None:
            Watch(control, 0).check()
        at = self._inside(scan.region)
        size = prod(len(a.groups(self.domain)) for a in scan.axes)
        cells = self._cells(scan.axes, at)
        counts = self.counts[at]
        non_null = {}
        for name in scan.columns:
            null = self.domain[name].null_atom
            present = counts if null is None else counts * (self.atoms(name)[at] != null)
            non_null[name] = _totals(cells, size, present)
        sums = {name: _totals(cells, size, self.totals(name)[at]) for name in scan.sums}
        return Exact(_totals(cells, size, counts), non_null, sums)

    def close(self) -> None:
        """There is nothing to close."""

    # -- which entries, in which cells ------------------------------------------------------------

    def _inside(self, region: Region) -> Entries:
        """The entries of a region: each is led down the diagram from its root, with all others that reach
        the same node."""
        if region is True:
            return slice(None)
        reached: dict[Region, list[Entries]] = {region: [slice(None)]}
        for node in reversed(list(self._regions.nodes(region))):
            at = _joined(reached.pop(node))
            for atoms, child in node.edges:
                if child is not False:
                    part = self._among(node.column, atoms, at)
                    reached.setdefault(child, []).append(part)
        return _joined(reached.get(True, []))

    def _among(self, column: int, atoms: Atoms, at: Entries) -> NDArray[np.int64]:
        """Those of the entries ``at`` whose atom is among ``atoms``."""
        values, ends = self._columns[column], np.array(atoms, np.int64).ravel()
        if isinstance(at, slice):
            if self._ascending[column]:
                runs = np.searchsorted(values, ends).reshape(-1, 2).tolist()
                return np.concatenate([np.arange(lo, hi, dtype=np.int64) for lo, hi in runs])
            at = np.arange(self.entries, dtype=np.int64)
        # An odd number of ends at or below an atom: it lies in an interval.
        odd = np.searchsorted(ends, values[at], side="right") % 2 == 1
        inside: NDArray[np.int64] = at[odd]
        return inside

    def _cells(self, axes: Sequence[Axis], at: Entries) -> NDArray[np.int64] | None:
        """The number of each entry's cell, row-major; None where there is no grouping."""
        cells: NDArray[np.int64] | None = None
        for axis in axes:
            column = self.domain.columns[axis.column]
            group = self._columns[axis.column][at]
            grouping = axis.groups(self.domain)
            if len(grouping) != column.width:
                firsts = sorted(
                    (first, number)
                    for number, made in enumerate(grouping)
                    for first, _ in made.atoms
                )
                starts, numbers = np.array(firsts, np.int64).T
                group = numbers[np.searchsorted(starts, group, side="right") - 1]
            cells = group if cells is None else cells * len(grouping) + group
        return cells

    def _made_units(self, name: str) -> NDArray[Any]:
        column, given = self.domain[name], self._given.get(name)
        if given is None:
            atoms, places = np.unique(self.atoms(name), return_inverse=True)
            each = [units_of(column, representative(column, atom)) for atom in atoms.tolist()]
        else:
            each, places = given.tolist(), np.arange(self.entries)
        largest = max(map(abs, each), default=0)
        whole = np.int64 if largest * max(self.rows, 1) <= MAX_TOTAL else object
        return np.array(each, dtype=whole)[places]


def _joined(parts: Sequence[Entries]) -> Entries:
    """The entries of several parts; a part that is everything is the only one."""
    if len(parts) == 1:
        return parts[0]
    found = [part for part in parts if not isinstance(part, slice)]
    return np.concatenate(found) if found else np.empty(0, np.int64)


def _totals(cells: NDArray[np.int64] | None, size: int, amounts: NDArray[Any]) -> list[int]:
    """The sum of the amounts in every cell, exactly."""
    if cells is None:
        return [int(amounts.sum())]
    if amounts.dtype == object:
        exact_totals = np.zeros(size, dtype=object)
        np.add.at(exact_totals, cells, amounts)
        return [int(total) for total in exact_totals]
    found = np.bincount(cells, weights=amounts, minlength=size)
    return [int(total) for total in found.tolist()]
