"""Who has paid for a functional's public support, slice by slice, and what it takes to join them.

The support is a stack of slices from 0 upwards.  Of a slice of w quanta the payer who came i-th of n
(i = 0, 1, ...) has paid ``ceil((w - i)/n)``.  These add up to w (Hermite's identity) and none rises with n:
the newest pays ``floor(w/n)``, and just that goes back to the others.  A cut through a slice shifts what may
still come back by at most a quantum for each payer, and never beyond what was paid.  In Fractions all payers
have paid alike, exactly.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

Amount = int | Fraction
"""rho: in quanta, or exact."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of a functional's support, with those who paid for it in the order they came; without any, it
    is free for all."""

    width: Amount
    payers: tuple[str, ...]

    def paid_by(self, name: str) -> Amount:
        """What an analyst has paid for it: all payers alike, to the quantum."""
        if name not in self.payers:
            return 0
        if isinstance(self.width, int):
            return -((self.payers.index(name) - self.width) // len(self.payers))
        return self.width / len(self.payers)


def joined(
    slices: Sequence[Slice],
    analyst: str,
    start: Amount,
    end: Amount,
    most: Amount | None = None,
) -> tuple[tuple[Slice, ...], dict[str, Amount]]:
    """The slices once an analyst is among the payers of what exists between two levels, and what each account
    gains (the analyst's: less than 0; 0 in all).  Where ``most`` is given the analyst pays no more: the first
    slice that would take more, and those above it, are not joined.

    >>> slices, gains = joined([Slice(10, ("ann",))], "bob", 0, 4)
    >>> [(piece.width, *piece.payers) for piece in slices], gains
    ([(4, 'ann', 'bob'), (6, 'ann')], {'ann': 2, 'bob': -2})
    """
    out: list[Slice] = []
    gains: dict[str, Amount] = defaultdict(int)
    low: Amount = 0
    for piece in slices:
        high = low + piece.width
        first, last = max(low, start), min(high, end)
        if first < last and piece.payers and analyst not in piece.payers:
            before = replace(piece, width=last - first)
            after = replace(before, payers=(*piece.payers, analyst))
            if most is not None and after.paid_by(analyst) - gains[analyst] > most:
                end = first
                out.append(piece)
            else:
                for name in after.payers:
                    gains[name] += before.paid_by(name) - after.paid_by(name)
                sides = (
                    replace(piece, width=first - low), after, replace(piece, width=high - last)
                )  # fmt: skip
                out += [side for side in sides if side.width]
        else:
            out.append(piece)
        low = high
    return tuple(out), dict(gains)
