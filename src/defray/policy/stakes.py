"""Who paid for what is known in one data version: a fold of releases, and of what each analyst would have
released alone, in the order of the log.

Functionals that a release measures together are shared together: its charge is one, the dearest's.  The
support of such a set is what is known of its least known member, in quanta; what an analyst would know of it
alone is what is known of the best known before, and of the least known after the shadow has moved.  So an
analyst joins only those who paid for exactly the same set, and only of what the shadow gains in all of it.
What others measured of some of it is free for all, as are releases that nobody's share paid for.

An analyst who joins pays no more than the shadow pays by the same move, less what is still to be released to
bring everybody as far: what an account has paid never exceeds what its shadow has.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from defray.core.amounts import QUANTA, support_of
from defray.core.layered import Layered
from defray.policy.slices import Slice, joined

NOTHING: Final = Fraction(0)


@dataclass(frozen=True, slots=True)
class Measured:
    """What a release adds, or would have added: precision ``added`` to each functional, by key, for
    ``charge`` quanta in all; a unit of precision is worth ``price`` quanta.  ``shared``: who uses it may join
    those who paid for it."""

    added: Mapping[bytes, Fraction]
    price: Fraction
    charge: int
    shared: bool = True


def price_of(reach: Fraction, rho: Fraction) -> Fraction:
    """What a unit of precision is worth, in quanta of a contract of ``rho``; ``reach`` as in
    :func:`~defray.core.amounts.support_of`."""
    return support_of(Fraction(1), reach) * QUANTA / rho


@dataclass(slots=True)
class Stakes:
    """What is known of each functional, publicly and to each shadow (its ``own``), and by set of functionals
    who paid for what of it.  What was handed out is never changed: changes are made to a :meth:`branch`."""

    _public: Layered[bytes, Fraction] = field(default_factory=Layered)
    _own: Layered[tuple[str, bytes], Fraction] = field(default_factory=Layered)
    _slices: Layered[bytes, tuple[Slice, ...]] = field(default_factory=Layered)

    def branch(self) -> Stakes:
        """Another one, which holds the same."""
        return Stakes(self._public.branch(), self._own.branch(), self._slices.branch())

    def slices(self, keys: Iterable[bytes]) -> tuple[Slice, ...]:
        """Who paid for what of the set of these functionals, from 0 upwards."""
        return self._slices.get(_together(keys), ())

    def release(self, made: Measured, by: str | None) -> None:
        """A release was made, which that analyst's account paid for (None: nobody's)."""
        if not made.added:
            return
        low = min(self._public.get(key, NOTHING) for key in made.added)
        for key, more in made.added.items():
            self._public[key] = self._public.get(key, NOTHING) + more
        if by is None or not made.shared:
            return
        known = self.slices(made.added)
        top = sum(int(piece.width) for piece in known)
        start = max(math.floor(low * made.price), top)
        end = math.floor(min(self._public.get(key, NOTHING) for key in made.added) * made.price)
        new = Slice(start - top, ()), Slice(end - start, (by,))
        self._slices[_together(made.added)] = (*known, *(piece for piece in new if piece.width > 0))

    def move(self, made: Measured, by: str, *, shares: bool) -> dict[str, int]:
        """The shadow of an analyst releases this as well.  Where the analyst ``shares``: what comes back, by
        name, to those who paid for what it reaches; the analyst's account pays it all."""
        back: dict[str, int] = {}
        if not made.added:
            return back
        own = {key: self._own.get((by, key), NOTHING) for key in made.added}
        reached = {key: own[key] + more for key, more in made.added.items()}
        if shares and made.shared:
            low, high = max(own.values()), min(reached.values())
            slices, gains = joined(
                self.slices(made.added),
                by,
                math.floor(low * made.price),
                math.floor(high * made.price),
                made.charge - self._rest(own, reached, made.price),
            )
            self._slices[_together(made.added)] = slices
            back = {name: int(gain) for name, gain in gains.items() if gain > 0}
        for key, level in reached.items():
            self._own[by, key] = level
        return back

    def _rest(
        self, own: Mapping[bytes, Fraction], reached: Mapping[bytes, Fraction], price: Fraction
    ) -> int:
        """What it takes, in quanta, to release what a shadow would know beyond what all know: noise is
        rounded down, which may cost a quantum more."""
        missing = max(
            level - max(self._public.get(key, NOTHING), own[key]) for key, level in reached.items()
        )
        return math.ceil(missing * price) + 1 if missing > 0 else 0


def _together(keys: Iterable[bytes]) -> bytes:
    """The name of a set of functionals."""
    return hashlib.sha256(b"".join(sorted(keys))).digest()[:16]
