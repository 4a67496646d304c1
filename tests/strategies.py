"""The one home of Hypothesis strategies."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from defray.core import intervals
from defray.core.column import Column
from defray.core.dates import EPOCH_DAY
from defray.core.domain import Domain
from defray.core.intervals import Atoms
from defray.core.principals import MOST_PARTS, Enrolment, Principals
from defray.core.shapes import Anything, Cuts, Grid, Values, Whole
from defray.core.validity import MAX_LOOKS, Validity
from defray.query.region import Region, Regions
from tests.support.view.workloads import ranges, single, subsets, weighted

# -- sets of atoms ------------------------------------------------------------------------------------


def atoms(width: int) -> st.SearchStrategy[Atoms]:
    """Any set of atoms of a column with that many."""
    return st.sets(st.integers(0, width - 1)).map(intervals.of)


# -- principals -------------------------------------------------------------------------------------

MODEST = [Fraction(0), Fraction(1, 10), Fraction(1, 3), Fraction(1, 2)]


def changes() -> st.SearchStrategy[Enrolment]:
    """Changes of a few principals, many of which are not true of them."""
    shares = st.one_of(
        st.sampled_from(MODEST),
        st.fractions(0, 1, max_denominator=MOST_PARTS),
        st.sampled_from([None, Fraction(-1, 2), Fraction(3, 2), Fraction(1, MOST_PARTS + 1)]),
    )
    return st.builds(
        Enrolment,
        st.sampled_from(["add", "add", "suspend", "resume", "share", "share"]),
        st.sampled_from(["ana", "ben", "cora", "dan", "Eve"]),
        st.sampled_from(["analyst", "analyst", "analyst", "curator"]),
        shares,
    )


def likely(change: Enrolment, principals: Principals) -> Enrolment:
    """The change, with what it says beside its event made true of the principals: it is often taken."""
    before = principals.get(change.name)
    if before is None:
        share = None if change.role == "curator" else change.share
        return Enrolment("add", change.name, change.role, share)
    share = change.share if change.event == "share" else before.share
    return Enrolment(change.event, change.name, before.role, share)


# -- validities ---------------------------------------------------------------------------------------


def validities() -> st.SearchStrategy[Validity]:
    others = st.sampled_from([Validity("fixed"), Validity("anytime"), Validity("confirm")])
    return others | st.integers(1, MAX_LOOKS).map(lambda looks: Validity("looks", looks))


# -- columns ------------------------------------------------------------------------------------------

nullness = st.sampled_from(["cell", "drop"])
otherness = st.sampled_from(["null", "cell", "drop"])
edges = st.lists(st.integers(-20, 20), min_size=2, max_size=6, unique=True).map(
    lambda found: tuple(Fraction(e, 2) for e in sorted(found))
)


def shapes() -> st.SearchStrategy[tuple[str, Whole | Values | Grid | Cuts]]:
    """A kind and a numeric or string shape of it."""
    whole = st.tuples(st.integers(-5, 5), st.integers(0, 8)).map(lambda p: Whole(p[0], sum(p)))
    listed = st.lists(st.integers(-9, 9), min_size=1, max_size=5, unique=True).map(
        lambda found: Values(tuple(Fraction(v, 2) for v in found))
    )
    names = st.lists(st.text("abc'\" ", max_size=3), min_size=1, max_size=4, unique=True).map(
        lambda found: Values(tuple(found))
    )
    grid = st.builds(
        Grid,
        st.integers(-8, 8).map(lambda n: Fraction(n, 2)),
        st.sampled_from([Fraction(1, 2), Fraction(1), Fraction(3, 4)]),
        st.integers(1, 6),
    )
    return st.one_of(
        whole.map(lambda s: ("integer", s)),
        listed.map(lambda s: ("decimal", s)),
        names.map(lambda s: ("string", s)),
        grid.map(lambda s: ("float", s)),
        edges.map(lambda e: ("float", Cuts(e))),
    )


@st.composite
def columns(draw: st.DrawFn, name: str = "x") -> Column:
    """A column of any shape, with or without the atoms OTHER and NULL."""
    kind, shape = draw(shapes())
    return Column(name, kind, shape, null=draw(nullness), other=draw(otherness))  # type: ignore[arg-type]


# -- a small domain whose every cell fits in a table -----------------------------------------------------

FIRST_DAY = (dt.date(2024, 2, 28) - EPOCH_DAY).days

SMALL = Domain(
    (
        Column("a", "integer", Whole(0, 4)),
        Column("b", "boolean", Values((False, True))),
        Column("c", "string", Values(("x", "o'y", "z")), other="cell"),
        Column("d", "date", Whole(FIRST_DAY, FIRST_DAY + 2), null="drop"),
        Column("e", "float", Grid(Fraction(0), Fraction(1, 2), 3)),
    )
)
"""Integer, boolean, string, date and float bins, with NULL and OTHER atoms: 1,080 cells."""

VARIED = Domain(
    (
        Column("bins", "float", Cuts((Fraction(0), Fraction(1, 4), Fraction(3)))),
        Column("bins or other", "float", Grid(Fraction(-1), Fraction(1), 4), other="cell"),
        Column("day", "date", Whole(FIRST_DAY, FIRST_DAY + 40), other="cell", null="drop"),
        Column("flag", "boolean", Values((True, False)), other="drop"),
        Column("free", "string", Anything()),
        Column("group", "string", Values(("a", "b", "c", "d", "it's \"")), other="cell"),
        Column("long", "integer", Whole(-300, 300), other="cell"),
        Column("number", "decimal", Values((Fraction(5, 2), Fraction(-1), Fraction(0)))),
    )
)
"""A domain with every shape, for what needs no table."""


@st.composite
def regions(draw: st.DrawFn, algebra: Regions, most: int = 4) -> Region:
    """A union of random boxes, or the rest of one."""
    widths = algebra.widths
    found: Region = False
    for _ in range(draw(st.integers(1, most))):
        chosen = draw(st.sets(st.integers(0, len(widths) - 1), max_size=3))
        found = algebra.either(found, algebra.box({c: draw(atoms(widths[c])) for c in chosen}))
    return algebra.negate(found) if draw(st.booleans()) else found


# -- conditions over the small domain, as text that DuckDB reads the same way ----------------------------

ORDER = st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="])
EQUAL = st.sampled_from(["=", "<>"])
MIRRORED = {"=": "=", "<>": "<>", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

numbers = st.sampled_from(["0", "1", "2", "3", "4", "+2", "3.0", "NULL"])
halves = st.sampled_from(["0.5", "1.5", "2.5"])
names_of_c = st.sampled_from(["'x'", "'o''y'", "'z'", "NULL"])
days = st.sampled_from(["DATE '2024-02-28'", "DATE '2024-02-29'", "'2024-03-01'::DATE"])


def listed(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(values, min_size=1, max_size=3).map(lambda items: f"({', '.join(items)})")


def compared(
    column: str, operators: st.SearchStrategy[str], values: st.SearchStrategy[str]
) -> st.SearchStrategy[str]:
    """``column OP value``, either way round."""
    return st.tuples(operators, values, st.booleans()).map(
        lambda p: f"{p[1]} {MIRRORED[p[0]]} {column}" if p[2] else f"{column} {p[0]} {p[1]}"
    )


def one_of_list(column: str, values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    word = st.sampled_from(["IN", "NOT IN"])
    return st.tuples(word, listed(values)).map(lambda p: f"{column} {p[0]} {p[1]}")


def between(column: str, values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    word = st.sampled_from(["BETWEEN", "NOT BETWEEN"])
    return st.tuples(word, values, values).map(lambda p: f"{column} {p[0]} {p[1]} AND {p[2]}")


leaves = st.one_of(
    compared("a", ORDER, numbers),
    compared("a", st.sampled_from(["<", ">="]), halves),
    one_of_list("a", numbers),
    between("a", numbers),
    st.sampled_from(["b", "b = TRUE", "b <> FALSE", "b IS TRUE", "b IS NOT FALSE", "b = NULL"]),
    compared("c", EQUAL, names_of_c),
    one_of_list("c", names_of_c),
    compared("d", ORDER, days),
    between("d", days),
    compared("e", st.just("<"), st.sampled_from(["0", "0.5", "1", "1.0"])),
    compared("e", st.just(">="), st.sampled_from(["0", "0.5", "1.00"])),
    st.sampled_from(["e <= 1.5", "e > 1.5"]),
    st.tuples(st.sampled_from("abcde"), st.sampled_from(["IS NULL", "IS NOT NULL"])).map(" ".join),
    st.sampled_from(["TRUE", "FALSE", "NULL", "1 = 1", "'x' < 'a'"]),
)


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    joined = st.tuples(inner, st.sampled_from(["AND", "OR"]), inner, st.booleans()).map(
        lambda p: f"({p[0]}) {p[1]} ({p[2]})" if p[3] else f"({p[0]} {p[1]} {p[2]})"
    )
    said = st.sampled_from(["TRUE", "FALSE", "NULL", "NOT TRUE", "NOT FALSE", "NOT NULL"])
    return st.one_of(
        joined,
        inner.map(lambda text: f"NOT ({text})"),
        st.tuples(inner, said).map(lambda p: f"(({p[0]}) IS {p[1]})"),
    )


conditions = st.recursive(leaves, _grown, max_leaves=6)
"""Conditions over SMALL that Defray answers without snapping."""

off_grid = st.sampled_from(["0", "0.25", "0.5", "0.875", "1.2", "1.5", "NULL"])
split_leaves = st.one_of(
    compared("e", ORDER, off_grid), between("e", off_grid), one_of_list("e", off_grid)
)
split_conditions = st.recursive(split_leaves | leaves, _grown, max_leaves=6)
"""Conditions over SMALL, some with thresholds inside a bin."""


# -- questions of a view ------------------------------------------------------------------------------


@st.composite
def asked(draw: st.DrawFn, most: int = 24) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A sequence of questions of all kinds, with targets (variances) of one or of very different sizes."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    cells = draw(st.integers(1, 20))
    kinds = draw(
        st.lists(st.sampled_from((ranges, subsets, single, weighted)), min_size=1, max_size=3)
    )
    q = np.vstack([kind(cells, most // len(kinds), rng) for kind in kinds])
    q = q[rng.permutation(len(q))][rng.integers(0, len(q), len(q))]
    low, high = draw(st.sampled_from([(0, 0), (-1, 1), (-3, 6)]))
    return q, 10.0 ** rng.uniform(low, high, len(q))
