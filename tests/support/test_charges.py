"""The filter against brute force: what every cell of a small domain pays, whatever is asked when."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from defray.core.amounts import QUANTA
from defray.support.cell_charges import charges, charges_at_ends
from defray.support.charges import Charges

CAP = 100


def brute(atoms, released) -> np.ndarray:
    """What each cell of the whole domain has paid, release by release."""
    paid = np.zeros(atoms, np.int64)
    for columns, quanta in released:
        shape = [n if i in columns else 1 for i, n in enumerate(atoms)]
        paid += np.asarray(quanta, np.int64).reshape(shape)
    return paid


def lost(atoms, columns) -> tuple[int, ...]:
    return tuple(i for i in range(len(atoms)) if i not in columns)


@st.composite
def tables(draw: st.DrawFn):
    """Columns, those to charge by, and a limit: 4000 cells hold everything, 0 nothing but single sets."""
    atoms = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=5)))
    by = draw(st.sets(st.integers(0, len(atoms) - 1), max_size=2))
    most = int(np.prod([atoms[i] for i in by]))
    return atoms, by, max(most, draw(st.sampled_from([4000, 30, 10, 0])))


@st.composite
def releases(draw: st.DrawFn, atoms, most: int = 40):
    columns = tuple(sorted(draw(st.sets(st.integers(0, len(atoms) - 1), max_size=3))))
    shape = [atoms[i] for i in columns]
    cells = int(np.prod(shape))
    quanta = draw(st.lists(st.integers(0, most), min_size=cells, max_size=cells))
    return columns, np.array(quanta, np.int64).reshape(shape)


class Filter(RuleBasedStateMachine):
    """Releases that the filter lets pass, one after the other, beside the truth."""

    @initialize(table=tables())
    def declare(self, table):
        self.atoms, self.by, limit = table
        self.charges = Charges(self.atoms, self.by, limit)
        self.whole = limit == 4000
        self.released: list = []
        self.truth = np.zeros(self.atoms, np.int64)

    @rule(data=st.data())
    def release(self, data):
        batch = data.draw(st.lists(releases(self.atoms), min_size=1, max_size=3))
        after = self.truth + brute(self.atoms, batch)
        fits = self.charges.fits(batch, CAP)
        before = self.charges.worst()
        if self.charges.exact and self.whole:
            assert fits == (after.max() <= CAP)
        if fits:
            assert after.max() <= CAP
            self.charges = self.charges.plus(batch)
            assert self.charges.worst() <= CAP
            self.truth = after
            self.released += batch
        else:
            assert self.charges.worst() == before  # what was refused left no trace
            assert restored(self.charges).plus(batch).worst() > CAP

    @rule(data=st.data())
    def offer(self, data):
        """All that remains may be spent on every cell at once; not one quantum more anywhere, where exact."""
        columns, _ = data.draw(releases(self.atoms))
        left = self.charges.remaining(columns, CAP)
        assert left.shape == tuple(self.atoms[i] for i in columns)
        true = CAP - self.truth.max(axis=lost(self.atoms, columns))
        assert (left <= true).all()
        assert self.charges.fits([(columns, left)], CAP)
        if self.whole:
            assert (left == true).all()
        cell = tuple(data.draw(st.integers(0, n - 1)) for n in left.shape)
        left[cell] += 1
        assert not self.charges.fits([(columns, left)], CAP)

    @rule(data=st.data())
    def look(self, data):
        columns, quanta = data.draw(releases(self.atoms))
        mask = quanta > 15
        true = self.truth.max(axis=lost(self.atoms, columns))
        shown = self.charges.paid(columns)
        worst = self.charges.worst()
        assert (true <= shown).all() and (shown <= worst).all()
        at = self.charges.at(columns, mask)
        assert at == shown[mask].max(initial=0)
        if self.whole:
            assert (shown == true).all()
        for i in range(len(self.atoms)):
            assert (self.charges.strip(i) >= self.truth.max(axis=lost(self.atoms, (i,)))).all()

    @rule()
    def remember(self):
        """What is kept by attribute set gives the same filter."""
        again = restored(self.charges)
        assert again.worst() == self.charges.worst()
        self.charges = again

    @rule(data=st.data())
    def go_elsewhere(self, data):
        """What is added to a filter is not seen by those who hold it, whatever they work out meanwhile."""
        batch = data.draw(st.lists(releases(self.atoms), min_size=1, max_size=3))
        looks = [lambda f: f.worst(), *(lambda f, i=i: f.strip(i) for i in range(len(self.atoms)))]
        before = restored(self.charges)
        data.draw(st.sampled_from(looks))(self.charges)
        other = self.charges.plus(batch)
        data.draw(st.sampled_from(looks))(other)
        for look in looks:
            assert np.array_equal(look(self.charges), look(before))
            assert np.array_equal(look(other), look(before.plus(batch)))

    @precondition(lambda self: hasattr(self, "charges"))
    @invariant()
    def the_dearest_cell_is_known_or_bounded(self):
        worst = self.charges.worst()
        assert self.truth.max() <= worst <= min(CAP, bound(self.atoms, self.by, self.released))
        if self.charges.exact:
            assert worst == self.truth.max()
        if self.whole:
            assert self.charges.exact


def restored(charges: Charges) -> Charges:
    again = Charges(charges.atoms, charges.charge_by, charges.limit)
    return again.plus([*charges.sets().items(), ((), charges.everywhere)])


def bound(atoms, by, released) -> int:
    """For each cell of the columns to charge by, the sum over attribute sets of the largest charge among the
    set's cells that are consistent with it."""
    sets: dict[tuple[int, ...], list] = {}
    for columns, quanta in released:
        sets.setdefault(columns, []).append((columns, quanta))
    over = np.zeros([n if i in by else 1 for i, n in enumerate(atoms)], np.int64)
    axes = lost(atoms, by)
    for own in sets.values():
        over = over + brute(atoms, own).max(axis=axes, keepdims=True)
    return int(over.max())


