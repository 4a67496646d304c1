"""One answer explained on the command line: what it rests on, in words and as bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.text import Text

from defray.cli import screen
from defray.cli.answers import label, new_table, plus_minus
from defray.cli.books import existing
from defray.cli.numbers import percent, rho, shown
from defray.cli.screen import say
from defray.core.contract import Contract
from defray.explaining import explain

BAR: Final = 24
ROWS: Final = 40
"""So many rows of a table are shown."""

NAMED: Final = 6
TELLING: Final = 0.01
"""Releases of at least this part of the variance are named in the sentence, up to so many."""


def read(contract: Contract, name: str) -> dict[str, Any]:
    with existing(contract) as ledger:
        return explain(contract, ledger, name)


def show(told: Mapping[str, Any]) -> None:
    say(told["question"], "bold")
    say(_sentence(told))
    say(_charge(told["regions"], told["charged_rho"]))
    _rows(told["rows"])
    _releases(told["releases"])
    say(
        f"ask {told['id']} of data version {told['data_version']}, support {told['support']}; "
        "weights, variances and every row: --json",
        "dim",
    )


def _sentence(told: Mapping[str, Any]) -> str:
    charged = f"it charged {rho(told['charged_rho'])} rho"
    scratch = f"{rho(told['from_scratch_rho'])} rho where nothing is known"
    if not told["paid_by"]:
        return f"nothing of this answer was paid before: {charged}"
    by = _named([r for r in told["releases"] if not r["now"]])
    if not told["paid_before"]:
        return f"{by} tell part of this answer, which let it charge cells that had paid less: {charged}"
    share = percent(round(told["paid_before"], 2))
    return f"{share} of this answer was already paid by {by}: {charged} in place of {scratch}"


def _named(before: Sequence[Mapping[str, Any]]) -> str:
    telling = sorted((r for r in before if r["share"] >= TELLING), key=lambda r: -r["share"])
    names = sorted(int(r["id"]) for r in (telling or before)[:NAMED])
    others = len(before) - len(names)
    words = [f"{n}" for n in names] + ([f"{others} more"] if others else [])
    if len(words) == 1:
        return f"release {words[0]}"
    return f"releases {', '.join(words[:-1])} and {words[-1]}"


def _charge(regions: Mapping[str, Any], charged: float) -> str:
    fell = f"the balance fell by {rho(regions['rose_rho'])}"
    if "cells" not in regions:
        return f"every cell of the domain paid {rho(charged)} rho; {fell}"
    where = ", ".join(f"{name} = {label(value)}" for name, value in regions["dearest"].items())
    over = " x ".join(regions["columns"])
    half = f"half of them at most {rho(regions['median_rho'])}"
    return (
        f"{regions['paying']:,} of {regions['cells']:,} cells of {over} paid: the dearest "
        f"({where}) {rho(regions['dearest_rho'])} rho, {half}; {fell}"
    )


def _rows(rows: Sequence[Mapping[str, Any]]) -> None:
    table = new_table()
    for name in rows[0]["group"]:
        table.add_column(screen.safe(name))
    table.add_column("of")
    for name in ("value", plus_minus(), "variance", "target", "charged", "paid before"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("known by")
    for row in rows[:ROWS]:
        texts = ["unknown", ""]
        if row["value"] is not None:
            n = shown(row["value"], row["low"], row["high"], row["half_width"])
            texts = [n.value, n.half]
        variance = "" if row["variance"] is None else f"{row['variance']:.5g}"
        table.add_row(
            *(Text(label(value)) for value in row["group"].values()),
            Text(screen.safe(row["aggregate"])),
            *texts,
            variance,
            row["target"],
            rho(row["charged_rho"]),
            percent(round(row["paid_before"], 2)),
            ", ".join(dict.fromkeys(WAYS[part["way"]] for part in row["parts"])),
        )
    say(table)
    if len(rows) > ROWS:
        say(f"and {len(rows) - ROWS:,} rows more", "dim")


WAYS: Final = {
    "own releases": "releases of itself",
    "view": "least squares over all releases",
    "residuals": "residuals of the marginal",
    "own releases and residuals": "releases of itself, and residuals of the marginal",
}


def _releases(releases: Sequence[Mapping[str, Any]]) -> None:
    """A bar for each: its part of the variance, what is left to blame on it."""
    if not releases:
        return
    table = new_table()
    table.add_column("release", justify="right")
    table.add_column("when")
    table.add_column("part of the variance", no_wrap=True)
    table.add_column("values", justify="right")
    table.add_column("charged", justify="right", no_wrap=True)
    table.add_column("it measured", overflow="fold")
    full = "#" if screen.plain() else "█"
    for r in releases:
        length = max(round(BAR * r["share"]), r["share"] >= TELLING)
        used = f"{r['used']:,}" if r["used"] == r["values"] else f"{r['used']:,} of {r['values']:,}"
        table.add_row(
            r["id"],
            "now" if r["now"] else "before",
            Text(f"{full * length} {r['share']:.1%}", "green" if r["now"] else "cyan"),
            used,
            rho(r["charged_rho"]),
            Text(screen.safe(r["measured"])),
        )
    say(table)
