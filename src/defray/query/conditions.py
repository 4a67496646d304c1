"""Sets of atoms and regions as conditions that a person would write.

Under three-valued logic a condition keeps the cells where it is TRUE, so NULL must be asked for by name
and OTHER (a value outside the domain) is kept by ``<>`` and NOT IN but by no ``<`` or ``>=``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from defray.core import intervals
from defray.core.column import Column
from defray.core.domain import Domain
from defray.core.intervals import EMPTY, Atoms
from defray.core.literals import show_point
from defray.core.shapes import Anything, Cuts, Grid, Values, Whole
from defray.query.reader import identifier
from defray.query.region import EVERYWHERE, NOWHERE, Node, Region, Regions

MAX_LENGTH = 60_000
"""The longest condition that is written out, in characters."""
MAX_DEPTH = 30
MAX_ABSORBED = 24
"""A node with more different children than this is written without looking for shorter forms."""
MAX_LISTED_RUN = 8
"""So few values of a range are listed where they are not one run."""
MAX_LISTED = 64


class TooLong(ValueError):
    """The region has no condition of a bearable length in this form."""


@dataclass(frozen=True, slots=True)
class Text:
    """A condition and what holds it together, so that a reader of it knows where parentheses go."""

    sql: str
    binds: Literal["atom", "and", "or"] = "atom"
    depth: int = 0

    def inside(self, word: Literal["and", "or"]) -> Text:
        """The text as a part of a longer conjunction or disjunction."""
        if self.binds == "or" and word == "and":
            return Text(f"({self.sql})", "atom", self.depth + 1)
        return self


def conjunction(parts: Iterable[Text]) -> Text:
    return _join([part.inside("and") for part in parts], "and")


def disjunction(parts: Iterable[Text]) -> Text:
    return _join([part.inside("or") for part in parts], "or")


def _join(parts: list[Text], word: Literal["and", "or"]) -> Text:
    if len(parts) == 1:
        return parts[0]
    depth = max(part.depth for part in parts)
    if sum(len(part.sql) for part in parts) > MAX_LENGTH or depth > MAX_DEPTH:
        raise TooLong
    return Text(f" {word.upper()} ".join(part.sql for part in parts), word, depth)


# -- one column ---------------------------------------------------------------------------------------


def atoms_condition(column: Column, atoms: Atoms) -> Text:
    """The condition that is TRUE exactly in ``atoms`` of the column; ValueError if no condition is
    (some value of a column without a domain)."""
    name = identifier(column.name)
    if atoms == ((0, column.width),):
        return Text("TRUE")
    if atoms == EMPTY:
        return Text("FALSE")
    if atoms == column.non_nulls:
        return Text(f"{name} IS NOT NULL")
    if column.kind == "boolean" and column.null_atom is not None and column.other_atom is None:
        left_out = intervals.complement(atoms, column.width)
        if intervals.size(left_out) == 1:
            return Text(f"{name} IS NOT {_shown(column, left_out[0][0])}")
    null = intervals.intersection(atoms, column.nulls)
    known = intervals.intersection(atoms, column.non_nulls)
    if not known:
        return Text(f"{name} IS NULL")
    parts = [
        Text(f"{name} IS NOT NULL")
        if known == column.non_nulls
        else _known_condition(column, known, or_null=bool(null))
    ]
    if null and not parts[0].sql.endswith(" IS UNKNOWN"):
        parts.append(Text(f"{name} IS NULL"))
    return disjunction(parts)


def _known_condition(column: Column, atoms: Atoms, *, or_null: bool) -> Text:
    """Some, not all, of the atoms that are not NULL; with ``or_null`` the condition may hold for NULL
    too, since that is asked for anyway."""
    if isinstance(column.shape, Anything):
        raise ValueError(f"column {column.name} has no declared domain")
    proper = intervals.intersection(atoms, ((0, column.proper),))
    missing = intervals.complement(proper, column.proper)
    other = column.other_atom
    if other is not None and intervals.contains(atoms, other):
        few = isinstance(column.shape, Whole) and intervals.size(missing) <= MAX_LISTED
        if few or isinstance(column.shape, Values):
            return _in_list(column, missing, negated=True)
        # Every order is UNKNOWN for OTHER and NULL, and for nothing else.
        name, low = identifier(column.name), _shown(column, 0)
        outside = Text(f"({name} >= {low}) IS UNKNOWN", depth=1)
        if column.null_atom is not None and not or_null:
            outside = conjunction([Text(f"{name} IS NOT NULL"), outside])
        return disjunction([_proper_condition(column, proper), outside]) if proper else outside
    forms = [_proper_condition(column, proper)]
    if other is None:
        forms += _without(column, missing)
    return min(forms, key=lambda form: len(form.sql) + (4 if form.binds == "or" else 0))


def _proper_condition(column: Column, atoms: Atoms) -> Text:
    """Some values of the domain, none of them NULL or OTHER."""
    if isinstance(column.shape, Values):
        return _in_list(column, atoms)
    if isinstance(column.shape, Grid | Cuts):
        return disjunction(_bins(column, lo, hi) for lo, hi in atoms)
    if len(atoms) > 1 and intervals.size(atoms) <= MAX_LISTED_RUN:
        return _in_list(column, atoms)
    singles = intervals.normal(run for run in atoms if run[1] - run[0] == 1)
    if len(singles) < 2:
        return disjunction(_run(column, lo, hi) for lo, hi in atoms)
    runs = [_run(column, lo, hi) for lo, hi in atoms if hi - lo > 1]
    return disjunction([*runs, _in_list(column, singles)])


def _without(column: Column, missing: Atoms) -> list[Text]:
    """Conditions that name what is missing; right only where the column has no OTHER."""
    if isinstance(column.shape, Grid | Cuts):
        return []
    forms: list[Text] = []
    if isinstance(column.shape, Values) or intervals.size(missing) <= MAX_LISTED_RUN:
        forms.append(_in_list(column, missing, negated=True))
    if isinstance(column.shape, Whole) and len(missing) == 1:
        (lo, hi), name = missing[0], identifier(column.name)
        if lo > 0 and hi < column.proper and hi - lo > 1:
            low, high = _shown(column, lo), _shown(column, hi - 1)
            forms.append(Text(f"{name} NOT BETWEEN {low} AND {high}"))
    return forms


def _in_list(column: Column, atoms: Atoms, *, negated: bool = False) -> Text:
    name, items = identifier(column.name), [_shown(column, a) for a in intervals.members(atoms)]
    if len(items) == 1:
        return Text(f"{name} {'<>' if negated else '='} {items[0]}")
    return Text(f"{name} {'NOT IN' if negated else 'IN'} ({', '.join(items)})")


def _run(column: Column, lo: int, hi: int) -> Text:
    """The whole values from atom ``lo`` to before atom ``hi``."""
    name, low, high = identifier(column.name), _shown(column, lo), _shown(column, hi - 1)
    if hi - lo == 1:
        return Text(f"{name} = {low}")
    if hi == column.proper:
        return Text(f"{name} >= {low}")
    if lo == 0:
        return Text(f"{name} <= {high}")
    return Text(f"{name} BETWEEN {low} AND {high}")


def _bins(column: Column, lo: int, hi: int) -> Text:
    """The bins from ``lo`` to before ``hi``; only the last bin includes its upper edge."""
    name, low, high = identifier(column.name), _shown(column, lo), _shown(column, hi)
    from_low = Text(f"{name} >= {low}")
    if hi == column.proper:
        return from_low if lo > 0 else Text(f"{name} <= {high}")
    below_high = Text(f"{name} < {high}")
    return below_high if lo == 0 else conjunction([from_low, below_high])


def _shown(column: Column, place: int) -> str:
    return show_point(column, _point(column, place))


def _point(column: Column, place: int) -> object:
    """The value of an atom, or the edge of that number."""
    match column.shape:
        case Whole(low):
            return low + place
        case Values(items):
            return items[place]
        case Grid() | Cuts() as shape:
            return shape.edge(place)
    raise ValueError(f"column {column.name} has no declared domain")


# -- regions ------------------------------------------------------------------------------------------


def region_condition(domain: Domain, regions: Regions, region: Region) -> Text:
    """A condition that is TRUE exactly in the region.  Raises TooLong."""
    memo: dict[Node, list[Text]] = {}

    def terms(r: Region) -> list[Text]:
        """Conditions whose disjunction the region is."""
        if isinstance(r, bool):
            return [Text("TRUE" if r else "FALSE")]
        if r not in memo:
            memo[r] = _terms(r)
        return memo[r]

    def _terms(node: Node) -> list[Text]:
        # The region is the union of W x child, where W are the atoms of every child that includes
        # this one: ``a = 1 OR b = 2`` instead of ``a = 1 OR a <> 1 AND b = 2``.
        column = domain.columns[node.column]
        first: list[Text] = []
        last: list[Text] = []
        for own, child in node.edges:
            if child is NOWHERE:
                continue
            within = [
                c for _, c in node.edges if c is not child and _includes(regions, node, child, c)
            ]
            around = [
                (s, c) for s, c in node.edges if c is child or _includes(regions, node, c, child)
            ]
            atoms = intervals.normal(span for s, _ in around for span in s)
            if child is EVERYWHERE:
                first.append(atoms_condition(column, atoms))
                continue
            # What a smaller child says too is said with it already, for more atoms.
            said = {term.sql for c in within for term in terms(c)}
            rest = [term for term in terms(child) if term.sql not in said]
            if not rest:
                continue
            if atoms == ((0, column.width),):
                last.extend(rest)
                continue
            side = atoms_condition(column, atoms)
            mine = {term.sql for term in terms(child)}
            if not any(term.sql in mine for _, c in around if c is not child for term in terms(c)):
                # No bigger child leaves a term to this one, so its own atoms alone do as well.
                side = min(side, atoms_condition(column, own), key=lambda text: len(text.sql))
            first.append(conjunction([side, disjunction(rest)]))
        return first + last

    return disjunction(terms(region))


def _includes(regions: Regions, node: Node, bigger: Region, child: Region) -> bool:
    """Whether one child of a node includes another; False for a node with many children."""
    return len(node.edges) <= MAX_ABSORBED and regions.both(child, bigger) == child