TestFilter = Filter.TestCase
TestFilter.settings = settings(max_examples=60, stateful_step_count=12, deadline=None)


def test_disjoint_regions_do_not_compete():
    """All of the budget in each of ten regions; no sum of releases could."""
    filter_ = Charges((10, 3))
    for n in range(10):
        only = np.zeros((10, 3), np.int64)
        only[n] = QUANTA
        assert filter_.fits([((0, 1), only)], QUANTA)
        filter_ = filter_.plus([((0, 1), only)])
    assert filter_.worst() == QUANTA
    assert not filter_.fits([((0,), [1] + [0] * 9)], QUANTA)
    assert filter_.remaining((1,), QUANTA).tolist() == [0, 0, 0]


def test_columns_to_charge_by_are_exact_where_the_domain_is_too_large():
    """Four days, each asked about another column: with the day known no two of them meet."""
    atoms = (4, 50, 50, 50, 50)
    for by, worst in (((0,), 7), ((), 28)):
        filter_ = Charges(atoms, by, limit=100)
        for day in range(4):
            quanta = np.zeros((4, 50), np.int64)
            quanta[day] = 7
            filter_ = filter_.plus([((0, day + 1), quanta)])
        assert filter_.worst() == worst
        assert filter_.exact == bool(by)
    assert filter_.strip(0).tolist() == [7, 7, 7, 7]  # asked by day, the days are told apart


def test_sets_that_meet_are_added_cell_by_cell_while_they_fit():
    edge = np.zeros((30, 30), np.int64)
    edge[0, 0] = 5
    far = np.zeros((30, 30), np.int64)
    far[29, 29] = 5
    for limit, worst in ((27_000, 5), (26_999, 10)):
        filter_ = Charges((30, 30, 30), limit=limit)
        filter_ = filter_.plus([((0, 1), edge)])
        filter_ = filter_.plus([((1, 2), far)])
        assert filter_.worst() == worst


@given(st.permutations(range(6)))
def test_the_order_of_releases_makes_no_difference_where_it_is_exact(order):
    sets = [(0, 1), (1, 2), (2, 3), (0, 3), (1,), (0, 1, 2, 3)]
    rng = np.random.default_rng(0)
    made = [(a, rng.integers(0, 50, [3] * len(a))) for a in sets]
    filter_ = Charges((3, 3, 3, 3))
    for i in order:
        filter_ = filter_.plus([made[i]])
    assert filter_.exact
    assert filter_.worst() == brute((3, 3, 3, 3), made).max()


