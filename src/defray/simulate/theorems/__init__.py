"""The paper's statements, each measured on the product's own objects over random sequences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from defray.errors import BadInput
from defray.simulate.theorems.crediting import minimality, one_competitive, overhead, prices
from defray.simulate.theorems.diagnostics import amortisation, credited_diagnostics
from defray.simulate.theorems.filters import composition, no_overspending
from defray.simulate.theorems.impossibility import deterministic, hedged, thresholds
from defray.simulate.theorems.row import Row
from defray.simulate.theorems.scarcity import (
    closed_form,
    differentiation,
    feasible_price,
    last_ask,
)
from defray.simulate.theorems.separations import (
    non_crediting,
    partitioned,
    per_step,
    two_queries,
    witness,
)
from defray.simulate.theorems.weighting import heavier, monotone, scale_free

__all__ = ["Row", "table"]

CHECKS: Final[tuple[Callable[[int, int], Row | list[Row]], ...]] = (
    composition,
    no_overspending,
    minimality,
    closed_form,
    one_competitive,
    overhead,
    credited_diagnostics,
    non_crediting,
    per_step,
    witness,
    partitioned,
    two_queries,
    deterministic,
    thresholds,
    hedged,
    monotone,
    differentiation,
    amortisation,
    prices,
    last_ask,
    feasible_price,
    scale_free,
    heavier,
)


LEAST: Final = 100
"""Fewer sequences need not contain what every statement is about."""


def table(
    sequences: int = 10_000,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> list[Row]:
    """Every statement over so many random sequences; ``progress`` hears how many checks of all are done."""
    if sequences < LEAST:
        raise BadInput(f"the theorems need at least {LEAST} sequences, not {sequences}")
    rows: list[Row] = []
    for done, check in enumerate(CHECKS, 1):
        found = check(sequences, seed)
        rows.extend(found if isinstance(found, list) else [found])
        if progress is not None:
            progress(done, len(CHECKS))
    return rows
