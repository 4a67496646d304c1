"""One answer explained, from the log alone: what it rests on, and how much of it was paid before.

Everything is as it was when the ask ended.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from defray.charged import paid_for, regions_of
from defray.controller.ask import Ask
from defray.controller.explain import ExplainedRow, Part, explain_rows
from defray.core.amounts import rho_of
from defray.core.contract import Contract
from defray.core.domain import Domain
from defray.errors import BadInput, NotFound, QueryError, TargetError
from defray.ledger.records import Release
from defray.ledger.store import Ledger
from defray.logbook import Logbook, Logged, asked, claimed_under, derived_fields, releases
from defray.query.region import Regions
from defray.query.render import condition_sql
from defray.support.weights import charge_for


def explain(
    contract: Contract, ledger: Ledger, name: Any, owner: str | None = None
) -> dict[str, Any]:
    """What the answer of an ask rests on.  ``name`` is the ask's id, as history has it, or that of any of
    its releases, as rows have it (``12`` or ``12.0``).  An ``owner`` sees the own asks only.

    Raises NotFound where nothing was released under that id, BadInput where its question cannot be
    read again.
    """
    book, last = _read(contract, ledger, _seq_of(name), str(name))
    if owner is not None and last.release.by != owner:
        raise NotFound(
            f"you paid for nothing under the id {name!s:.40}",
            hint="your history has the ids; what was free to you rests on others' questions",
        )
    this = last.release.ask
    bought = [one for one in book.logged.values() if one.release.ask == this]
    linear = any(one.release.by_cell for one in bought)
    try:
        ask = asked(last.release, book.contract, book.regions)
    except (QueryError, TargetError):
        raise BadInput(
            f"the question of {name} cannot be read again: {last.release.question:.60}",
            hint="its releases are in the history",
        ) from None
    rows = explain_rows(ask, book.held(ask, linear=linear), book.own)
    return _told(book, ask, rows, bought, linear=linear)


def _seq_of(name: Any) -> int:
    seq, dot, place = str(name).strip().partition(".")
    if not (seq.isascii() and seq.isdecimal()) or (dot and not place.isdecimal()) or len(seq) > 18:
        raise NotFound(
            f"{name!s:.40} is no id of an answer",
            hint="an id is a number, as the history shows it",
        )
    return int(seq)


def _read(contract: Contract, ledger: Ledger, wanted: int, name: str) -> tuple[Logbook, Logged]:
    """The releases up to the end of the ask that released ``wanted``, and its last one."""
    bodies: list[tuple[int, Mapping[str, Any]]] = []
    version, domain, ask = 0, None, None
    for epoch, seq, body in releases(ledger):
        if ask is not None and (body["ask"], body["version"]) != ask:
            break  # the releases of an ask are written together
        if epoch.counter != version:
            version, domain = epoch.counter, epoch.domain
            bodies.clear()
        bodies.append((seq, body))
        if seq == wanted:
            ask = body["ask"], body["version"]
    if ask is None:
        raise NotFound(
            f"nothing was released under the id {name:.40}", hint="see the history for the ids"
        )
    made = Domain.from_json(domain or ())
    of_then = claimed_under(Release.from_json(bodies[-1][1]), replace(contract, domain=made))
    book = Logbook(of_then)
    for seq, body in bodies:
        keys, _ = derived_fields(body, made, contract.unit.max_rows)
        book.add(Logged(seq, Release.from_json(body, keys)))
    return book, book.logged[bodies[-1][0]]


def _told(
    book: Logbook, ask: Ask, rows: Sequence[ExplainedRow], bought: Sequence[Logged], *, linear: bool
) -> dict[str, Any]:
    total, domain, last = book.contract.rho, book.contract.domain, bought[-1].release
    names = {one.seq for one in bought}
    before = [
        one.release
        for one in book.logged.values()
        if one.seq not in names and one.release.purse == last.purse
    ]
    charged = rho_of(paid_for([one.release for one in bought], domain, total), total)
    by_aggregate = [
        max((r.scratch for r in rows if r.aggregate == j), default=Fraction(0))
        for j in range(len(ask.goals))
    ]
    scratch = sum(by_aggregate, Fraction(0))
    shares = _mean_shares(rows)
    return {
        "id": last.ask,
        "at": last.note.get("at", ""),
        "question": last.question,
        "data_version": last.version,
        "support": "linear" if linear else "exact",
        "confidence": float(ask.confidence),
        "validity": ask.validity.label,
        "charged_rho": float(charged),
        "from_scratch_rho": float(scratch),
        "paid_before": _paid_before(charged, scratch),
        "paid_by": [str(seq) for seq in shares if seq not in names],
        "bought": [str(one.seq) for one in bought],
        "regions": regions_of([one.release for one in bought], before, domain, total),
        "releases": [
            _release(book, seq, share, rows, names) for seq, share in shares.items()
        ],
        "rows": [
            _row(ask, row, cost)
            for row, cost in zip(rows, _costs(book, rows, names, charged), strict=True)
        ],
    }  # fmt: skip


def _mean_shares(rows: Sequence[ExplainedRow]) -> dict[int, Fraction]:
    """By release, its part of the rows' variance, on average."""
    found: dict[int, Fraction] = {}
    told = [row for row in rows if row.parts]
    alike: dict[int, list[Mapping[int, Fraction]]] = {}  # residuals say the same of all rows
    for row in told:
        alike.setdefault(id(shares := row.shares), []).append(shares)
    for same in alike.values():
        for seq, share in same[0].items():
            found[seq] = found.get(seq, Fraction(0)) + len(same) * share
    return {seq: share / len(told) for seq, share in sorted(found.items())}


