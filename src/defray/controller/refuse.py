"""Refusals: built from the question, the contract and the transcript only, and saying what still fits."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from defray.controller.ask import Ask, Funds, Held
from defray.controller.plan import best_fit
from defray.core.numbers import show_number
from defray.errors import BudgetRefused, MaxRhoRefused, TooFewRows


def show_rho(rho: Fraction) -> str:
    """Six significant digits."""
    return f"{float(rho):.6g}"


def show_percent(confidence: Fraction) -> str:
    return f"{show_number(confidence * 100)}%"


def best_goals(ask: Ask, held: Held, funds: Funds) -> dict[str, str] | None:
    """The best accuracy that still fits, by alias, stretching all tolerances alike; None if nothing."""
    best = best_fit(ask, held, funds)
    if best is None:
        return None
    aliases = (a.alias for a in ask.compiled.question.aggregates)
    return {alias: str(goal) for alias, goal in zip(aliases, best.goals, strict=True)}


def over_budget(
    ask: Ask,
    asked: Fraction,
    available: Fraction,
    purse: str,
    cap: Fraction,
    best: Mapping[str, str] | None,
) -> BudgetRefused:
    """The contract's purse does not hold what the residual costs."""
    if best is None:
        hint = "ask for less accuracy or fewer groups; answers already bought stay free"
    else:
        shown = ", ".join(f"within {goal} for {alias}" for alias, goal in best.items())
        hint = f"the best accuracy that still fits is {shown} at {show_percent(ask.confidence)}"
    return BudgetRefused(
        f"this needs {show_rho(asked)} rho; {show_rho(available)} of the contract's "
        f"{show_rho(cap)} rho for {purse}s remain ({show_rho(asked - available)} too little)",
        hint=hint,
        limit=f"contract, {purse} budget",
        asked=float(asked),
        remaining=float(available),
        best=best,
    )


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
