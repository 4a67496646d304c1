"""The curator's books on the command line: check, balance, history, audit.

They read the ledger only.  Where there is none yet they say so and make none, because a ledger holds its
contract to the terms that it was made under.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from defray import books
from defray.cli import screen
from defray.cli.answers import label, new_table, plus_minus
from defray.cli.numbers import percent, rho, shown
from defray.cli.screen import say
from defray.config.opening import (
    ledger_exists,
    ledger_name,
    open_ledger,
    probe_source,
    source_name,
    witness_path,
)
from defray.core.column import Column
from defray.core.contract import RELATION, Contract
from defray.core.numbers import show_number
from defray.core.principals import NOBODY, Principals
from defray.core.zcdp import epsilon_for
from defray.errors import LedgerError
from defray.ledger.beside import Token
from defray.ledger.records import PURSES, Arrival, Entry, Epoch, Known, Purse, Terms
from defray.ledger.store import Ledger
from defray.ledger.witness import Witness, accept
from defray.standing import check_promises, standings
from defray.transcript import terms_of

if TYPE_CHECKING:
    from defray.support.charges import Charges

EXAMPLE_DELTA = 1e-6
"""Where a contract names no delta, epsilon is shown at this one."""


@dataclass(frozen=True, slots=True)
class Unwritten:
    """What the books say before the first question: nothing was spent, nothing is known."""

    terms: Terms
    seq: int = 0
    epoch: Epoch | None = None
    closed: bool = False

    @contextmanager
    def view(self) -> Iterator[Unwritten]:
        yield self

    def spent(self, purse: Purse) -> int:
        return 0

    def charges(self, purse: Purse) -> Charges:
        from defray.support.charges import Charges

        return Charges(())

    def known(self, keys: Sequence[bytes]) -> list[Known]:
        return [Known(Fraction(0), Fraction(0), 0, 0, 0) for _ in keys]

    def arrivals(self, after: int, newest: int) -> list[Arrival]:
        return []

    def principals(self) -> Principals:
        return NOBODY

    def tokens(self) -> list[Token]:
        return []

    def entries(self, start: int = 1) -> Iterator[Entry]:
        return iter(())


@contextmanager
def ledger_of(contract: Contract) -> Iterator[Any]:
    """The contract's ledger, or an :class:`Unwritten` one."""
    if not ledger_exists(contract):
        yield Unwritten(terms_of(contract))
        return
    with existing(contract) as ledger:
        yield ledger


@contextmanager
def existing(contract: Contract) -> Iterator[Ledger]:
    """The contract's ledger; LedgerError where there is none yet."""
    if not ledger_exists(contract):
        raise LedgerError(
            f"there is no ledger yet at {ledger_name(contract)}", hint="the first question makes it"
        )
    ledger = open_ledger(contract)
    try:
        yield ledger
    finally:
        ledger.close()


def promises_of(contract: Contract) -> list[dict[str, Any]]:
    """The promises of a contract.  Raises ContractError where its budget cannot keep them."""
    if not contract.promises:
        return []
    with ledger_of(contract) as ledger:
        check_promises(contract, ledger)
        return _standings(contract, ledger)


def promises_needed(contract: Contract) -> list[dict[str, Any]]:
    """The promises of a contract, whether or not its budget can keep them."""
    with ledger_of(contract) as ledger:
        return _standings(contract, ledger)


def _standings(contract: Contract, ledger: Any) -> list[dict[str, Any]]:
    with ledger.view() as view:
        return [s.to_json() for s in standings(contract, ledger.terms.caps, view)]


# -- check -----------------------------------------------------------------------------------------


def terms_in_words(contract: Contract, delta: float | None) -> dict[str, Any]:
    """What a contract promises and allows, for machines."""
    probe_source(contract)
    chosen = delta or contract.delta or EXAMPLE_DELTA
    return {
        "contract": str(contract.path),
        "table": contract.table,
        "rho": float(contract.rho),
        "epsilon": {"delta": chosen, "epsilon": epsilon_for(contract.rho, chosen)},
        "xi": float(contract.xi),
        "gate": contract.gate,
        "horizon": contract.horizon,
        "unit": str(contract.unit),
        "relation": RELATION,
        "source": {"kind": contract.source.kind, "where": source_name(contract)},
        "ledger": {"path": ledger_name(contract), "exists": ledger_exists(contract)},
        "m_floor": None if contract.m_floor is None else float(contract.m_floor),
        "n_max": contract.n_max,
        "promises": promises_of(contract),
        "columns": [_column(c) for c in contract.domain.columns],
    }


