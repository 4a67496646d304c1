"""A declared column: its atoms, its bounds, its groups, and how each atom is shown."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

from defray.core import intervals
from defray.core.dates import EPOCH, EPOCH_DAY, MICROSECOND
from defray.core.grouping import Group, Label, bucket_count, buckets, levels_of
from defray.core.intervals import EMPTY, Atoms
from defray.core.numbers import show_number
from defray.core.shapes import Anything, Kind, Shape, Values, Whole, shape_from_json


@dataclass(frozen=True)
class Column:
    """A declared column.  ``bounds`` and ``unit_step`` are set iff it may be summed; bounds are whole
    multiples of ``unit_step``.  ``charged_by``: what its cells have paid is told apart however large the
    domain is."""

    name: str
    kind: Kind
    shape: Shape
    null: Literal["cell", "drop"] = "cell"
    other: Literal["null", "cell", "clamp", "drop"] = "null"
    bounds: tuple[Fraction, Fraction] | None = None
    unit_step: Fraction | None = None
    charged_by: bool = False

    # -- atoms ----------------------------------------------------------------------------------

    @property
    def proper(self) -> int:
        """How many atoms are values of the domain (they are numbered from 0)."""
        return self.shape.count

    @property
    def other_atom(self) -> int | None:
        return self.proper if self.other == "cell" else None

    @property
    def null_atom(self) -> int | None:
        if self.null == "drop":
            return None
        return self.proper + (1 if self.other == "cell" else 0)

    @property
    def width(self) -> int:
        """All atoms: proper ones, OTHER, NULL."""
        return self.proper + (self.other == "cell") + (self.null == "cell")

    @property
    def ordered(self) -> bool:
        """Whether ranges of its atoms are what one asks for."""
        return not isinstance(self.shape, Values)

    @property
    def nulls(self) -> Atoms:
        atom = self.null_atom
        return EMPTY if atom is None else intervals.single(atom)

    @property
    def non_nulls(self) -> Atoms:
        return intervals.complement(self.nulls, self.width)

    # -- sums -----------------------------------------------------------------------------------

    @property
    def low_units(self) -> int:
        """The lower bound in whole units of ``unit_step``; ValueError if the column has no bounds."""
        return self._in_units(0)

    @property
    def high_units(self) -> int:
        return self._in_units(1)

    def _in_units(self, end: int) -> int:
        if self.bounds is None or self.unit_step is None:
            raise ValueError(f"column {self.name} has no bounds")
        units = self.bounds[end] / self.unit_step
        if units.denominator != 1:
            raise ValueError(f"bounds of {self.name} are no multiples of unit_step")
        return units.numerator

    # -- groups -------------------------------------------------------------------------------------

    def label(self, atom: int) -> Label:
        """How an atom is shown in answers: its value, ``[a, b)`` for a bin, None for NULL."""
        shape = self.shape
        if atom == self.null_atom:
            return None
        if atom == self.other_atom:
            return "(other)"
        if isinstance(shape, Whole):
            value = shape.low + atom
            return str(EPOCH_DAY + dt.timedelta(days=value)) if self.kind == "date" else value
        if isinstance(shape, Values):
            item = shape.items[atom]
            if isinstance(item, Fraction):
                return item.numerator if item.denominator == 1 else float(item)
            return item
        if isinstance(shape, Anything):
            return "(any)"
        if self.kind == "timestamp":
            return str(EPOCH + int(shape.edge(atom)) * MICROSECOND)
        end = "]" if atom == shape.count - 1 else ")"
        return f"[{show_number(shape.edge(atom))}, {show_number(shape.edge(atom + 1))}{end}"

    @cached_property
    def levels(self) -> tuple[str, ...]:
        """The levels a GROUP BY may use; none for a column without a declared domain."""
        return levels_of(self.kind, self.shape)

    def group_count(self, level: str) -> int:
        """How many groups the level has, without making them."""
        if level == "value":
            return self.width
        return bucket_count(self.shape, level) + self.width - self.proper

    def groups(self, level: str = "value") -> tuple[Group, ...]:
        """The groups of a level in ascending order, OTHER and NULL last; they partition the atoms."""
        if level not in self.levels:
            raise ValueError(f"{self.name} has no level {level}")
        cache = self._groups
        if level not in cache:
            cache[level] = tuple(self._make_groups(level))
        return cache[level]

    @cached_property
    def _groups(self) -> dict[str, tuple[Group, ...]]:
        return {}

    def _make_groups(self, level: str) -> list[Group]:
        if level == "value" or (level == "day" and self.kind == "date"):
            return [self._alone(atom) for atom in range(self.width)]
        special = range(self.proper, self.width)
        return [*buckets(self.shape, level), *map(self._alone, special)]

    def _alone(self, atom: int) -> Group:
        return Group(self.label(atom), intervals.single(atom))

    # -- JSON ---------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        more = {"charged_by": True} if self.charged_by else {}
        return {
            "name": self.name,
            "kind": self.kind,
            "shape": self.shape.to_json(),
            "null": self.null,
            "other": self.other,
            "bounds": None if self.bounds is None else [str(b) for b in self.bounds],
            "unit_step": None if self.unit_step is None else str(self.unit_step),
            **more,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Column:
        bounds = data["bounds"]
        return cls(
            name=data["name"],
            kind=data["kind"],
            shape=shape_from_json(data["shape"], data["kind"]),
            null=data["null"],
            other=data["other"],
            bounds=None if bounds is None else (Fraction(bounds[0]), Fraction(bounds[1])),
            unit_step=None if data["unit_step"] is None else Fraction(data["unit_step"]),
            charged_by=data.get("charged_by", False),
        )
