"""The fold of a functional's releases: the exact state that credit and answers are computed from."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final


@dataclass(frozen=True, slots=True)
class Known:
    """All releases of one functional in one epoch, fused.

    ``precision`` P = sum p_i and ``weighted`` R = sum p_i y_i (whole units); the inverse-variance fused
    value is R / P, unbiased, with variance at most 1 / P since every ``p_i <= 1 / sigma_i**2``.  Both are
    dyadic, so later top-ups stay exact.  ``releases`` counts them, ``last`` is the seq of the newest (0:
    none) and ``index`` the functional's position in it.

    ``promises`` are the relative targets that were met, as (share, gamma): what was promised once is not
    bought again, nor is anything looser.  None of them is implied by another.

    ``first`` is the precision of the first release, from which the width of an anytime interval follows;
    ``asks`` names the asks that released something of the functional, in order: its looks.

    ``doubt`` is by which part rounding lowers the precision that is claimed (0: not at all).
    """

    precision: Fraction = Fraction(0)
    weighted: Fraction = Fraction(0)
    releases: int = 0
    last: int = 0
    index: int = 0
    promises: tuple[tuple[Fraction, Fraction], ...] = ()
    first: Fraction = Fraction(0)
    asks: tuple[str, ...] = ()
    doubt: float = 0.0

    @property
    def value(self) -> Fraction:
        return self.weighted / self.precision

    @property
    def approximate(self) -> float:
        """The value, rounded once: a quotient of integers, without reducing a fraction first."""
        top, bottom = self.weighted, self.precision
        return (top.numerator * bottom.denominator) / (top.denominator * bottom.numerator)

    def fused(
        self, precision: Fraction, value: Fraction, seq: int, index: int, ask: str = ""
    ) -> Known:
        """This state after one more release of the functional (paper: inverse-variance fusion), for the
        ask of that name (none: an ask of its own)."""
        return Known(
            self.precision + precision,
            self.weighted + precision * value,
            self.releases + 1,
            seq,
            index,
            self.promises,
            self.first or precision,
            self._asked(ask or str(seq)),
        )

    def expecting(self, precision: Fraction, ask: str) -> Known:
        """This state as if one more release were there, the value unmoved (0 where there is none yet): for
        quotes."""
        value = self.value if self.precision else Fraction(0)
        total = self.precision + precision
        return replace(
            self,
            precision=total,
            weighted=total * value,
            first=self.first or precision,
            asks=self._asked(ask),
        )

    def _asked(self, ask: str) -> tuple[str, ...]:
        return self.asks if self.asks[-1:] == (ask,) else (*self.asks, ask)

    def promised(self, share: Fraction, gamma: Fraction, seq: int) -> Known:
        """This state after a relative target of the functional was met."""
        if self.keeps(share, gamma):
            return self
        kept = tuple(p for p in self.promises if p[0] < share or p[1] < gamma)
        return replace(self, promises=tuple(sorted((*kept, (share, gamma)))), last=seq)

    def keeps(self, share: Fraction, gamma: Fraction) -> bool:
        """Whether a promise at least as strong was met."""
        return any(s <= share and g <= gamma for s, g in self.promises)


UNKNOWN: Final = Known()


def confirmed(key: bytes, tag: str) -> bytes:
    """Where the releases of one confirmation are kept apart from all others of the functional."""
    return hashlib.sha256(key + tag.encode()).digest()[:16]


def alone(key: bytes, name: str) -> bytes:
    """Where what an analyst would know alone of a functional is kept."""
    return hashlib.sha256(key + b" alone " + name.encode()).digest()[:16]


def credited(key: bytes, tag: str) -> tuple[bytes, ...]:
    """The keys that a confirming release of a functional is folded into: its own as well."""
    return key, confirmed(key, tag)
