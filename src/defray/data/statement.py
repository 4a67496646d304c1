"""One scan as one SQL statement, and its rows as exact numbers.

``SELECT keys, COUNT(*), ... FROM table WHERE region GROUP BY keys``: a single pass.  Groups the data does
not have are zeros of the answer, so that which groups exist is never visible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from defray.core.intervals import Atoms
from defray.data.dialect import Dialect
from defray.data.grouping import ATOM_GROUPS, Key, key, size
from defray.data.measure import count_non_null, sum_units
from defray.data.normalise import Normal
from defray.data.predicate import TREE_LIMIT, Where, reachable, where
from defray.data.source import Exact, Scan


@dataclass(frozen=True, slots=True)
class Statement:
    sql: str
    exact: Callable[[Iterable[Sequence[Any]]], Exact]


def statement(
    scan: Scan,
    normals: Sequence[Normal],
    table: str,
    dialect: Dialect,
    *,
    kept: bool = False,
) -> Statement:
    """``table`` is a FROM item with the columns the normals name; ``kept``: it holds only the rows that
    the contract keeps."""
    chosen = where(scan.region, lambda c, atoms: normals[c].predicate(atoms), limit=TREE_LIMIT)
    keys = _keys(scan, normals, chosen)
    index = {normal.column.name: i for i, normal in enumerate(normals)}

    def allowed(column: int) -> Atoms:
        return _allowed(scan, chosen, normals, column)

    measures = ["COUNT(*)"]
    measures += [count_non_null(normals[index[c]], allowed(index[c])) for c in scan.columns]
    measures += [sum_units(normals[index[c]], allowed(index[c])) for c in scan.sums]
    exprs = [e for k in keys for e in k.exprs]
    shown = [f for k in keys for f in k.shown]
    if chosen.root is not None:
        exprs.append(f"{chosen.root} IS TRUE")
        shown.append(lambda x: x)
    for level in chosen.levels:
        table = dialect.derived(f"SELECT *, {', '.join(level)} FROM {table}")
    keeps = [] if kept else [n.keep for n in normals if n.keep is not None]
    conditions = [f"({c})" for c in (*keeps, chosen.condition) if c is not None]
    inner = ", ".join(
        [
            *(f"{e} AS g{i}" for i, e in enumerate(exprs)),
            *(f"{m} AS m{i}" for i, m in enumerate(measures)),
        ]
    )
    sql = f"SELECT {inner} FROM {table}"
    if conditions:
        sql += f" WHERE {' AND '.join(conditions)}"
    if exprs:
        sql += f" GROUP BY {', '.join(f'g{i}' for i in range(len(exprs)))}"
        outer = [f"g{i}" for i in range(len(exprs))]
        outputs = [f(g) for f, g in zip(shown, outer, strict=True)]
        if outputs != outer:
            totals = [f"m{i}" for i in range(len(measures))]
            if dialect.regroups:
                outputs = [f"{output} AS h{i}" for i, output in enumerate(outputs)]
                totals = [f"SUM({total})" for total in totals]
            sql = f"SELECT {', '.join([*outputs, *totals])} FROM {dialect.derived(sql)}"
            if dialect.regroups:
                sql += f" GROUP BY {', '.join(f'h{i}' for i in range(len(outputs)))}"
    return Statement(sql, _reader(scan, normals, keys, chosen))


def _keys(scan: Scan, normals: Sequence[Normal], chosen: Where) -> list[Key]:
    by_atom = prod(normals[a.column].column.width for a in scan.axes) <= ATOM_GROUPS
    alone = len(scan.axes) == 1 and chosen.root is None
    return [
        key(
            normals[a.column],
            a,
            _allowed(scan, chosen, normals, a.column),
            alone=alone,
            by_atom=by_atom,
        )
        for a in scan.axes
    ]


def _allowed(scan: Scan, chosen: Where, normals: Sequence[Normal], column: int) -> Atoms:
    """The atoms that can reach the aggregates: WHERE has cut the others, unless it was no WHERE."""
    width = normals[column].column.width
    return ((0, width),) if chosen.root is not None else reachable(scan.region, column, width)


def _reader(
    scan: Scan, normals: Sequence[Normal], keys: list[Key], chosen: Where
) -> Callable[[Iterable[Sequence[Any]]], Exact]:
    sizes = [size(normals[a.column].column, a) for a in scan.axes]
    cells = prod(sizes)
    bounds: list[tuple[Key, int, int, int]] = []
    at = 0
    for k, groups in zip(keys, sizes, strict=True):
        bounds.append((k, groups, at, at + len(k.exprs)))
        at += len(k.exprs)
    first = at + (chosen.root is not None)

    def exact(rows: Iterable[Sequence[Any]]) -> Exact:
        totals = [[0] * cells for _ in range(1 + len(scan.columns) + len(scan.sums))]
        seen: list[dict[Any, int]] = [{} for _ in bounds]
        for row in rows:
            if chosen.root is not None and not row[at]:
                continue
            cell = 0
            for (k, groups, start, stop), known in zip(bounds, seen, strict=True):
                keys = row[start:stop]
                number = known.get(keys)
                if number is None:
                    number = known[keys] = k.group(tuple(keys))
                cell = cell * groups + number
            for i, total in enumerate(totals, first):
                total[cell] += int(row[i] or 0)
        split = 1 + len(scan.columns)
        return Exact(
            totals[0],
            dict(zip(scan.columns, totals[1:split], strict=True)),
            dict(zip(scan.sums, totals[split:], strict=True)),
        )

    return exact
