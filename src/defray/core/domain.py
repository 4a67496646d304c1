"""The declared public domain: which cells the table's rows can lie in.

Each column's domain is a finite list of *atoms*.  Proper atoms come first (values, integers, days, bins);
then, where the contract declares them, one atom OTHER for values outside the domain and one atom NULL.
Every row the contract counts lies in exactly one atom of every column (design condition L11), so COUNT(*)
and its groups always agree.

Treatment of odd values, once per table and the same in every question:

* NULL and NaN are NULL.  ``null = "cell"`` makes NULL an atom (default); ``"drop"`` leaves the row out of
  every question.
* +inf and -inf are first clamped to the column's ``bounds`` where it has any.
* A value outside the domain counts as NULL (``other = "null"``, default), gets the atom OTHER
  (``"cell"``), is moved to the nearest value (``"clamp"``, ordered domains only), or its row is left out
  (``"drop"``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from defray.core.column import Column

MOST_CELLS: Final = 2**22
"""Of arrays that say what cells have paid: where the product of some columns has more, it is not made."""


@dataclass(frozen=True)
class Domain:
    """All declared columns, in ascending order of name (so that the order of a contract file does
    not matter).  Column numbers in regions are positions in this order."""

    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        names = [c.name for c in self.columns]
        if names != sorted(set(names)):
            raise ValueError("columns must be distinct and sorted by name")

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.columns)

    @cached_property
    def widths(self) -> tuple[int, ...]:
        return tuple(c.width for c in self.columns)

    @cached_property
    def charge_by(self) -> tuple[int, ...]:
        """The columns whose cells' charges are told apart however large the domain is."""
        return tuple(i for i, c in enumerate(self.columns) if c.charged_by)

    def find(self, name: str, *, quoted: bool = False) -> int | None:
        """The position of a column by its name in SQL: exact, else (unquoted) whatever the case."""
        at = bisect_left(self.names, name)
        if at < len(self.names) and self.names[at] == name:
            return at
        if quoted:
            return None
        folded = [i for i, n in enumerate(self.names) if n.casefold() == name.casefold()]
        return folded[0] if len(folded) == 1 else None

    def __getitem__(self, name: str) -> Column:
        return self.columns[self.names.index(name)]

    def to_json(self) -> list[dict[str, Any]]:
        return [c.to_json() for c in self.columns]

    @classmethod
    def from_json(cls, data: Iterable[Mapping[str, Any]]) -> Domain:
        return cls(tuple(Column.from_json(c) for c in data))
