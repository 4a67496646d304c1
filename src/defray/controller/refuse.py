"""Refusals: built from the question, the contract and the transcript only, and saying what still fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from defray.controller.ask import Ask
from defray.controller.best import best_fit
from defray.controller.plan import plan
from defray.controller.scarcity import Moment, Ration, Scarcity, grants
from defray.controller.validity import too_many_looks
from defray.core.amounts import rho_of
from defray.core.numbers import show_number
from defray.core.target import Within, two_sided
from defray.errors import BudgetRefused, ContractClosed, MaxRhoRefused, Refused, TooFewRows


def refusal_of(
    ask: Ask, moment: Moment, rationed: Ration, *, search: bool = True
) -> Refused | None:
    """Why a step may not be bought, if so.  ``search``: also look for the best accuracy that is granted.

    Where the gate grants nothing but something is known, that is the answer: no refusal, targets not met.
    """
    step, funds = rationed.price.step, moment.funds
    if step.hopeless:
        return too_few_rows(Fraction(0))
    if rationed.grant is None:
        return None
    if step.purchases:
        asked = rho_of(max(rationed.price.low, step.charge), funds.total)
        if funds.ceiling is not None and asked > funds.ceiling:
            return over_ceiling(asked, funds.ceiling, funds.charged)
        return None
    known = any(k.precision for row in moment.held.known for k in row)
    if moment.scarcity.policy.partial and known:
        return None
    needed = rho_of(rationed.lacking, funds.total)
    best = best_goals(ask, moment) if search else None
    regional, share = moment.overlap is not None, moment.share
    if needed > funds.answer and not rationed.price.step.fits:
        whose = ("the reserve", "reserve") if moment.reserve else ("the contract", "contract")
        if share is not None:
            whose = share.name, "share"
        cap = (moment if share is None else share.alone).scarcity.cap
        return over_budget(ask, needed, funds.answer, cap, best, whose=whose, regional=regional)
    if share is not None:
        return beyond_share(ask, needed, funds.answer, share.name, best)
    return held_back(ask, needed, funds.answer, reason(rationed, moment.scarcity), best)


def reason(rationed: Ration, scarcity: Scarcity) -> str:
    """Why the gate grants less than is needed."""
    policy, demand = scarcity.policy, rationed.grant.demand if rationed.grant else None
    horizon = getattr(policy, "horizon", None)
    everything = (
        rationed.grant is not None and rationed.grant.rho == rationed.grant.demand.available
    )
    if demand is None or horizon is None or not policy.paced or everything:
        return "the budget does not hold what the target needs"
    number = scarcity.before.arrivals + 1
    return (
        f"the gate {policy.name} keeps the rest for the questions to come "
        f"({min(number, horizon):,} of {horizon:,} expected)"
    )


def closed() -> ContractClosed:
    """The contract has ended."""
    return ContractClosed(
        "the contract was closed; only what is known already is answered",
        hint="what was asked and answered before is in its history",
    )


def show_rho(rho: Fraction) -> str:
    """Six significant digits."""
    return f"{float(rho):.6g}"


def show_percent(confidence: Fraction) -> str:
    return f"{show_number(confidence * 100)}%"


def best_goals(ask: Ask, moment: Moment) -> dict[str, str] | None:
    """The best accuracy that is granted now, by alias, stretching all tolerances alike; None if none is."""
    if too_many_looks(ask, moment.held, plan(ask, moment.held, moment.funds)) is not None:
        return None
    if moment.share is not None:
        best = best_of_share(ask, moment)
    else:
        best = best_fit(
            ask, moment.held, moment.funds, lambda rho: grants(rho, moment.funds, moment.scarcity)
        )
    best = _promised(ask, moment, best)
    if best is None:
        return None
    aliases = (a.alias for a in ask.compiled.question.aggregates)
    return {alias: str(goal) for alias, goal in zip(aliases, best.goals, strict=True)}


def best_of_share(ask: Ask, moment: Moment) -> Ask | None:
    """The same where an analyst asks: the least stretch, to a percent, that is granted whole."""
    from defray.controller.sharing import decide

    if not all(isinstance(goal, Within) for goal in ask.goals):
        return None

    def granted(stretch: float) -> Ask | None:
        wider = ask.scaled(Fraction(f"{stretch:.4g}"))
        rationed = decide(wider, moment).rationed
        return wider if rationed.whole and rationed.price.exact else None

    low, high = 1.0, 2.0
    while (best := granted(high)) is None and high < 2**20:
        low, high = high, high * 4
    while best is not None and high > low * 1.01:
        middle = (low * high) ** 0.5
        closer = granted(middle)
        best, low, high = (best, middle, high) if closer is None else (closer, low, middle)
    return best


def _promised(ask: Ask, moment: Moment, best: Ask | None) -> Ask | None:
    """The best accuracy, or what the contract promises where that is better."""
    overlap, blocks = moment.held.overlap, ask.compiled.blocks
    if overlap is None or len(blocks) != 1 or not all(isinstance(g, Within) for g in ask.goals):
        return best
    precision = overlap.promises(blocks[0])
    if precision is None:
        return best
    amount = Fraction(two_sided(ask.gamma) / float(precision) ** 0.5) * (1 + Fraction(1, 2**40))
    if best is not None and any(isinstance(g, Within) and g.amount <= amount for g in best.goals):
        return best
    goals = tuple(Within(Fraction(f"{float(amount):.12g}")) for _ in ask.goals)
    return replace(ask, goals=goals)


def over_budget(
    ask: Ask,
    asked: Fraction,
    available: Fraction,
    cap: Fraction,
    best: Mapping[str, str] | None,
    *,
    whose: tuple[str, str] = ("the contract", "contract"),
    regional: bool = False,
) -> BudgetRefused:
    """The answer purse, or an analyst's part of it, does not hold what the residual costs; ``regional``: in
    the region that is asked about, while another may hold more."""
    if best is None:
        hint = "ask for less accuracy or fewer groups; answers already bought stay free"
    else:
        hint = f"the best accuracy that still fits is {_shown(ask, best)}"
    here = ""
    if regional:
        here = " for this region"
        column = next((a for b in ask.compiled.blocks for a in b.attributes), "COLUMN")
        hint += f"; another region may have more left: see the balance by {column} (--by {column})"
    return BudgetRefused(
        f"this needs {show_rho(asked)} rho; {show_rho(available)} of {whose[0]}'s "
        f"{show_rho(cap)} rho for answers remain{here} ({show_rho(asked - available)} too little)",
        hint=hint,
        limit=f"{whose[1]}, answer budget",
        asked=float(asked),
        remaining=float(available),
        best=best,
    )


def beyond_share(
    ask: Ask, asked: Fraction, available: Fraction, name: str, best: Mapping[str, str] | None
) -> BudgetRefused:
    """An analyst's share would not have bought it alone, and what others saved of it does not either: what
    is left is kept for what the share could buy."""
    hint = "ask for less accuracy; answers already bought stay free"
    if best is not None:
        hint = f"the best accuracy that is granted now is {_shown(ask, best)}"
    return BudgetRefused(
        f"this needs {show_rho(asked)} rho; {show_rho(available)} of the share of {name} remain, "
        "but the share alone could not have bought this, and what was saved does not cover it",
        hint=hint,
        limit="share, savings",
        asked=float(asked),
        remaining=float(available),
        best=best,
    )


def held_back(
    ask: Ask, asked: Fraction, available: Fraction, why: str, best: Mapping[str, str] | None
) -> BudgetRefused:
    """The contract's gate keeps what is left for others."""
    hint = "ask for less accuracy, or again later; answers already bought stay free"
    if best is not None:
        hint = f"the best accuracy that is granted now is {_shown(ask, best)}"
    return BudgetRefused(
        f"this needs {show_rho(asked)} rho of the {show_rho(available)} that remain, but {why}",
        hint=hint,
        limit="contract, gate",
        asked=float(asked),
        remaining=float(available),
        best=best,
    )


def _shown(ask: Ask, best: Mapping[str, str]) -> str:
    shown = ", ".join(f"within {goal} for {alias}" for alias, goal in best.items())
    return f"{shown} at {show_percent(ask.confidence)}"


def over_ceiling(asked: Fraction, ceiling: Fraction, charged: Fraction) -> MaxRhoRefused:
    """The caller's own max_rho does not cover it (any more, after what was charged already)."""
    already = f", of which {show_rho(charged)} are charged already" if charged else ""
    return MaxRhoRefused(
        f"this costs {show_rho(asked)} rho{' more' if charged else ''}, too much for max_rho = "
        f"{show_rho(ceiling + charged)}{already}",
        hint="raise max_rho or ask for less accuracy",
        limit="max_rho",
        asked=float(asked),
        remaining=float(ceiling),
    )


def too_few_rows(charged: Fraction) -> TooFewRows:
    """An average over a count that cannot be told from one too small to afford."""
    return TooFewRows(
        "too few rows for an average within the asked error: by the noisy count of the region, "
        "that accuracy is out of reach",
        hint="ask for a wider region or a larger error; the count bought so far stays credited",
        charged_rho=float(charged),
    )