def _column(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": column.kind,
        "cells": column.width,
        "null": column.null,
        "other": column.other,
        "bounds": None if column.bounds is None else [show_number(b) for b in column.bounds],
    }


def show_check(words: Mapping[str, Any]) -> None:
    say(f"{words['contract']} is valid", "bold")
    epsilon, ledger = words["epsilon"], words["ledger"]
    answers = words["rho"] * (1 - words["xi"])
    budget = (
        f"rho = {rho(words['rho'])} in zCDP, which gives epsilon = {epsilon['epsilon']:.3g} "
        f"at delta = {epsilon['delta']:g}"
    )
    if words["xi"]:
        budget += f"; {rho(words['rho'] - answers)} of it are kept for diagnostics"
    lines = {
        "table": f"FROM {words['table']}, read from {words['source']['where']}",
        "budget": budget,
        "protects": words["unit"],
        "relation": words["relation"],
        "shared out": words["gate"]
        if words["horizon"] is None
        else f"{words['gate']}, {words['horizon']:,} paid questions expected",
        "ledger": ledger["path"] + ("" if ledger["exists"] else " (the first question makes it)"),
        "percentages": "of counts and sums need m_floor, which is not set"
        if words["m_floor"] is None
        else f"are taken of at least {words['m_floor']:g} rows",
    }
    for name, text in lines.items():
        say(f"  {name:<12} {text}")
    for p in words["promises"]:
        say(f"  never refused {screen.safe(promise_in_words(p))}: needs {rho(p['needs_rho'])} rho")
    table = new_table()
    for name in ("column", "type", "cells", "NULL", "outside the domain", "may be summed"):
        table.add_column(name, justify="right" if name == "cells" else "left")
    for c in words["columns"]:
        summed = "no" if c["bounds"] is None else f"yes, clamped to {' .. '.join(c['bounds'])}"
        null = {"cell": "a group of its own", "drop": "left out"}[c["null"]]
        other = {"null": "counts as NULL", "cell": "a group of its own", "drop": "left out",
                 "clamp": "moved to the nearest"}[c["other"]]  # fmt: skip
        table.add_row(
            Text(screen.safe(c["name"])), c["type"], f"{c['cells']:,}", null, other, summed
        )
    say(table)


# -- balance ---------------------------------------------------------------------------------------


def show_balance(b: Mapping[str, Any]) -> None:
    least = b.get("least_charged")
    uneven = least is not None and least["spent_rho"] < b["answer"]["spent_rho"]
    whose = ", by the dearest cell" if uneven else ""
    say(
        f"{rho(b['remaining_rho'])} of {rho(b['rho'])} rho remain "
        f"({rho(b['spent_rho'])} spent{whose})",
        "bold",
    )
    for purse in PURSES:
        p = b[purse]
        if p["cap_rho"]:
            say(
                f"  {purse + 's':<12} {_gauge(p['spent_rho'], p['cap_rho'])}  "
                f"spent {rho(p['spent_rho'])} of {rho(p['cap_rho'])}, "
                f"{rho(p['remaining_rho'])} remain"
            )
    if least is not None and uneven:
        say(
            f"  what is left depends on the region: the least charged cell has paid "
            f"{rho(least['spent_rho'])} for answers, {rho(least['remaining_rho'])} remain there"
        )
    if "by" in b:
        _show_strip(b["by"], b["answer"]["cap_rho"])
    for a in b.get("accounts", ()):
        state = "" if a["active"] else " (suspended)"
        say(
            f"  {a['name']}{state} has {a['share']:g} of it: paid {rho(a['spent_rho'])} of "
            f"{rho(a['cap_rho'])}, {rho(a['remaining_rho'])} remain; {rho(a['saved_rho'])} saved"
        )
        if a["to_others_rho"] or a["from_others_rho"]:
            say(
                f"    for what was reused: {rho(a['to_others_rho'])} to others, "
                f"{rho(a['from_others_rho'])} from others"
            )
    left, where = b["counts_left"], " in the reserve" if "accounts" in b else ""
    if not b["closed"]:
        say(
            f"about {left['number']:,} more fresh counts within {left['within']} at "
            f"{percent(left['confidence'])} fit{where}; what is already known stays free"
        )
    if "scarcity" in b:
        pace = b["scarcity"]
        expected = f" of {pace['horizon']:,} expected" if pace["horizon"] else ""
        say(
            f"shared out by the gate {pace['gate']}: {pace['arrivals']:,} paid questions{expected} came"
        )
    for p in b.get("promises", ()):
        state = f"holds back {rho(p['holds_rho'])} rho" if p["kept"] else "has lapsed"
        say(f"promised {screen.safe(promise_in_words(p))}: {state}", "" if p["kept"] else "yellow")
    if "epsilon" in b:
        e = b["epsilon"]
        say(
            f"epsilon at delta {e['delta']:g}: {e['whole_contract']:.4g} for the whole contract, "
            f"{e['spent_so_far']:.4g} spent so far ({e['note']})"
        )
    say(f"protects {b['unit']}; {b['relation']}; data version {b['data_version']}", "dim")
    if b["closed"]:
        say("the contract is closed: only what is known already is answered", "yellow")
    for text in b["notes"]:
        say(f"note: {text}", "dim")


