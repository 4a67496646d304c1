"""What is true of an ask: for measuring how far its answer was off, and how hard it was.

True numbers exist here and in the engine's noise line only.  They have no repr, and nothing here shows one:
what leaves are errors and magnitudes, for the eyes of a curator.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from statistics import fmean, median
from typing import Final

from defray.controller.ask import Ask
from defray.core.answer import Answer
from defray.core.grouping import Label
from defray.data.source import Control, Exact, Scan, Source
from defray.scans import scan_of, true_value

MOST_KEPT: Final = 5_000_000
"""How many true numbers are kept, at about 40 bytes each."""


@dataclass(frozen=True, slots=True, repr=False)
class Truth:
    """The true ``values`` of COUNT and SUM by alias and group, each with what one row can change it by; and
    the ``magnitudes`` of all cells, in such units (of an average: the rows behind it)."""

    values: dict[tuple[str, tuple[Label, ...]], tuple[float, float]]
    magnitudes: list[float]

    @property
    def magnitude(self) -> float:
        """Of several cells the median one's, as the engine weighs."""
        return median(self.magnitudes) if self.magnitudes else 0.0

    def error(self, answer: Answer | None) -> float:
        """The mean of ``min(1, |value - truth| / |truth|)`` over what is shown, a truth being taken as one
        row at least; 1 for no answer, nan where there is nothing to measure."""
        if not self.values:
            return nan
        if answer is None:
            return 1.0
        errors = []
        for row in answer.rows:
            known = self.values.get((row.aggregate, tuple(row.group.values())))
            if known is not None:
                true, one = known
                off = None if row.value is None else abs(row.value - true) / max(abs(true), one)
                errors.append(1.0 if off is None else min(1.0, off))
        return fmean(errors) if errors else nan


def truth_of(ask: Ask, source: Source) -> Truth:
    """Scans the source; nothing is charged to anyone."""
    compiled = ask.compiled
    exact_cells = source.scan(scan_of(compiled))
    values: dict[tuple[str, tuple[Label, ...]], tuple[float, float]] = {}
    magnitudes: list[float] = []
    for aggregate, parts in zip(compiled.question.aggregates, compiled.parts, strict=True):
        rows = compiled.blocks[parts["count"]]
        block = compiled.blocks[parts["sum" if aggregate.function == "SUM" else "count"]]
        one = block.reach / rows.reach  # what one row can change, in units
        for i, cell in enumerate(compiled.cells):
            if rows.empty[i]:
                continue
            true = true_value(block, exact_cells, i, 0)
            magnitudes.append(float(abs(true) / one) if one else 0.0)
            if aggregate.function != "AVG":
                values[aggregate.alias, cell.labels] = (
                    float(true * block.unit),
                    float(one * block.unit) or 1.0,
                )
    return Truth(values, magnitudes)


class ScannedOnce:
    """A source that remembers its scans, for runs that ask the same again and again.  It belongs to whoever
    opened it, and is closed by no engine."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._kept: dict[tuple[str, Scan], Exact] = {}
        self._size = 0

    def fingerprint(self) -> str:
        return self._source.fingerprint()

    def scan(self, scan: Scan, control: Control | None = None) -> Exact:
        at = self._source.fingerprint(), scan
        found = self._kept.get(at)
        if found is None:
            found = self._source.scan(scan, control)
            size = len(found.rows) * (1 + len(found.non_null) + len(found.sums))
            if self._size + size <= MOST_KEPT and self._source.fingerprint() == at[0]:
                self._kept[at] = found
                self._size += size
        return found

    def close(self) -> None:
        """There is nothing of its own to close."""
