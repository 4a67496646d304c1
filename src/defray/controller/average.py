"""AVG: a ratio of a centred sum and a count, neither of which is known beforehand."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

from defray.controller.ask import Ask, Funds, Held
from defray.controller.rule import (
    FINAL_BITS,
    HOPELESS,
    NOTHING,
    STAGE_BITS,
    Estimate,
    Need,
    Rule,
    Wants,
)
from defray.core.allocate import Term, split
from defray.core.amounts import dyadic_up, precision_of, support_of
from defray.core.target import Relative, Within, one_sided, two_sided

RESOLVED = 8
"""A count is known well enough to price an average once its error bound is an eighth of it."""

GROUP_PART = 8
"""A group whose average would take more than this part of what is left is given up: ask for it alone."""

AVG_FLOOR = Fraction(1, 50)
"""Relative targets on an average are scaled by at least this share of half the column's range."""


class Average(Rule):
    """AVG = middle + centred sum / count, by Fieller's interval (design: controller, "AVG").

    The interval's half-width is about ``z sqrt(v_S + t**2 v_N) / N``, with t the average's distance from the
    middle of the bounds, so N and t must be known roughly before the rest has a price.  Step one learns the
    non-null count in factors of four, until it is clear of 0 (or seen to be out of reach); step two buys no
    more of the centred sum than the end needs whatever t is; step three buys the cheapest mix with
    ``z sqrt(v_S + T**2 v_N) <= U * m_LB``, T the largest t still plausible.  gamma is split: a third for
    m_LB, two thirds for the interval.
    """

    def __init__(self, ask: Ask, index: int) -> None:
        super().__init__(ask, index)
        self.centred = self.block("centred")
        self.count = self.block("count")
        self.half = self.centred.reach / self.count.reach
        # A relative target spends half of gamma on the magnitude that it is scaled by.
        gamma = self.gamma / 2 if isinstance(self.goal, Relative) else self.gamma
        self.z = two_sided(2 * gamma / 3)
        self.z_count = one_sided(gamma / 3)

    def want(self, cell: int, held: Held, funds: Funds) -> Need:
        count = held.known[self.parts["count"]][cell]
        centred = held.known[self.parts["centred"]][cell]
        tolerance, hoped = self._tolerance(cell, held)
        width = self._half_width(cell, held)
        if width <= tolerance:
            return NOTHING
        if not count.precision:
            return self._stage({"count": self._first(hoped, funds)}, tolerance, funds)
        error = self.z_count / math.sqrt(count.precision)
        lower, upper = float(count.value) - error, float(count.value) + error
        if lower <= 0 or count.precision < self._rough_count(hoped, lower):
            if upper < self._least_count(hoped, funds):
                return HOPELESS
            aim = self._rough_count(hoped, upper)
            more = max(min(4 * count.precision, aim), count.precision * Fraction(5, 4))
            return self._stage({"count": more}, tolerance, funds)
        low, high = self._fieller(cell, held)
        farthest = Fraction(max(abs(low), abs(high)))
        present = self._variance(centred.precision, count.precision, farthest)
        # As if the target were the loosest that is plausible and the average at its best place: what
        # that takes is needed in any case.  Then, at most halving the width a step, until both are known.
        nearest = Fraction(0 if low <= 0 <= high else min(abs(low), abs(high)))
        if hoped > 2 * tolerance or high - low > float(self.half) / 2:
            at_best = self._split(cell, held, nearest, 1 / self._least_centred(hoped, upper))
            if (
                not self._more(cell, held, at_best)
                and hoped > 2 * tolerance
                and present is not None
            ):
                at_best = self._split(cell, held, farthest, present / 4)
            if self._more(cell, held, at_best):
                return self._stage(at_best, tolerance, funds)
        variance = 1 / self._least_centred(tolerance, lower)
        if present is not None and width < math.inf:
            # Fieller's interval may be wider than the plan allowed for: then this much narrower.
            narrower = present * (Fraction(tolerance) / Fraction(width)) ** 2
            variance = min(variance, narrower) if present <= variance else variance
        wanted = self._split(cell, held, farthest, variance)
        wants = {b: self.shared(p, FINAL_BITS) for b, p in self._wants(wanted).items()}
        return Need(wants)

    def _variance(self, centred: Fraction, count: Fraction, place: Fraction) -> Fraction | None:
        """The variance of S - tN at a place t; None while a part is unknown."""
        return 1 / centred + place**2 / count if centred and count else None

    def _split(
        self, cell: int, held: Held, place: Fraction, variance: Fraction
    ) -> dict[str, Fraction]:
        """The cheapest precisions of both parts that bring the variance of S - tN down to this."""
        parts = [
            Term(
                Fraction(1),
                self.centred.reach**2,
                held.known[self.parts["centred"]][cell].precision,
            ),
            Term(place**2, self.count.reach**2, held.known[self.parts["count"]][cell].precision),
        ]
        return dict(zip(("centred", "count"), split(parts, variance), strict=True))

    def _more(self, cell: int, held: Held, parts: Mapping[str, Fraction]) -> bool:
        """Whether these precisions are worth a step: an eighth more than is held of one of them."""
        return any(
            p * 8 > held.known[self.parts[role]][cell].precision * 9 for role, p in parts.items()
        )

    def _wants(self, parts: Mapping[str, Fraction]) -> Wants:
        return {self.parts[role]: p for role, p in parts.items()}

    def _stage(self, parts: Mapping[str, Fraction], tolerance: float, funds: Funds) -> Need:
        """A step that the price of the rest depends on, with what is known of that price."""
        wants = {b: self.shared(dyadic_up(p), STAGE_BITS) for b, p in self._wants(parts).items()}
        least = dict(wants)
        most: Wants | None = None
        if isinstance(self.goal, Within) and funds.m_floor is not None:
            share = 2 * self._least_centred(tolerance, float(funds.m_floor))
            most = {self.parts["centred"]: share, self.parts["count"]: share * self.half**2}
        return Need(wants, final=False, least=least, most=most)

    def _tolerance(self, cell: int, held: Held) -> tuple[float, float]:
        """U in units at the least and at the largest plausible magnitude of the average.  They are the
        same for an absolute target; a relative one has a price once they are close."""
        goal = self.goal
        if isinstance(goal, Within):
            absolute = float(goal.amount / self.centred.unit)
            return absolute, absolute
        assert isinstance(goal, Relative)
        low, high = (end + float(self.centred.middle) for end in self._fieller(cell, held))
        floor = float(AVG_FLOOR * self.half)
        least = max(floor, low, -high)
        most = max(floor, abs(low), abs(high))
        return float(goal.share) * least, float(goal.share) * most

    def floored(self, cell: int, held: Held, funds: Funds) -> bool:
        floor = float(AVG_FLOOR * self.half)
        return isinstance(self.goal, Relative) and (
            self._tolerance(cell, held)[0] <= float(self.goal.share) * floor
        )

    def _least_centred(self, tolerance: float | Fraction, rows: float) -> Fraction:
        """The centred sum's precision that the end needs even if the average is at the middle."""
        return (Fraction(self.z) / (Fraction(tolerance) * Fraction(rows))) ** 2

    def _rough_count(self, tolerance: float, rows: float) -> Fraction:
        """The count's precision at which the rest has a price: an error of an eighth of it, or its
        share of the cheapest mix with the average at a bound, if that is less."""
        eighth = (RESOLVED * Fraction(self.z_count) / Fraction(rows)) ** 2
        return min(eighth, 2 * self.half**2 * self._least_centred(tolerance, rows))

    def _first(self, tolerance: float, funds: Funds) -> Fraction:
        """Step one's first purchase: never more than the end needs where n_max is declared."""
        if funds.n_max is not None:
            return self._rough_count(tolerance, funds.n_max)
        return precision_of(funds.total / 2**20, self.count.reach)

    def _least_count(self, tolerance: float, funds: Funds) -> float:
        """The fewest rows whose average the contract could pay for at all: one of many groups with a
        part of what is left only, since the search for a few rows costs everybody."""
        most = funds.answer if len(self.ask.compiled.cells) == 1 else funds.answer / GROUP_PART
        if most <= 0:
            return math.inf
        price = support_of(self._least_centred(tolerance, 1), self.centred.reach)
        return math.sqrt(price / most)

    def _half_width(self, cell: int, held: Held) -> float:
        """Half of the interval, in units; infinite while a part is unknown."""
        found = self.estimate(cell, held)
        return math.inf if found.value is None else found.half_width / float(self.centred.unit)

    def _fieller(self, cell: int, held: Held) -> tuple[float, float]:
        """{t : |S - tN| <= z sqrt(v_S + t^2 v_N)}, cut to the column's bounds; t counts from the middle.

        An interval that lies beyond a bound altogether is moved to it at its full width: it would be
        the wrong place to claim certainty.
        """
        half = float(self.half)
        count = held.known[self.parts["count"]][cell]
        centred = held.known[self.parts["centred"]][cell]
        if not count.precision or not centred.precision:
            return -half, half
        n, s = float(count.value), float(centred.value)
        v_n, v_s = 1 / float(count.precision), 1 / float(centred.precision)
        z2 = self.z**2
        a = n * n - z2 * v_n
        if a <= 0 or n <= 0:
            return -half, half
        root = self.z * math.sqrt(max(0.0, n * n * v_s + s * s * v_n - z2 * v_s * v_n))
        low, high = (s * n - root) / a, (s * n + root) / a
        if low > half:
            return max(half - (high - low), -half), half
        if high < -half:
            return -half, min(-half + (high - low), half)
        return max(low, -half), min(high, half)

    def estimate(self, cell: int, held: Held) -> Estimate:
        """The ratio, cut to the bounds like its interval: the truth lies within them."""
        low, high = self._fieller(cell, held)
        half = float(self.half)
        unit, middle = float(self.centred.unit), float(self.centred.middle)
        count = held.known[self.parts["count"]][cell]
        centred = held.known[self.parts["centred"]][cell]
        value: float | None = None
        if count.precision and centred.precision and count.value > 0:
            place = min(max(float(centred.value / count.value), low), high)
            value = (min(max(place, -half), half) + middle) * unit
        return Estimate(value, (low + middle) * unit, (high + middle) * unit)
