"""Exact support, the paper's: a functional is known by the releases of exactly that functional.

A question is *compiled* to blocks.  A block is one measure over every cell of the question's grouping;
each cell is a functional with its own key, credited separately.  Several aggregates share blocks (AVG
uses the centred sum and the count; COUNT(col) the same count).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from defray.core.contract import Contract
from defray.core.domain import Domain
from defray.query.descriptor import (
    COUNT,
    Aggregate,
    Axis,
    Cell,
    Measure,
    Question,
    cell_regions,
    cells,
    key,
    non_null,
)
from defray.query.region import EVERYWHERE, NOWHERE, Region, Regions
from defray.support.grouped import Grouped
from defray.support.known import confirmed


@dataclass(frozen=True)
class Block:
    """One measure over every cell of a grouping.

    ``reach`` is k * Delta in whole units of ``unit``: how far one privacy unit can move the vector.
    ``halves`` is 1 where true values may be half units (a centred sum with a half-unit middle).
    ``empty[i]`` marks cells that hold no row by definition: exactly 0, free.  ``column`` is the column
    whose non-null rows a count takes (None: all rows of the region).

    ``grouped`` is the same as functionals of cells; ``numbers`` are the groups that are asked for, of
    ``groups`` in all.  ``keys`` say where what is known of each cell is found.  In a confirmation these are
    kept apart, and ``confirms`` are the functionals' own.
    """

    measure: Measure
    column: str | None
    region: Region
    unit: Fraction
    reach: Fraction
    middle: Fraction
    halves: int
    keys: tuple[bytes, ...]
    empty: tuple[bool, ...]
    attributes: tuple[str, ...]
    weights: Mapping[str, Any]
    grouped: Grouped
    numbers: tuple[int, ...]
    groups: int
    confirms: tuple[bytes, ...] = ()

    @cached_property
    def marginal(self) -> tuple[int, ...] | None:
        """The columns of a full GROUP BY, in the order written; None where there is a WHERE, or groups are
        not single values."""
        columns = tuple(a.column for a in self.grouped.axes)
        whole = self.grouped.base is EVERYWHERE and len(self.numbers) == self.groups
        plain = all(a.level == "value" for a in self.grouped.axes)
        return columns if whole and plain and len(set(columns)) == len(columns) else None

    @property
    def functionals(self) -> tuple[bytes, ...]:
        """The keys of what is measured, whatever it is measured for."""
        return self.confirms or self.keys


@dataclass(frozen=True)
class Compiled:
    """A question as blocks: what can be known about it and what can be measured for it.

    ``parts[j]`` names, by role (``count``, ``sum``, ``centred``), the blocks of aggregate j.
    """

    question: Question
    cells: tuple[Cell, ...]
    blocks: tuple[Block, ...]
    parts: tuple[Mapping[str, int], ...]

    def only(self, cells: Sequence[int]) -> Compiled:
        """The same question about some of its cells."""
        blocks = tuple(
            replace(
                b,
                keys=tuple(b.keys[i] for i in cells),
                empty=tuple(b.empty[i] for i in cells),
                numbers=tuple(b.numbers[i] for i in cells),
                confirms=tuple(b.confirms[i] for i in cells) if b.confirms else (),
            )
            for b in self.blocks
        )
        return replace(self, cells=tuple(self.cells[i] for i in cells), blocks=blocks)

    def confirming(self, tag: str) -> Compiled:
        """The same question, whose releases are kept apart under a tag as well."""
        blocks = tuple(
            replace(b, keys=tuple(confirmed(k, tag) for k in b.keys), confirms=b.keys)
            for b in self.blocks
        )
        return replace(self, blocks=blocks)

    @cached_property
    def keys(self) -> tuple[bytes, ...]:
        return tuple(k for block in self.blocks for k in block.keys)

    @cached_property
    def credited(self) -> tuple[bytes, ...]:
        """Every key that more may be known of once the question is answered."""
        return (*self.keys, *(k for block in self.blocks for k in block.confirms))


def compile_question(question: Question, contract: Contract, regions: Regions) -> Compiled:
    """The blocks of a question under a contract."""
    rows, domain = contract.unit.max_rows, contract.domain
    grouping = cells(domain, question.axes)
    blocks: dict[tuple[Measure, Region], int] = {}
    made: list[Block] = []

    def block(measure: Measure, region: Region, column: str | None) -> int:
        at = blocks.get((measure, region))
        if at is None:
            at = blocks[measure, region] = len(made)
            made.append(
                make_block(measure, column, region, question.axes, grouping, domain, rows, regions)
            )
        return at

    parts: list[Mapping[str, int]] = []
    for aggregate in question.aggregates:
        region = measured_region(aggregate, question.region, contract.domain, regions)
        if aggregate.function == "COUNT":
            parts.append({"count": block(COUNT, region, aggregate.column)})
            continue
        assert aggregate.column is not None
        name = aggregate.column
        column = contract.domain[name]
        centred = Measure("centred", name)
        if column.low_units + column.high_units == 0:
            centred = Measure("sum", name)  # the middle is 0: the same functional
        roles = {"centred": block(centred, region, name), "count": block(COUNT, region, name)}
        if aggregate.function == "SUM":
            roles["sum"] = block(Measure("sum", name), region, name)
        parts.append(roles)
    return Compiled(question, tuple(grouping), tuple(made), tuple(parts))


def measured_region(
    aggregate: Aggregate, region: Region, domain: Domain, regions: Regions
) -> Region:
    """WHERE, without the rows whose aggregated column is NULL: they add nothing."""
    if aggregate.column is None:
        return region
    return non_null(domain, regions, region, aggregate.column)


def make_block(
    measure: Measure,
    column_read: str | None,
    region: Region,
    axes: tuple[Axis, ...],
    grouping: Sequence[Cell],
    domain: Domain,
    rows: int,
    regions: Regions,
) -> Block:
    """The block of a measure over a grouped region, for units of at most ``rows`` rows."""
    unit, step_reach, middle = Fraction(1), Fraction(1), Fraction(0)
    if measure.column is not None:
        column = domain[measure.column]
        low, high = column.low_units, column.high_units
        assert column.unit_step is not None
        unit = column.unit_step
        step_reach = Fraction(max(abs(low), abs(high)))
        if measure.kind == "centred":
            step_reach, middle = Fraction(high - low, 2), Fraction(low + high, 2)
    weights = {
        "kind": "region",
        "region": regions.to_json(region),
        "group": [[domain.names[a.column], a.level] for a in axes],
    }
    touched = {*regions.columns(region), *(a.column for a in axes)}
    by_cell = cell_regions(regions, region, grouping)
    return Block(
        measure=measure,
        column=column_read,
        region=region,
        unit=unit,
        reach=rows * step_reach,
        middle=middle,
        halves=0 if middle.denominator == 1 else 1,
        keys=tuple(key(measure, r) for r in by_cell),
        empty=tuple(r is NOWHERE for r in by_cell),
        attributes=tuple(domain.names[i] for i in sorted(touched)),
        weights=weights,
        grouped=Grouped.of(measure, region, axes, domain, regions),
        numbers=tuple(range(len(by_cell))),
        groups=len(by_cell),
    )


def block_of(body: Mapping[str, Any], domain: Domain, rows: int) -> Block:
    """The block a logged release measured, re-derived from its weights alone (for the audit)."""
    regions = Regions(domain.widths)
    weights = body["weights"]
    if weights["kind"] != "region":
        raise ValueError(f"unknown weights: {weights['kind']}")
    region = regions.from_json(weights["region"])
    axes = tuple(Axis(domain.names.index(name), level) for name, level in weights["group"])
    measure = Measure.parse(body["measure"])
    grouping = cells(domain, axes)
    return make_block(measure, measure.column, region, axes, grouping, domain, rows, regions)
