"""All releases of one data version as linear functionals, and the views that they are folded into.

Only releases have independent noise.  A view is a fold of those releases whose columns lie in it, each
once; a question is answered from one view.  An estimate never becomes a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf, prod
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from defray.core.amounts import float_down
from defray.core.contract import Purse
from defray.core.domain import Domain
from defray.query.descriptor import Measure
from defray.query.region import Regions
from defray.support.axes import Axes, Floats
from defray.support.cuts import Cuts
from defray.support.grouped import Grouped
from defray.support.homes import Homes
from defray.support.marginal.certificate import centre
from defray.support.promised import Reserves
from defray.support.view.state import Row, State

if TYPE_CHECKING:
    from defray.support.view.metric import Metric

KEPT: Final = 2**24
"""Floats that the states of all views may take; those not used for longest are folded again when needed."""

PLACES: Final = 2**24
"""The rows of one release are numbered ``seq * PLACES + place``."""


@dataclass(frozen=True, eq=False)
class Item:
    """One release as functionals of the table, each with its own noise: ``vectors(axes)`` has a row for each,
    in the order of ``values``; ``cuts`` are what axes must respect.  ``aim`` is the variance that was asked
    for when it was bought, where that is known.  ``offered`` are the axes of the view that it was made in, if
    it had to leave what promises hold back.  Of a residual, ``centred`` is its table and ``precision``
    that of it (units)."""

    seq: int
    ask: str
    space: str
    cuts: Cuts
    vectors: Callable[[Axes], Floats]
    variances: Floats
    values: tuple[Fraction, ...]
    aim: float | None = None
    offered: Axes | None = None
    centred: Floats | None = None
    precision: Fraction = Fraction(0)

    @property
    def columns(self) -> tuple[int, ...]:
        return tuple(sorted(self.cuts))

    def rows(self, axes: Axes) -> list[Row]:
        vectors = self.vectors(axes)
        return [
            Row(self.seq * PLACES + i, vectors[i], float(v), float(y), self.aim or float(v))
            for i, (v, y) in enumerate(zip(self.variances, self.values, strict=True))
            if vectors[i].any()
        ]


@dataclass(frozen=True, slots=True, eq=False)
class Residual:
    """All releases of one residual, fused: the centred ``table`` in units, its precision, their seqs."""

    precision: Fraction
    table: Floats
    seqs: tuple[int, ...]

    def fused(self, item: Item) -> Residual:
        assert item.centred is not None
        total = self.precision + item.precision
        share = float(item.precision / total)
        table = self.table + share * (item.centred - self.table)
        return Residual(total, table, (*self.seqs, item.seq))


@dataclass(slots=True, eq=False)
class _Fold:
    """A view's state after the first ``taken`` items of its space."""

    state: State
    taken: int = 0

    @property
    def size(self) -> int:
        """In floats: its rows, its precision and a factor of that."""
        return self.state.cells * (self.state.count + 2 * self.state.cells)


@dataclass(eq=False)
class History:
    """The releases of a data version so far; ``rows`` is the declared bound on the table's rows.

    It grows by :meth:`add` only; :meth:`branch` is another that may grow by what is only planned.  ``cache``
    is its readers', emptied whenever it grows.  ``promised`` is what promises hold back, as far as it was
    worked out.
    """

    domain: Domain
    regions: Regions
    rows: float
    spaces: dict[str, list[Item]] = field(default_factory=dict)
    values: dict[int, Fraction] = field(default_factory=dict)
    asks: dict[int, str] = field(default_factory=dict)
    seq: int = 0
    cache: dict[Any, Any] = field(default_factory=dict)
    _residuals: dict[str, dict[tuple[int, ...], Residual]] = field(default_factory=dict)
    _homes: dict[str, Homes] = field(default_factory=dict)
    _folds: dict[tuple[str, Axes, tuple[float, float]], _Fold] = field(default_factory=dict)
    promised: Reserves = field(default_factory=Reserves)
    _lock: Lock = field(default_factory=Lock)

    def add(self, items: Iterable[Item]) -> None:
        for item in items:
            self.cache.clear()
            self.spaces.setdefault(item.space, []).append(item)
            self.asks[item.seq] = item.ask
            for place, value in enumerate(item.values):
                self.values[item.seq * PLACES + place] = value
            self.seq = max(self.seq, item.seq)
            homes = self._homes.get(item.space) or Homes(self.domain.widths)
            self._homes[item.space] = homes.after(item.cuts)
            if item.centred is not None:
                held = self._residuals.setdefault(item.space, {})
                nothing = Residual(Fraction(0), np.zeros(item.centred.shape), ())
                held[item.columns] = held.get(item.columns, nothing).fused(item)

    def branch(self) -> History:
        """The same so far; what is added to either is not in the other."""
        return History(
            self.domain,
            self.regions,
            self.rows,
            {space: list(items) for space, items in self.spaces.items()},
            dict(self.values),
            dict(self.asks),
            self.seq,
            {},
            {space: dict(held) for space, held in self._residuals.items()},
            dict(self._homes),
            {key: _Fold(f.state, f.taken) for key, f in self._folds.items()},
            self.promised,
        )

    def reserves(self) -> Reserves:
        """What promises hold back after these releases."""
        with self._lock:
            self.promised = self.promised.after(self.spaces)
            return self.promised

    def residuals(self, space: str) -> Mapping[tuple[int, ...], Residual]:
        """What is held of every residual, by its columns."""
        return self._residuals.get(space, {})

    def state(
        self, space: str, axes: Axes, reach: float, within: tuple[float, float] = (0.0, inf)
    ) -> State:
        """What the releases of a space, of variances ``within`` these, say on the cells of these axes;
        a row weighs at most ``reach``."""
        with self._lock:
            fold = self._folds.pop((space, axes, within), None)
            if fold is None:
                fold = _Fold(State.empty(axes.cells, self.rows * reach))
            self._folds[space, axes, within] = fold  # the newest last
            items = self.spaces.get(space, ())
            for item in items[fold.taken :]:
                if axes.respects(item.cuts):
                    for row in item.rows(axes):
                        if within[0] <= row.variance <= within[1]:
                            fold.state = fold.state.add(row)
            fold.taken = len(items)
            size = sum(f.size for f in self._folds.values())
            while size > KEPT and len(self._folds) > 1:
                size -= self._folds.pop(next(iter(self._folds))).size
            return fold.state

    def views(self, space: str, cuts: Cuts) -> list[Axes]:
        """The views that a question with these cuts may be answered from, the richest first; none where
        even its own cells are too many."""
        key = ("views", space, tuple(sorted(cuts.items(), key=lambda c: c[0])))
        if key not in self.cache:
            homes = self._homes.get(space) or Homes(self.domain.widths)
            self.cache[key] = homes.views(cuts)
        views: list[Axes] = self.cache[key]
        return views

    def home(self, space: str, cuts: Cuts) -> Axes | None:
        """The view that a question is measured in."""
        return next(iter(self.views(space, cuts)), None)

    def metric(self, axes: Axes) -> Metric:
        """What a view looks ahead by."""
        from defray.support.view.metric import metric

        ordered = tuple(self.domain.columns[c].ordered for c in axes.columns)
        return metric(axes.shape or (1,), ordered or (False,))


