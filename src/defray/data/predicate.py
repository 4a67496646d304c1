"""A region as SQL.

A region is a decision diagram; written out as one expression it is a tree, in which a node that several
branches share is repeated.  Real questions are small trees and become a plain WHERE.  For the rest each
column's nodes become boolean columns of a nested SELECT (so the text stays linear in the diagram), the
root is one more grouping key, and its FALSE groups are thrown away afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from defray.core import intervals
from defray.core.intervals import EMPTY, Atoms
from defray.query.region import Node, Region

TREE_LIMIT = 2_000
"""The most nodes a region may have as a tree and still be written as one expression."""

Predicate = Callable[[int, Atoms], "str | bool"]


@dataclass(frozen=True, slots=True)
class Where:
    """``condition`` goes into WHERE (None: every row).  Otherwise ``levels`` are the select lists of
    nested queries, innermost first, and ``root`` the column that holds the region."""

    condition: str | None = None
    levels: tuple[tuple[str, ...], ...] = ()
    root: str | None = None


def where(region: Region, predicate: Predicate, *, limit: int = TREE_LIMIT) -> Where:
    if isinstance(region, bool):
        return Where(None if region else "FALSE")
    if _tree_size(region, {}) <= limit:
        return Where(_inline(region, predicate, {}))
    by_column: dict[int, list[Node]] = {}
    names: dict[Node, str] = {}
    _collect(region, by_column, names)
    levels = tuple(
        tuple(f"({_inline(node, predicate, names, top=True)}) AS {names[node]}" for node in nodes)
        for _, nodes in sorted(by_column.items(), reverse=True)
    )
    return Where(None, levels, names[region])


def reachable(region: Region, column: int, width: int) -> Atoms:
    """The atoms of ``column`` that some cell of the region has."""
    seen: dict[Node, Atoms] = {}

    def walk(r: Region) -> Atoms:
        if isinstance(r, bool) or r.column > column:
            return ((0, width),) if r is not False else EMPTY
        if r not in seen:
            found = EMPTY
            for atoms, child in r.edges:
                if child is not False:
                    found = intervals.union(found, atoms if r.column == column else walk(child))
            seen[r] = found
        return seen[r]

    return walk(region)


def _tree_size(region: Region, seen: dict[Node, int]) -> int:
    if isinstance(region, bool):
        return 0
    if region not in seen:
        seen[region] = 1 + sum(_tree_size(child, seen) for _, child in region.edges)
    return seen[region]


def _collect(region: Region, by_column: dict[int, list[Node]], names: dict[Node, str]) -> None:
    if isinstance(region, bool) or region in names:
        return
    names[region] = f"r{len(names)}"
    for _, child in region.edges:
        _collect(child, by_column, names)
    by_column.setdefault(region.column, []).append(region)


def _inline(node: Node, predicate: Predicate, names: dict[Node, str], *, top: bool = False) -> str:
    if node in names and not top:
        return names[node]
    parts: list[str] = []
    for atoms, child in node.edges:
        if child is False:
            continue
        side = predicate(node.column, atoms)
        if side is False:
            continue
        rest = "TRUE" if child is True else _inline(child, predicate, names)
        terms = [t for t in ("TRUE" if side is True else side, rest) if t != "TRUE"]
        parts.append(" AND ".join(terms) or "TRUE")
    if not parts:
        return "FALSE"
    return parts[0] if len(parts) == 1 else "(" + " OR ".join(f"({p})" for p in parts) + ")"