def promise_in_words(p: Mapping[str, Any]) -> str:
    parts = (f"{kind} of {name}" for name, kind in zip(p["columns"], p["kinds"], strict=True))
    return f"{' x '.join(parts)} within {p['within']:g} at {percent(p['confidence'])}"


def _show_strip(by: Mapping[str, Any], cap: float) -> None:
    """A bar for each run of values, of what its dearest cell has paid for answers."""
    table = new_table()
    table.add_column(screen.safe(by["column"]))
    table.add_column("spent of the cap for answers", no_wrap=True)
    table.add_column("spent", justify="right", no_wrap=True)
    table.add_column("remain", justify="right", no_wrap=True)
    most = max(v["spent_rho"] for v in by["values"])
    for v in by["values"]:
        first, last = label(v["from"]), label(v["to"])
        name = first if v["values"] == 1 else f"{first} .. {last}"
        bar = Text(_gauge(v["spent_rho"], cap, 30), _heat(v["spent_rho"], most))
        table.add_row(Text(name), bar, rho(v["spent_rho"]), rho(v["remaining_rho"]))
    say(table)


def _heat(spent: float, most: float) -> str:
    """The colour of a charge, against the dearest."""
    if not spent:
        return "dim"
    return ("green", "yellow", "red")[min(2, int(3 * spent / most))]


def _gauge(part: float, whole: float, width: int = 20) -> str:
    full, empty = "#." if screen.plain() else "█░"
    n = 0 if part <= 0 else max(1, min(width, round(width * part / whole)))
    return full * n + empty * (width - n)


# -- history and audit -----------------------------------------------------------------------------


def show_history(asks: Sequence[Mapping[str, Any]], total: int) -> None:
    if not asks:
        say("nothing was paid for yet")
        return
    table = new_table()
    table.add_column("id", justify="right")
    table.add_column("at", no_wrap=True)
    table.add_column("charged", justify="right")
    refreshed = any("rows" in a for a in asks)
    for name in ("then", "now") if refreshed else ():
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("question", overflow="fold")
    for a in asks:
        at = a["at"].replace("T", " ").replace("+00:00", " UTC")
        both = [_refreshed(a.get("rows", ()), when) for when in ("then", "now")]
        words = [Text(t) for t in (both if refreshed else ())]
        table.add_row(a["id"], at, rho(a["charged_rho"]), *words, Text(screen.safe(a["question"])))
    say(table)
    charged = sum(a["charged_rho"] for a in asks)
    which = f"the last {len(asks)} of {total} asks" if len(asks) < total else f"{total} asks"
    say(
        f"{which}, {rho(charged)} rho charged to the dearest cell of each; free repeats write nothing",
        "dim",
    )
    if refreshed:
        say("what is known now was released since, and is free: --json has every row", "dim")


