"""A release before it is made: what a plan adds to the history and to the charges of cells."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from defray.core.contract import Purse
from defray.core.domain import Domain
from defray.query.region import Regions
from defray.support.cell_charges import LARGEST
from defray.support.charges import Added
from defray.support.drawn import Drawn
from defray.support.exact import Block
from defray.support.history import Item, region_item
from defray.support.measured import paid_of

NAME = "expected"
"""The ask of what is only planned."""


@dataclass(frozen=True, eq=False)
class Planned:
    """``drawn`` for a block; where that is None, the block's cells themselves with these sigmas."""

    block: Block
    purse: Purse
    charge: int
    drawn: Drawn | None = None
    bits: int = 0
    sigmas: tuple[float | None, ...] = ()
    precisions: tuple[Fraction | None, ...] = ()

    def item(self, domain: Domain, regions: Regions, seq: int) -> Item:
        if self.drawn is not None:
            return self.drawn.item(self.block.measure, domain, seq, NAME, self.purse)
        return region_item(
            self.block.grouped,
            domain,
            regions,
            seq=seq,
            ask=NAME,
            step=self.bits,
            values=[None if s is None else 0 for s in self.sigmas],
            precisions=self.precisions,
        )

    def paid(self, domain: Domain, rho: Fraction) -> tuple[Added, ...]:
        """What each cell would pay."""
        block, drawn = self.block, self.drawn
        return paid_of(
            block.weights if drawn is None else drawn.weights,
            block.attributes if drawn is None else [domain.names[c] for c in drawn.columns],
            domain,
            reach=block.reach,
            sigmas=self.sigmas if drawn is None else (drawn.sigma,),
            charge=min(self.charge, LARGEST),
            rho=rho,
            by_cell=True,
        )