numbers = st.floats(-3, 3)


@given(
    st.lists(st.tuples(numbers, numbers, st.booleans(), st.floats(0.5, 5)), max_size=6),
    numbers,
    numbers,
)
def test_counts_and_sums_share_cells_exactly(asked, one, other):
    """On an axis for the ends of the summed column, the dearest cell is the largest over u of what all
    releases cost a row of value u together."""
    low, high = sorted((one, other))
    ends, rho = Charges((2, 2)), Fraction(50)
    safe = Charges((2,))
    truth = [[Fraction(0)] * 2 for _ in range(2)]
    for n, s, both, sigma in asked:
        b = np.array([1.0, 1.0 if both else 0.0])
        cell = charges_at_ends(n * b, s * b, low, high, sigma, rho)
        ends = ends.plus([((0, 1), cell)])
        safe = safe.plus([((0,), cell.max(-1))])
        for c, e in itertools.product(range(2), range(2)):
            u = Fraction((low, high)[e])
            reach = Fraction(n * b[c]) + Fraction(s * b[c]) * u
            truth[c][e] += reach**2 / (2 * Fraction(sigma) ** 2)
    true = max(max(t) for t in truth) * QUANTA / rho
    assert true <= ends.worst() <= true + len(asked)
    assert safe.worst() >= ends.worst()


def test_a_count_and_its_centred_sum_are_cheaper_together_than_their_maxima():
    n = charges_at_ends([1.0], [1.0], -1.0, 1.0, 1.0, Fraction(1))
    m = charges_at_ends([1.0], [-1.0], -1.0, 1.0, 1.0, Fraction(1))
    joint, apart = Charges((2,)), Charges((2,))
    for q in (n, m):
        joint = joint.plus([((0,), q[0])])
        apart = apart.plus([((), q[0].max())])
    assert joint.worst() * 2 == apart.worst()


def test_marginals_and_closed_epochs_are_charged_everywhere():
    filter_ = Charges((5, 1))
    filter_ = filter_.plus([((), 30)])
    filter_ = filter_.plus([((1,), [10])])  # a column of one atom: everywhere as well
    filter_ = filter_.plus(
        [((0,), charges([0, 0, 1, 0, 0], 2.0**20, Fraction(1, 1)) * 0 + [0, 0, 5, 0, 0])]
    )
    assert filter_.worst() == 45
    assert filter_.remaining((), 50).tolist() == 5
    assert filter_.remaining((0, 1), 50).ravel().tolist() == [10, 10, 5, 10, 10]
    assert filter_.fits([((), 5)], 50) and not filter_.fits([((), 6)], 50)


def test_huge_charges_are_refused_and_never_wrap_around():
    filter_ = Charges((2,))
    filter_ = filter_.plus([((0,), [2**61, 0])])
    assert not filter_.fits([((0,), [2**61, 0]), ((), 2**61)], 2**61)
    filter_ = filter_.plus([((0,), [0, 2**60])])
    with pytest.raises(OverflowError):
        filter_ = filter_.plus([((0,), [2**61, 0])])
    assert filter_.worst() == 2**61


@pytest.mark.parametrize("bad", [[-1, 0], [0.5, 0]])
def test_charges_are_whole_and_not_negative(bad):
    filter_ = Charges((2,))
    for use in (lambda q: filter_.plus([((0,), q)]), lambda q: filter_.fits([((0,), q)], 9)):
        with pytest.raises(ValueError, match="whole"):
            use(bad)


def test_columns_ascend():
    with pytest.raises(ValueError, match="ascending"):
        Charges((2, 2)).plus([((1, 0), np.zeros(4))])


@pytest.mark.parametrize("columns", [(2,), (-1,), (-1, 0)])
def test_there_are_no_other_columns(columns):
    with pytest.raises(ValueError, match="columns"):
        Charges((2, 2)).plus([(columns, np.zeros(2 ** len(columns)))])


def test_too_many_cells_to_charge_by_are_refused():
    with pytest.raises(ValueError, match="charge by"):
        Charges((10, 11), (0, 1), limit=100)
