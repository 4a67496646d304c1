"""What overlapping releases say of a question, and the cheapest measurement of what they leave open.

The paper credits releases of exactly the functional that is asked (:mod:`defray.support.exact`); here all
releases of its measure count, by views (:mod:`defray.support.view`) and by residuals of marginals
(:mod:`defray.support.marginal`).  What is found stands in for what exact support found only where it is
better, so nothing that was known is ever lost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from defray.core.amounts import dyadic_down, rho_of
from defray.core.contract import Purse
from defray.query.region import EVERYWHERE
from defray.support.axes import Axes
from defray.support.charges import Charges
from defray.support.drawn import CellsDraw, Drawn, ResidualDraw, total_charge
from defray.support.exact import Block
from defray.support.history import PLACES, History
from defray.support.known import UNKNOWN, Known
from defray.support.marginal.certificate import exact_variance, reconstruct
from defray.support.marginal.lattice import draws
from defray.support.marginal.residuals import Columns
from defray.support.marginal.support import LOOK_AHEAD, Support
from defray.support.measured import mask
from defray.support.planned import Planned
from defray.support.room import Room
from defray.support.view.answer import combined
from defray.support.view.certificate import Certificate, known
from defray.support.view.joint import offer_all
from defray.support.view.offer import Offer, offer
from defray.support.view.state import SLACK, State

ROUNDING: Final = 2e-5
"""The part of a standard deviation that an estimate may be off by besides its noise."""

WORTH: Final = 4.0
"""Bias counts so many times in the standard deviation that is claimed: then ``z`` of these cover it for every
``z >= 1/4``."""

AIM: Final = 1 - (1 + WORTH) * ROUNDING
"""Offers aim at this part of the standard deviation that is wanted."""

TOGETHER: Final = 64
"""The most cells that are planned as one joint release from a view."""

WORK: Final = 2**15
"""Up to so many (cells of the question) x (cells of the view) a vector is planned in a view; four times as
many are answered."""

DEARER: Final = (1 + 1e-6) / AIM**2
"""What aiming at less than is wanted costs."""

BETTER: Final = Fraction(10**11 - 1, 10**11)

SLACKEN: Final = 4
"""Looking ahead is for slack: it is left out where a step takes more than one part in so many of what is
left."""


@dataclass(frozen=True, eq=False)
class Overlap:
    """The transcript of one data version as overlapping releases; ``rho`` is the contract's, ``unit_rows``
    the rows of a privacy unit.  Where ``scanned`` is given, only these views can be measured.  Where it is
    not ``valued``, views say how precisely a question is known and leave its value 0."""

    history: History
    room: Room
    rho: Fraction
    unit_rows: int
    scanned: Collection[Axes] | None = None
    valued: bool = True

    lift: ClassVar[Fraction] = Fraction(1 / AIM**2)
    """What is topped up beside other releases is wanted so much more precisely."""

    # -- what is known --------------------------------------------------------------------------------

    def known(self, block: Block, exact: Sequence[Known]) -> Sequence[Known]:
        """What is known of each cell of a block: as exact support says, or better."""
        if block.confirms or str(block.measure) not in self.history.spaces:
            return exact
        key = ("known", block.keys)
        found: Sequence[Known] | None = self.history.cache.get(key)
        if found is None:
            found = self.history.cache[key] = self._known(block)
        return [
            own if more.precision * BETTER <= own.precision else more
            for own, more in zip(exact, found, strict=True)
        ]

    def _known(self, block: Block) -> Sequence[Known]:
        """What all releases say of each cell; UNKNOWN where they do not say enough."""
        if self.by_residuals(block):
            return self._known_marginal(block)
        state, axes = self._view(block)
        out = [UNKNOWN] * len(block.keys)
        if state is None or axes is None or len(block.keys) * axes.cells > 4 * WORK:
            return out
        asked = [i for i, empty in enumerate(block.empty) if not empty]
        for i, q in zip(asked, self._questions(block, axes, asked), strict=True):
            out[i] = self._said(state, known(state, q))
        return out

    def by_residuals(self, block: Block) -> bool:
        """Whether a block is a full GROUP BY that is answered from residuals."""
        return block.marginal is not None and not self._seen_from_view(block)

    def certificate(
        self, block: Block, cell: int
    ) -> tuple[State, NDArray[np.float64], Certificate] | None:
        """How one cell, as a functional of a view's cells, follows from the view's releases; None where no
        view says anything."""
        state, axes = self._view(block)
        if state is None or axes is None:
            return None
        question = self._questions(block, axes, [cell])[0]
        return state, question, known(state, question)

    def _said(self, state: State, said: Certificate) -> Known:
        """What a view says, where its releases span the question."""
        bias, spread = said.deviation * state.n_max, said.variance**0.5
        if not spread or bias > ROUNDING * spread:
            return UNKNOWN
        precision = dyadic_down(Fraction(1 / (spread + WORTH * bias) ** 2))
        if not self.valued:
            return self._as_known(precision, Fraction(0), {self.history.seq})
        used = said.weights != 0
        rows = state.ids[used].tolist()
        value = combined(said.weights[used], [self.history.values[i] for i in rows])
        return self._as_known(precision, value, {i // PLACES for i in rows})

    def _as_known(self, precision: Fraction, value: Fraction, seqs: set[int], at: int = 0) -> Known:
        asks = tuple(dict.fromkeys(self.history.asks[s] for s in sorted(seqs)))
        return Known(
            precision,
            precision * value,
            len(seqs),
            max(seqs),
            at,
            first=precision,
            asks=asks,
        )

    def _known_marginal(self, block: Block) -> Sequence[Known]:
        """A full GROUP BY from residuals."""
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

    # -- what to measure ------------------------------------------------------------------------------

    def measure(
        self, block: Block, wanted: Mapping[int, Fraction], purse: Purse, charge: int
    ) -> tuple[Drawn, ...] | None:
        """What brings cells of a block to their wanted precisions, and fits; None where measuring them
        themselves, for ``charge`` quanta, is as good."""
        if block.confirms:
            return None
        if self.by_residuals(block):
            alike = len(wanted) == len(block.keys) and len(set(wanted.values())) == 1
            variance = 1 / next(iter(wanted.values()))
            return self._measure_marginal(block, variance, purse, charge) if alike else None
        state, axes = self._view(block)
        if state is None or axes is None or len(wanted) > TOGETHER:
            return None
        if self.scanned is not None and axes not in self.scanned:
            return None
        if len(wanted) * axes.cells > max(WORK, axes.cells):
            return None
        left = self.room.left(purse, axes.columns)
        if left is None:
            return None
        return self._measure_in_view(block, wanted, charge, state, axes, axes.at_most(left))

    def _measure_in_view(
        self,
        block: Block,
        wanted: Mapping[int, Fraction],
        charge: int,
        state: State,
        axes: Axes,
        left: NDArray[np.int64],
    ) -> tuple[Drawn, ...] | None:
        quantum = float(2 * rho_of(1, self.rho) / block.reach**2)  # in precision
        cap = np.asarray(left * (quantum * (1 - 1e-9)), np.float64)
        paid = np.asarray((left.max() - left) * quantum, np.float64)
        elsewhere = np.maximum(paid - state.charges, 0.0)
        metric = self.history.metric(axes)
        questions = self._questions(block, axes, list(wanted))
        spreads = np.array([float(1 / p) ** 0.5 for p in wanted.values()])
        variances, halves = (spreads * AIM) ** 2, spreads * (ROUNDING / SLACK)
        offers: tuple[Offer, ...]
        if len(wanted) == 1:
            made = offer(
                state,
                questions[0],
                float(variances[0]),
                cap,
                metric,
                half_width=float(halves[0]),
                elsewhere=elsewhere,
            )
            if not isinstance(made, Offer) or made.why == "the question itself":
                return None
            offers = (made,)
        else:
            joint = offer_all(
                state, questions, variances, cap, metric, half_widths=halves, elsewhere=elsewhere
            )
            if joint is None or not joint.charge.max() < charge * quantum * (1 - 1e-3):
                return None
            offers = joint.offers
        return tuple(
            CellsDraw(
                axes,
                o.release.steps,
                o.release.bits,
                o.release.sigma,
                o.release.precision,
                block.reach,
                block.halves,
                float(variances.min()),
                self.rho,
            )
            for o in offers
        )

    def _measure_marginal(
        self, block: Block, variance: Fraction, purse: Purse, charge: int
    ) -> tuple[Drawn, ...] | None:
        assert block.marginal is not None
        columns = Columns(self.history.domain.widths)
        held = self.history.residuals(str(block.measure))
        support = Support(columns, {a: float(r.precision) for a, r in held.items()})
        for tilt in (1.0, LOOK_AHEAD):
            plan = support.raise_to(block.marginal, float(variance) * AIM**2, tilt)
            made = draws(columns, plan, self.rho, block.reach, block.halves)
            drawn = tuple(
                ResidualDraw(d, columns, block.reach, block.halves, float(variance)) for d in made
            )
            if tilt == 1.0:
                cheapest = drawn
                if not drawn or total_charge(drawn) > charge * DEARER:
                    return None
        return drawn if total_charge(drawn) * SLACKEN <= self.room.least(purse) else cheapest

    def fits(self, releases: Iterable[Planned]) -> bool:
        """Whether every cell can pay for all of these."""
        room = self.room
        for release in releases:
            room = room.after(release.purse, release.paid(self.history.domain, self.rho))
        return all(room.charges[p].worst() <= cap for p, cap in room.caps.items())

    def dearest(self, block: Block, draws: Sequence[Drawn]) -> int:
        """What the dearest cell pays for all of these, in quanta."""
        if len(draws) == 1:
            return draws[0].charge
        charges = Charges(self.history.domain.widths)
        for drawn in draws:
            planned = Planned(block, "answer", drawn.charge, drawn)
            charges = charges.plus(planned.paid(self.history.domain, self.rho))
        return charges.worst()

    # -- what would be known --------------------------------------------------------------------------

    def planning(self, releases: Iterable[Planned]) -> Overlap:
        """As if these were released and charged (their values unknown)."""
        history, room = self.history.branch(), self.room
        for release in releases:
            history.add([release.item(history.domain, history.regions, history.seq + 1)])
            room = room.after(release.purse, release.paid(history.domain, self.rho))
        return replace(self, history=history, room=room)

    def answerable(self, blocks: Iterable[Block]) -> dict[Purse, int]:
        """What every cell that a question asks about may still pay, in quanta, from each purse."""
        listed = list(blocks)
        return {p: min(self._answerable(block, p) for block in listed) for p in self.room.caps}

    def _answerable(self, block: Block, purse: Purse) -> int:
        touched = tuple(sorted(self._cuts(block)))
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

    # -- views ----------------------------------------------------------------------------------------

    def _view(self, block: Block) -> tuple[State | None, Axes | None]:
        """The view that a block is answered from, and what it holds; None where it holds nothing."""
        space, history = str(block.measure), self.history
        axes = history.home(space, self._cuts(block))
        if axes is None:
            return None, None
        state = history.state(space, axes, float(block.reach) / self.unit_rows)
        return (state if state.count else None), axes

    def homes(self, blocks: Iterable[Block]) -> list[Axes]:
        """The views that a question's next steps may measure in."""
        spaces = [(str(b.measure), self._cuts(b)) for b in blocks if not b.confirms]
        found = (self.history.home(space, cuts) for space, cuts in spaces)
        return list(dict.fromkeys(axes for axes in found if axes is not None))

    def _seen_from_view(self, block: Block) -> bool:
        """Whether a full GROUP BY is answered from a view: where others than residuals say something."""
        space, cuts = str(block.measure), self._cuts(block)
        axes = self.history.home(space, cuts)
        if axes is None or len(block.keys) * axes.cells > WORK:
            return False
        return any(
            item.centred is None and axes.respects(item.cuts)
            for item in self.history.spaces.get(space, ())
        )

    def _cuts(self, block: Block) -> Mapping[int, frozenset[int] | None]:
        return block.grouped.cuts(self.history.domain, self.history.regions)

    def _questions(self, block: Block, axes: Axes, cells: Sequence[int]) -> NDArray[np.float64]:
        numbers = [block.numbers[i] for i in cells]
        return block.grouped.vectors(axes, self.history.domain, numbers)
