"""How a contract's promises stand: what each needs, what it holds back now, and whether it can be kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from defray.core.amounts import rho_of
from defray.core.contract import Contract, Promised, Purse
from defray.core.numbers import show_number
from defray.errors import ContractError, Problem
from defray.ledger.store import Ledger, View


@dataclass(frozen=True, slots=True)
class Standing:
    """One promise.  ``needs`` is what it held back of the dearest cell before the first question, ``holds``
    what it holds back now; ``room``, for one that has lapsed, what the dearest of its cells has left.  In
    rho."""

    promised: Promised
    cells: int
    needs: Fraction
    holds: Fraction
    kept: bool
    room: Fraction | None = None

    def to_json(self) -> dict[str, Any]:
        promised = self.promised
        return {
            "columns": list(promised.columns),
            "kinds": list(promised.kinds),
            "within": float(promised.within),
            "confidence": float(promised.confidence),
            "cells": self.cells,
            "needs_rho": float(self.needs),
            "holds_rho": float(self.holds) if self.kept else 0.0,
            "kept": self.kept,
        }


def standings(contract: Contract, caps: Mapping[Purse, int], view: View) -> list[Standing]:
    """The promises of a contract in its order, in the newest data version."""
    if not contract.promises:
        return []
    from defray.past import Past, overlap_of  # arrays are loaded where something is promised
    from defray.support.room import HELD

    version = 1 if view.epoch is None else view.epoch.counter
    overlap = overlap_of(contract, caps, Past(version, contract), view)
    reserves, total = overlap.history.reserves(), contract.rho
    found: list[Standing] = []
    for n, (commitment, promise) in enumerate(
        zip(reserves.commitments, reserves.promises, strict=True)
    ):
        kept, room = n < overlap.kept, None
        if not kept:
            before = overlap.room.holding(reserves.held(n)) if n > overlap.kept else overlap.room
            left = before.left(HELD, commitment.axes.columns)
            room = rho_of(before.least(HELD) if left is None else int(left.min()), total)
        holds = rho_of(int(commitment.quanta(promise).max()), total)
        found.append(
            Standing(
                contract.promises[n],
                commitment.axes.cells,
                rho_of(commitment.needs, total),
                holds,
                kept,
                room,
            )
        )
    return found


def check_promises(contract: Contract, ledger: Ledger) -> None:
    """Raises ContractError where a contract promises in its first data version what its budget cannot keep.
    In later versions such a promise lapses, and the balance says so."""
    if not contract.promises:
        return
    with ledger.view() as view:
        if view.closed or (view.epoch is not None and view.epoch.counter > 1):
            return
        found = standings(contract, ledger.terms.caps, view)
    problems = [_unaffordable(s) for s in found if not s.kept]
    if problems:
        raise ContractError(problems, path=str(contract.path))


def _unaffordable(standing: Standing) -> Problem:
    assert standing.room is not None
    return Problem(
        "promise",
        f"{named(standing.promised)} needs {float(standing.holds):.6g} rho for answers; "
        f"{float(standing.room):.6g} are left for it",
        "raise rho, promise a larger error or fewer columns, or remove the promise",
    )


def named(promised: Promised) -> str:
    """A promise in words."""
    confidence = show_number(promised.confidence * 100)
    return f"{promised} within {show_number(promised.within)} at {confidence}%"


def lapsed(standing: Standing) -> str:
    """The notice of a promise that can no longer be kept."""
    assert standing.room is not None
    return (
        f"the promise of {named(standing.promised)} has lapsed: it needs {float(standing.holds):.6g} rho, "
        f"and {float(standing.room):.6g} are left for it; such questions may be refused"
    )
