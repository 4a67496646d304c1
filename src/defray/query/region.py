"""Regions: sets of cells of the declared domain, in one canonical form.

A region is a reduced ordered decision diagram whose variables are the columns (in a fixed order) and
whose edges carry sets of atoms.  Reduced means: no node has a single child, children of a node are
pairwise different, and every column whose atoms make no difference is skipped.  For a fixed column
order that form is unique (Bryant 1986, for multi-valued variables: Srinivasan et al. 1990), so *two
regions are the same set of cells iff they are the same value* -- whatever the spelling of the
predicate they came from.  The coarsest product partition of a region is read off it: atoms of a column
are equivalent iff no node of that column tells them apart.

>>> r = Regions((5, 3))
>>> a = r.where(0, ((1, 3),))
>>> b = r.where(1, ((0, 1),))
>>> r.negate(r.either(r.negate(a), r.negate(b))) == r.both(a, b)
True
>>> r.to_json(r.both(a, b))
[[1, [[[[0, 1]], 1], [[[1, 3]], 0]]], [0, [[[[0, 1], [3, 5]], 0], [[[1, 3]], 2]]]]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Final
from weakref import WeakValueDictionary

from defray.core import intervals
from defray.core.intervals import Atoms


class TooComplex(ValueError):
    """A region needs more nodes than the limit; public, since it follows from the text alone."""


class Node:
    """One decision: a column and, for each set of its atoms, the region that remains.

    Nodes are interned, so equality is nearly always identity; the structural comparison is what it
    means.
    """

    __slots__ = ("__weakref__", "_digest", "_hash", "column", "edges", "runs")

    def __init__(self, column: int, edges: tuple[tuple[Atoms, Region], ...]) -> None:
        self.column: Final = column
        self.edges: Final = edges
        self.runs: Final = sum(len(atoms) for atoms, _ in edges)
        self._hash: Final = hash((column, edges))
        self._digest: bytes | None = None

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Node) or self._hash != other._hash:
            return False
        return self.column == other.column and self.edges == other.edges

    def __repr__(self) -> str:
        return f"Node({self.column}, {self.edges})"

    @property
    def digest(self) -> bytes:
        """32 bytes that identify the region below this node, over the digests of its children."""
        if self._digest is None:
            edges = ";".join(f"{atoms}{digest(child).hex()}" for atoms, child in self.edges)
            self._digest = sha256(f"{self.column}:{edges}".encode()).digest()
        return self._digest


def digest(region: Region) -> bytes:
    """What identifies a region: equal for equal regions, different for different ones (sha256)."""
    return region.digest if isinstance(region, Node) else bytes([region])


Region = bool | Node
Edges = tuple[tuple[Atoms, Region], ...]

NOWHERE: Final = False
EVERYWHERE: Final = True


class Regions:
    """The algebra of regions over columns with ``widths[i]`` atoms each; nodes are shared."""

    def __init__(self, widths: tuple[int, ...], *, max_nodes: int = 20_000) -> None:
        self.widths = widths
        self.max_nodes = max_nodes
        # Keyed by content, not by the node: a key that held its own node would keep it for ever.
        self._interned: WeakValueDictionary[tuple[int, Edges], Node] = WeakValueDictionary()
        self._steps_left: int | None = None

    def limited(self, steps: int) -> Regions:
        """The same algebra (nodes are shared) that raises TooComplex once its operations looked at
        ``steps`` intervals of edges in all; ``max_nodes`` alone bounds single operations only."""
        twin = Regions(self.widths, max_nodes=self.max_nodes)
        twin._interned = self._interned
        twin._steps_left = steps
        return twin

    # -- construction ---------------------------------------------------------------------------

    def where(self, column: int, atoms: Atoms) -> Region:
        """The cells whose ``column`` lies in ``atoms``."""
        rest = intervals.complement(atoms, self.widths[column])
        return self._node(column, [(atoms, EVERYWHERE), (rest, NOWHERE)])

    def box(self, sides: Mapping[int, Atoms]) -> Region:
        """The product cell with the given sides; columns not named are unconstrained."""
        region: Region = EVERYWHERE
        for column in sorted(sides, reverse=True):
            atoms = sides[column]
            rest = intervals.complement(atoms, self.widths[column])
            region = self._node(column, [(atoms, region), (rest, NOWHERE)])
        return region

    def both(self, a: Region, b: Region) -> Region:
        return self._apply(a, b, absorbing=NOWHERE)

    def either(self, a: Region, b: Region) -> Region:
        return self._apply(a, b, absorbing=EVERYWHERE)

    def negate(self, a: Region) -> Region:
        memo: dict[Node, Region] = {}

        def walk(r: Region) -> Region:
            if isinstance(r, bool):
                return not r
            found = memo.get(r)
            if found is None:
                found = memo[r] = self._node(r.column, [(s, walk(child)) for s, child in r.edges])
            return found

        return walk(a)

    def restrict(self, a: Region, column: int, atom: int) -> Region:
        """The region that remains where ``column`` is known to hold ``atom``."""
        memo: dict[Node, Region] = {}

        def walk(r: Region) -> Region:
            if isinstance(r, bool) or r.column > column:
                return r
            if r.column == column:
                return next(child for s, child in r.edges if intervals.contains(s, atom))
            found = memo.get(r)
            if found is None:
                found = memo[r] = self._node(r.column, [(s, walk(child)) for s, child in r.edges])
            return found

        return walk(a)

    def _node(self, column: int, edges: list[tuple[Atoms, Region]]) -> Region:
        merged: dict[Region, Atoms] = {}
        for atoms, child in edges:
            if atoms:
                seen = merged.get(child)
                merged[child] = atoms if seen is None else intervals.union(seen, atoms)
        if len(merged) == 1:
            return next(iter(merged))
        sides = tuple(sorted(((s, c) for c, s in merged.items()), key=lambda e: e[0]))
        found = self._interned.get((column, sides))
        if found is None:
            found = self._interned.setdefault((column, sides), Node(column, sides))
        return found

    def _apply(self, a: Region, b: Region, *, absorbing: bool) -> Region:
        memo: dict[tuple[Region, Region], Region] = {}

        def walk(x: Region, y: Region) -> Region:
            if isinstance(x, bool):
                return absorbing if x is absorbing else y
            if isinstance(y, bool):
                return absorbing if y is absorbing else x
            if x is y:
                return x
            key = (x, y)
            found = memo.get(key)
            if found is not None:
                return found
            if len(memo) >= self.max_nodes:
                raise TooComplex(f"needs more than {self.max_nodes} sets of cells to describe")
            if self._steps_left is not None:
                self._count_steps(x, y)
            if x.column == y.column:
                edges = [
                    (meet, walk(cx, cy))
                    for sx, cx in x.edges
                    for sy, cy in y.edges
                    if (meet := intervals.intersection(sx, sy))
                ]
                column = x.column
            elif x.column < y.column:
                edges, column = [(s, walk(c, y)) for s, c in x.edges], x.column
            else:
                edges, column = [(s, walk(x, c)) for s, c in y.edges], y.column
            found = memo[key] = self._node(column, edges)
            return found

        return walk(a, b)

    def _count_steps(self, x: Node, y: Node) -> None:
        assert self._steps_left is not None
        if x.column == y.column:
            self._steps_left -= len(y.edges) * x.runs + len(x.edges) * y.runs
        else:
            self._steps_left -= x.runs if x.column < y.column else y.runs
        if self._steps_left < 0:
            raise TooComplex("takes too many steps to describe")

    # -- reading --------------------------------------------------------------------------------

    def contains(self, region: Region, cell: Callable[[int], int]) -> bool:
        """Whether the cell whose atom in column ``i`` is ``cell(i)`` belongs to the region."""
        while isinstance(region, Node):
            atom = cell(region.column)
            region = next(c for s, c in region.edges if intervals.contains(s, atom))
        return region

    def columns(self, region: Region) -> tuple[int, ...]:
        """The columns that make a difference, ascending: the region's attribute set."""
        return tuple(sorted({node.column for node in self.nodes(region)}))

    def nodes(self, region: Region) -> Iterator[Node]:
        """Every node once, children before parents, in an order that only depends on the region."""
        seen: set[Node] = set()

        def walk(r: Region) -> Iterator[Node]:
            if isinstance(r, bool) or r in seen:
                return
            seen.add(r)
            for _, child in r.edges:
                yield from walk(child)
            yield r

        return walk(region)

    def partition(self, region: Region, column: int) -> tuple[Atoms, ...]:
        """The coarsest partition of a column's atoms that the region respects, by first atom."""
        blocks: list[Atoms] = [((0, self.widths[column]),)]
        for node in self.nodes(region):
            if node.column == column:
                blocks = [
                    meet
                    for block in blocks
                    for s, _ in node.edges
                    if (meet := intervals.intersection(block, s))
                ]
        return tuple(sorted(blocks))

    def to_json(self, region: Region) -> Any:
        """Canonical JSON: ``true``/``false``, or nodes (children first) whose edges name 0 = no cell,
        1 = every cell, ``i + 2`` = the i-th node of the list."""
        if isinstance(region, bool):
            return region
        index: dict[Region, int] = {NOWHERE: 0, EVERYWHERE: 1}
        out: list[Any] = []
        for node in self.nodes(region):
            edges = [[[list(part) for part in s], index[child]] for s, child in node.edges]
            index[node] = len(out) + 2
            out.append([node.column, edges])
        return out

    def from_json(self, data: Any) -> Region:
        """The inverse of :meth:`to_json`; re-reduces, so the result is canonical in any case."""
        if isinstance(data, bool):
            return data
        made: list[Region] = [NOWHERE, EVERYWHERE]
        for column, edges in data:
            made.append(
                self._node(
                    column, [(tuple((lo, hi) for lo, hi in s), made[child]) for s, child in edges]
                )
            )
        return made[-1]
