"""The curator's books: balance, history, audit and the closing certificate, read from the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from defray.charged import by_value, least_of, paid_by, paid_for
from defray.controller.present import version_notes
from defray.core.amounts import rho_of
from defray.core.contract import RELATION, Contract
from defray.core.domain import Domain
from defray.core.target import Within, parse_confidence, parse_goal, precision_for, two_sided
from defray.core.zcdp import epsilon_for
from defray.entitled import account_told, unassigned
from defray.errors import TargetError
from defray.ledger.audit import AuditReport, Derived, Disagrees, audit
from defray.ledger.records import PURSES, Epoch, Release
from defray.ledger.store import Ledger, View
from defray.ledger.witness import accepted
from defray.logbook import Logged, derived_fields, releases
from defray.policy.choices import GATES
from defray.standing import lapsed, standings

if TYPE_CHECKING:
    from defray.support.charges import Charges


def balance(
    contract: Contract,
    ledger: Ledger,
    *,
    within: Any = 50,
    confidence: Any = "95%",
    by: str | None = None,
    name: str | None = None,
) -> dict[str, Any]:
    """What was spent and what is left, and about how many more fresh counts of that accuracy fit.

    Where releases are charged by cell, what is spent is what the dearest cell has paid, and
    ``least_charged`` is what the least charged one has.  ``by`` a column: what the dearest cell of each of
    its values has paid for answers.  Of an analyst's ``name`` also the ``account``, which then says what
    fits; without one the accounts of all.  NotFound where there is no such column."""
    goal, level = parse_goal(within), parse_confidence(confidence)
    if not isinstance(goal, Within):
        raise TargetError("balance counts questions of an absolute accuracy", hint="within=50")
    total = contract.rho
    with ledger.view() as view:
        spent = {p: rho_of(view.spent(p), total) for p in PURSES}
        version, closed = (view.epoch.counter if view.epoch else 0), view.closed
        scarcity = sharing(contract, view)
        promises = standings(contract, ledger.terms.caps, view)
        domain = contract.domain if view.epoch is None else Domain.from_json(view.epoch.domain)
        # Nothing is told apart where nothing was spent.
        apart = contract.support == "linear" and spent["answer"]
        paid = _charges(contract, view, domain) if apart or by else None
        reserve = unassigned(ledger.terms, view)
        accounts = [account_told(ledger.terms, view, p) for p in view.principals().values()]
    caps = {p: rho_of(ledger.terms.caps[p], total) for p in PURSES}
    held = sum((p.holds for p in promises if p.kept), Fraction(0))
    wanted = precision_for(goal.amount, two_sided(float(1 - level)))
    each = Fraction(contract.unit.max_rows) ** 2 * wanted / 2
    out: dict[str, Any] = {
        "rho": float(total),
        "spent_rho": float(sum(spent.values())),
        "remaining_rho": float(total - sum(spent.values())),
    }
    for purse in PURSES:
        out[purse] = {
            "cap_rho": float(caps[purse]),
            "spent_rho": float(spent[purse]),
            "remaining_rho": float(caps[purse] - spent[purse]),
        }
    told = [a for a in accounts if a is not None]
    account = next((a for a in told if a["name"] == name), None)
    left = caps["answer"] - spent["answer"] - held
    if account is not None:
        out["account"], left = account, Fraction(account["remaining_rho"])
    elif told:
        out["accounts"], left = told, reserve
    out |= {
        "counts_left": {
            "within": str(goal),
            "confidence": float(level),
            "number": 0 if closed else max(int(left / each), 0),
        },
        "unit": str(contract.unit),
        "relation": RELATION,
        "data_version": version,
        "closed": closed,
        "notes": list(version_notes(version)),
    }
    if contract.support == "linear":
        least = rho_of(least_of(paid), total) if paid is not None else Fraction(0)
        out["least_charged"] = {
            "spent_rho": float(least),
            "remaining_rho": float(max(caps["answer"] - least, Fraction(0))),
        }
    if paid is not None and by is not None:
        values = by_value(paid, ledger.terms.caps["answer"], domain, by, total)
        out["by"] = {"column": domain.names[domain.find(by) or 0], "values": values}
    if scarcity is not None:
        out["scarcity"] = scarcity
    if promises:
        out["promises"] = [p.to_json() for p in promises]
        out["notes"] += [lapsed(p) for p in promises if not p.kept]
    if contract.delta is not None:
        out["epsilon"] = {
            "delta": contract.delta,
            "whole_contract": epsilon_for(total, contract.delta),
            "spent_so_far": epsilon_for(sum(spent.values(), Fraction(0)), contract.delta),
            "note": "spent so far is bookkeeping; the guarantee is the whole contract's",
        }
    return out


def _charges(contract: Contract, view: View, domain: Domain) -> Charges:
    """What every cell has paid for answers."""
    from defray.support.charges import Charges

    return Charges.of(domain) if view.epoch is None else view.charges("answer")


def sharing(contract: Contract, view: View) -> dict[str, Any] | None:
    """How far a budget that is shared out over a horizon has come; None where it is not."""
    policy = GATES[contract.gate](contract.horizon)
    if not policy.paced:
        return None
    newest = view.arrivals(0, 1)
    return {
        "gate": contract.gate,
        "horizon": contract.horizon,
        "arrivals": newest[0].number if newest else 0,
        "price": newest[0].price if newest else 0.0,
    }


def history(
    contract: Contract, ledger: Ledger, *, refresh: bool = False, name: str | None = None
) -> list[dict[str, Any]]:
    """Every ask that was paid for, oldest first: what was asked, when, by whom, and what it cost its
    dearest cell.  With ``refresh`` those of the newest data version have ``rows``, as answered then and as
    known now.  Of an analyst's ``name`` the own ones."""
    asks: dict[tuple[int, str], list[tuple[int, Release]]] = {}
    domains: dict[int, Any] = {}
    for epoch, seq, body in releases(ledger):
        domains[epoch.counter] = epoch.domain
        asks.setdefault((body["version"], body["ask"]), []).append((seq, Release.from_json(body)))
    of = {counter: Domain.from_json(domain) for counter, domain in domains.items()}
    mine = owner_of(ledger, name)
    found: list[dict[str, Any]] = [
        {
            "id": ask,
            "by": bought[0][1].by,
            "at": bought[0][1].note.get("at", ""),
            "question": bought[0][1].question,
            "data_version": version,
            "charged_rho": float(
                rho_of(paid_for([r for _, r in bought], of[version], contract.rho), contract.rho)
            ),
            "releases": [
                {
                    "id": str(seq),
                    "measure": release.measure,
                    "purse": release.purse,
                    "cells": sum(v is not None for v in release.values),
                    "charged_rho": float(rho_of(release.charge, contract.rho)),
                }
                for seq, release in bought
            ],
        }
        for (version, ask), bought in asks.items()
        if mine is None or bought[0][1].by == mine
    ]
    if refresh:
        from defray.refreshed import refresh as refreshed

        rows, newest = refreshed(contract, ledger), max(domains, default=0)
        for told in found:
            if told["data_version"] == newest and told["id"] in rows:
                told["rows"] = rows[told["id"]]
    return found


