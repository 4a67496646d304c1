"""The central object: a question over the declared domain, in canonical form.

A *functional* is one number of the table: a measure over a region.  Its :func:`key` is what the
transcript is searched by; equal functionals have equal keys however they were asked (``WHERE state =
'CA'`` and the CA group of ``GROUP BY state`` are the same functional), different ones never do.

Measures count in whole units, so that sums are exact integers:

* ``count``           rows (unit 1);
* ``sum:COLUMN``      the column clamped to its bounds, in units of its ``unit_step``;
* ``centred:COLUMN``  the same minus the middle of the bounds, in the same units.

COUNT(col) is ``count`` over the region's rows whose ``col`` is not NULL; sums are kept on that region too,
since NULLs add nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Literal

from defray.core.domain import Domain
from defray.core.grouping import Group, Label
from defray.core.intervals import Atoms
from defray.core.validity import Validity
from defray.query.region import EVERYWHERE, Region, Regions, digest

Function = Literal["COUNT", "SUM", "AVG"]


@dataclass(frozen=True, slots=True)
class Measure:
    """What is added up over a region: ``kind`` and, for sums, the column."""

    kind: Literal["count", "sum", "centred"]
    column: str | None = None

    def __str__(self) -> str:
        return self.kind if self.column is None else f"{self.kind}:{self.column}"

    @classmethod
    def parse(cls, text: str) -> Measure:
        kind, _, column = text.partition(":")
        return cls(kind, column or None)  # type: ignore[arg-type]  # validated by the domain lookup


COUNT = Measure("count")


def key(measure: Measure, region: Region) -> bytes:
    """16 bytes that identify a functional of one domain."""
    return hashlib.sha256(str(measure).encode() + b"\0" + digest(region)).digest()[:16]


@dataclass(frozen=True, slots=True)
class Axis:
    """One GROUP BY column at a level (``value`` or a date_trunc unit); ``column`` is its position.  Where
    there are ``starts``, atoms are grouped into runs that begin there (a view's classes, which no question
    can name)."""

    column: int
    level: str = "value"
    starts: tuple[int, ...] | None = None

    def groups(self, domain: Domain) -> tuple[Group, ...]:
        """Its groups, in ascending order; they partition the atoms."""
        column = domain.columns[self.column]
        if self.starts is None:
            return column.groups(self.level)
        ends = (*self.starts[1:], column.width)
        return tuple(Group(None, ((a, b),)) for a, b in zip(self.starts, ends, strict=True))


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One output column: ``COUNT(*)`` has column None.  ``alias`` is unique in the question."""

    alias: str
    function: Function
    column: str | None
    start: int = field(default=0, compare=False)
    end: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Goal:
    """An accuracy as written: ``amount`` units, or a fraction of the truth where ``relative``."""

    amount: Fraction
    relative: bool = False


@dataclass(frozen=True, slots=True)
class Accuracy:
    """An accuracy clause: one goal for all (alias None) or goals by alias; what was not written is
    None.  ``ERROR WITHIN 50 FOR n, 2% FOR m AT CONFIDENCE 95% [SIMULTANEOUS] [VALIDITY ANYTIME]``."""

    goals: tuple[tuple[str | None, Goal], ...] = ()
    confidence: Fraction | None = None
    simultaneous: bool | None = None
    validity: Validity | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """ORDER BY one output: an aggregate's alias, or a grouping column by its place in ``axes``."""

    alias: str | None
    axis: int | None
    descending: bool = False
    nulls_first: bool | None = None


@dataclass(frozen=True, slots=True)
class Having:
    """A condition on noisy aggregates: a comparison ``(alias, op, number)`` or a connective."""

    op: str
    alias: str | None = None
    number: Fraction | None = None
    parts: tuple[Having, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """A parsed question.  ``region`` is WHERE; ``axes`` is GROUP BY in the order written; the rest is
    post-processing of noisy values.  ``labels`` names the grouping columns as they are shown."""

    aggregates: tuple[Aggregate, ...]
    region: Region = EVERYWHERE
    axes: tuple[Axis, ...] = ()
    labels: tuple[str, ...] = ()
    order: tuple[Order, ...] = ()
    having: Having | None = None
    limit: int | None = None
    offset: int = 0
    accuracy: Accuracy = field(default_factory=Accuracy)
    snapped: bool = False

    @property
    def selects_by_noise(self) -> bool:
        """Whether noisy values decide which rows are shown (their intervals must be simultaneous)."""
        return self.having is not None or any(o.alias is not None for o in self.order)


@dataclass(frozen=True, slots=True)
class Cell:
    """One group of a question: its labels and the region it adds to WHERE."""

    labels: tuple[Label, ...]
    sides: tuple[tuple[int, Atoms], ...]


def cells(domain: Domain, axes: Sequence[Axis]) -> list[Cell]:
    """The cells of a grouping in row-major order; one cell without labels where there is none."""
    sides = [a.groups(domain) for a in axes]
    return [
        Cell(
            tuple(g.label for g in combo),
            tuple((a.column, g.atoms) for a, g in zip(axes, combo, strict=True)),
        )
        for combo in product(*sides)
    ]


def non_null(domain: Domain, regions: Regions, region: Region, column: str) -> Region:
    """The region's cells whose ``column`` is not NULL."""
    at = domain.names.index(column)
    return regions.both(region, regions.where(at, domain.columns[at].non_nulls))


def cell_regions(regions: Regions, region: Region, grouping: Sequence[Cell]) -> list[Region]:
    """``region`` cut down to each cell of a grouping."""
    return [regions.both(region, regions.box(dict(c.sides))) for c in grouping]