def _paid_before(charged: Fraction, scratch: Fraction) -> float:
    return float(max(1 - charged / scratch, Fraction(0))) if scratch else 0.0


def _row(ask: Ask, row: ExplainedRow, charged: Fraction) -> dict[str, Any]:
    estimate = row.estimate
    known = estimate.value is not None
    return {
        "group": dict(row.group),
        "aggregate": ask.compiled.question.aggregates[row.aggregate].alias,
        "target": str(ask.goals[row.aggregate]),
        "value": estimate.value,
        "low": estimate.low if known else None,
        "high": estimate.high if known else None,
        "half_width": estimate.half_width if known else None,
        "variance": None if row.variance is None else float(row.variance),
        "charged_rho": float(charged),
        "from_scratch_rho": float(row.scratch),
        "paid_before": _paid_before(charged, row.scratch),
        "parts": [_part(ask, part) for part in row.parts],
    }


def _part(ask: Ask, part: Part) -> dict[str, Any]:
    """Weights and variances are of the measure's own units."""
    block, made = ask.compiled.blocks[part.block], part.explained
    return {
        "measure": str(block.measure),
        "way": made.way,
        "factor": None if part.factor is None else float(part.factor),
        "unit": float(block.unit),
        "variance": float(made.variance * block.unit**2),
        "deviation": float(made.deviation),
        "stands": made.stands,
        "weights": [
            {
                "release": str(t.seq),
                "place": t.place,
                "weight": float(t.weight),
                "exact": str(t.weight),
                "variance": float(t.variance * block.unit**2),
            }
            for t in made.terms
        ],
    }


def _release(
    book: Logbook, seq: int, share: Fraction, rows: Sequence[ExplainedRow], bought: Collection[int]
) -> dict[str, Any]:
    release, contract = book.logged[seq].release, book.contract
    places = [row.used(seq) for row in rows if seq in row.releases]
    values = len(release.values)
    used = values if None in places else len({p for found in places if found for p in found})
    return {
        "id": str(seq),
        "ask": release.ask,
        "now": seq in bought,
        "measure": release.measure,
        "measured": measured(release, contract.domain, book.regions),
        "values": values,
        "used": used,
        "charged_rho": float(rho_of(release.charge, contract.rho)),
        "share": float(share),
    }


def measured(release: Release, domain: Domain, regions: Regions) -> str:
    """What a release measured, in words."""
    what, _, column = release.measure.partition(":")
    what = {"count": "counts", "sum": f"sums of {column}"}.get(
        what, f"sums of {column} about its middle"
    )
    over = " x ".join(release.attributes)
    match release.weights["kind"]:
        case "residual":
            if not over:
                return f"{what}: the total, which all marginals share"
            return f"{what}: what {over} tells beyond its smaller marginals"
        case "cells":
            cells = len(release.weights["steps"])
            return f"{what}: a mixture of {cells:,} cells of {over}"
    where = condition_sql(domain, regions, regions.from_json(release.weights["region"]))
    by = ", ".join(n if at == "value" else f"{at} of {n}" for n, at in release.weights["group"])
    return what + (f" by {by}" if by else "") + (f" where {where}" if where else " of all rows")


def _costs(
    book: Logbook, rows: Sequence[ExplainedRow], bought: Collection[int], whole: Fraction
) -> list[Fraction]:
    """What each row was charged, in rho: of what it rests on, what was bought for it.  Mixtures and residuals
    are charged together, to their dearest cell; never more than the whole ask."""
    contract = book.contract
    joint: dict[tuple[int, ...], int] = {}

    def cost(row: ExplainedRow) -> Fraction:
        mine = [seq for seq in row.releases if seq in bought]
        alone = {seq: row.used(seq) for seq in mine}
        shared = tuple(seq for seq in mine if _kind(book, seq) != "region")
        if shared not in joint:
            made = [book.logged[seq].release for seq in shared]
            joint[shared] = paid_for(made, contract.domain, contract.rho)
        own = (_of_places(book, s, p or set()) for s, p in alone.items() if s not in shared)
        return min(whole, rho_of(joint[shared] + sum(own), contract.rho))

    return [cost(row) for row in rows]


def _kind(book: Logbook, seq: int) -> str:
    kind: str = book.logged[seq].release.weights["kind"]
    return kind


def _of_places(book: Logbook, seq: int, places: Collection[int]) -> int:
    """What the dearest of some groups of a region paid, in quanta."""
    release = book.logged[seq].release
    noises = [s for p in places if (s := release.sigmas[p]) is not None]
    costs = [charge_for(release.reach**2, s, book.contract.rho) for s in noises]
    return min(max(costs, default=0), release.charge)
