"""How each aggregate is estimated from what is known, and what it takes to know it well enough.

Every rule here reads the transcript and public numbers only.  Quantities are in *whole units* of the
measured column (``Block.unit``) until :meth:`Rule.estimate` returns.  ``want`` answers one question: which
precision of which block, in total, does this cell need?
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from defray.controller.ask import Ask, Funds, Held
from defray.core.allocate import Term, residual, split
from defray.core.amounts import dyadic_up, precision_of, quanta_down, support_of
from defray.core.target import Relative, Spend, Within, one_sided, precision_for, two_sided
from defray.support.exact import Block
from defray.support.known import Known

Wants = dict[int, Fraction]
"""Block number -> total precision wanted for one cell."""

RESOLVED = 8
"""A count is known well enough to price an average once its error bound is an eighth of it."""

AVG_FLOOR = Fraction(1, 50)
"""Relative targets on an average are scaled by at least this share of half the column's range."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate with its interval, in the aggregate's own units.  ``value`` is None where nothing can
    be said beyond the declared bounds."""

    value: float | None
    low: float
    high: float

    @property
    def half_width(self) -> float:
        if self.value is None:
            return (self.high - self.low) / 2
        return max(self.high - self.value, self.value - self.low)


@dataclass(frozen=True, slots=True)
class Need:
    """What one cell of one aggregate needs next.

    ``final`` needs meet the target; otherwise they buy a diagnostic (``purse``) and the rule is asked again.
    ``settles`` says the target depends on noisy data, so meeting it is remembered.  ``hopeless`` cells can
    never be met and buy nothing.  Where more follows, ``least`` and ``most`` bound the totals it can come to
    (``most`` None: whatever may be spent).
    """

    wants: Wants
    final: bool = True
    purse: Literal["answer", "diagnostic"] = "answer"
    settles: bool = False
    hopeless: bool = False
    least: Wants = field(default_factory=dict)
    most: Wants | None = None


NOTHING = Need({})
HOPELESS = Need({}, hopeless=True)


class Rule:
    """One aggregate of an ask: the blocks it rests on and its two questions, want and estimate."""

    def __init__(self, ask: Ask, index: int) -> None:
        self.ask = ask
        self.goal = ask.goals[index]
        self.gamma = ask.gamma
        self.parts: Mapping[str, int] = ask.compiled.parts[index]
        self.blocks: tuple[Block, ...] = ask.compiled.blocks
        self._needs: dict[tuple[Fraction, ...], Need] = {}

    def block(self, role: str) -> Block:
        return self.blocks[self.parts[role]]

    def want(self, cell: int, held: Held, funds: Funds) -> Need:
        raise NotImplementedError

    def estimate(self, cell: int, held: Held) -> Estimate:
        raise NotImplementedError


class Linear(Rule):
    """COUNT and SUM: one linear functional, whose precision adds up over independent releases."""

    role = "count"

    @property
    def unit(self) -> Fraction:
        return self.block(self.role).unit

    @property
    def reach(self) -> Fraction:
        return self.block(self.role).reach

    def precision(self, cell: int, held: Held) -> Fraction:
        raise NotImplementedError

    def value(self, cell: int, held: Held) -> Fraction:
        raise NotImplementedError

    def direct(self, cell: int, held: Held, precision: Fraction) -> Wants:
        """The totals that bring this cell to ``precision`` by measuring the functional itself."""
        raise NotImplementedError

    def wants(self, cell: int, held: Held, precision: Fraction) -> Wants:
        """The cheapest totals that bring this cell to ``precision``."""
        return self.direct(cell, held, precision)

    def want(self, cell: int, held: Held, funds: Funds) -> Need:
        if isinstance(self.goal, Relative):
            return self._want_relative(self.goal, self.precision(cell, held), cell, held, funds)
        # Not data-dependent: equal precisions, equal need.  Most cells of a GROUP BY are alike.
        state = tuple(held.known[b][cell].precision for b in self.parts.values())
        need = self._needs.get(state)
        if need is None:
            need = self._needs[state] = self._want_absolute(cell, held, funds)
        return need

    def _want_absolute(self, cell: int, held: Held, funds: Funds) -> Need:
        have = self.precision(cell, held)
        goal = self.goal
        if isinstance(goal, Spend):
            wanted = precision_of(goal.rho, self.reach)
            missing = support_of(residual(wanted, have), self.reach)
            worth = quanta_down(missing, funds.total) > 0
            return Need(self.direct(cell, held, wanted)) if worth else NOTHING
        assert isinstance(goal, Within)
        wanted, _ = precision_for(goal.amount / self.unit, two_sided(self.gamma))
        return Need(self.wants(cell, held, wanted)) if wanted > have else NOTHING

    def _want_relative(
        self, goal: Relative, have: Fraction, cell: int, held: Held, funds: Funds
    ) -> Need:
        """Diagnostic first where its purse allows; then what even the largest plausible magnitude needs,
        which is never wasted, until the plausible range is narrow; then the target at its lower end."""
        lower, upper = self._magnitude(have, cell, held, funds)
        wanted = self.relative_precision(goal, lower)
        if wanted <= have:
            return NOTHING
        most = self.wants(cell, held, wanted)
        probe = dyadic_up(precision_of(funds.probe, self.reach)) if funds.probe else Fraction(0)
        if have < probe < wanted - have and funds.diagnostic >= funds.probe:
            optimist = self.relative_precision(goal, upper) if upper is not None else have
            least = self.wants(cell, held, min(max(optimist, probe), wanted))
            wants = self.wants(cell, held, have + probe)
            return Need(wants, final=False, purse="diagnostic", least=least, most=most)
        if upper is None:
            first = precision_of(funds.total / 2**20, self.reach)
        else:
            first = self.relative_precision(goal, upper)
        narrow = upper is not None and upper * 4 <= lower * 5
        if narrow or first >= wanted or first * 16 <= have * 17:
            return Need(most, settles=True)
        wants = self.wants(cell, held, dyadic_up(first))
        return Need(wants, final=False, least=wants, most=most)

    def relative_precision(self, goal: Relative, magnitude: Fraction) -> Fraction:
        wanted, _ = precision_for(goal.share * magnitude, two_sided(self.gamma / 2))
        return wanted

    def floor(self, funds: Funds) -> Fraction:
        """The least magnitude a relative target is scaled by: m_floor rows' worth."""
        assert funds.m_floor is not None
        return funds.m_floor * self.reach / self.rows

    @property
    def rows(self) -> Fraction:
        return self.blocks[self.parts["count"]].reach

    def _magnitude(
        self, have: Fraction, cell: int, held: Held, funds: Funds
    ) -> tuple[Fraction, Fraction | None]:
        """m_LB and its upper twin: the truth's magnitude lies beyond each with probability at most
        gamma/2; at least the floor.  The upper end is None where nothing bounds it."""
        floor = self.floor(funds)
        top = None if funds.n_max is None else max(floor, funds.n_max * self.reach / self.rows)
        if not have:
            return floor, top
        middle = abs(self.value(cell, held))
        error = Fraction(one_sided(self.gamma / 2) / math.sqrt(have))
        upper = max(floor, middle + error)
        return max(floor, middle - error), upper if top is None else min(top, upper)

    def estimate(self, cell: int, held: Held) -> Estimate:
        have = self.precision(cell, held)
        unit = float(self.unit)
        if not have:
            return Estimate(None, -math.inf, math.inf)
        # A relative target spent half of gamma on the bound it was priced by.
        gamma = self.gamma / 2 if isinstance(self.goal, Relative) else self.gamma
        half = two_sided(gamma) / math.sqrt(have) * unit * (1 + 2**-50)
        if isinstance(self.goal, Within):
            wanted, _ = precision_for(self.goal.amount / self.unit, two_sided(self.gamma))
            if have >= wanted:
                half = min(half, float(self.goal.amount))
        value = float(self.value(cell, held) * self.unit)
        return Estimate(value, value - half, value + half)


