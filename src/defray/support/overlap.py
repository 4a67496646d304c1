"""What overlapping releases say of a question.

The paper credits releases of exactly the functional that is asked (:mod:`defray.support.exact`); here all
releases of its measure count, by views (:mod:`defray.support.view`) and by residuals of marginals
(:mod:`defray.support.marginal`).  What is found stands in for what exact support found only where it is
better, so nothing that was known is ever lost.  What is measured of the rest says
:mod:`defray.support.remainder`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from defray.core.amounts import dyadic_down
from defray.core.contract import Purse
from defray.query.region import EVERYWHERE
from defray.support.axes import Axes
from defray.support.exact import Block
from defray.support.history import PLACES, History
from defray.support.known import UNKNOWN, Known
from defray.support.marginal.certificate import exact_variance, reconstruct
from defray.support.marginal.residuals import Columns
from defray.support.measured import mask
from defray.support.planned import Planned
from defray.support.promised import SPACE
from defray.support.room import Room
from defray.support.view.answer import combined
from defray.support.view.certificate import Certificate, known
from defray.support.view.state import ROUGH, State

ROUNDING: Final = 2e-6
"""The part of a standard deviation that a new measurement may be off by besides its noise."""

TRUSTED: Final = 1e-3
"""An estimate that may be off by more than this part of its standard deviation says nothing."""

WORTH: Final = 4.0
"""Bias counts so many times in the standard deviation that is claimed: then ``z`` of these cover it for every
``z >= 1/4``."""

AIM: Final = 1 - (1 + WORTH) * ROUNDING
"""Offers aim at this part of the standard deviation that is wanted."""

DOUBTED: Final = 2.5e-4
"""What is doubted at least of an estimate where floats may not hold what follows."""

WORK: Final = 2**15
"""Up to so many (cells of the question) x (cells of the view) a vector is planned in a view; four times as
many are answered."""

BETTER: Final = Fraction(10**11 - 1, 10**11)
"""What a view adds in the last digits only is not told: the question's own releases then speak exactly."""


