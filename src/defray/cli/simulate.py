"""``defray simulate`` and ``defray plan``: what a budget would buy, and which budget a workload needs."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from defray.cli.app import Json, checked_delta
from defray.cli.progress import Bar
from defray.errors import BadInput

if TYPE_CHECKING:
    from defray.cli.tables import Table
    from defray.core.contract import Contract
    from defray.simulate.run import Budget
    from defray.simulate.schemes import Scheme
    from defray.simulate.workload import Workload

COMPARED = ("refuse", "greedy", "paper", "fluid", "dual", "satisfy", "qif_dual", "SA", "AC", "BP")
"""The policies that are compared where none is named."""

PLANNED = ("refuse", "dual", "satisfy", "SA")
"""The policies that are planned for where none is named."""

XI = Fraction(1, 20)
"""The share for diagnostics where neither a contract nor --xi says."""

SEEDS, SEQUENCES = 10, 10_000
MOST_SEEDS = 1_000_000
ARRIVALS = 200_000
"""Of a longer workload fewer seeds are run, where --seeds does not say."""
ASKS = 10_000
"""The same of all asks that a table is asked."""

File = Annotated[
    Path | None,
    Parameter(
        help="A workload: one ask a line, JSON Lines or CSV with a header (docs/simulate.md)."
    ),
]
Generate = Annotated[
    str | None,
    Parameter(
        help="Instead of a file: NAME:parameter=value,... such as zipf:n=10000,distinct=500."
    ),
]
Under = Annotated[
    Path | None,
    Parameter(
        name=["--contract", "-c"],
        help="Prices the SQL of a workload; gives rho, xi, horizon, gate and m_floor.",
    ),
]
Policies = Annotated[
    list[str] | None,
    Parameter(
        negative="", help="A policy by name (may be repeated), or all; see docs/simulate.md."
    ),
]


def simulate(
    workload: File = None,
    /,
    *,
    generate: Generate = None,
    contract: Under = None,
    rho: Annotated[str | None, Parameter(help="The whole budget in zCDP.")] = None,
    epsilon: Annotated[str | None, Parameter(help="Or as epsilon, with --delta.")] = None,
    delta: Annotated[float | None, Parameter(help="The delta that goes with --epsilon.")] = None,
    xi: Annotated[str | None, Parameter(help="The share of rho for diagnostics (5%).")] = None,
    horizon: Annotated[
        int | None, Parameter(help="Paid asks that are declared (default: as many as there are).")
    ] = None,
    policy: Policies = None,
    seeds: Annotated[
        int | None,
        Parameter(help="Runs of each policy (10); with --paper random sequences (10,000)."),
    ] = None,
    out: Annotated[
        Path | None, Parameter(help="Write report.html, figures and numbers into this folder.")
    ] = None,
    table: Annotated[
        str | None,
        Parameter(
            help="Ask a table through the engine: synthetic (made from the declared domain), or data (the "
            "contract's own, for the curator only)."
        ),
    ] = None,
    rows: Annotated[
        int | None, Parameter(help="Of a synthetic table (10,000, or n_max where that is less).")
    ] = None,
    paper: Annotated[
        bool, Parameter(negative="", help="Measure the paper's statements; needs no workload.")
    ] = False,
    json: Json = False,
) -> int:
    """Run a workload through several policies, spending nothing, and compare what each satisfies."""
    _check_seeds(seeds)
    if paper:
        given = (workload, generate, contract, rho, epsilon, xi, horizon, policy, out, table, rows)
        if any(value is not None for value in given):
            raise BadInput("--paper takes --seeds and --json only", hint="defray simulate --paper")
        return _paper(SEQUENCES if seeds is None else seeds)
    terms = _contract(contract)
    asking = _table(table, rows, workload, terms)
    asked = _asked(workload, generate, terms, askable=asking is not None)
    budget = _budget(_rho(rho, epsilon, delta, terms), xi, horizon, terms, asked)
    names, schemes, gate = _schemes(policy, COMPARED, terms, budget, asking)
    if out is not None:
        from defray.simulate.report import check_place

        check_place(out)
    from defray.cli import comparisons

    length = len(asked.first)
    most = ARRIVALS // length if asking is None else ASKS // (length * len(schemes))
    runs = seeds or max(1, min(SEEDS, most))
    notes = [*asked.notes]
    if asking is not None:
        from defray.cli.tables import compare

        found = compare(asking, asked.first, schemes, budget, runs)
    else:
        from defray.simulate import results

        with Bar("simulating") as bar:
            found = results.simulate(asked.of, schemes, budget, runs, bar)
        if not budget.xi and any(s.diagnoses for s in schemes):
            notes.append(
                "xi is 0: nothing is diagnosed, so qif_ and w1f_ policies equal their gates"
            )
    if generate is not None and runs > 1:
        notes.append("each seed has asks of its own; the first line is about seed 0")
    if gate is not None:
        notes.append(f"the contract's own policy is {gate}")
    return comparisons.show(found, names, asked.first, notes, out, asking)


def plan(
    workload: File = None,
    /,
    *,
    generate: Generate = None,
    contract: Under = None,
    delta: Annotated[
        float | None, Parameter(help="Show epsilon at this delta (the contract's, else 1e-6).")
    ] = None,
    share: Annotated[str, Parameter(help="How many of the asks are to be satisfied.")] = "100%",
    policy: Policies = None,
    json: Json = False,
) -> None:
    """Say which budget a workload needs, and what more or less of it would do."""
    from defray.cli import plans

    part = _share(share)
    checked_delta(delta)
    terms = _contract(contract)
    asked = _asked(workload, generate, terms)
    budget = _budget(1.0, None if terms else "0", None, terms, asked)
    names, _, _ = _schemes(policy, PLANNED, terms, budget)
    chosen = delta or (terms.delta if terms else None) or plans.DELTA
    with Bar("planning") as bar:
        found = plans.find(asked.first, names, part, budget, bar)
    plans.show(found, asked.first, chosen, (*asked.notes, *plans.held_back(terms)))


# -- what was typed ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Asked:
    """A workload for every seed, the one of seed 0, and what there is to say about it."""

    of: Callable[[int], Workload]
    first: Workload
    notes: tuple[str, ...] = ()


def _table(
    kind: str | None, rows: int | None, file: Path | None, contract: Contract | None
) -> Table | None:
    if kind is not None:
        from defray.cli.tables import table_of

        return table_of(kind, rows, file, contract)
    if rows is not None:
        raise BadInput("--rows belongs to --table synthetic", hint="--table synthetic --rows 10000")
    return None


def _asked(
    file: Path | None, spec: str | None, contract: Contract | None, *, askable: bool = False
) -> Asked:
    if (file is None) == (spec is None):
        raise BadInput(
            "name a workload file or --generate one" + ("" if file is None else ", not both"),
            hint="defray simulate --generate zipf:n=1000 --rho 0.5; see defray simulate --help",
        )
    if spec is not None:
        from defray.simulate.generate import read_spec

        made = read_spec(spec)
        return Asked(made, made(0))
    assert file is not None
    from defray.simulate.workload_files import NO_TRUTH, read_workload

    with Bar("reading the workload") as bar:
        loaded = read_workload(file, contract, bar, askable=askable)
    notes = tuple(note for note in loaded.notes if not (askable and note == NO_TRUTH))
    return Asked(lambda seed: loaded.workload, loaded.workload, notes)


def _contract(path: Path | None) -> Contract | None:
    if path is None:
        return None
    from defray.config.reader import read_contract

    return read_contract(path)


def _rho(
    rho: str | None, epsilon: str | None, delta: float | None, contract: Contract | None
) -> float:
    """The budget, as given or as the contract has it."""
    checked_delta(delta)
    if rho is not None:
        if epsilon is not None or delta is not None:
            raise BadInput("--rho and --epsilon are both given", hint="keep one of them")
        return _number("--rho", rho)
    if epsilon is not None:
        if delta is None:
            raise BadInput("--epsilon needs --delta", hint=f"--epsilon {epsilon} --delta 1e-6")
        from defray.core.zcdp import rho_for

        return float(rho_for(_number("--epsilon", epsilon), delta))
    if delta is not None:
        raise BadInput("--delta belongs to --epsilon", hint="--epsilon 5 --delta 1e-6")
    if contract is not None:
        return float(contract.rho)
    raise BadInput(
        "say the budget", hint="--rho 0.5, or --epsilon 5 --delta 1e-6, or --contract FILE"
    )


def _budget(
    rho: float, xi: str | None, horizon: int | None, contract: Contract | None, asked: Asked
) -> Budget:
    from defray.simulate.pricing import residuals
    from defray.simulate.run import Budget

    if horizon is not None and not 1 <= horizon <= 10**12:
        raise BadInput(f"--horizon must lie from 1 to 10^12, not {horizon}", hint="--horizon 1000")
    share = XI if xi is None else _part("--xi", xi)
    if contract is not None:
        share = contract.xi if xi is None else share
        horizon = horizon or contract.horizon
    if share >= 1:
        raise BadInput(f"--xi must be below 100%, not {xi}", hint="--xi 5%")
    return Budget(
        rho=rho,
        xi=float(share),
        horizon=horizon or int((residuals(asked.first) > 0).sum()),
        m_floor=float(contract.m_floor) if contract is not None and contract.m_floor else 1.0,
        forecast=tuple(float(p) for p in contract.forecast) if contract is not None else (),
    )


def _schemes(
    given: Sequence[str] | None,
    default: Sequence[str],
    contract: Contract | None,
    budget: Budget,
    table: Table | None = None,
) -> tuple[list[str], list[Scheme], str | None]:
    """The policies by name, the contract's own first; and what that is called.  A table is asked under those
    that a contract can choose."""
    from defray.policy.choices import GATES
    from defray.policy.weights import Weights
    from defray.simulate.schemes import SCHEMES

    known: Sequence[str] = list(SCHEMES)
    if table is not None:
        from defray.simulate.on_table import choices

        default = known = choices(budget.xi)
    names = [name.strip() for text in given or () for name in text.split(",")]
    gate = None
    if contract is not None:
        xi = contract.xi if table is None else budget.xi
        weighs = xi and GATES[contract.gate](contract.horizon or 1).weighted
        gate = f"qif_{contract.gate}" if weighs else contract.gate
    if "all" in names:
        names = list(known)
    if not names:
        names = [*([gate] if gate is not None else []), *default]
    names = list(dict.fromkeys(names))
    for name in names:
        if name in known:
            continue
        if name in SCHEMES:
            raise BadInput(
                f"no contract with xi = {budget.xi:g} can choose {name}, and a table is asked under a "
                "contract",
                hint=f"one of {', '.join(known)}",
            )
        folded = {choice.casefold(): choice for choice in known}
        near = difflib.get_close_matches(name.casefold(), folded, 1)
        cure = f"did you mean {folded[near[0]]}?" if near else f"one of {', '.join(known)}"
        raise BadInput(f"there is no policy called {name or 'nothing'}", hint=cure)
    schemes = [SCHEMES[name] for name in names]
    if contract is not None:
        own = contract.weights
        weights = Weights(alpha=float(own.alpha), beta=float(own.beta), growth=own.g)
        schemes = [s if s.weights is None else replace(s, weights=weights) for s in schemes]
    return names, schemes, gate if gate in names else None


def _number(option: str, text: str) -> float:
    """A positive number that a float holds."""
    from defray.core.amounts import exact

    try:
        number = exact(text)
    except ValueError:
        number = Fraction(0)
    if not Fraction(1, 10**18) <= number <= 10**9:
        raise BadInput(
            f"{option} must be a number from 1e-18 to 1e9, not {text[:40]}", hint=f"{option} 0.5"
        )
    return float(number)


def _part(option: str, text: str) -> Fraction:
    """A share, as 0.05 or 5%."""
    from defray.core.amounts import exact

    try:
        part = exact(text[:-1]) / 100 if text.endswith("%") else exact(text)
    except ValueError:
        part = Fraction(-1)
    if not 0 <= part <= 1:
        raise BadInput(
            f"{option} must lie between 0 and 100%, not {text[:40]}", hint=f"{option} 5%"
        )
    return part


def _share(text: str) -> float:
    share = _part("--share", text)
    if not share:
        raise BadInput("--share must be above 0", hint="--share 100%")
    return float(share)


def _check_seeds(seeds: int | None) -> None:
    if seeds is not None and not 1 <= seeds <= MOST_SEEDS:
        raise BadInput(f"--seeds must lie from 1 to {MOST_SEEDS:,}, not {seeds}", hint="--seeds 10")


# -- the paper -----------------------------------------------------------------------------------


def _paper(sequences: int) -> int:
    """The statements of the paper; the exit code is 1 where one of them fails."""
    from defray.cli import statements
    from defray.simulate.theorems import LEAST, table

    if sequences < LEAST:
        raise BadInput(
            f"--paper needs --seeds of at least {LEAST}, not {sequences}",
            hint="the statements are measured over so many random sequences",
        )
    with Bar("measuring the paper's statements") as bar:
        rows = table(sequences, progress=bar)
    return statements.show(rows, sequences)
