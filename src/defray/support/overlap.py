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
from functools import partial
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
from defray.support.promised import SPACE
from defray.support.room import HELD, Room
from defray.support.view.answer import combined
from defray.support.view.certificate import Certificate, known
from defray.support.view.joint import offer_all
from defray.support.view.offer import Offer, offer
from defray.support.view.state import SLACK, State

ROUNDING: Final = 2e-6
"""The part of a standard deviation that a new measurement may be off by besides its noise."""

TRUSTED: Final = 1e-3
"""An estimate that may be off by more than this part of its standard deviation says nothing."""

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
    the rows of a privacy unit.  Where ``scanned`` is given, only these views can be measured.  Of the
    contract's promises the first ``kept`` are kept; what they hold back is in ``room``.  Where it is not
    ``valued``, views say how precisely a question is known and leave its value 0."""

    history: History
    room: Room
    rho: Fraction
    unit_rows: int
    scanned: Collection[Axes] | None = None
    kept: int = 0
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
            found = self._known(block)
            for number in self._classes(block):
                promised = self._known_in(block, *self._promised_view(block, number))
                found = [
                    max(pair, key=lambda k: k.precision)
                    for pair in zip(found, promised, strict=True)
                ]
            self.history.cache[key] = found
        return [
            own if more.precision * BETTER <= own.precision else more
            for own, more in zip(exact, found, strict=True)
        ]

    def _known(self, block: Block) -> Sequence[Known]:
        """What all releases say of each cell; UNKNOWN where they do not say enough."""
        if self.by_residuals(block):
            return self._known_marginal(block)
        state, axes = self._view(block)
        if state is None or axes is None or len(block.keys) * axes.cells > 4 * WORK:
            return [UNKNOWN] * len(block.keys)
        return self._known_in(block, state, axes)

    def _known_in(self, block: Block, state: State, axes: Axes) -> Sequence[Known]:
        out = [UNKNOWN] * len(block.keys)
        if not state.count:
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
        views = [self._view(block), *(self._promised_view(block, n) for n in self._classes(block))]
        found: list[tuple[State, NDArray[np.float64], Certificate]] = []
        for state, axes in views:
            if state is not None and state.count and axes is not None:
                question = self._questions(block, axes, [cell])[0]
                found.append((state, question, known(state, question)))
        return max(found, key=lambda f: self._said(f[0], f[2]).precision, default=None)

    def _said(self, state: State, said: Certificate) -> Known:
        """What a view says, where its releases span the question."""
        bias, spread = said.deviation * state.n_max, said.variance**0.5
        if not spread or bias > TRUSTED * spread:
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
        number = self.promised(block, {i: p / self.lift for i, p in wanted.items()})
        if number is None or purse != HELD:
            return self._measure(block, wanted, purse, charge)
        return self._measure_promised(block, wanted, charge, number)

    def _measure(
        self, block: Block, wanted: Mapping[int, Fraction], purse: Purse, charge: int
    ) -> tuple[Drawn, ...] | None:
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
        own = self._own(block, axes) if purse == HELD else None
        offers = self._offers(block, wanted, purse, state, axes, own)
        if not offers or self._itself(block, wanted, axes, offers):
            return None
        if len(wanted) > 1 and not self._dearest(block, offers) < charge * (1 - 1e-3):
            return None
        return self._drawn(block, wanted, axes, offers)

    def _measure_promised(
        self, block: Block, wanted: Mapping[int, Fraction], charge: int, number: int
    ) -> tuple[Drawn, ...] | None:
        """What is measured for a promised question: in the promise's view, unless other views or the
        question itself are cheaper and leave what is held back."""
        itself = charge <= self.answerable([block])[HELD]
        if itself and len(wanted) > TOGETHER:
            return None
        state, axes = self._promised_view(block, number)
        found: list[tuple[float, tuple[Drawn, ...]]] = []
        if self.scanned is None or axes in self.scanned:
            offers = self._offers(block, wanted, HELD, state, axes, number)
            if offers and itself and self._itself(block, wanted, axes, offers):
                return None
            if offers:
                drawn = self._drawn(block, wanted, axes, offers)
                found.append((self._dearest(block, offers), drawn))
        if self._view(block)[1] != axes:
            elsewhere = self._measure(block, wanted, HELD, charge)
            if elsewhere is not None and self.fits(
                Planned(block, HELD, d.charge, d) for d in elsewhere
            ):
                found.append((total_charge(elsewhere), elsewhere))
        least, best = min(found, key=lambda f: f[0], default=(0.0, None))
        dearer = len(wanted) > 1 and not least < charge * (1 - 1e-3)
        return None if itself and dearer else best

    def _itself(
        self, block: Block, wanted: Mapping[int, Fraction], axes: Axes, offers: Sequence[Offer]
    ) -> bool:
        """Whether the question itself, being one cell, is to be measured."""
        if len(wanted) > 1:
            return False
        return _alike(offers[0].b, self._questions(block, axes, list(wanted))[0])

    def _quantum(self, block: Block) -> float:
        """A quantum of the contract, in precision."""
        return float(2 * rho_of(1, self.rho) / block.reach**2)

    def _dearest(self, block: Block, offers: Sequence[Offer]) -> float:
        """What the dearest cell pays for all of these, about, in quanta."""
        paid = np.sum([o.charge for o in offers], axis=0)
        return float(paid.max()) / self._quantum(block)

    def _offers(
        self,
        block: Block,
        wanted: Mapping[int, Fraction],
        purse: Purse,
        state: State,
        axes: Axes,
        own: int | None,
    ) -> tuple[Offer, ...]:
        """What to measure in a view; nothing where nothing fits.  What the promise ``own`` of that view holds
        back may be used, as far as it can be kept."""
        atoms = self.room.left(purse, axes.columns, own)
        if atoms is None:
            return ()
        left = axes.at_most(atoms)
        quantum = self._quantum(block)
        cap = np.asarray(left * (quantum * (1 - 1e-9)), np.float64)
        paid = np.asarray((left.max() - left) * quantum, np.float64)
        elsewhere = np.maximum(paid - state.charges, 0.0)
        metric = self.history.metric(axes)
        promise = None if own is None else self.history.reserves().promises[own]
        questions = self._questions(block, axes, list(wanted))
        spreads = np.array([float(1 / p) ** 0.5 for p in wanted.values()])
        variances, halves = (spreads * AIM) ** 2, spreads * (ROUNDING / SLACK)
        if len(wanted) == 1:
            made = offer(
                state,
                questions[0],
                float(variances[0]),
                cap,
                metric,
                half_width=float(halves[0]),
                elsewhere=elsewhere,
                promise=promise,
            )
            return (made,) if isinstance(made, Offer) else ()
        joint = offer_all(
            state, questions, variances, cap, metric,
            half_widths=halves, elsewhere=elsewhere, promise=promise,
        )  # fmt: skip
        return () if joint is None else joint.offers

    def _drawn(
        self, block: Block, wanted: Mapping[int, Fraction], axes: Axes, offers: Iterable[Offer]
    ) -> tuple[Drawn, ...]:
        aim = float(1 / max(wanted.values())) * AIM**2
        return tuple(
            CellsDraw(
                axes,
                o.release.steps,
                o.release.bits,
                o.release.sigma,
                o.release.precision,
                block.reach,
                block.halves,
                aim,
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
        """Whether every cell can pay for all of these, and all promises can still be kept."""
        listed = list(releases)
        if any(release.charge > self.room.caps[release.purse] for release in listed):
            return False
        return self.planning(listed).room.sound

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
        listed = list(releases)
        if not listed:
            return self
        history, room = self.history.branch(), self.room
        for release in listed:
            history.add([release.item(history.domain, history.regions, history.seq + 1)])
            room = room.after(release.purse, release.paid(history.domain, self.rho))
        room = room.holding(history.reserves().held(self.kept))
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
        columns = set(self._cuts(block)) if self.history.promised.commitments else set()
        return [
            n
            for n, c in enumerate(self.history.promised.commitments)
            if columns.issubset(c.axes.columns)
            and c.includes(block, partial(self._questions, block, c.axes, range(len(block.keys))))
        ]

    def _promised_view(self, block: Block, number: int) -> tuple[State, Axes]:
        axes = self.history.promised.commitments[number].axes
        return self.history.state(SPACE, axes, float(block.reach) / self.unit_rows), axes

    def _own(self, block: Block, axes: Axes) -> int | None:
        """The promise that is kept on a view."""
        kept = enumerate(self.history.promised.commitments[: self.kept])
        return next((n for n, c in kept if c.axes == axes and str(block.measure) == SPACE), None)

    # -- views ----------------------------------------------------------------------------------------

    def _view(self, block: Block) -> tuple[State | None, Axes | None]:
        """The view that a block is answered from, and what it holds; None where it holds nothing."""
        space, history = str(block.measure), self.history
        axes = history.home(space, self._cuts(block))
        if axes is None:
            return None, None
        state = history.state(space, axes, float(block.reach) / self.unit_rows)
        return (state if state.count else None), axes

    def homes(self, blocks: Sequence[Block]) -> list[Axes]:
        """The views that a question's next steps may measure in: where others' releases say something, since
        beside its own alone nothing is better than the question itself."""
        told = (self._view(b) for b in blocks if not b.confirms)
        found = [axes for state, axes in told if state is not None]
        found += [self._promised_view(b, n)[1] for b in blocks for n in self._classes(b)]
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


def _alike(one: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    """Whether two functionals are the same but for their scale."""
    product = float(one @ other)
    return product * product >= float(one @ one) * float(other @ other) * (1 - 1e-9)
