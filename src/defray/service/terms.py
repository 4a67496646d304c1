"""The contract and its columns as documents, in words and in numbers.  All of it is public."""

from __future__ import annotations

from typing import Any, Final

from defray.core.column import Column
from defray.core.contract import RELATION, Contract, Promised
from defray.core.numbers import show_number
from defray.core.shapes import Anything, Cuts, Grid, Values, Whole
from defray.core.zcdp import epsilon_for
from defray.query.reader import identifier

EXAMPLE_DELTA: Final = 1e-6
"""Epsilon is told at this delta where a contract has none of its own."""

NULLS: Final = {"cell": "NULL is a group of its own", "drop": "rows with NULL are left out"}
OTHERS: Final = {
    "null": "a value outside the domain counts as NULL",
    "cell": "values outside the domain are one group of their own",
    "clamp": "a value outside the domain is moved to the nearest one",
    "drop": "rows with a value outside the domain are left out",
}


def contract_document(contract: Contract) -> dict[str, Any]:
    delta = contract.delta or EXAMPLE_DELTA
    epsilon = {"delta": delta, "epsilon": epsilon_for(contract.rho, delta)}
    promises = [_promise(promised) for promised in contract.promises]
    return {
        "table": contract.table,
        "rho": float(contract.rho),
        "xi": float(contract.xi),
        "epsilon": epsilon,
        "unit": str(contract.unit),
        "relation": RELATION,
        "support": contract.support,
        "gate": contract.gate,
        "sharing": contract.sharing,
        "surplus": contract.surplus,
        "horizon": contract.horizon,
        "m_floor": None if contract.m_floor is None else float(contract.m_floor),
        "n_max": contract.n_max,
        "promises": promises,
        "words": _words(contract, epsilon, promises),
    }


def _words(
    contract: Contract, epsilon: dict[str, float], promises: list[dict[str, Any]]
) -> list[str]:
    words = [
        f"what is protected in {contract.table}: {contract.unit} ({RELATION})",
        f"everything that is ever answered satisfies zCDP with rho = {float(contract.rho):g}, which gives "
        f"epsilon = {epsilon['epsilon']:.3g} at delta = {epsilon['delta']:g}",
    ]
    if contract.xi:
        words.append(f"{float(100 * contract.xi):.3g} % of the budget is kept for diagnostics")
    if contract.support == "linear":
        words.append("an earlier answer counts for every question that overlaps with it")
    else:
        words.append("an earlier answer counts for the same question only")
    words.append(f"the budget is shared out by the gate {contract.gate}")
    if contract.m_floor is not None:
        words.append(f"percentages are taken of at least {float(contract.m_floor):g} rows")
    return [*words, *(f"never refused: {promise['words']}" for promise in promises)]


def _promise(promised: Promised) -> dict[str, Any]:
    return {
        "columns": list(promised.columns),
        "kinds": list(promised.kinds),
        "within": float(promised.within),
        "confidence": float(promised.confidence),
        "words": f"{promised}, within {float(promised.within):g} at {float(promised.confidence):.4g}",
    }


def schema_document(contract: Contract) -> dict[str, Any]:
    columns = contract.domain.columns
    return {
        "table": contract.table,
        "columns": [_column(column) for column in columns],
        "examples": _examples(contract),
    }


def _column(column: Column) -> dict[str, Any]:
    words, domain = _domain(column)
    bounds, step = column.bounds, column.unit_step
    return {
        "name": column.name,
        "kind": column.kind,
        "words": words,
        "domain": domain,
        "levels": list(column.levels),
        "bounds": None if bounds is None else [float(bound) for bound in bounds],
        "unit_step": None if step is None else float(step),
        "null": NULLS[column.null],
        "other": OTHERS[column.other],
    }


def _domain(column: Column) -> tuple[str, dict[str, Any]]:
    """A column's domain in words, and for machines."""
    shape = column.shape
    match shape:
        case Values():
            values = [column.label(atom) for atom in range(shape.count)]
            return f"one of {len(values):,} values", {"values": values}
        case Whole():
            low, high = column.label(0), column.label(shape.count - 1)
            kind = "day" if column.kind == "date" else "integer"
            return f"every {kind} from {low} to {high}", {"min": low, "max": high}
        case Grid():
            step = show_number(shape.step)
            if column.kind == "timestamp":
                low, last = column.label(0), column.label(shape.count - 1)
                words = f"times in {shape.count:,} bins of {step} µs, the first at {low}, the last at {last}"
                return words, {
                    "start": low,
                    "step_microseconds": int(shape.step),
                    "bins": shape.count,
                }
            low, high = show_number(shape.start), show_number(shape.edge(shape.count))
            return (
                f"{shape.count:,} bins of {step} from {low} to {high}; thresholds lie on their edges",
                {"start": float(shape.start), "step": float(shape.step), "bins": shape.count},
            )
        case Cuts():
            edges = ", ".join(show_number(edge) for edge in shape.edges[:20])
            more = ", ..." if len(shape.edges) > 20 else ""
            words = f"bins between {edges}{more}; thresholds lie on these edges"
            return words, {"edges": [float(edge) for edge in shape.edges]}
        case Anything():
            return "any value; it can be summed but not filtered or grouped by", {"any": True}


def _examples(contract: Contract) -> list[str]:
    """Questions that this contract can answer, cheapest idea first."""
    table, columns = identifier(contract.table), contract.domain.columns
    grouped = min((c for c in columns if c.levels), key=lambda c: c.width, default=None)
    summed = next((c for c in columns if c.bounds is not None), None)
    examples = [f"SELECT COUNT(*) FROM {table} ERROR WITHIN 100 AT CONFIDENCE 95%"]
    if grouped is not None:
        by = identifier(grouped.name)
        examples.append(
            f"SELECT {by}, COUNT(*) FROM {table} GROUP BY {by} ERROR WITHIN 100 AT CONFIDENCE 95%"
        )
    if summed is not None and summed.bounds is not None:
        within = show_number(max(abs(bound) for bound in summed.bounds) * 100)
        examples.append(
            f"SELECT SUM({identifier(summed.name)}) FROM {table} ERROR WITHIN {within} AT CONFIDENCE 95%"
        )
    return examples
