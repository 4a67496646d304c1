"""The outcome of ``defray plan``: the budget for each policy, what more or less would do, and the lines for a
contract."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.text import Text

from defray.cli import screen
from defray.cli.answers import new_table
from defray.cli.numbers import percent, rho
from defray.cli.screen import say
from defray.cli.screen import show as show_json
from defray.errors import BadInput
from defray.policy.choices import GATES, NEED_HORIZON
from defray.simulate.planning import Requirement, Sensitivity, required, sensitivity
from defray.simulate.pricing import residuals
from defray.simulate.run import Budget

if TYPE_CHECKING:
    from defray.core.contract import Contract
    from defray.simulate.workload import Workload

DELTA = 1e-6
"""Where neither the user nor the contract names a delta."""

TYPICAL = 20
"""How many prices a forecast tells."""


@dataclass(frozen=True, slots=True)
class Found:
    """What each policy needs (or why no budget is enough), what varies with the first that can, and how it
    was found."""

    needs: tuple[tuple[str, Requirement | BadInput], ...]
    first: Requirement
    varied: Sensitivity
    share: float
    xi: float
    horizon: int


def find(
    workload: Workload,
    names: Sequence[str],
    share: float,
    budget: Budget,
    progress: Callable[[int, int], None],
) -> Found:
    """Raises BadInput where no policy can meet so many targets at any budget."""
    assert budget.horizon is not None
    needs: list[tuple[str, Requirement | BadInput]] = []
    for i, name in enumerate(names):
        progress(i, len(names) + 1)
        try:
            needs.append(
                (name, required(workload, name, share=share, xi=budget.xi, horizon=budget.horizon))
            )
        except BadInput as error:
            needs.append((name, error.with_traceback(None)))
    met = [need for _, need in needs if isinstance(need, Requirement)]
    if not met:
        raise next(need for _, need in needs if isinstance(need, BadInput))
    progress(len(names), len(names) + 1)
    first = met[0]
    varied = sensitivity(
        workload, [first.scheme], first.rho, share=share, xi=budget.xi, horizon=budget.horizon
    )
    return Found(tuple(needs), first, varied, share, budget.xi, budget.horizon)


def show(found: Found, workload: Workload, delta: float, notes: Sequence[str]) -> None:
    """In words, or as one document."""
    lines = contract_lines(found, workload)
    if screen.json_wanted():
        show_json(_document(found, workload, delta, lines, notes))
        return
    say(
        f"{workload.name}: {len(workload):,} asks of {workload.questions:,} questions, of which "
        f"{percent(found.share)} are to be satisfied",
        "bold",
    )
    say(_budgets(found, delta))
    say()
    say(f"With another budget ({found.first.scheme}; rho = {rho(found.first.rho)}):", "bold")
    say(_more_or_less(found.varied))
    say()
    say("With another workload:", "bold")
    say(_moved(found.varied))
    say()
    say(f"For the contract ({found.first.scheme}):", "bold")
    for line in lines:
        say(f"    {line}")
    for text in notes:
        say(f"note: {text}", "dim")


def held_back(contract: Contract | None) -> list[str]:
    """What the promises of a contract need of its budget, whatever is asked; as notes."""
    if contract is None or not contract.promises:
        return []
    from defray.cli.books import promise_in_words, promises_needed

    return [
        f"the contract promises {promise_in_words(p)}: that needs {rho(p['needs_rho'])} rho of its dearest "
        "cell, which other questions cannot have"
        for p in promises_needed(contract)
    ]


def contract_lines(found: Found, workload: Workload) -> list[str]:
    """What to write in a contract for the first policy: its budget, rounded up; its gate; and where the gate
    looks ahead, how many paid asks to expect and what they cost."""
    need = found.first
    gate = need.scheme.removeprefix("qif_").removeprefix("w1f_")
    lines = [f"rho = {_up(need.rho)}"]
    if need.xi:
        lines.append(f"xi = {need.xi:.12g}")
    lines.append(f"horizon = {found.horizon}")
    if gate in GATES:
        lines.append(f'gate = "{gate}"')
    if gate in NEED_HORIZON:
        lines.append(f"forecast = [{', '.join(f'{p:.4g}' for p in forecast(workload))}]")
    return lines


def forecast(workload: Workload) -> list[float]:
    """Typical residuals, from small to large: the means of up to twenty equal parts, whose mean is theirs."""
    paid = np.sort(residuals(workload))
    paid = paid[paid > 0]
    return [float(part.mean()) for part in np.array_split(paid, min(TYPICAL, len(paid)))]


def _up(x: float) -> str:
    """Six significant digits, rounded up.

    >>> _up(0.0192073), _up(1.00000001), _up(0.5), _up(1234567.8)
    ('0.0192073', '1.00001', '0.5', '1.23457e+06')
    """
    nearest = f"{x:.6g}"
    if float(nearest) >= x:
        return nearest
    step = 10.0 ** (math.floor(math.log10(x)) - 5)
    return f"{(math.floor(x / step) + 1) * step:.6g}"


def _budgets(found: Found, delta: float) -> Any:
    table = new_table()
    table.add_column("policy", no_wrap=True)
    for name in ("rho", f"epsilon at delta {delta:g}", "satisfied"):
        table.add_column(name, justify="right")
    table.add_column("found")
    for name, need in found.needs:
        if isinstance(need, Requirement):
            how = "exactly (Theorem 7)" if need.exact else "by search"
            cells = [rho(need.rho), f"{need.epsilon(delta):.4g}", percent(round(need.reached, 4))]
        else:
            how, cells = "no budget is enough", ["-", "-", "-"]
        table.add_row(Text(name), *cells, how)
    return table


def _more_or_less(varied: Sensitivity) -> Any:
    table = new_table()
    for name in ("times rho", "rho", "satisfied", "mean missing part"):
        table.add_column(name, justify="right")
    for row in varied.budgets:
        table.add_row(
            f"{row.factor:g}",
            rho(row.rho),
            percent(round(row.satisfied, 4)),
            percent(round(row.shortfall, 4)),
        )
    return table


def _moved(varied: Sensitivity) -> Any:
    table = new_table()
    table.add_column("what changes")
    for name in ("rho", "times"):
        table.add_column(name, justify="right")
    for row in varied.needs:
        if row.longer:
            what = f"{percent(row.longer)} more asks"
        elif row.tolerance == 1:
            what = "nothing"
        else:
            what = f"errors {row.tolerance:g} times as wide"
        table.add_row(what, rho(row.rho), f"{row.change:.3g}")
    return table


def _document(
    found: Found, workload: Workload, delta: float, lines: list[str], notes: Sequence[str]
) -> dict[str, Any]:
    return {
        "workload": workload.name,
        "asks": len(workload),
        "questions": workload.questions,
        "share": found.share,
        "delta": delta,
        "policies": [
            {"policy": name, **asdict(need), "epsilon": need.epsilon(delta)}
            if isinstance(need, Requirement)
            else {"policy": name, "error": need.to_dict()}
            for name, need in found.needs
        ],
        "sensitivity": asdict(found.varied),
        "contract": lines,
        "notes": list(notes),
    }