def spending(
    contract: Contract, ledger: Ledger, *, name: str | None = None
) -> list[dict[str, Any]]:
    """What was spent on answers after each ask, oldest first; of an analyst's ``name`` from the account."""
    from defray.spending import spending as after_each

    return after_each(contract, ledger, owner_of(ledger, name))


def owner_of(ledger: Ledger, name: str | None) -> str | None:
    """The name, where it is an analyst's with a share."""
    if name is None:
        return None
    with ledger.view() as view:
        principal = view.principals().get(name)
    return name if principal is None or principal.share is not None else None


def run_audit(ledger: Ledger, contract: Contract | None = None) -> AuditReport:
    """Replay the whole log from zero and re-derive every charge, fold and key, and what each cell paid.  With
    the ``contract``, also whether the releases of the newest data version bear what its answers claimed."""
    newest: list[Logged] = []
    domains: dict[int, Domain] = {}
    rows, rho = int(ledger.terms.unit["max_rows"]), ledger.terms.rho

    def derive(body: Mapping[str, Any], epoch: Epoch) -> Derived:
        domain = domains.get(epoch.counter)
        if domain is None:
            domain = domains[epoch.counter] = Domain.from_json(epoch.domain)
            newest.clear()
        keys, derived = derived_fields(body, domain, rows)
        for name, value in derived.items():
            if body[name] != value:
                raise Disagrees(f"its {name} is {body[name]}, by its weights it is {value}")
        release = Release.from_json(body, keys)
        if not release.alone:
            newest.append(Logged(body["seq"], release))
        return Derived(keys, paid_by(release, domain, rho))

    report = replace(audit(ledger, derive), accepted=tuple(accepted(ledger)))
    if contract is None or not newest:
        return report
    from defray.claims import unfounded

    of_then = replace(contract, domain=domains[newest[-1].release.version])
    return replace(report, findings=(*report.findings, *unfounded(of_then, newest)))


def end(contract: Contract, ledger: Ledger) -> dict[str, Any]:
    """Close the contract; the certificate says what was spent per epoch and the head of the log."""
    with ledger.transaction() as tx:
        seq = tx.end()
    head = next(iter(ledger.entries(seq)))
    return {**certificate(contract, ledger), "head": head.hash, "entries": seq}


def certificate(contract: Contract, ledger: Ledger) -> dict[str, Any]:
    """What a replay of the log shows was spent, per data version and purse: how much each version added to
    what the dearest cell has paid."""
    report = run_audit(ledger)
    return {
        "rho": float(contract.rho),
        "spent_rho": float(rho_of(sum(report.spent.values()), contract.rho)),
        "unit": str(contract.unit),
        "relation": RELATION,
        "epochs": [
            {"data_version": v, **{p: float(rho_of(q, contract.rho)) for p, q in by.items()}}
            for v, by in sorted(report.versions.items())
        ],
    }