class Count(Linear):
    def _known(self, cell: int, held: Held) -> Known:
        return held.known[self.parts["count"]][cell]

    def precision(self, cell: int, held: Held) -> Fraction:
        return self._known(cell, held).precision

    def value(self, cell: int, held: Held) -> Fraction:
        return self._known(cell, held).value

    def direct(self, cell: int, held: Held, precision: Fraction) -> Wants:
        return {self.parts["count"]: precision}


class Sum(Linear):
    """SUM = sum directly, or centred sum + middle * COUNT: whichever is cheaper after credit; what is
    known either way is fused (the two share no release)."""

    role = "sum"

    def __init__(self, ask: Ask, index: int) -> None:
        super().__init__(ask, index)
        self.two_ways = self.parts["sum"] != self.parts["centred"]
        self.middle = self.block("centred").middle

    def _roundabout(self, cell: int, held: Held) -> Fraction:
        """The precision of centred sum + middle * count."""
        if not self.two_ways:
            return Fraction(0)
        centred = held.known[self.parts["centred"]][cell].precision
        count = held.known[self.parts["count"]][cell].precision
        if not centred or not count:
            return Fraction(0)
        return 1 / (1 / centred + self.middle**2 / count)

    def precision(self, cell: int, held: Held) -> Fraction:
        return held.known[self.parts["sum"]][cell].precision + self._roundabout(cell, held)

    def value(self, cell: int, held: Held) -> Fraction:
        direct = held.known[self.parts["sum"]][cell]
        around = self._roundabout(cell, held)
        total = direct.weighted
        if around:
            centred = held.known[self.parts["centred"]][cell].value
            count = held.known[self.parts["count"]][cell].value
            total += around * (centred + self.middle * count)
        return total / (direct.precision + around)

    def direct(self, cell: int, held: Held, precision: Fraction) -> Wants:
        return {self.parts["sum"]: precision - self._roundabout(cell, held)}

    def wants(self, cell: int, held: Held, precision: Fraction) -> Wants:
        direct = self.direct(cell, held, precision)
        around = self._wants_roundabout(cell, held, precision)
        if around is None or self._price(direct, cell, held) <= self._price(around, cell, held):
            return direct
        return around

    def _wants_roundabout(self, cell: int, held: Held, precision: Fraction) -> Wants | None:
        known = {role: held.known[self.parts[role]][cell].precision for role in self.parts}
        # From scratch both ways cost the same; the roundabout one can only win by credit.
        if not self.two_ways or not (known["centred"] or known["count"]):
            return None
        variance = 1 / (precision - known["sum"])
        price = {r: self.block(r).reach ** 2 for r in ("centred", "count")}
        centred, count = split(
            [
                Term(Fraction(1), price["centred"], known["centred"]),
                Term(self.middle**2, price["count"], known["count"]),
            ],
            variance,
        )
        return {self.parts["centred"]: centred, self.parts["count"]: count}

    def _price(self, wants: Wants, cell: int, held: Held) -> Fraction:
        return sum(
            (
                self.blocks[b].reach ** 2 * residual(p, held.known[b][cell].precision)
                for b, p in wants.items()
            ),
            Fraction(0),
        )


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
        self.z = two_sided(2 * self.gamma / 3)
        self.z_count = one_sided(self.gamma / 3)

    def want(self, cell: int, held: Held, funds: Funds) -> Need:
        count = held.known[self.parts["count"]][cell]
        centred = held.known[self.parts["centred"]][cell]
        tolerance, sure = self._tolerance(cell, held)
        if sure and self._half_width(cell, held) <= tolerance:
            return NOTHING
        if not count.precision:
            return self._stage({"count": self._first(tolerance, funds)}, tolerance, funds)
        error = self.z_count / math.sqrt(count.precision)
        lower, upper = float(count.value) - error, float(count.value) + error
        if lower <= 0 or count.precision < self._rough_count(tolerance, lower):
            if upper < self._least_count(tolerance, funds):
                return HOPELESS
            aim = self._rough_count(tolerance, upper)
            more = max(min(4 * count.precision, aim), count.precision * Fraction(5, 4))
            return self._stage({"count": more}, tolerance, funds)
        if lower < float(funds.m_floor or 0):
            return HOPELESS
        if not sure:
            return self._stage({"centred": self._next_centred(cell, held)}, tolerance, funds)
        low, high = self._fieller(cell, held)
        if high - low > float(self.half) / 2:
            rough = min(
                self._least_centred(tolerance, upper), self._least_centred(self.half / 8, lower)
            )
            if centred.precision < rough:
                return self._stage({"centred": rough}, tolerance, funds)
        farthest = Fraction(max(abs(low), abs(high)))
        parts = [
            Term(Fraction(1), self.centred.reach**2, centred.precision),
            Term(farthest**2, self.count.reach**2, count.precision),
        ]
        wanted = split(parts, 1 / self._least_centred(tolerance, lower))
        wants = {self.parts["centred"]: wanted[0], self.parts["count"]: wanted[1]}
        return Need(wants, settles=isinstance(self.goal, Relative))

    def _stage(self, parts: Mapping[str, Fraction], tolerance: float, funds: Funds) -> Need:
        """A step that the price of the rest depends on, with what is known of that price."""
        wants = {self.parts[role]: dyadic_up(p) for role, p in parts.items()}
        least = dict(wants)
        most: Wants | None = None
        if isinstance(self.goal, Within):
            if funds.n_max is not None:
                end = self.parts["centred"], self._least_centred(tolerance, funds.n_max)
                least[end[0]] = max(end[1], least.get(end[0], end[1]))
            if funds.m_floor is not None:
                share = 2 * self._least_centred(tolerance, float(funds.m_floor))
                most = {self.parts["centred"]: share, self.parts["count"]: share * self.half**2}
        return Need(wants, final=False, least=least, most=most)

    def _tolerance(self, cell: int, held: Held) -> tuple[float, bool]:
        """U in units, and whether it is settled (a relative target needs the average first)."""
        goal = self.goal
        unit = self.centred.unit
        if isinstance(goal, Within):
            return float(goal.amount / unit), True
        assert isinstance(goal, Relative)
        floor = float(AVG_FLOOR * self.half)
        low, high = self._fieller(cell, held)
        middle = float(self.centred.middle)
        least = max(0.0, low + middle, -(high + middle))
        magnitude = max(least, floor)
        sure = (high - low) / 2 <= magnitude / 2
        return float(goal.share) * magnitude, sure

    def _next_centred(self, cell: int, held: Held) -> Fraction:
        have = held.known[self.parts["centred"]][cell].precision
        count = held.known[self.parts["count"]][cell].precision
        return dyadic_up(4 * have if have else count / self.half**2)

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
        """The fewest rows whose average could be afforded at all with what may be spent."""
        if funds.spendable <= 0:
            return math.inf
        price = support_of(self._least_centred(tolerance, 1), self.centred.reach)
        return max(math.sqrt(price / funds.spendable), float(funds.m_floor or 0))

    def _half_width(self, cell: int, held: Held) -> float:
        low, high = self._fieller(cell, held)
        count = held.known[self.parts["count"]][cell]
        centred = held.known[self.parts["centred"]][cell]
        if not count.precision or not centred.precision or not count.weighted:
            return math.inf
        value = float(centred.value / count.value)
        return max(high - value, value - low)

    def _fieller(self, cell: int, held: Held) -> tuple[float, float]:
        """{t : |S - tN| <= z sqrt(v_S + t^2 v_N)} within the column's bounds, t from the middle."""
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
        return min(max(low, -half), half), min(max(high, -half), half)

    def estimate(self, cell: int, held: Held) -> Estimate:
        low, high = self._fieller(cell, held)
        unit, middle = float(self.centred.unit), float(self.centred.middle)
        count = held.known[self.parts["count"]][cell]
        centred = held.known[self.parts["centred"]][cell]
        value: float | None = None
        if count.precision and centred.precision and count.value > 0:
            value = float(centred.value / count.value)
            value = (value + middle) * unit
        return Estimate(value, (low + middle) * unit, (high + middle) * unit)


RULES: Mapping[str, type[Rule]] = {"COUNT": Count, "SUM": Sum, "AVG": Average}


def rules_of(ask: Ask) -> list[Rule]:
    return [
        RULES[aggregate.function](ask, j)
        for j, aggregate in enumerate(ask.compiled.question.aggregates)
    ]
