"""One step of the protocol: from what is wanted and held to what must be measured, and its charge.

Pure and deterministic in (ask, held, funds): a quote and the ask that follows compute the same step, so
where the quote says exact the charge equals it to the last digit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from defray.controller.ask import Ask, Funds, Held
from defray.controller.linear import Count, Linear
from defray.controller.purchase import Purchase, charged, cheapest, releases
from defray.controller.rule import NOTHING, Need, Wants
from defray.controller.rules import rules_of
from defray.core.amounts import dyadic_up, precision_of, quanta_down, rho_of
from defray.core.contract import Purse
from defray.core.target import Relative, Spend, Within

MAX_STEPS: Final = 64
"""More steps than any ask takes; past it an ask stops with what it has bought."""


@dataclass(frozen=True)
class Step:
    """What to buy next.  ``final``: this meets every target that can be met; otherwise measure, then plan
    again.  ``needs[j][i]`` is what cell i of aggregate j wanted.  ``fits``: it ends the ask, and
    every cell can pay for it, whatever the dearest pays (mixtures are fitted to what each cell has left).
    ``promised``: the contract promises what is asked, so no gate holds it back."""

    purchases: tuple[Purchase, ...]
    final: bool
    purse: Purse
    needs: tuple[tuple[Need, ...], ...]
    settles: tuple[tuple[bytes, Fraction, Fraction], ...] = ()
    fits: bool = False
    promised: bool = False

    @property
    def charge(self) -> int:
        """Quanta of the whole step."""
        return charged(self.purchases)

    @property
    def hopeless(self) -> bool:
        """Whether nothing that is asked can be met."""
        found = [n.hopeless for needs in self.needs for n in needs]
        return bool(found) and all(found)


def plan(ask: Ask, held: Held, funds: Funds) -> Step:
    """The next step for an ask."""
    rules = rules_of(ask)
    compiled = ask.compiled
    needs: list[tuple[Need, ...]] = [()] * len(rules)
    empties = [compiled.blocks[rule.parts["count"]].empty for rule in rules]
    # Counts first: what they buy is credit for the sums and averages over the same rows.
    for j in sorted(range(len(rules)), key=lambda j: not isinstance(rules[j], Count)):
        rule = rules[j]
        row: list[Need] = []
        for i in range(len(compiled.cells)):
            free = empties[j][i] or ask.promised(held, j, i)
            row.append(NOTHING if free else rule.want(i, held, funds))
        needs[j] = tuple(row)
    stages = [n for row in needs for n in row if not n.final]
    if not stages:
        settles = tuple(
            (ask.mark(j, i), share, ask.miss)
            for j, goal in enumerate(ask.goals)
            if isinstance(goal, Relative) and (share := ask.share(j)) is not None
            for i, need in enumerate(needs[j])
            if not (need.hopeless or ask.promised(held, j, i) or empties[j][i])
        )
        bought = _bill(ask, held, funds, needs, lambda n: n.wants)
        step = fitted(Step(bought, True, "answer", tuple(needs), settles), ask, held)
        step = replace(step, promised=_promised(ask, held, needs))
        weighs = funds.weighs and not step.promised
        return (_diagnostic(ask, held, funds, step) if weighs else None) or step
    purse: Purse = "diagnostic" if any(n.purse == "diagnostic" for n in stages) else "answer"
    now = _bill(
        ask, held, funds, needs, lambda n: None if n.final or n.purse != purse else n.wants, purse
    )
    if purse == "diagnostic" and charged(now) > quanta_down(funds.diagnostic, funds.total):
        return plan(ask, held, replace(funds, probe=Fraction(0)))  # the purse is as good as empty
    return fitted(Step(now, False, purse, tuple(needs)), ask, held)


def fitted(step: Step, ask: Ask, held: Held) -> Step:
    """A step whose mixtures of cells every cell can pay for together, or without them."""
    if held.overlap is None or not any(p.draws for p in step.purchases):
        return step
    if held.overlap.fits(releases(ask, step.purchases)):
        return replace(step, fits=step.final)
    return replace(step, purchases=tuple(p.itself or p for p in step.purchases))


def _promised(ask: Ask, held: Held, needs: Sequence[Sequence[Need]]) -> bool:
    """Whether the contract promises a question, which is a single count."""
    if held.overlap is None or len(ask.compiled.blocks) != 1:
        return False
    (wanted,) = _wanted(ask, needs, lambda n: n.wants)
    return held.overlap.promised(ask.compiled.blocks[0], wanted) is not None


def _diagnostic(ask: Ask, held: Held, funds: Funds, step: Step) -> Step | None:
    """The diagnostic that weighs a question before a scarce budget answers it (design: controller, step
    4): of each functional that is asked itself, where less than a probe is known, and no more than is needed.
    It is credited.  None where there is nothing to learn or the purse is empty."""
    wanted: dict[int, dict[int, Fraction]] = {}
    for rule, goal in zip(rules_of(ask), ask.goals, strict=True):
        if not (isinstance(rule, Linear) and isinstance(goal, Within)):
            continue
        block = rule.parts[rule.role]
        probe = dyadic_up(precision_of(funds.probe, rule.reach))
        for i, empty in enumerate(rule.blocks[block].empty):
            have, missing = rule.precision(i, held), rule.absolute_precision(goal, i, held)
            if not empty and have < min(probe, missing):
                more = min(probe, missing - have)  # an easy question is paid from this purse alone
                wanted.setdefault(block, {})[i] = held.known[block][i].precision + more
    made = (
        cheapest(b, ask.compiled.blocks[b], cells, held, funds, "diagnostic", given=False)
        for b, cells in sorted(wanted.items())
    )
    bought = tuple(p for p in made if p is not None)
    charge = charged(bought)
    if not bought or rho_of(charge, funds.total) > funds.diagnostic or charge > step.charge:
        return None
    return fitted(Step(bought, False, "diagnostic", step.needs), ask, held)


def expected(ask: Ask, held: Held, step: Step) -> Held:
    """What will be held after a step, but for the values that it draws."""
    if held.overlap is not None:
        overlap = held.overlap.planning(releases(ask, step.purchases))
        return held.with_planned(ask.compiled, planned(ask, step)).with_overlap(
            ask.compiled, overlap
        )
    return held.with_planned(ask.compiled, planned(ask, step))


def planned(ask: Ask, step: Step) -> dict[bytes, list[tuple[Fraction, str]]]:
    """The precisions that a step adds to the functionals that it measures themselves."""
    found: dict[bytes, list[tuple[Fraction, str]]] = {}
    for purchase in step.purchases:
        keys = ask.compiled.blocks[purchase.block].keys
        for key, precision in zip(keys, purchase.precisions, strict=True):
            if precision is not None:
                found.setdefault(key, []).append((precision, "expected"))
    return found


@dataclass(frozen=True, slots=True)
class Price:
    """What an ask will cost, in quanta: ``low == high`` where ``exact``.  ``step`` is what is bought first.
    An ask whose price is a range stops at ``high``; ``capped``: meeting its targets may take more."""

    step: Step
    low: int
    high: int
    exact: bool = True
    capped: bool = False

    @classmethod
    def of(cls, step: Step) -> Price:
        """The price of a step that nothing follows."""
        return cls(step, step.charge, step.charge)

    @property
    def free(self) -> bool:
        """Whether nothing has to be bought."""
        return not self.step.purchases and not self.step.hopeless

    @property
    def rest(self) -> int:
        """The least quanta that it takes from the answer purse."""
        step = self.step
        return max(self.low, step.charge) - charged(step.purchases, "diagnostic")


def price(ask: Ask, held: Held, funds: Funds) -> Price:
    """The price of an ask from what is public now.

    Where a count or magnitude is not yet known, the first step's charge is exact and the rest is a range:
    from what is needed in any case to the price at the floor, or to all that may be spent.
    """
    step = plan(ask, held, funds)
    first = step.charge
    if step.final:
        return Price.of(step)
    if step.purse == "diagnostic" and not ask.depends_on_data:
        rest = plan(ask, expected(ask, held, step), replace(funds, weighs=False))
        return Price(step, first + rest.charge, first + rest.charge)
    # What one aggregate buys may make another cheaper, but a count is as good as its own releases.
    sure = step.needs if len(ask.goals) == 1 else _absolute_counts(ask, step)
    least = charged(_bill(ask, held, funds, sure, lambda n: n.wants if n.final else n.least))
    alone = len(ask.goals) == 1 or held.overlap is None
    low = max(first, least) if alone else first
    high = left = quanta_down(funds.spendable, funds.total) + charged(step.purchases, "diagnostic")
    capped = True
    if all(n.final or n.most is not None for row in step.needs for n in row):
        # Top-ups of one cell add up to its whole price.  Of many cells, each step charges the dearest, which
        # need not be the same one every time.
        dearest = _bill(ask, held, funds, step.needs, lambda n: n.wants if n.final else n.most)
        whole = charged(dearest) + MAX_STEPS
        most = whole if len(ask.compiled.cells) == 1 else 4 * whole
        high, capped = min(left, most), most > left
    return Price(step, low, max(low, high), exact=False, capped=capped or max(low, least) > left)


def _wanted(
    ask: Ask, needs: Sequence[Sequence[Need]], pick: Callable[[Need], Wants | None]
) -> list[dict[int, Fraction]]:
    """The largest precision that is picked for each cell of every block."""
    wanted: list[dict[int, Fraction]] = [{} for _ in ask.compiled.blocks]
    for row in needs:
        for i, need in enumerate(row):
            for b, precision in (pick(need) or {}).items():
                wanted[b][i] = max(precision, wanted[b].get(i, Fraction(0)))
    return wanted


def _bill(
    ask: Ask,
    held: Held,
    funds: Funds,
    needs: Sequence[Sequence[Need]],
    pick: Callable[[Need], Wants | None],
    purse: Purse = "answer",
) -> tuple[Purchase, ...]:
    """What brings every block to what is picked for it."""
    given = any(isinstance(g, Spend) for g in ask.goals)
    made = (
        cheapest(b, ask.compiled.blocks[b], cells, held, funds, purse, given=given)
        for b, cells in enumerate(_wanted(ask, needs, pick))
    )
    return tuple(p for p in made if p is not None)


def _absolute_counts(ask: Ask, step: Step) -> list[tuple[Need, ...]]:
    """The needs of a step that are of counts with an absolute error."""
    return [
        needs if isinstance(rule, Count) and isinstance(goal, Within) else ()
        for rule, goal, needs in zip(rules_of(ask), ask.goals, step.needs, strict=True)
    ]


FREE: Final = Price(Step((), final=True, purse="answer", needs=()), 0, 0)
"""The price of what is already held."""
