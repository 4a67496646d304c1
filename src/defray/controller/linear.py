"""COUNT and SUM: linear functionals, whose precision adds up over independent releases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from defray.controller.ask import Ask, Funds, Held
from defray.controller.rule import (
    FINAL_BITS,
    NOTHING,
    STAGE_BITS,
    Estimate,
    Need,
    Rule,
    Wants,
)
from defray.core.allocate import Term, residual, split
from defray.core.amounts import dyadic_up, precision_of, quanta_down, support_of
from defray.core.target import (
    Relative,
    Spend,
    Within,
    one_sided,
    precision_for,
    two_sided,
    two_stage,
)
from defray.core.validity import anytime_precision, anytime_width
from defray.support.known import Known


class Linear(Rule):
    """COUNT and SUM: one linear functional, whose precision adds up over independent releases."""

    role = "count"

    def __init__(self, ask: Ask, index: int) -> None:
        super().__init__(ask, index)
        self.anytime = ask.validity.kind == "anytime"
        self._halves: dict[tuple[Fraction, Fraction], float] = {}

    @property
    def unit(self) -> Fraction:
        return self.block(self.role).unit

    @property
    def reach(self) -> Fraction:
        return self.block(self.role).reach

    def own(self, cell: int, held: Held) -> Known:
        """What the releases of the functional itself say."""
        return held.known[self.parts[self.role]][cell]

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
        if self.anytime:
            state = (*state, self.own(cell, held).first)
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
            worth = quanta_down(missing, funds.total) > 0 and missing * 2**12 > goal.rho
            return Need(self.direct(cell, held, wanted)) if worth else NOTHING
        assert isinstance(goal, Within)
        if self._enough(goal, cell, held):
            return NOTHING
        return Need(self.wants(cell, held, self.absolute_precision(goal, cell, held)))

    def _want_relative(
        self, goal: Relative, have: Fraction, cell: int, held: Held, funds: Funds
    ) -> Need:
        """Diagnostic first where its purse allows; then what even the largest plausible magnitude needs,
        which is never wasted, until the plausible range is narrow; then the target at its lower end."""
        lower, upper = self._magnitude(have, cell, held, funds)
        wanted = self.relative_precision(goal, lower)
        if wanted <= have:
            return NOTHING
        most = self.wants(cell, held, self.relative_precision(goal, self.floor(funds)))
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
            wanted = self.shared(wanted, FINAL_BITS)
            return Need(self.wants(cell, held, wanted))
        wants = self.wants(cell, held, self.shared(dyadic_up(first), STAGE_BITS))
        return Need(wants, final=False, least=wants, most=most)

    def floored(self, cell: int, held: Held, funds: Funds) -> bool:
        if not isinstance(self.goal, Relative):
            return False
        lower, _ = self._magnitude(self.precision(cell, held), cell, held, funds)
        return lower <= self.floor(funds)

    def absolute_precision(self, goal: Within, cell: int, held: Held) -> Fraction:
        if self.anytime:
            amount = goal.amount / self.unit
            return anytime_precision(amount, self.own(cell, held).first, self.gamma)
        return self.target_precision(goal)

    def target_precision(self, goal: Within) -> Fraction:
        """What an absolute target of a fixed interval takes, in all cells alike."""
        return precision_for(goal.amount / self.unit, two_sided(self.gamma))

    def _enough(self, goal: Within, cell: int, held: Held) -> bool:
        """Whether what is held meets an absolute target."""
        have = self.precision(cell, held)
        if self.anytime and have:
            width = anytime_width(have, self.own(cell, held).first, self.gamma)
            return width <= goal.amount / self.unit
        return have >= self.absolute_precision(goal, cell, held)

    def relative_precision(self, goal: Relative, magnitude: Fraction) -> Fraction:
        return precision_for(goal.share * magnitude, two_sided(self.gamma / 2))

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
        if not have:
            return Estimate(None, -math.inf, math.inf)
        state = have, self.own(cell, held).first if self.anytime else have
        half = self._halves.get(state)
        if half is None:
            half = self._halves[state] = self._half_width(cell, held)
        value = self.approximate(cell, held)
        return Estimate(value, value - half, value + half, float(f"{half:.14g}"))

    def approximate(self, cell: int, held: Held) -> float:
        """The fused value in the aggregate's own units, rounded once."""
        return float(self.value(cell, held) * self.unit)

    def _half_width(self, cell: int, held: Held) -> float:
        have = self.precision(cell, held)
        if self.anytime:
            half = anytime_width(have, self.own(cell, held).first, self.gamma)
        else:
            half = self._z() / math.sqrt(have)
        half *= float(self.unit) * (1 + 2**-50)
        return min(half, self._promised(have, cell, held))

    def _z(self) -> float:
        """The normal quantile of an interval: where a grant may have followed from what a first step said,
        that of two steps.  A relative target spent half of gamma on the bound it was priced by."""
        if isinstance(self.goal, Relative):
            return two_sided(self.gamma / 2)
        return two_stage(self.gamma) if self.ask.weighed else two_sided(self.gamma)

    def _promised(self, have: Fraction, cell: int, held: Held) -> float:
        """The half-width that was asked for, where it is met: its precision was fixed beforehand."""
        if isinstance(self.goal, Within) and self._enough(self.goal, cell, held):
            return float(self.goal.amount)
        if isinstance(self.goal, Spend) and not self.anytime:
            wanted = precision_of(self.goal.rho, self.reach)
            if residual(wanted, have) * 2**12 <= wanted:  # as it is not worth more
                half = two_sided(self.gamma) / math.sqrt(min(have, wanted))
                return half * float(self.unit) * (1 + 2**-50)
        return math.inf


class Count(Linear):
    def precision(self, cell: int, held: Held) -> Fraction:
        return self.own(cell, held).precision

    def value(self, cell: int, held: Held) -> Fraction:
        return self.own(cell, held).value

    def approximate(self, cell: int, held: Held) -> float:
        return self.own(cell, held).approximate

    def direct(self, cell: int, held: Held, precision: Fraction) -> Wants:
        return {self.parts["count"]: precision}


class Sum(Linear):
    """SUM = sum directly, or centred sum + middle * COUNT: whichever is cheaper after credit; what is
    known either way is fused (the two share no release).  Where looks matter, the sum's own releases are
    all that counts."""

    role = "sum"

    def __init__(self, ask: Ask, index: int) -> None:
        super().__init__(ask, index)
        alone = ask.validity.own_releases_only
        self.two_ways = not alone and self.parts["sum"] != self.parts["centred"]
        self.middle = self.block("centred").middle

    def behind(self, cell: int, held: Held) -> Sequence[int]:
        return self._all if self._roundabout(cell, held) else (self.parts["sum"],)

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
        return self.own(cell, held).precision + self._roundabout(cell, held)

    def value(self, cell: int, held: Held) -> Fraction:
        direct = self.own(cell, held)
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
