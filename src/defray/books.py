"""The curator's books: balance, history, audit and the closing certificate, read from the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from defray.controller.present import version_notes
from defray.core.amounts import rho_of
from defray.core.contract import RELATION, Contract
from defray.core.domain import Domain
from defray.core.target import Within, parse_confidence, parse_goal, precision_for, two_sided
from defray.core.zcdp import epsilon_for
from defray.errors import TargetError
from defray.ledger.audit import AuditReport, Derived, Disagrees, audit
from defray.ledger.records import PURSES, Epoch, Release
from defray.ledger.store import Ledger, View
from defray.policy.choices import GATES
from defray.standing import lapsed, standings
from defray.support.exact import block_of


def balance(
    contract: Contract, ledger: Ledger, *, within: Any = 50, confidence: Any = "95%"
) -> dict[str, Any]:
    """What was spent and what is left, and about how many more fresh counts of that accuracy fit."""
    goal, level = parse_goal(within), parse_confidence(confidence)
    if not isinstance(goal, Within):
        raise TargetError("balance counts questions of an absolute accuracy", hint="within=50")
    total = contract.rho
    with ledger.view() as view:
        spent = {p: rho_of(view.spent(p), total) for p in PURSES}
        version, closed = (view.epoch.counter if view.epoch else 0), view.closed
        scarcity = sharing(contract, view)
        promises = standings(contract, ledger.terms.caps, view)
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
    out |= {
        "counts_left": {
            "within": str(goal),
            "confidence": float(level),
            "number": 0
            if closed
            else max(int((caps["answer"] - spent["answer"] - held) / each), 0),
        },
        "unit": str(contract.unit),
        "relation": RELATION,
        "data_version": version,
        "closed": closed,
        "notes": list(version_notes(version)),
    }
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


def history(contract: Contract, ledger: Ledger) -> list[dict[str, Any]]:
    """Every ask that was paid for, oldest first: what was asked, when, and what it cost."""
    asks: dict[tuple[int, str], dict[str, Any]] = {}
    charged: dict[tuple[int, str], int] = {}
    for entry in ledger.entries():
        body = entry.read()
        if body["kind"] != "release":
            continue
        key = (body["version"], body["ask"])
        item = asks.setdefault(
            key,
            {
                "id": body["ask"],
                "at": body["note"].get("at", ""),
                "question": body["descriptor"],
                "data_version": body["version"],
                "charged_rho": 0.0,
                "releases": [],
            },
        )
        charged[key] = charged.get(key, 0) + body["charge"]
        item["charged_rho"] = float(rho_of(charged[key], contract.rho))
        item["releases"].append(
            {
                "id": str(entry.seq),
                "measure": body["measure"],
                "purse": body["purse"],
                "cells": sum(v is not None for v in body["value"]),
                "charged_rho": float(rho_of(body["charge"], contract.rho)),
            }
        )
    return list(asks.values())


def run_audit(ledger: Ledger) -> AuditReport:
    """Replay the whole log from zero and re-derive every charge, fold and key, and what each cell paid."""
    from defray.support.measured import paid_of  # arrays are loaded for an audit only

    domains: dict[int, Domain] = {}
    rows, rho = int(ledger.terms.unit["max_rows"]), ledger.terms.rho

    def derive(body: Mapping[str, Any], epoch: Epoch) -> Derived:
        domain = domains.get(epoch.counter)
        if domain is None:
            domain = domains[epoch.counter] = Domain.from_json(epoch.domain)
        keys, derived = derived_fields(body, domain, rows)
        for name, value in derived.items():
            if body[name] != value:
                raise Disagrees(f"its {name} is {body[name]}, by its weights it is {value}")
        release = Release.from_json(body)
        return Derived(
            keys,
            paid_of(
                release.weights,
                release.attributes,
                domain,
                reach=release.reach,
                sigmas=release.sigmas,
                charge=release.charge,
                rho=rho,
                by_cell=release.by_cell,
            ),
        )

    return audit(ledger, derive)


def derived_fields(
    body: Mapping[str, Any], domain: Domain, rows: int
) -> tuple[tuple[bytes, ...], dict[str, Any]]:
    """The keys of a release's functionals (none, where its kind has none), and the fields of its body that
    follow from its weights and the declared domain."""
    keyed = body["weights"]["kind"] == "region"
    table = {"kind": "region", "region": True, "group": []}
    block = block_of(body if keyed else {**body, "weights": table}, domain, rows)
    fields: dict[str, Any] = {"reach": str(block.reach), "unit": str(block.unit)}
    if not keyed:
        return (), fields
    return block.keys, fields | {"attributes": list(block.attributes)}


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