@dataclass(frozen=True, eq=False)
class Overlap:
    """The transcript of one data version as overlapping releases; ``rho`` is the contract's, ``unit_rows``
    the rows of a privacy unit.  Where ``scanned`` is given, only these views can be measured.  Of the
    contract's promises the first ``kept`` are kept; what they hold back is in ``room``.  Where it is not
    ``valued``, views say how precisely a question is known and leave its value 0.  ``among``: marginals
    that are to be asked for as well, by measure, with their variances.  What an analyst would know
    ``alone`` says in which views to look as well."""

    history: History
    room: Room
    rho: Fraction
    unit_rows: int
    scanned: Collection[Axes] | None = None
    kept: int = 0
    valued: bool = True
    among: Mapping[str, Sequence[tuple[tuple[int, ...], float]]] = field(default_factory=dict)
    alone: Overlap | None = None

    lift: ClassVar[Fraction] = Fraction(1 / AIM**2)
    """What is topped up beside other releases is wanted so much more precisely at the least."""

    def wanted(self, precision: Fraction, known: Known, *, doubted: bool = False) -> Fraction:
        """What a cell is to be brought to beside other releases: least squares over one release more come out
        a little below what was added.  The same rounding weighs more where the noise is less."""
        doubt = known.doubt * math.sqrt(precision / known.precision)
        doubt = max(doubt, DOUBTED) if doubted else doubt
        return precision * self.lift * (1 + Fraction(4 * doubt))

    # -- what is known --------------------------------------------------------------------------------

    def known(self, block: Block, exact: Sequence[Known]) -> Sequence[Known]:
        """What is known of each cell of a block: as exact support says, or better."""
        if block.confirms or str(block.measure) not in self.history.spaces:
            return exact
        alone = None if self.alone is None else self.alone.history
        key = ("known", self.valued, self.kept, block.keys, alone)
        found: Sequence[Known] | None = self.history.cache.get(key)
        if found is None:
            found = self._known_as(block, self)
            for number in self._classes(block):
                found = _better(found, self._known_in(block, self.promised_view(block, number)[1]))
            if self.alone is not None:
                found = _better(found, self._known_as(block, self.alone))
            self.history.cache[key] = found
        told = [
            own if more.precision * BETTER <= own.precision else more
            for own, more in zip(exact, found, strict=True)
        ]
        if self.by_residuals(block) or (self.alone is not None and self.alone.by_residuals(block)):
            beside = map(_beside, exact, self._known_marginal(block))
            return _better(told, list(beside))
        return told

    def _known_as(self, block: Block, other: Overlap) -> Sequence[Known]:
        """What all releases say of each cell, on the way in which ``other`` is answered; UNKNOWN where they
        do not say enough."""
        found: Sequence[Known] = [UNKNOWN] * len(block.keys)
        if other.by_residuals(block):
            found = self._known_marginal(block)
        for axes in other.telling(block):
            found = _better(found, self._known_in(block, axes))
        return found

    def telling(self, block: Block) -> list[Axes]:
        """The views that say something of a block, and are not too large: of one that is answered from
        residuals, where other releases say something."""
        few = [axes for axes in self.views(block) if _size(block) * axes.cells <= 4 * WORK]
        if not self.by_residuals(block):
            return few
        return [axes for axes in few if self._measured(str(block.measure), axes)]

    def _known_in(self, block: Block, axes: Axes) -> Sequence[Known]:
        out = [UNKNOWN] * len(block.keys)
        asked = [i for i, empty in enumerate(block.empty) if not empty]
        questions: NDArray[np.float64] | None = None
        for state in self._states(block, axes):
            if questions is None:
                questions = self.questions(block, axes, asked)
            for i, q in zip(asked, questions, strict=True):
                said = self._said(state, known(state, q))
                out[i] = max(out[i], said, key=lambda k: k.precision)
        return out

    def by_residuals(self, block: Block) -> bool:
        """Whether a block is a full GROUP BY that is answered from residuals."""
        return block.marginal is not None and not self._seen_from_view(block)

    def certificates(
        self, block: Block, cell: int, more: Iterable[Axes] = ()
    ) -> Iterator[tuple[State, NDArray[np.float64], Certificate]]:
        """How one cell, as a functional of a view's cells, follows from the view's releases: in its own
        views, if it is answered from them, in those of promises, and in ``more`` that tell it apart."""
        views = self.telling(block) if self.by_residuals(block) else self.views(block)
        views += [self.promised_view(block, n)[1] for n in self._classes(block)]
        for view in dict.fromkeys([*views, *self._respected(block, more)]):
            for held in self._states(block, view):
                question = self.questions(block, view, [cell])[0]
                yield held, question, known(held, question)

    def known_in(self, block: Block, views: Iterable[Axes]) -> Iterator[Sequence[Known]]:
        """What each of these views says of a block, of those that tell its cells apart."""
        for axes in self._respected(block, views):
            yield self._known_in(block, axes)

    def _respected(self, block: Block, views: Iterable[Axes]) -> list[Axes]:
        cuts = {} if block.confirms else self.cuts(block)
        return [axes for axes in views if not block.confirms and axes.respects(cuts)]

    def state(
        self, block: Block, axes: Axes, within: tuple[float, float] = (0.0, math.inf)
    ) -> State:
        """What a view holds; of releases with variances ``within`` these only."""
        reach = float(block.reach) / self.unit_rows
        return self.history.state(str(block.measure), axes, reach, within)

    def _states(self, block: Block, axes: Axes) -> Iterator[State]:
        """What a view holds, as a whole and without what is far more or less precise than the rest; nothing
        where it is empty."""
        whole = self.state(block, axes)
        if whole.count:
            yield whole
            yield from (self.state(block, axes, window) for window in whole.windows)

    def _said(self, state: State, said: Certificate) -> Known:
        """What a view says, where its releases span the question."""
        bias, spread = said.deviation * state.n_max, said.variance**0.5
        if not spread or bias > TRUSTED * spread:
            return UNKNOWN
        precision = dyadic_down(Fraction(1 / (spread + WORTH * bias) ** 2))
        doubt = 2 * WORTH * bias / spread
        if not self.valued:
            return self._as_known(precision, Fraction(0), {self.history.seq}, doubt)
        used = said.weights != 0
        rows = state.ids[used].tolist()
        value = combined(said.weights[used], [self.history.values[i] for i in rows])
        return self._as_known(precision, value, {i // PLACES for i in rows}, doubt)

    def _as_known(
        self, precision: Fraction, value: Fraction, seqs: set[int], doubt: float = 0.0
    ) -> Known:
        asks = tuple(dict.fromkeys(self.history.asks[s] for s in sorted(seqs)))
        return Known(
            precision,
            precision * value,
            len(seqs),
            max(seqs),
            first=precision,
            asks=asks,
            doubt=doubt,
        )

    def _known_marginal(self, block: Block) -> Sequence[Known]:
        """A full GROUP BY from residuals."""
        key = ("marginal", block.keys)
        if key not in self.history.cache:
            self.history.cache[key] = self._reconstructed(block)
        found: Sequence[Known] = self.history.cache[key]
        return found

    def _reconstructed(self, block: Block) -> Sequence[Known]:
        assert block.marginal is not None
        columns = Columns(self.history.domain.widths)
        attributes = columns.reduced(block.marginal)
        held = self.history.residuals(str(block.measure))
        sets = columns.marginal(attributes).sets
        precisions = {a: held[a].precision for a in sets if a in held}
        variance = exact_variance(columns, attributes, precisions)
        if variance is None:
            return [UNKNOWN] * len(block.keys)
        precision = dyadic_down(1 / variance)
        table = reconstruct(columns, attributes, {a: held[a].table for a in sets})
        ascending = tuple(sorted(block.marginal))
        table = table.reshape(columns.shape(ascending))
        table = table.transpose([ascending.index(c) for c in block.marginal])
        shared = self._as_known(precision, Fraction(0), {s for a in sets for s in held[a].seqs})
        return [
            replace(shared, weighted=precision * Fraction(y), index=i)
            for i, y in enumerate(table.ravel().tolist())
        ]

    def fits(self, releases: Iterable[Planned]) -> bool:
        """Whether every cell can pay for all of these, and all promises can still be kept."""
        listed = list(releases)
        if any(release.charge > self.room.caps[release.purse] for release in listed):
            return False
        return self.planning(listed).room.sound

    def in_doubt(self, block: Block, precision: Fraction, by: float = ROUGH) -> bool:
        """Whether precisions differ so much, this one included, that floats may not hold what follows.
        What is promised is bought as it was promised."""
        if self.promised(block, {0: precision}) is not None:
            return False
        views = [
            self.view(block)[1],
            *(self.promised_view(block, n)[1] for n in self._classes(block)),
        ]
        states = (self.state(block, axes) for axes in views if axes is not None)
        return any(s.count and s.rough_with(float(1 / precision), by) for s in states)

    # -- what would be known --------------------------------------------------------------------------

    def planning(self, releases: Iterable[Planned]) -> Overlap:
        """As if these were released and charged (their values unknown)."""
        listed = list(releases)
        if not listed:
            return self
        history, room = self.history.branch(), self.room
        for release in listed:
            history.add([release.item(history.domain, history.regions, history.seq + 1)])
            room = room.after(release.purse, release.paid(history.domain, self.rho))
        if history.promised.commitments:
            room = room.holding(history.reserves().held(self.kept))
        return replace(self, history=history, room=room)

    def answerable(self, blocks: Iterable[Block]) -> dict[Purse, int]:
        """What every cell that a question asks about may still pay, in quanta, from each purse."""
        listed = list(blocks)
        return {p: min(self._answerable(block, p) for block in listed) for p in self.room.caps}

    def _answerable(self, block: Block, purse: Purse) -> int:
        touched = tuple(sorted(self.cuts(block)))
        key = ("answerable", purse, block.keys)
        cache = self.room.cache
        if key not in cache:
            left = self.room.left(purse, touched)
            if left is None or block.grouped.base is EVERYWHERE:
                cache[key] = self.room.least(purse)
            else:
                inside = mask(block.grouped.base, touched, self.history.domain.widths)
                cache[key] = int(left[inside].min(initial=self.room.caps[purse]))
        found: int = cache[key]
        return found

    # -- promises -------------------------------------------------------------------------------------

    def promised(self, block: Block, wanted: Mapping[int, Fraction]) -> int | None:
        """The first promise that is kept of a block whose cells want these precisions; None: none is."""
        most = max(wanted.values(), default=Fraction(0))
        kept = (n for n in self._classes(block) if n < self.kept)
        return next(
            (n for n in kept if most <= self.history.promised.commitments[n].precision), None
        )

    def promises(self, block: Block) -> Fraction | None:
        """The largest precision that is promised for a block; None where it is of no class."""
        kept = (n for n in self._classes(block) if n < self.kept)
        return max((self.history.promised.commitments[n].precision for n in kept), default=None)

    def _classes(self, block: Block) -> list[int]:
        """The promises of whose classes a block is, kept or not."""
        if str(block.measure) != SPACE or block.confirms:
            return []
        columns = set(self.cuts(block)) if self.history.promised.commitments else set()
        return [
            n
            for n, c in enumerate(self.history.promised.commitments)
            if columns.issubset(c.axes.columns)
            and c.includes(block, partial(self.questions, block, c.axes, range(len(block.keys))))
        ]

    def promised_view(self, block: Block, number: int) -> tuple[State, Axes]:
        axes = self.history.promised.commitments[number].axes
        return self.state(block, axes), axes

    def own_promise(self, block: Block, axes: Axes) -> int | None:
        """The promise that is kept on a view."""
        kept = enumerate(self.history.promised.commitments[: self.kept])
        return next((n for n, c in kept if c.axes == axes and str(block.measure) == SPACE), None)

    # -- views ----------------------------------------------------------------------------------------

    def views(self, block: Block) -> list[Axes]:
        """The views that a block may be answered from, the richest first."""
        return list(self.history.views(str(block.measure), self.cuts(block)))

    def view(self, block: Block) -> tuple[State | None, Axes | None]:
        """The view that a block is measured in, and what it holds; None where it holds nothing."""
        axes = self.history.home(str(block.measure), self.cuts(block))
        if axes is None:
            return None, None
        state = self.state(block, axes)
        return (state if state.count else None), axes

    def homes(self, blocks: Sequence[Block]) -> list[Axes]:
        """The views that a question's next steps may measure in: where others' releases say something, since
        beside its own alone nothing is better than the question itself."""
        told = (self.view(b) for b in blocks if not b.confirms)
        found = [axes for state, axes in told if state is not None]
        found += [self.promised_view(b, n)[1] for b in blocks for n in self._classes(b)]
        return list(dict.fromkeys(axes for axes in found if axes is not None))

    def _seen_from_view(self, block: Block) -> bool:
        """Whether a full GROUP BY is answered from a view: where others than residuals say something."""
        space, cuts = str(block.measure), self.cuts(block)
        axes = self.history.home(space, cuts)
        if axes is None or _size(block) * axes.cells > WORK:
            return False
        return self._measured(space, axes)

    def _measured(self, space: str, axes: Axes) -> bool:
        """Whether a view holds anything but residuals."""
        return any(
            item.centred is None and axes.respects(item.cuts)
            for item in self.history.spaces.get(space, ())
        )

    def cuts(self, block: Block) -> Mapping[int, frozenset[int] | None]:
        return block.grouped.cuts(self.history.domain, self.history.regions)

    def questions(self, block: Block, axes: Axes, cells: Sequence[int]) -> NDArray[np.float64]:
        numbers = [block.numbers[i] for i in cells]
        return block.grouped.vectors(axes, self.history.domain, numbers)


def _size(block: Block) -> int:
    """How many cells of a block there are to be known."""
    return sum(not empty for empty in block.empty)


def _beside(own: Known, residuals: Known) -> Known:
    """What a functional's own releases and residuals say together: they share no release, so their noise is
    independent."""
    if not own.precision or not residuals.precision:
        return UNKNOWN
    newest = max(own, residuals, key=lambda k: k.last)
    precision = own.precision + residuals.precision
    return Known(
        precision,
        own.weighted + residuals.weighted,
        own.releases + residuals.releases,
        newest.last,
        newest.index,
        first=precision,
        asks=tuple(dict.fromkeys((*residuals.asks, *own.asks))),
    )


def _better(some: Sequence[Known], others: Sequence[Known]) -> Sequence[Known]:
    """What is known more precisely of each cell."""
    return [max(pair, key=lambda k: k.precision) for pair in zip(some, others, strict=True)]
