"""What is measured of a question: the cheapest release of what all releases leave open of it.

Mixtures of a view's cells, or residuals of a marginal; where neither is better, the question itself.  All is
planned before any noise is drawn, from what is public.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from defray.core.amounts import rho_of
from defray.core.contract import Purse
from defray.core.target import MAX_SCALE
from defray.support.axes import Axes
from defray.support.charges import Charges
from defray.support.drawn import CellsDraw, Drawn, ResidualDraw, total_charge
from defray.support.exact import Block
from defray.support.marginal.lattice import draws
from defray.support.marginal.residuals import Columns
from defray.support.marginal.support import LOOK_AHEAD, Plan, Support
from defray.support.overlap import AIM, ROUNDING, WORK, WORTH, Overlap
from defray.support.planned import Planned
from defray.support.room import HELD
from defray.support.view.state import SLACK, State

if TYPE_CHECKING:
    from defray.support.view.offer import Offer

TOGETHER: Final = 64
"""The most cells that are planned as one joint release from a view."""

DEARER: Final = (1 + 1e-6) / AIM**2
"""What aiming at less than is wanted costs."""

LIFTED: Final = 1 + Fraction(1, 10**4)
"""What is wanted more for the sake of rounding does not take a question out of its promised class."""

ROUGHLY: Final = 1e-4
"""The same where targets differ so much that floats may not hold what follows."""

COARSEST: Final = 5e-4
"""The largest part of a standard deviation that rounding may take."""

SLACKEN: Final = 4
"""Looking ahead is for slack: it is left out where a step takes more than one part in so many of what is
left."""


@dataclass(frozen=True, eq=False)
class Remainder:
    """What the releases of ``overlap`` leave open."""

    overlap: Overlap

    def measure(
        self, block: Block, wanted: Mapping[int, Fraction], purse: Purse, charge: int
    ) -> tuple[Drawn, ...] | None:
        """What brings cells of a block to their wanted precisions, and fits; None where measuring them
        themselves, for ``charge`` quanta, is as good."""
        if block.confirms:
            return None
        number = self.overlap.promised(
            block, {i: p / self.overlap.lift / LIFTED for i, p in wanted.items()}
        )
        if number is None or purse != HELD:
            return self._measure(block, wanted, purse, charge)
        return self._measure_promised(block, wanted, charge, number)

    def _measure(
        self, block: Block, wanted: Mapping[int, Fraction], purse: Purse, charge: int
    ) -> tuple[Drawn, ...] | None:
        if self.overlap.by_residuals(block):
            alike = len(wanted) == len(block.keys) and len(set(wanted.values())) == 1
            variance = 1 / next(iter(wanted.values()))
            return self._measure_marginal(block, variance, purse, charge) if alike else None
        state, axes = self.overlap.view(block)
        if state is None or axes is None or len(wanted) > TOGETHER:
            return None
        if self.overlap.scanned is not None and axes not in self.overlap.scanned:
            return None
        if len(wanted) * axes.cells > max(WORK, axes.cells):
            return None
        if axes not in self.overlap.telling(block):
            return None  # what is measured there would not be looked up there
        own = self.overlap.own_promise(block, axes) if purse == HELD else None
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
        itself = charge <= self.overlap.answerable([block])[HELD]
        if itself and len(wanted) > TOGETHER:
            return None
        state, axes = self.overlap.promised_view(block, number)
        found: list[tuple[float, tuple[Drawn, ...]]] = []
        if self.overlap.scanned is None or axes in self.overlap.scanned:
            offers = self._offers(block, wanted, HELD, state, axes, number)
            if offers and itself and self._itself(block, wanted, axes, offers):
                return None
            if offers:
                drawn = self._drawn(block, wanted, axes, offers)
                found.append((self._dearest(block, offers), drawn))
        if self.overlap.view(block)[1] != axes:
            elsewhere = self._measure(block, wanted, HELD, charge)
            if elsewhere is not None and self.overlap.fits(
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
        return _alike(offers[0].b, self.overlap.questions(block, axes, list(wanted))[0])

    def _quantum(self, block: Block) -> float:
        """A quantum of the contract, in precision."""
        return float(2 * rho_of(1, self.overlap.rho) / block.reach**2)

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
        from defray.support.view.joint import offer_all
        from defray.support.view.offer import Offer, offer

        atoms = self.overlap.room.left(purse, axes.columns, own)
        if atoms is None:
            return ()
        left = axes.at_most(atoms)
        quantum = self._quantum(block)
        cap = np.asarray(left * (quantum * (1 - 1e-9)), np.float64)
        paid = np.asarray((left.max() - left) * quantum, np.float64)
        elsewhere = np.maximum(paid - state.charges, 0.0)
        metric = self.overlap.history.metric(axes)
        promise = None if own is None else self.overlap.history.reserves().promises[own]
        questions = self.overlap.questions(block, axes, list(wanted))
        spreads = np.array([float(1 / p) ** 0.5 for p in wanted.values()])
        # What a promise holds back is enough for the usual rounding.
        part = ROUNDING if own is not None else rounding_of(state, float(spreads.min()) ** 2)
        variances, halves = (spreads * (1 - (1 + WORTH) * part)) ** 2, spreads * (part / SLACK)
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
                self.overlap.rho,
            )
            for o in offers
        )

    def _measure_marginal(
        self, block: Block, variance: Fraction, purse: Purse, charge: int
    ) -> tuple[Drawn, ...] | None:
        assert block.marginal is not None
        columns = Columns(self.overlap.history.domain.widths)
        held = self.overlap.history.residuals(str(block.measure))
        support = Support(columns, {a: float(r.precision) for a, r in held.items()})

        def drawing(plan: Plan) -> tuple[Drawn, ...]:
            made = draws(columns, plan, self.overlap.rho, block.reach, block.halves)
            return tuple(
                ResidualDraw(
                    d, columns, block.reach, block.halves, float(variance), self.overlap.rho
                )
                for d in made
            )

        aim = float(variance) * AIM**2
        shared = self._shared(block, support, aim)
        if shared is not None:
            drawn = drawing(shared)
            if total_charge(drawn) <= self.overlap.room.least(purse):
                return drawn
        for tilt in (1.0, LOOK_AHEAD):
            drawn = drawing(support.raise_to(block.marginal, aim, tilt))
            if tilt == 1.0:
                cheapest = drawn
                if not drawn or total_charge(drawn) > charge * DEARER:
                    return None
        return (
            drawn if total_charge(drawn) * SLACKEN <= self.overlap.room.least(purse) else cheapest
        )

    def _shared(self, block: Block, support: Support, aim: float) -> Plan | None:
        """The part that a marginal has in the cheapest plan of all that are asked for together; None where it
        is asked alone."""
        from defray.support.marginal.joint import raise_all

        assert block.marginal is not None
        attributes = support.columns.reduced(block.marginal)
        wishes = {
            support.columns.reduced(columns): variance * AIM**2
            for columns, variance in self.overlap.among.get(str(block.measure), ())
        }
        if not wishes.keys() - {attributes}:
            return None
        key = ("together", str(block.measure), attributes, aim, tuple(wishes.items()))
        cache = self.overlap.history.cache
        if key not in cache:
            wishes[attributes] = min(aim, wishes.get(attributes, aim))
            sets = support.columns.marginal(attributes).sets
            plan = raise_all(support, list(wishes.items()))
            raises = {a: h for a, h in plan.raises if a in sets}
            lifted = dict(support.held)
            Plan(tuple(raises.items()), 0.0, 0.0).add_to(lifted)
            rest = Support(support.columns, lifted).raise_to(attributes, aim)
            rest.add_to(raises)
            cache[key] = Plan(tuple(sorted(raises.items())), 0.0, rest.variance)
        found: Plan = cache[key]
        return found

    def dearest(self, block: Block, draws: Sequence[Drawn]) -> int:
        """What the dearest cell pays for all of these, in quanta."""
        if len(draws) == 1:
            return draws[0].charge
        charges = Charges.of(self.overlap.history.domain)
        for drawn in draws:
            planned = Planned(block, "answer", drawn.charge, drawn)
            charges = charges.plus(planned.paid(self.overlap.history.domain, self.overlap.rho))
        return charges.worst()


def rounding_of(state: State, variance: float) -> float:
    """The part of a standard deviation that a new measurement may be off by besides its noise: more than
    usual where a table may hold very large numbers, since noise is drawn on at most so many steps, and
    where floats may not tell later what follows from it."""
    least = ROUGHLY if state.rough_with(variance) else ROUNDING
    return min(max(least, 2 * state.n_max / MAX_SCALE), COARSEST)


def _alike(one: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    """Whether two functionals are the same but for their scale."""
    product = float(one @ other)
    return product * product >= float(one @ one) * float(other @ other) * (1 - 1e-9)
