"""What a row really loses, cell by cell, release by release, against what the ledger keeps and refuses."""

from __future__ import annotations

import itertools
import math
import tempfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from defray.core.amounts import QUANTA
from defray.errors import LedgerCorrupt
from defray.ledger.audit import audit
from defray.ledger.records import Release, Terms
from tests.contract.ledgers import LEDGERS
from tests.ledger.makers import DOMAIN, REGIONS, WIDTHS, derived, release, with_keys

RHO = Fraction(1, 50)
ROWS = 2
CAP = QUANTA // 3
NAMES = tuple(WIDTHS)
SHAPE = tuple(WIDTHS.values())
CELLS = list(itertools.product(*map(range, SHAPE)))

sigmas = st.sampled_from([6.0, 17.5, 40.0, 123.0])


@st.composite
def regions(draw: st.DrawFn) -> dict[str, Any]:
    region: Any = draw(st.booleans())
    for _ in range(draw(st.integers(0, 3))):
        sides = {
            i: draw(st.sampled_from([((0, 1),), ((1, n),), ((n - 1, n),)]))
            for i, n in enumerate(SHAPE)
            if draw(st.booleans())
        }
        join = REGIONS.either if draw(st.booleans()) else REGIONS.both
        region = join(region, REGIONS.box(sides))
        region = REGIONS.negate(region) if draw(st.integers(0, 3)) == 0 else region
    group = draw(st.lists(st.sampled_from(NAMES), max_size=2, unique=True))
    count = math.prod(WIDTHS[name] for name in group)
    touched = {*REGIONS.columns(region), *(NAMES.index(name) for name in group)}
    noise = draw(st.lists(st.none() | sigmas, min_size=count, max_size=count).filter(any))
    by_group = {  # a group that holds nothing is not measured
        index
        for cell in CELLS
        if REGIONS.contains(region, cell.__getitem__)
        for index in [group_of(group, cell)]
    }
    noise = [s if i in by_group else None for i, s in enumerate(noise)]
    return {
        "weights": {
            "kind": "region",
            "region": REGIONS.to_json(region),
            "group": [[name, "value"] for name in group],
        },
        "attributes": [NAMES[i] for i in sorted(touched)],
        "sigmas": noise,
        "cells": draw(st.booleans()),
    }


@st.composite
def residuals(draw: st.DrawFn) -> dict[str, Any]:
    names = [name for name in NAMES if draw(st.booleans())]
    atoms = [WIDTHS[name] for name in names]
    return {
        "weights": {"kind": "residual", "atoms": atoms},
        "attributes": names,
        "sigmas": [draw(sigmas) * math.prod(atoms)],
        "values": [0] * math.prod(atoms),
        "cells": draw(st.booleans()),
    }


@st.composite
def functionals(draw: st.DrawFn) -> dict[str, Any]:
    names = [name for name in NAMES if draw(st.booleans())]
    classes = [
        draw(st.none() | st.sets(st.integers(1, WIDTHS[n] - 1)).map(lambda s: [0, *sorted(s)]))
        for n in names
    ]
    count = math.prod(
        WIDTHS[n] if starts is None else len(starts)
        for n, starts in zip(names, classes, strict=True)
    )
    steps = draw(st.lists(st.integers(-8, 8), min_size=count, max_size=count).filter(any))
    weights = {"kind": "cells", "classes": classes, "bits": draw(st.integers(0, 3)), "steps": steps}
    return {"weights": weights, "attributes": names, "sigmas": [draw(sigmas)], "cells": True}


def group_of(group: list[str], cell: tuple[int, ...]) -> int:
    number = 0
    for name in group:
        number = number * WIDTHS[name] + cell[NAMES.index(name)]
    return number


def moved(sent: Release, cell: tuple[int, ...]) -> Iterator[tuple[Fraction, float]]:
    """How far a row in a cell moves each measured number, and the sigma of its noise."""
    weights, columns = sent.weights, [NAMES.index(name) for name in sent.attributes]
    if weights["kind"] == "region":
        group = group_of([name for name, _ in weights["group"]], cell)
        region = REGIONS.from_json(weights["region"])
        sigma = sent.sigmas[group]
        if sigma is not None and REGIONS.contains(region, cell.__getitem__):
            yield Fraction(1), sigma
        return
    (sigma,) = sent.sigmas
    assert sigma is not None
    if weights["kind"] == "residual":
        for entry in itertools.product(*map(range, weights["atoms"])):
            factors = [
                n * (cell[i] == at) - 1
                for i, n, at in zip(columns, weights["atoms"], entry, strict=True)
            ]
            yield Fraction(math.prod(factors)), sigma
        return
    index = 0
    for i, starts in zip(columns, weights["classes"], strict=True):
        here = cell[i] if starts is None else max(j for j, s in enumerate(starts) if s <= cell[i])
        index = index * (SHAPE[i] if starts is None else len(starts)) + here
    yield Fraction(weights["steps"][index], 2 ** weights["bits"]), sigma


def loss(sent: Release, cell: tuple[int, ...]) -> Fraction:
    """In quanta."""
    each = ((ROWS * b) ** 2 / (2 * Fraction(sigma) ** 2) for b, sigma in moved(sent, cell))
    return sum(each, Fraction(0)) * QUANTA / RHO


steps = st.lists(regions() | residuals() | functionals() | st.none(), min_size=1, max_size=12)


@pytest.mark.long
@pytest.mark.parametrize("kind", sorted(LEDGERS))
@settings(max_examples=40, deadline=None)
@given(plan=steps)
def test_no_row_loses_more_than_the_cap(kind: str, plan: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        caps = {"answer": CAP, "diagnostic": 0}
        unit = {"column": "person", "max_rows": ROWS}
        ledger = LEDGERS[kind].fresh(Path(folder)).open(Terms(RHO, caps, unit))
        with ledger.transaction() as transaction:
            transaction.open_epoch("p", DOMAIN)
        version = 1
        lost = dict.fromkeys(CELLS, Fraction(0))
        charged = dict.fromkeys(CELLS, Fraction(0))
        kept = 0
        for step in plan:
            if (
                step is None
            ):  # rows may have moved anywhere: the worst path is through the dearest cells
                with ledger.transaction() as transaction:
                    version = transaction.open_epoch("p", DOMAIN).counter
                lost = dict.fromkeys(CELLS, max(lost.values()))
                charged = dict.fromkeys(CELLS, max(charged.values()))
                continue
            if not any(step["sigmas"]):
                continue
            sent = with_keys(
                release(**step, version=version, rho=RHO, reach=Fraction(ROWS)), rho=RHO
            )
            now = {cell: loss(sent, cell) for cell in CELLS}
            dearest = max(now.values())
            assert dearest <= sent.charge < dearest + 1
            everywhere = not sent.by_cell
            after = {c: charged[c] + (dearest if everywhere else now[c]) for c in CELLS}
            try:
                with ledger.transaction() as transaction:
                    transaction.append(sent)
            except LedgerCorrupt as error:
                assert "purse would reach" in error.message
                assert max(after.values()) + kept + 1 > CAP
                continue
            kept += 1
            charged = after
            lost = {cell: lost[cell] + now[cell] for cell in CELLS}
            with ledger.view() as view:
                paid = view.charges("answer").paid((0, 1, 2))
                spent = view.spent("answer")
            assert spent == int(np.max(paid)) <= CAP
            for cell in CELLS:
                assert lost[cell] <= charged[cell] <= int(paid[cell]) <= charged[cell] + kept
        assert audit(ledger, lambda body, epoch: derived(body, epoch, RHO)).ok
        ledger.close()
