"""Small ledgers and valid releases for tests."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

from defray.charged import paid_by
from defray.core.amounts import QUANTA, dyadic_down, quanta_up, rho_of
from defray.core.column import Column
from defray.core.domain import Domain
from defray.core.intervals import Atoms
from defray.core.principals import Scope
from defray.core.shapes import Whole
from defray.ledger.audit import Derived
from defray.ledger.beside import Token
from defray.ledger.records import Epoch, Purse, Release, Terms, canonical
from defray.query.region import Regions
from defray.support.weights import charge_for, squared_gain, squared_weight

WIDTHS = {"age": 10, "city": 4, "sex": 2}
DOMAIN = [
    Column(name, "integer", Whole(0, n - 1), null="drop", other="drop").to_json()
    for name, n in WIDTHS.items()
]
REGIONS = Regions(tuple(WIDTHS.values()))
NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)


def terms(rho: Fraction = Fraction(1), xi: Fraction = Fraction(0)) -> Terms:
    diagnostic = math.floor(QUANTA * xi)
    return Terms(
        rho,
        {"answer": QUANTA - diagnostic, "diagnostic": diagnostic},
        {"column": "person", "max_rows": 1},
    )


def derive(body: Mapping[str, Any], epoch: Epoch) -> Derived:
    """Stand-ins for the descriptor's keys, one for every value of a region, from what it measures; and what
    each cell really pays."""
    return derived(body, epoch, Fraction(1))


def derived(body: Mapping[str, Any], epoch: Epoch, rho: Fraction) -> Derived:
    stem = canonical([body["measure"], body["attributes"], body["weights"]])
    keyed = body["weights"]["kind"] == "region"
    values = range(len(body["value"]) if keyed else 0)
    keys = tuple(hashlib.sha256(stem + str(i).encode()).digest()[:16] for i in values)
    bare = Release.from_json(body)
    if not bare.by_cell:
        return Derived(keys, bare.pays)
    domain = Domain.from_json(epoch.domain)
    return Derived(
        keys,
        paid_by(bare, domain, rho),
    )


def release(
    *,
    sigmas: Sequence[float | None] = (10.0,),
    values: Sequence[int | None] | None = None,
    weights: Mapping[str, Any] | str = "all",
    purse: Purse = "answer",
    version: int = 1,
    rho: Fraction = Fraction(1),
    charge: int | None = None,
    step: int = 4,
    note: Mapping[str, Any] | None = None,
    question: str = "SELECT COUNT(*) FROM people",
    ask: str = "a1",
    reach: Fraction = Fraction(1),
    attributes: Sequence[str] = ("age",),
    domain: Any = DOMAIN,
    cells: bool = False,
) -> Release:
    """A release whose charge and precisions follow from its sigmas, unless a charge is forced; ``cells``:
    charged by cell."""
    if isinstance(weights, str):
        weights = {"kind": "region", "region": weights, "group": []}
    least = min(s for s in sigmas if s is not None)
    if charge is None:
        charge = charge_for(reach**2 * squared_weight(weights), least, rho)
    if values is None:
        values = [None if s is None else 100 + i for i, s in enumerate(sigmas)]
    bare = Release(
        version=version,
        purse=purse,
        attributes=tuple(attributes),
        measure="count",
        weights=weights,
        unit=Fraction(1),
        step=step,
        reach=reach,
        values=tuple(values),
        sigmas=tuple(sigmas),
        precisions=tuple(
            None if s is None else dyadic_down(squared_gain(weights) / Fraction(s) ** 2)
            for s in sigmas
        ),
        charge=charge,
        question=question,
        ask=ask,
        keys=(),
        note=note or {},
        by_cell=cells,
    )
    return with_keys(bare, domain, rho)


def by_cell(sigma: float = 10.0, ages: Atoms = ((2, 5),), **rest: Any) -> Release:
    """A count of some ages, which these pay for."""
    region = REGIONS.to_json(REGIONS.where(0, ages))
    weights = {"kind": "region", "region": region, "group": []}
    return release(sigmas=(sigma,), weights=weights, cells=True, **rest)


def residual(sigma: float = 60.0, names: Sequence[str] = ("age", "sex"), **rest: Any) -> Release:
    """The residual of some columns."""
    atoms = [WIDTHS[name] for name in names]
    values = tuple(range(math.prod(atoms)))
    weights = {"kind": "residual", "atoms": atoms}
    return release(sigmas=(sigma,), weights=weights, attributes=names, **{"values": values, **rest})


def functional(
    sigma: float = 10.0,
    steps: Sequence[int] = (0, 3, -4, 1),
    classes: Sequence[Any] = ([0, 5], [0, 1]),
    names: Sequence[str] = ("age", "city"),
    bits: int = 2,
    **rest: Any,
) -> Release:
    """One functional of real weights on classes of ages and cities, which its cells pay for."""
    weights = {"kind": "cells", "classes": list(classes), "bits": bits, "steps": list(steps)}
    rest = {"cells": True, **rest}
    return release(sigmas=(sigma,), weights=weights, attributes=names, **rest)


def token(
    id: str = "a1b2c3",
    principal: str = "ana",
    scopes: Sequence[Scope] = ("ask", "quote"),
    days: int | None = None,
    **rest: Any,
) -> Token:
    """A token whose text is its id; it works for so many days."""
    return Token(
        id=id,
        principal=principal,
        scopes=frozenset(scopes),
        **{
            "made": NOON,
            "hash": hashlib.sha256(id.encode()).digest(),
            "expires": None if days is None else NOON + timedelta(days=days),
            **rest,
        },
    )


def with_keys(bare: Release, domain: Any = DOMAIN, rho: Fraction = Fraction(1)) -> Release:
    """The release with what is derived from it."""
    found = derived(bare.to_json(), Epoch(1, "", domain), rho)
    return Release.from_json(bare.to_json(), found.keys, found.paid)


def spend(charge: int, *, rho: Fraction = Fraction(1), **rest: Any) -> Release:
    """A release at a given charge: the least sigma found whose noise the charge covers."""
    cost = rho_of(charge, rho)
    sigma = math.sqrt(1 / (2 * float(cost)))
    while quanta_up(1 / (2 * Fraction(sigma) ** 2), rho) > charge:
        sigma = math.nextafter(sigma, math.inf)
    note = {"given": True, **rest.pop("note", {})}
    return release(sigmas=(sigma,), charge=charge, rho=rho, note=note, **rest)
