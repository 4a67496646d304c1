"""What is bought: noise to draw on a block's cells, and its charge.

Pure and deterministic, from what is wanted of each cell and what is held of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from defray.controller.ask import Ask, Funds, Held
from defray.core.allocate import residual
from defray.core.amounts import dyadic_up, quanta_down, quanta_up, rho_of, root, support_of
from defray.core.contract import Purse
from defray.core.target import (
    LATTICE_BITS,
    MAX_SCALE,
    Lattice,
    sigma_at_least,
    sigma_at_most,
)
from defray.errors import TargetError
from defray.support.exact import Block
from defray.support.known import Known

if TYPE_CHECKING:
    from defray.support.drawn import Drawn
    from defray.support.overlap import Overlap
    from defray.support.planned import Planned


UNLIKE: Final = 1e4
"""Where targets differ by more than this, in variance, a mixture is tried out before it is bought."""


@dataclass(frozen=True, slots=True)
class Purchase:
    """A measurement to make: noise of ``sigmas[i]`` units on cell i of a block (None: not measured), on a
    lattice of ``2**-bits`` units, for ``charge`` quanta.  ``given``: the charge was given, not a target.
    With ``draws`` these are measured instead of ``itself``; ``charges[i]`` is what cell i needs of them.
    ``smaller``: it was cut down, and is less than what was wanted."""

    block: int
    bits: int
    sigmas: tuple[float | None, ...]
    precisions: tuple[Fraction | None, ...]
    charges: tuple[int, ...]
    purse: Purse = "answer"
    given: bool = False
    draws: tuple[Drawn, ...] = ()
    itself: Purchase | None = None
    smaller: bool = False

    @property
    def charge(self) -> int:
        """The largest cell's: one unit moves the vector by at most k * Delta in all (convexity)."""
        return max(self.charges)

    @property
    def cells(self) -> int:
        """How many cells it is for."""
        return sum(c > 0 for c in self.charges)


def charged(purchases: Iterable[Purchase], purse: Purse | None = None) -> int:
    """Quanta of several measurements, which add up (composition): in all, or from one purse."""
    return sum(p.charge for p in purchases if purse in (None, p.purse))


def cheapest(
    at: int,
    block: Block,
    wanted: dict[int, Fraction],
    held: Held,
    funds: Funds,
    purse: Purse,
    *,
    given: bool,
) -> Purchase | None:
    """The residual of each cell measured itself, or what other releases leave of it where that is better."""
    asked, doubted = wanted, False
    if held.overlap is not None and not given:
        known, overlap = held.known[at], held.overlap
        doubted = bool(wanted) and overlap.in_doubt(block, max(wanted.values()))
        wanted = {
            i: overlap.wanted(p, known[i], doubted=doubted) if held.by_overlap(at, i) else p
            for i, p in wanted.items()
            if p > known[i].precision
        }
    itself = residual_of(at, block, wanted, held.known[at], funds, purse, given=given)
    if itself is None or held.overlap is None or given:
        return itself
    missing = {i: wanted[i] for i, s in enumerate(itself.sigmas) if s is not None}
    from defray.support.remainder import Remainder

    rest = Remainder(held.overlap)
    draws = rest.measure(block, missing, purse, itself.charge)
    found = itself
    if draws is not None:
        none = (None,) * len(block.keys)
        charge = rest.dearest(block, draws)
        charges = tuple(charge if i in missing else 0 for i in range(len(block.keys)))
        found = Purchase(at, 0, none, none, charges, purse, draws=draws, itself=itself)
    if not (doubted or held.overlap.in_doubt(block, max(asked.values()), UNLIKE)):
        return found
    own = held.own[at] if held.own else held.known[at]
    sure = residual_of(at, block, asked, own, funds, purse, given=False)
    for one in (found, itself):
        if sure is not None and one.charge >= sure.charge:
            continue
        if _follows(one, block, {i: asked[i] for i in missing}, own, held.overlap):
            return one
    return sure


def _follows(
    purchase: Purchase,
    block: Block,
    wanted: Mapping[int, Fraction],
    own: Sequence[Known],
    overlap: Overlap,
) -> bool:
    """Whether cells will be known so precisely after a purchase, as far as floats can tell."""
    after = [
        k if p is None else k.expecting(p, "expected")
        for k, p in zip(own, purchase.precisions, strict=True)
    ]
    known = overlap.planning(planned_of(purchase, block)).known(block, after)
    return all(known[i].precision >= precision for i, precision in wanted.items())


def residual_of(
    at: int,
    block: Block,
    wanted: dict[int, Fraction],
    known: Sequence[Known],
    funds: Funds,
    purse: Purse,
    *,
    given: bool,
) -> Purchase | None:
    """The residual of each cell of a block as noise to draw; None where nothing is missing."""
    missing = {
        i: a
        for i, p in wanted.items()
        if (a := residual(p, known[i].precision)) and not block.empty[i]
    }
    if not missing:
        return None
    lattice = lattice_for(root(1 / max(missing.values())), block)
    sigmas: list[float | None] = [None] * len(block.keys)
    precisions: list[Fraction | None] = [None] * len(block.keys)
    charges = [0] * len(block.keys)
    noise: dict[Fraction, tuple[float, Fraction, int]] = {}
    for i, a in missing.items():
        if a not in noise:
            noise[a] = noise_for(a, block.reach, lattice, funds.total, given=given)
        sigmas[i], precisions[i], charges[i] = noise[a]
    return Purchase(
        at, lattice.bits, tuple(sigmas), tuple(precisions), tuple(charges), purse, given
    )


def lattice_for(finest: float, block: Block) -> Lattice:
    """Steps of at most 2**-28 of the smallest sigma: wider noise beside it still fits the sampler."""
    return Lattice.fine_enough(Fraction(finest) * 2 ** (LATTICE_BITS - 28), block.halves)


def noise_for(
    missing: Fraction, reach: Fraction, lattice: Lattice, total: Fraction, *, given: bool
) -> tuple[float, Fraction, int]:
    """(sigma, precision, quanta) that add ``missing`` precision: a target is met and its charge rounded
    up; a spend that was given is rounded down and its noise fitted to it."""
    if given:
        quanta = quanta_down(support_of(missing, reach), total)
        sigma, precision = sigma_at_least(rho_of(quanta, total), reach)
        if math.ldexp(sigma, lattice.bits) > MAX_SCALE:
            raise TargetError("this rho is too small to be drawn", hint="spend more")
        return sigma, precision, quanta
    sigma, precision = sigma_at_most(dyadic_up(missing), lattice)
    return sigma, precision, quanta_up(reach**2 / (2 * Fraction(sigma) ** 2), total)


def releases(ask: Ask, purchases: Iterable[Purchase]) -> Iterator[Planned]:
    """What purchases would release."""
    for p in purchases:
        yield from planned_of(p, ask.compiled.blocks[p.block])


def planned_of(purchase: Purchase, block: Block) -> list[Planned]:
    """What a purchase would release."""
    from defray.support.planned import Planned

    p = purchase
    if p.draws:
        return [Planned(block, p.purse, d.charge, d) for d in p.draws]
    return [Planned(block, p.purse, p.charge, None, p.bits, p.sigmas, p.precisions)]
