"""Small ledgers and valid releases for tests."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from defray.core.amounts import QUANTA, dyadic_down, quanta_up, rho_of
from defray.ledger.records import Epoch, Purse, Release, Terms, canonical

DOMAIN = {"columns": [{"name": "age", "min": 0, "max": 9}]}


def terms(rho: Fraction = Fraction(1), xi: Fraction = Fraction(0)) -> Terms:
    diagnostic = math.floor(QUANTA * xi)
    return Terms(
        rho,
        {"answer": QUANTA - diagnostic, "diagnostic": diagnostic},
        {"column": "person", "max_rows": 1},
    )


def keys_of(body: Mapping[str, Any], epoch: Epoch) -> tuple[bytes, ...]:
    """A stand-in for the descriptor's keys: one for every cell of the release, from what it measures."""
    stem = canonical([body["measure"], body["attributes"], body["weights"]])
    return tuple(
        hashlib.sha256(stem + str(i).encode()).digest()[:16] for i in range(len(body["value"]))
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
) -> Release:
    """A release whose charge and precisions follow from its sigmas, unless a charge is forced."""
    least = min(s for s in sigmas if s is not None)
    if charge is None:
        charge = quanta_up(reach**2 / (2 * Fraction(least) ** 2), rho)
    if values is None:
        values = [None if s is None else 100 + i for i, s in enumerate(sigmas)]
    bare = Release(
        version=version,
        purse=purse,
        attributes=("age",),
        measure="count",
        weights={"kind": "region", "region": weights, "group": []}
        if isinstance(weights, str)
        else weights,
        unit=Fraction(1),
        step=step,
        reach=reach,
        values=tuple(values),
        sigmas=tuple(sigmas),
        precisions=tuple(None if s is None else dyadic_down(1 / Fraction(s) ** 2) for s in sigmas),
        charge=charge,
        question=question,
        ask=ask,
        keys=(),
        note=note or {},
    )
    return with_keys(bare)


def with_keys(bare: Release) -> Release:
    return Release.from_json(bare.to_json(), keys_of(bare.to_json(), Epoch(1, "", None)))


def spend(charge: int, *, rho: Fraction = Fraction(1), **rest: Any) -> Release:
    """A release at a given charge: the least sigma found whose noise the charge covers."""
    cost = rho_of(charge, rho)
    sigma = math.sqrt(1 / (2 * float(cost)))
    while quanta_up(1 / (2 * Fraction(sigma) ** 2), rho) > charge:
        sigma = math.nextafter(sigma, math.inf)
    note = {"given": True, **rest.pop("note", {})}
    return release(sigmas=(sigma,), charge=charge, rho=rho, note=note, **rest)
