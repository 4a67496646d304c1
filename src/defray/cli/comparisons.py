"""The outcome of ``defray simulate``: one line a policy, and the report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from defray.cli import screen
from defray.cli.answers import new_table
from defray.cli.numbers import rho
from defray.cli.screen import say
from defray.cli.screen import show as show_json
from defray.cli.tables import CURATOR, Table
from defray.errors import DefrayError

if TYPE_CHECKING:
    from defray.simulate.results import Results
    from defray.simulate.workload import Workload

MEANS = (
    "satisfied",
    "nsat_ratio",
    "jw_ratio",
    "j1_ratio",
    "spent",
    "diagnostic",
    "cost_ratio",
    "relerr",
)


def show(
    found: Results,
    names: Sequence[str],
    workload: Workload,
    notes: Sequence[str],
    out: Path | None,
    table: Table | None = None,
) -> int:
    """The table and, in ``out``, the report; the exit code.  Where the report cannot be written the table
    is shown all the same."""
    policies = [_means(found, name) for name in names]
    document = _document(found, workload, policies, [*found.notes, *notes])
    if table is not None:
        document["table"] = table.to_dict()
    if not screen.json_wanted():
        _show(document)
    if out is not None:
        from defray.simulate.amortisation import amortisation_curve
        from defray.simulate.report import write_report
        from defray.simulate.run import Budget

        budget = Budget(found.rho, found.xi, found.horizon)
        extra = {"amortisation": amortisation_curve(len(workload), budget)} if found.xi else {}
        try:
            paths = write_report(found, out, extra=extra)
            document["files"] = [str(path) for path in paths]
        except DefrayError as error:
            if not screen.json_wanted():
                raise
            show_json({**document, "error": error.to_dict()})
            return error.exit_code
    if screen.json_wanted():
        show_json(document)
    elif out is not None:
        say(f"wrote {document['files'][0]} and {len(document['files']) - 1} files beside it")
    return 0


def _means(found: Results, name: str) -> dict[str, Any]:
    """A policy's measures, each the mean over the seeds that have it."""
    rows = [row for row in found.totals if row["scheme"] == name]
    means: dict[str, Any] = {"policy": name}
    for measure in MEANS:
        values = [row[measure] for row in rows if row[measure] is not None]
        means[measure] = sum(values) / len(values) if values else None
    return means


def _document(
    found: Results,
    workload: Workload,
    policies: list[dict[str, Any]],
    notes: Sequence[str],
) -> dict[str, Any]:
    from defray.simulate.optimum import feasible_cost

    return {
        "workload": workload.name,
        "asks": len(workload),
        "questions": workload.questions,
        "analysts": workload.crowd,
        "needed_rho": feasible_cost(workload),
        "rho": found.rho,
        "xi": found.xi,
        "horizon": found.horizon,
        "seeds": found.seeds,
        "policies": policies,
        "notes": list(notes),
    }


def _show(words: dict[str, Any]) -> None:
    say(
        f"{words['workload']}: {words['asks']:,} asks of {words['questions']:,} questions from "
        f"{words['analysts']:,} analyst{'s' if words['analysts'] != 1 else ''}; "
        f"all of them need {rho(words['needed_rho'])} rho, there is {rho(words['rho'])}",
        "bold",
    )
    table = new_table()
    table.add_column("policy", no_wrap=True)
    for name in ("satisfied", "of optimum", "weighted shortfall/OPT", "spent", "cost ratio"):
        table.add_column(name, justify="right")
    for one in words["policies"]:
        table.add_row(
            Text(one["policy"]),
            f"{one['satisfied']:,.6g} ({_percent(one['satisfied'] / words['asks'])})",
            _percent(one["nsat_ratio"]),
            _ratio(one["jw_ratio"]),
            _percent(one["spent"] / words["rho"]),
            _ratio(one["cost_ratio"]),
        )
    say(table)
    say(
        f"xi = {words['xi']:g}, horizon = {words['horizon']:,}; means over {words['seeds']:,} "
        f"seed{'s' if words['seeds'] != 1 else ''}. OPT knows all asks beforehand; the cost ratio is to "
        "what all of them need",
        "dim",
    )
    for text in words["notes"]:
        say(f"note: {text}", "bold" if text == CURATOR else "dim")


def _percent(share: float | None) -> str:
    """
    >>> _percent(0.1234), _percent(None)
    ('12.3 %', '-')
    """
    return "-" if share is None else f"{100 * share:.1f} %"


def _ratio(x: float | None) -> str:
    """
    >>> _ratio(1.234), _ratio(None), _ratio(12345.6)
    ('1.23', '-', '1.23e+04')
    """
    if x is None:
        return "-"
    return f"{x:.2f}" if x < 1000 else f"{x:.3g}"
