"""Where something tells the atoms of columns apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from defray.query.region import Region

Cuts = Mapping[int, frozenset[int] | None]
"""By column, the atoms where a new class has to begin; None: at every atom."""


def cuts_of(
    region: Region, nodes: Iterable[Region], widths: tuple[int, ...]
) -> dict[int, frozenset[int]]:
    """Where a region tells the atoms of its columns apart; ``nodes`` are all its nodes."""
    found: dict[int, set[int]] = {}
    for node in nodes:
        if isinstance(node, bool):
            continue
        here = found.setdefault(node.column, set())
        for atoms, _ in node.edges:
            for low, high in atoms:
                here.update((low, high))
    return {c: frozenset(x for x in cuts if 0 < x < widths[c]) for c, cuts in found.items()}


def joined(*several: Cuts) -> dict[int, frozenset[int] | None]:
    """The cuts of all."""
    out: dict[int, frozenset[int] | None] = {}
    for cuts in several:
        for column, wanted in cuts.items():
            before = out.get(column, frozenset())
            out[column] = None if wanted is None or before is None else before | wanted
    return out
