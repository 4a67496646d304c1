"""Earlier answers, improved for free by what was released since.  Nothing is charged or written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from defray.controller.ask import Ask
from defray.controller.rule import Estimate
from defray.controller.rules import rules_of
from defray.core.contract import Contract
from defray.core.domain import Domain
from defray.errors import QueryError, TargetError
from defray.ledger.records import Epoch, Release
from defray.ledger.store import Ledger
from defray.logbook import Logbook, Logged, asked, claimed_under, derived_fields, releases


def refresh(contract: Contract, ledger: Ledger) -> dict[str, list[dict[str, Any]]]:
    """By the id of every ask of the newest data version: its rows, each with value and half-width as they
    were when the ask ended (``then``) and as all releases so far have them (``now``).  Questions whose text
    is too long to be read again are left out."""
    newest: list[tuple[int, Mapping[str, Any]]] = []
    epoch: Epoch | None = None
    for of, seq, body in releases(ledger):
        if epoch is None or of.counter != epoch.counter:
            epoch = of
            newest.clear()
        newest.append((seq, body))
    if epoch is None:
        return {}
    domain = Domain.from_json(epoch.domain)
    book = Logbook(replace(contract, domain=domain))
    asks: dict[str, tuple[Ask, bool, list[list[Estimate]]]] = {}
    for i, (seq, body) in enumerate(newest):
        keys, _ = derived_fields(body, domain, contract.unit.max_rows)
        release = Release.from_json(body, keys)
        book.add(Logged(seq, release))
        if i + 1 == len(newest) or newest[i + 1][1]["ask"] != release.ask:
            try:
                ask = asked(release, claimed_under(release, book.contract), book.regions)
            except (QueryError, TargetError):
                continue
            linear = release.by_cell
            asks[release.ask] = ask, linear, _estimates(book, ask, linear)
    return {
        name: _rows(ask, then, _estimates(book, ask, linear))
        for name, (ask, linear, then) in asks.items()
    }


def _estimates(book: Logbook, ask: Ask, linear: bool) -> list[list[Estimate]]:
    """By cell and aggregate."""
    held, rules = book.held(ask, linear=linear), rules_of(ask)
    none = Estimate(0.0, 0.0, 0.0)
    return [
        [none if r.block("count").empty[i] else r.estimate(i, held) for r in rules]
        for i in range(len(ask.compiled.cells))
    ]


def _rows(ask: Ask, then: list[list[Estimate]], now: list[list[Estimate]]) -> list[dict[str, Any]]:
    question = ask.compiled.question
    return [
        {
            "group": dict(zip(question.labels, cell.labels, strict=True)),
            "aggregate": aggregate.alias,
            "then": _shown(before[j]),
            "now": _shown(after[j]),
        }
        for cell, before, after in zip(ask.compiled.cells, then, now, strict=True)
        for j, aggregate in enumerate(question.aggregates)
    ]


def _shown(estimate: Estimate) -> dict[str, float | None]:
    known = estimate.value is not None
    return {"value": estimate.value, "half_width": estimate.half_width if known else None}
