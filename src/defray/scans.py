"""The private side of an ask: what has to be scanned for it, and the exact numbers of what it measures.

Everything here is handed from the source to the one line of the engine that adds noise, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from defray.controller.plan import Step
from defray.data.source import Control, Exact, Scan, Source, scan_all
from defray.query.descriptor import Axis
from defray.query.region import EVERYWHERE
from defray.support.exact import Block, Compiled

if TYPE_CHECKING:
    from defray.support.axes import Axes
    from defray.support.drawn import Drawn
    from defray.support.overlap import Overlap


@dataclass(frozen=True, slots=True, repr=False)
class Scanned:
    """What was scanned: the question's own cells (None: they were not needed), and the cells of views.  Has
    no repr on purpose."""

    own: Exact | None
    views: Mapping[Axes, Exact] = field(default_factory=dict)

    def covers(self, step: Step) -> bool:
        """Whether every number that a step needs was scanned."""
        seen = all(axes in self.views for axes in views_of(step))
        return seen and (self.own is not None or not _needs_own(step))


def scan(
    source: Source,
    compiled: Compiled,
    step: Step,
    overlap: Overlap | None,
    control: Control | None,
) -> Scanned:
    """Every exact number that a step and those after it can need."""
    needed = views_of(step)
    if overlap is not None and not step.final:
        needed = [*overlap.homes(compiled.blocks), *needed]
        if overlap.alone is not None:
            needed += overlap.alone.homes(compiled.blocks)
        needed = list(dict.fromkeys(needed))
    own = [scan_of(compiled)] if _needs_own(step) else []
    scans = [*(view_scan(compiled, axes) for axes in needed), *own]
    exact = scan_all(source, scans, control) if scans else []
    return Scanned(exact[-1] if own else None, dict(zip(needed, exact, strict=False)))


def _needs_own(step: Step) -> bool:
    """Whether the question's own cells are needed: not where all is drawn from views, and nothing follows."""
    in_views = all(
        p.draws and all(d.weights["kind"] == "cells" for d in p.draws) for p in step.purchases
    )
    return not (step.final and in_views)


def views_of(step: Step) -> list[Axes]:
    """The views that a step measures mixtures of cells in."""
    drawn = [d for p in step.purchases for d in p.draws]
    if not drawn:
        return []
    from defray.support.drawn import CellsDraw

    return list(dict.fromkeys(d.axes for d in drawn if isinstance(d, CellsDraw)))


def scan_of(compiled: Compiled) -> Scan:
    """The cells of the question itself, in one pass over the table."""
    question = compiled.question
    return Scan(question.region, question.axes, *_measured(compiled))


def view_scan(compiled: Compiled, axes: Axes) -> Scan:
    """The cells of a view, in one pass."""
    by = tuple(
        Axis(column, starts=tuple(firsts.tolist()))
        for column, firsts in zip(axes.columns, axes.firsts, strict=True)
    )
    return Scan(EVERYWHERE, by, *_measured(compiled))


def _measured(compiled: Compiled) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns whose non-null rows are counted, and those that are summed."""
    aggregates = compiled.question.aggregates
    columns = {a.column for a in aggregates if a.column is not None}
    sums = {a.column for a in aggregates if a.column and a.function != "COUNT"}
    return tuple(sorted(columns)), tuple(sorted(sums))


def true_value(block: Block, exact: Exact, cell: int, bits: int) -> int:
    """The exact functional in lattice steps of ``2**-bits`` units, in unbounded integers."""
    rows = exact.rows if block.column is None else exact.non_null[block.column]
    return _units(block, rows, exact, cell, bits)


def _units(block: Block, rows: Sequence[int], exact: Exact, cell: int, bits: int) -> int:
    if block.measure.kind == "count":
        return rows[cell] << bits
    assert block.measure.column is not None
    total = Fraction(exact.sums[block.measure.column][cell])
    if block.measure.kind == "centred":
        total -= block.middle * rows[cell]
    scaled = total * (1 << bits)
    assert scaled.denominator == 1
    return scaled.numerator


def view_values(block: Block, exact: Exact) -> list[int]:
    """The measure of every cell of a scan, in units of ``2**-halves``.  NULLs have no distance from the
    middle, so a centred sum counts the others only."""
    column = block.measure.column
    rows = exact.rows if column is None else exact.non_null[column]
    return [_units(block, rows, exact, i, block.halves) for i in range(len(exact.rows))]


def noisy(drawn: Drawn, block: Block, scanned: Scanned, noise: Sequence[int]) -> tuple[int, ...]:
    """The values of a draw, in lattice steps, with its noise."""
    from defray.support.drawn import CellsDraw

    if isinstance(drawn, CellsDraw):
        return drawn.noisy(view_values(block, scanned.views[drawn.axes]), noise)
    assert block.marginal is not None
    assert scanned.own is not None
    return drawn.noisy(view_values(block, scanned.own), block.marginal, noise)
