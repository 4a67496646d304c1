"""How much of a release one history holds beyond another: precision order.

One history *dominates* another where, on the cells of a view, its precision ``P = sum b b' / v`` is at
least the other's in the positive semidefinite order: whatever the other says of a functional, it says as
precisely.  Several analysts rest on this: what all know together has to dominate what each would know alone
(design: several analysts, linear support).

Of a release that is added to the weaker history, the stronger one may hold a part already: the largest
``f`` with ``S - f F F' >= 0``, where S is what it holds beyond the other and ``F F'`` the release's own
precision.  For one functional b at variance v that is ``v / (b' S^+ b)``.  Only the rest ``1 - f`` has to
be added to it, at the same functionals, to dominate again.
"""

from __future__ import annotations

from collections import deque
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from defray.support.axes import Axes
from defray.support.exact import Block
from defray.support.history import History, Item
from defray.support.overlap import Overlap

Floats = NDArray[np.float64]

TINY: Final = 1e-9
"""Eigenvalues below this part of the largest one are rounding."""

ROUNDING: Final = 1e-5
"""So much less, relatively, is as much."""

SURE: Final = 1 - 1e-6
"""Of a release that is held to this part nothing is missing; a smaller part is counted as so much less."""


def held(item: Item, block: Block, public: Overlap, alone: Overlap) -> float | None:
    """The part of a release for a block, which would be added to what is known ``alone``, that is already
    known publicly beyond it: from 0 to 1, on every view that either may answer from.  None where there is
    no view."""
    parts = [
        _held_in(
            _factor(item, axes),
            public.state(block, axes).precision,
            alone.state(block, axes).precision,
        )
        for axes in _views(item, block, public, alone)
    ]
    if item.centred is not None:
        parts.append(_of_residual(item, public.history, alone.history))
    if not parts:
        return None
    part = min(parts)
    return 1.0 if part >= SURE else part * SURE


def dominates(block: Block, axes: Axes, public: Overlap, alone: Overlap) -> bool:
    """Whether what is known publicly dominates what is known alone, on one view, but for rounding."""
    more, own = public.state(block, axes).precision, alone.state(block, axes).precision
    least = np.linalg.eigvalsh(more - own)[0]
    return bool(least >= -ROUNDING * float(np.linalg.norm(own, 2)))


def _views(item: Item, block: Block, public: Overlap, alone: Overlap) -> list[Axes]:
    """The views in which the release counts that questions may be answered from, as far as anything was
    released that they rest on."""
    found: list[Axes | None] = [item.offered]
    for overlap in (public, alone):
        found.append(overlap.history.home(item.space, overlap.cuts(block)))
    found += homes(alone.history, item.space)
    return [axes for axes in dict.fromkeys(found) if axes is not None and axes.respects(item.cuts)]


def homes(history: History, space: str) -> list[Axes]:
    """The views that the releases of a history live in."""
    key = ("homes", space)
    if key not in history.cache:
        cuts = {item.columns: item.cuts for item in history.spaces.get(space, ())}
        found = (history.home(space, one) for one in cuts.values())
        history.cache[key] = list(dict.fromkeys(axes for axes in found if axes is not None))
    views: list[Axes] = history.cache[key]
    return views


def _factor(item: Item, axes: Axes) -> Floats:
    """F, one column for each functional: ``F F'`` is what the release adds to the precision of a view."""
    rows = item.vectors(axes) / np.sqrt(item.variances)[:, None]
    return np.asarray(rows.T, np.float64)


def _held_in(factor: Floats, public: Floats, alone: Floats) -> float:
    """The largest f, up to 1, for which ``public - alone - f F F'`` has no direction more below 0."""
    factor = factor[:, factor.any(axis=0)]
    if not factor.size:
        return 1.0
    values, vectors = _surplus(public, alone)
    if not values.any():
        return 0.0
    seen = values > TINY * max(float(np.trace(public)), float(np.abs(values).max()))
    inside = vectors[:, seen].T @ factor
    outside = np.square(factor).sum(axis=0) - np.square(inside).sum(axis=0)
    if (outside > TINY * np.square(factor).sum(axis=0)).any():
        return 0.0
    whitened = inside / np.sqrt(values[seen])[:, None]
    largest = float(np.linalg.norm(whitened, 2)) ** 2
    return min(1 / largest, 1.0)


_taken_apart: Final[deque[tuple[Floats, Floats, Floats, Floats]]] = deque(maxlen=4)


def _surplus(public: Floats, alone: Floats) -> tuple[Floats, Floats]:
    """Eigenvalues and vectors of what is known publicly beyond what is known alone.  Both are asked for again
    by every question until something is released, so the last few are kept."""
    for more, own, values, vectors in tuple(_taken_apart):
        if more is public and own is alone:
            return values, vectors
    values, vectors = np.linalg.eigh(public - alone)
    _taken_apart.append((public, alone, values, vectors))
    return values, vectors


def _of_residual(item: Item, public: History, alone: History) -> float:
    """The same of a residual, which full GROUP BYs are answered from without a view."""
    more, own = (
        held[item.columns].precision if item.columns in held else Fraction(0)
        for held in (public.residuals(item.space), alone.residuals(item.space))
    )
    return min(max(float((more - own) / item.precision), 0.0), 1.0)