def _refreshed(rows: Sequence[Mapping[str, Any]], when: str) -> str:
    """A row's value, or of a table the widest half-width of each aggregate."""
    told = [r for r in rows if r[when]["half_width"] is not None]
    if not told:
        return ""
    if len(rows) == 1:
        value, half = told[0][when]["value"], told[0][when]["half_width"]
        n = shown(value, value - half, value + half, half)
        return f"{n.value} {plus_minus()} {n.half}"
    widest: dict[str, float] = {}
    for r in told:
        widest[r["aggregate"]] = max(widest.get(r["aggregate"], 0.0), r[when]["half_width"])
    halves = (shown(0.0, 0.0, 0.0, half).half for half in widest.values())
    return f"{len(rows)} rows, {', '.join(f'{plus_minus()} {half}' for half in halves)}"


def show_audit(audit: Mapping[str, Any]) -> None:
    if audit["ok"]:
        say("the audit found nothing wrong", "bold green")
    else:
        say(f"the audit found {len(audit['findings'])} faults", "bold red")
        for finding in audit["findings"]:
            say(f"  entry {finding['seq']}: {finding['message']}")
    spent = ", ".join(f"{rho(x)} rho for {purse}s" for purse, x in audit["spent_rho"].items() if x)
    say(
        f"replayed {audit['entries']} entries, {audit['releases']} releases of "
        f"{audit['epochs']} data version{'s' if audit['epochs'] != 1 else ''}: "
        f"{spent or 'nothing spent'}"
    )
    show_accepted(audit)
    say(f"head {audit['head']} (note it: it commits to the whole log)", "dim")


def show_accepted(found: Mapping[str, Any]) -> None:
    for a in found.get("accepted_older", ()):
        say(
            f"on {a['at']} a ledger of {a['entries']} entries was accepted though one of "
            f"{a['instead_of']['entries']} had been seen: what that one spent is not counted here",
            "bold yellow",
        )


def show_certificate(certificate: Mapping[str, Any]) -> None:
    say("the contract is closed for ever", "bold")
    say(f"spent {rho(certificate['spent_rho'])} of {rho(certificate['rho'])} rho")
    for epoch in certificate["epochs"]:
        parts = ", ".join(f"{rho(epoch[p])} for {p}s" for p in PURSES)
        say(f"  data version {epoch['data_version']}: {parts}")
    say(f"protects {certificate['unit']}; {certificate['relation']}")
    say(f"head {certificate['head']} of {certificate['entries']} entries")


def read_balance(
    contract: Contract, within: str, confidence: str, by: str | None
) -> dict[str, Any]:
    with ledger_of(contract) as ledger:
        return books.balance(contract, ledger, within=within, confidence=confidence, by=by)


def read_history(contract: Contract, *, refresh: bool = False) -> list[dict[str, Any]]:
    with ledger_of(contract) as ledger:
        return books.history(contract, ledger, refresh=refresh)


def read_audit(contract: Contract) -> dict[str, Any]:
    with existing(contract) as ledger:
        return books.run_audit(ledger, contract).to_dict()


def acceptable(contract: Contract) -> None:
    """Raises LedgerError where there is no ledger that could be accepted."""
    if not ledger_exists(contract, witnessed=False):
        hint = f"to begin anew, with a new budget, delete {witness_path(contract)}"
        raise LedgerError(f"there is no ledger at {ledger_name(contract)}", hint=hint)


def accept_older(contract: Contract) -> dict[str, Any]:
    """Accept the ledger that is there, whatever its witness saw."""
    with closing(open_ledger(contract, witnessed=False)) as ledger:
        now = datetime.now(UTC).replace(microsecond=0)
        return {"accepted_older": accept(ledger, Witness(witness_path(contract)), now)}


def backup(contract: Contract, path: Path) -> None:
    with existing(contract) as ledger:
        ledger.backup(path)


def end(contract: Contract) -> dict[str, Any]:
    with existing(contract) as ledger:
        with ledger.view() as view:
            if view.closed:
                raise LedgerError("the contract is closed already", hint="see defray balance")
        return books.end(contract, ledger)