def region_item(
    grouped: Grouped,
    domain: Domain,
    regions: Regions,
    *,
    seq: int,
    ask: str,
    step: int,
    values: Sequence[int | None],
    precisions: Sequence[Fraction | None],
) -> Item:
    """A release of a measure over a grouped region: of the groups that were measured."""
    at = [i for i, value in enumerate(values) if value is not None]
    return Item(
        seq,
        ask,
        str(grouped.measure),
        grouped.cuts(domain, regions),
        lambda on: grouped.vectors(on, domain, at),
        np.array([_variance(precisions[i]) for i in at]),
        tuple(_value(values[i], step) for i in at),
    )


def residual_item(
    domain: Domain,
    measure: Measure,
    columns: tuple[int, ...],
    *,
    seq: int,
    ask: str,
    step: int,
    values: Sequence[int | None],
    precision: Fraction,
    aim: float | None,
) -> Item:
    """A residual table: ``t_A`` and independent noise on each of its cells."""
    atoms = tuple(domain.widths[c] for c in columns)
    n = prod(atoms)
    read = tuple(_value(v, step) for v in values)
    table = np.array([float(v) for v in read]).reshape(atoms) / n
    return Item(
        seq,
        ask,
        str(measure),
        dict.fromkeys(columns),
        lambda on: _residual_vectors(on, columns, atoms),
        np.full(n, _variance(precision / n**2)),
        read,
        aim,
        centred=centre(table),
        precision=precision,
    )


def _residual_vectors(on: Axes, columns: tuple[int, ...], atoms: tuple[int, ...]) -> Floats:
    """The rows of ``kron (n_i I - 11')`` on all cells of axes that hold the columns whole."""
    table: Floats = np.ones((1, 1))
    sizes = []
    for column, size in zip(on.columns, on.shape, strict=True):
        factor = size * np.eye(size) - 1.0 if column in columns else np.ones((1, size))
        table = np.asarray(np.kron(table, factor), np.float64)
        sizes.append(size)
    assert table.shape == (prod(atoms), prod(sizes))
    return table


def cells_item(
    measure: Measure,
    axes: Axes,
    steps: Sequence[int],
    bits: int,
    *,
    seq: int,
    ask: str,
    step: int,
    value: int,
    precision: Fraction,
    aim: float | None,
    purse: Purse,
) -> Item:
    """One functional, ``steps * 2**-bits`` on the cells of a view."""
    weights = np.ldexp(np.asarray(steps, np.float64), -bits)
    return Item(
        seq,
        ask,
        str(measure),
        axes.cuts,
        lambda on: on.carry(weights, axes)[None, :],
        np.array([_variance(precision)]),
        (_value(value, step),),
        aim,
        axes if purse == "answer" else None,
    )


def _variance(precision: Fraction | None) -> float:
    """``1/precision``, rounded up."""
    assert precision
    return -float_down(-1 / precision)


def _value(value: int | None, step: int) -> Fraction:
    assert value is not None
    return Fraction(value, 2**step) if step >= 0 else Fraction(value * 2**-step)
