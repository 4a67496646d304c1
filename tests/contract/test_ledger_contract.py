"""What every ledger does.  A new kind of ledger is one line in ``tests.contract.ledgers.LEDGERS``."""

from __future__ import annotations

import hashlib
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from defray.core.amounts import QUANTA, exact, quanta_down, quanta_up, rho_of
from defray.core.principals import NOBODY, Enrolment, Principal
from defray.errors import ContractClosed, LedgerBusy, LedgerCorrupt, LedgerError, LedgerMismatch
from defray.ledger.audit import AuditReport, audit
from defray.ledger.beside import KeptAnswer, Token
from defray.ledger.checks import enrolled
from defray.ledger.records import UNKNOWN, Arrival, Entry, Known, Release, Terms
from defray.support.known import confirmed
from tests.contract.ledgers import DURABLE, LEDGERS, MemoryUnderTest, SqliteUnderTest
from tests.ledger.makers import (
    DOMAIN,
    NOON,
    REGIONS,
    by_cell,
    derive,
    functional,
    release,
    residual,
    spend,
    terms,
    token,
    with_keys,
)
from tests.ledger.processes import at_once
from tests.ledger.worker import CHARGE, contend, contend_by_cell
from tests.strategies import changes, likely


@pytest.fixture(params=sorted(LEDGERS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def place(kind: str, tmp_path: Path) -> SqliteUnderTest | MemoryUnderTest:
    return LEDGERS[kind].fresh(tmp_path)


@pytest.fixture
def ledger(place: SqliteUnderTest) -> Iterator[Any]:
    made = place.open(terms(xi=Fraction(1, 4)), timeout=10)
    with made.transaction() as transaction:
        transaction.open_epoch("print-1", DOMAIN)
    yield made
    made.close()


def put(ledger: Any, *releases: Release) -> list[int]:
    with ledger.transaction() as transaction:
        return [transaction.append(r) for r in releases]


class TestReading:
    def test_a_new_ledger_has_nothing(self, place: SqliteUnderTest) -> None:
        made = place.open(terms())
        with made.view() as view:
            assert (view.seq, view.epoch, view.closed) == (1, None, False)
            assert view.spent("answer") == view.spent("diagnostic") == 0
            assert view.known([b"x", b"y"]) == [UNKNOWN, UNKNOWN]
            assert view.known([]) == []
        assert len(made.secret) == 32
        nothing = {"": (0, 0, 0)}
        charges = {"answer": nothing, "diagnostic": nothing}
        assert made.folds() == ({"answer": 0, "diagnostic": 0}, {}, charges)
        made.close()

    def test_a_release_is_charged_and_folded(self, ledger: Any) -> None:
        first = release(sigmas=(10.0, None, 20.0), values=(160, None, -33), step=4)
        (seq,) = put(ledger, first)
        with ledger.view() as view:
            assert view.seq == seq == 3
            assert view.spent("answer") == first.charge
            assert view.spent("diagnostic") == 0
            a, b, c = view.known(first.keys)
        p = first.precisions
        assert a == Known(p[0], 10 * p[0], 1, seq, 0, first=p[0], asks=("a1",))
        assert b == UNKNOWN
        assert c == Known(p[2], p[2] * Fraction(-33, 16), 1, seq, 2, first=p[2], asks=("a1",))
        assert a.value == 10

    def test_releases_of_one_functional_fuse_exactly(self, ledger: Any) -> None:
        many = [
            release(sigmas=(s,), values=(v,)) for s, v in ((31.0, 7), (17.3, -90), (55.1, 2**70))
        ]
        put(ledger, *many)
        with ledger.view() as view:
            (known,) = view.known(many[0].keys)
        precision = sum(r.precisions[0] for r in many)
        assert known.precision == precision
        assert known.value == sum(r.precisions[0] * r.values[0] for r in many) / precision / 16
        assert (known.releases, known.last) == (3, 5)

    def test_the_first_precision_and_the_asks_are_kept(self, ledger: Any) -> None:
        asked = [(31.0, "3"), (17.3, "4"), (55.1, "4"), (20.0, "3")]
        put(ledger, *(release(sigmas=(s,), ask=ask) for s, ask in asked))
        with ledger.view() as view:
            (known,) = view.known(release().keys)
        assert known.first == release(sigmas=(31.0,)).precisions[0]
        assert known.asks == ("3", "4", "3")
        assert audit(ledger, derive).ok

    def test_a_confirmation_is_kept_apart_and_credited(self, ledger: Any) -> None:
        tags = ["ab" * 16, "cd" * 16]
        for tag in tags:
            put(ledger, release(sigmas=(9.0, None), values=(160, None), note={"confirm": tag}))
        first, second = release(sigmas=(9.0, None)).keys
        with ledger.view() as view:
            own, *apart = view.known([first, *(confirmed(first, tag) for tag in tags)])
            assert view.known([second, confirmed(second, tags[0])]) == [UNKNOWN, UNKNOWN]
        assert [k.releases for k in (own, *apart)] == [2, 1, 1]
        assert own.precision == 2 * apart[0].precision == 2 * apart[1].precision
        assert {k.value for k in (own, *apart)} == {Fraction(10)}
        report = audit(ledger, derive)
        assert report.ok
        assert report.spent["answer"] == 2 * release(sigmas=(9.0, None)).charge

    def test_the_purses_are_apart(self, ledger: Any) -> None:
        put(ledger, release(), release(purse="diagnostic", sigmas=(30.0,)))
        with ledger.view() as view:
            assert view.spent("answer") == release().charge
            assert view.spent("diagnostic") == release(sigmas=(30.0,)).charge

    def test_met_relative_targets_are_remembered_unless_implied(self, ledger: Any) -> None:
        targets = [("1/50", "1/20"), ("1/10", "1/20"), ("1/50", "1/10"), ("1/10", "1/100")]
        settles = [["aa" * 16, share, gamma] for share, gamma in targets]
        met = Release.from_json(release().to_json() | {"settles": settles}, release().keys)
        (seq,) = put(ledger, met)
        with ledger.view() as view:
            (known,) = view.known([b"\xaa" * 16])
        strongest = ((Fraction(1, 50), Fraction(1, 20)), (Fraction(1, 10), Fraction(1, 100)))
        assert known == Known(last=seq, promises=strongest)
        assert known.keeps(Fraction(1, 50), Fraction(1, 20))
        assert known.keeps(Fraction(1, 9), Fraction(1, 50))
        assert not known.keeps(Fraction(1, 51), Fraction(1, 2))
        assert audit(ledger, derive).ok

    def test_ten_thousand_keys(self, ledger: Any) -> None:
        wide = release(sigmas=[300.0] * 1777)
        put(ledger, wide)
        keys = [*wide.keys, *(b"%d" % i for i in range(8223)), wide.keys[5]]
        with ledger.view() as view:
            known = view.known(keys)
        assert [k.index for k in known[:1777]] == list(range(1777))
        assert known[1777:-1] == [UNKNOWN] * 8223
        assert known[-1] == known[5]

    def test_arrivals_are_numbered_and_remembered(self, ledger: Any) -> None:
        made = [
            Arrival(n, bytes([n]) * 16, 0.1 * n, 0.05, 1.5, 0.2, None if n % 2 else 0.3)
            for n in range(1, 6)
        ]
        with ledger.transaction() as transaction:
            for arrival in made:
                transaction.arrive(arrival)
            assert transaction.arrivals(0, 100) == made
        with ledger.view() as view:
            assert view.arrivals(0, 100) == made
            assert view.arrivals(3, 100) == made[3:]
            assert view.arrivals(0, 2) == made[-2:]
            assert view.arrivals(5, 100) == []
            assert view.known([made[0].mark])[0].last > 0
            assert view.known([b"z" * 16])[0].last == 0
        assert audit(ledger, derive).ok

    @pytest.mark.parametrize(
        "bad",
        [
            Arrival(2, b"m" * 16, 0.1, 0.1, 1.0, 0.0),
            Arrival(1, b"m", 0.1, 0.1, 1.0, 0.0),
            Arrival(1, b"m" * 16, 0.1, 0.2, 1.0, 0.0),
            Arrival(1, b"m" * 16, float("nan"), 0.1, 1.0, 0.0),
            Arrival(1, b"m" * 16, 0.1, 0.1, -1.0, 0.0),
        ],
    )
    def test_unsound_arrivals_are_refused(self, ledger: Any, bad: Arrival) -> None:
        with pytest.raises(LedgerCorrupt), ledger.transaction() as transaction:
            transaction.arrive(bad)
        with ledger.view() as view:
            assert view.arrivals(0, 9) == []

    def test_a_view_sees_one_moment(self, ledger: Any) -> None:
        with ledger.view() as view:
            put(ledger, release())
            assert (view.seq, view.spent("answer")) == (2, 0)
            assert view.known(release().keys) == [UNKNOWN]
        with ledger.view() as view:
            assert view.seq == 3

    def test_a_transaction_sees_its_own_appends(self, ledger: Any) -> None:
        with ledger.transaction() as transaction:
            assert transaction.append(release()) == 3
            assert transaction.seq == 3
            assert transaction.spent("answer") == release().charge
            assert transaction.known(release().keys)[0].releases == 1
            assert transaction.append(release()) == 4
            assert transaction.known(release().keys)[0].releases == 2

    def test_nothing_can_be_read_after_the_end(self, ledger: Any) -> None:
        with ledger.view() as view:
            pass
        with pytest.raises(LedgerError):
            view.spent("answer")
        with ledger.transaction() as transaction:
            pass
        with pytest.raises(LedgerError):
            transaction.append(release())

    def test_the_log_reads_back(self, ledger: Any) -> None:
        sent = release(sigmas=(10.0, None), note={"why": "ünï"})
        put(ledger, sent, release())
        entries = list(ledger.entries())
        assert [e.seq for e in entries] == [1, 2, 3, 4]
        assert [e.read()["kind"] for e in entries] == ["open", "epoch", "release", "release"]
        assert Release.from_json(entries[2].read(), sent.keys) == sent
        assert [e.seq for e in ledger.entries(4)] == [4]
        assert list(ledger.entries(5)) == []

    def test_notes_are_kept_apart_from_the_log(self, ledger: Any, place: SqliteUnderTest) -> None:
        assert ledger.remembered("a") is None
        ledger.remember("a", "1")
        ledger.remember("a", "2")
        assert ledger.remembered("a") == "2"
        with ledger.view() as view:
            assert view.seq == 2


class TestEpochs:
    def test_earlier_versions_are_spent_but_not_credited(self, ledger: Any) -> None:
        put(ledger, release())
        with ledger.transaction() as transaction:
            epoch = transaction.open_epoch("print-2", {"a": (1, 2)})
            assert (epoch.counter, epoch.fingerprint, epoch.domain) == (2, "print-2", {"a": [1, 2]})
            assert transaction.known(release().keys) == [UNKNOWN]
        with ledger.view() as view:
            assert view.epoch == epoch
            assert view.known(release().keys) == [UNKNOWN]
            assert view.spent("answer") == release().charge
        put(ledger, release(version=2))
        assert ledger.folds()[0]["answer"] == 2 * release().charge
        assert audit(ledger, derive).epochs == 2

    def test_a_rolled_back_version_never_was(self, ledger: Any) -> None:
        def lose() -> None:
            with ledger.transaction() as transaction:
                assert transaction.open_epoch("lost", DOMAIN).counter == 2
                raise KeyError

        with pytest.raises(KeyError):
            lose()
        with ledger.transaction() as transaction:
            assert transaction.epoch.fingerprint == "print-1"
            assert transaction.open_epoch("kept", DOMAIN).counter == 2
        with ledger.view() as view:
            assert view.epoch.fingerprint == "kept"

    @pytest.mark.parametrize("version", [0, 2, -1])
    def test_only_the_newest_is_appended_to(self, ledger: Any, version: int) -> None:
        with pytest.raises(LedgerCorrupt, match="version"):
            put(ledger, release(version=version))

    def test_none_yet(self, place: SqliteUnderTest) -> None:
        made = place.open(terms())
        with pytest.raises(LedgerCorrupt, match="version"):
            put(made, release())
        made.close()

    def test_the_end(self, ledger: Any) -> None:
        with ledger.transaction() as transaction:
            assert transaction.end() == 3
        with ledger.view() as view:
            assert view.closed
        steps: list[Callable[[Any], object]] = [
            lambda t: t.append(release()),
            lambda t: t.open_epoch("x", DOMAIN),
            lambda t: t.end(),
        ]
        for step in steps:
            with pytest.raises(ContractClosed) as caught, ledger.transaction() as tx:
                step(tx)
            assert type(caught.value) is ContractClosed
            assert caught.value.hint
        report = audit(ledger, derive)
        assert report.ok
        assert report.closed
        assert report.entries == 3

    def test_the_end_comes_once_in_a_transaction_too(self, ledger: Any) -> None:
        def twice() -> None:
            with ledger.transaction() as transaction:
                transaction.end()
                transaction.append(release())

        with pytest.raises(LedgerError, match="closed"):
            twice()
        with ledger.view() as view:
            assert (view.seq, view.closed) == (2, False)


class TestFilter:
    def test_the_last_quantum_fits_and_no_more(self, ledger: Any) -> None:
        cap = ledger.terms.caps["answer"]
        put(ledger, spend(cap - 1))
        put(ledger, spend(1, weights="other"))
        with pytest.raises(LedgerCorrupt, match="purse"):
            put(ledger, spend(1, weights="third"))
        with ledger.view() as view:
            assert view.spent("answer") == cap
        put(ledger, spend(ledger.terms.caps["diagnostic"], purse="diagnostic"))
        assert audit(ledger, derive).ok

    def test_ten_tenths_fit(self, place: SqliteUnderTest) -> None:
        made = place.open(terms())
        with made.transaction() as transaction:
            transaction.open_epoch("p", DOMAIN)
        tenth = quanta_down(exact(0.1), Fraction(1))
        put(made, *(spend(tenth, weights=str(i)) for i in range(10)))
        assert QUANTA - made.folds()[0]["answer"] == QUANTA - 10 * tenth < 10
        made.close()

    def test_seven_sevenths_fit_and_nothing_of_their_size_after(
        self, place: SqliteUnderTest
    ) -> None:
        made = place.open(terms())
        with made.transaction() as transaction:
            transaction.open_epoch("p", DOMAIN)
        part = quanta_down(Fraction(1, 7), Fraction(1))
        put(made, *(spend(part, weights=str(i)) for i in range(7)))
        left = QUANTA - 7 * part
        assert 0 <= left < 7
        with pytest.raises(LedgerCorrupt, match="purse"):
            put(made, spend(left + 1, weights="eighth"))
        report = audit(made, derive)
        assert report.rho["answer"] == rho_of(7 * part, Fraction(1))
        assert report.ok
        made.close()

    @pytest.mark.parametrize(
        "bad",
        [
            {"charge": 0},
            {"charge": -5},
            {"charge": release().charge - 1},
            {"charge": release().charge + 1},
            {"charge": True},
            {"charge": 1.5},
            {"note": {"given": True}, "charge": release().charge - 1},
            {"value": [None]},
            {"sigma": [None]},
            {"precision": [None]},
            {"value": [None], "sigma": [None], "precision": [None]},
            {"value": []},
            {"value": [1.0]},
            {"sigma": ["inf"]},
            {"sigma": ["nan"]},
            {"sigma": ["0x0p+0"]},
            {"sigma": ["-0x1p+3"]},
            {"precision": ["1/3"]},
            {"precision": ["1/64"]},
            {"precision": ["0"]},
            {"reach": "0"},
            {"unit": "-1"},
            {"step": 10**9},
            {"purse": "other"},
            {"ask": ""},
            {"ask": "two words"},
            {"ask": 7},
            {"note": {"confirm": "ab"}},
            {"note": {"confirm": 7}},
        ],
        ids=str,
    )
    def test_unsound_releases_are_refused(self, ledger: Any, bad: dict[str, Any]) -> None:
        body = release().to_json() | bad
        with pytest.raises(LedgerCorrupt):
            put(ledger, Release.from_json(body, release().keys))
        with ledger.view() as view:
            assert (view.seq, view.spent("answer")) == (2, 0)

    def test_a_given_charge_may_exceed_its_noise(self, ledger: Any) -> None:
        put(ledger, release(charge=release().charge + 1, note={"given": True}))
        assert audit(ledger, derive).ok

    def test_the_number_of_keys_is_checked(self, ledger: Any) -> None:
        with pytest.raises(LedgerCorrupt, match="keys"):
            put(ledger, Release.from_json(release().to_json(), (b"a", b"b")))


class TestCells:
    """What every cell pays, and what may still be asked of it."""

    def test_only_its_cells_pay_for_a_release_by_cell(self, ledger: Any) -> None:
        old, young = by_cell(ages=((6, 10),)), by_cell(sigma=5.0, ages=((0, 3), (4, 5)))
        put(ledger, old, young, by_cell(sigma=20.0, ages=((2, 7),)))
        a, b, c = old.charge, young.charge, by_cell(sigma=20.0).charge
        with ledger.view() as view:
            charges = view.charges("answer")
            assert charges.atoms == (10, 4, 2)
            assert charges.strip(0).tolist() == [b, b, b + c, c, b + c, c, a + c, a, a, a]
            assert view.spent("answer") == charges.worst() == b + c
            assert view.charges("diagnostic").worst() == view.spent("diagnostic") == 0
        assert audit(ledger, derive).ok

    def test_a_group_pays_for_its_own_noise(self, ledger: Any) -> None:
        region = REGIONS.where(0, ((0, 5),))
        weights = {
            "kind": "region",
            "region": REGIONS.to_json(region),
            "group": [["sex", "value"]],
        }
        sent = release(sigmas=(10.0, 30.0), weights=weights, attributes=("age", "sex"), cells=True)
        put(ledger, sent)
        less = release(sigmas=(30.0,)).charge
        with ledger.view() as view:
            paid = view.charges("answer").paid((0, 2))
            assert view.known(sent.keys)[1].releases == 1
        assert paid.tolist() == [[sent.charge, less]] * 5 + [[0, 0]] * 5
        assert audit(ledger, derive).ok

    def test_disjoint_regions_do_not_compete(self, ledger: Any) -> None:
        cap = ledger.terms.caps["answer"]
        for i in range(10):
            put(ledger, age_spends(cap, i))
        with ledger.view() as view:
            assert view.spent("answer") == cap
            assert view.charges("answer").remaining((0,), cap).tolist() == [0] * 10
        for more in (age_spends(1, 3), spend(1), functional(sigma=1e8), residual(sigma=1e9)):
            with pytest.raises(LedgerCorrupt, match="purse"):
                put(ledger, more)
        assert audit(ledger, derive).ok

    def test_the_last_quantum_of_each_cell(self, ledger: Any) -> None:
        cap = ledger.terms.caps["answer"]
        put(ledger, spend(7), age_spends(cap - 10, 3), age_spends(cap - 100, 4))
        put(ledger, age_spends(3, 3))
        for quanta, age in ((1, 3), (94, 4), (cap - 6, 0)):
            with pytest.raises(LedgerCorrupt, match=f"would reach {cap + 1} of {cap}"):
                put(ledger, age_spends(quanta, age))
        put(ledger, age_spends(93, 4), age_spends(cap - 7, 0))
        assert audit(ledger, derive).ok

    def test_a_residual_is_paid_by_every_cell(self, ledger: Any) -> None:
        sent = residual(sigma=60.0)
        assert sent.charge == quanta_up(Fraction(10 * 9 * 2 * 1, 2 * 60**2), Fraction(1))
        total = residual(sigma=10.0, names=())
        assert total.charge == release(sigmas=(10.0,)).charge
        (seq, _) = put(ledger, sent, total)
        with ledger.view() as view:
            assert view.charges("answer").sets() == {}
            assert view.spent("answer") == sent.charge + total.charge
            assert view.releases(0) == [(seq, sent), (seq + 1, total)]
        assert ledger.folds().known == {}
        assert audit(ledger, derive).ok

    def test_the_cells_of_a_functional_pay_for_their_weights(self, ledger: Any) -> None:
        sent = functional(sigma=10.0, steps=(0, 3, -4, 1), bits=2)
        put(ledger, sent)
        one = [quanta_up(Fraction(s * s, 16 * 200), Fraction(1)) for s in (0, 3, 4, 1)]
        assert sent.charge == one[2]
        with ledger.view() as view:
            paid = view.charges("answer").paid((0, 1))
        assert paid.tolist() == [[one[0], *one[1:2] * 3]] * 5 + [[one[2], *one[3:] * 3]] * 5
        assert ledger.folds().known == {}
        assert audit(ledger, derive).ok

    def test_what_a_functional_settles_is_remembered(self, ledger: Any) -> None:
        settles = [["aa" * 16, "1/50", "1/20"]]
        put(ledger, with_keys(Release.from_json(functional().to_json() | {"settles": settles})))
        with ledger.view() as view:
            (known,) = view.known([b"\xaa" * 16])
        assert known.keeps(Fraction(1, 50), Fraction(1, 20))
        assert audit(ledger, derive).ok

    def test_without_a_version_there_are_no_columns(self, place: SqliteUnderTest) -> None:
        made = place.open(terms())
        with made.view() as view:
            assert view.charges("answer").atoms == ()
            assert view.charges("answer").worst() == 0
            assert view.releases(0) == []
        made.close()

    def test_in_another_version_all_cells_have_paid_what_the_dearest_had(self, ledger: Any) -> None:
        put(ledger, spend(5), age_spends(100, 3), age_spends(30, 4))
        put(ledger, age_spends(9, 1, purse="diagnostic"))
        with ledger.transaction() as transaction:
            transaction.open_epoch("print-2", DOMAIN[:2])
            assert transaction.charges("answer").sets() == {}
            assert transaction.charges("answer").worst() == transaction.spent("answer") == 105
            assert transaction.releases(0) == []
            assert transaction.append(age_spends(20, 4, version=2)) == 8
            assert [seq for seq, _ in transaction.releases(0)] == [8]
        with ledger.view() as view:
            assert view.charges("answer").atoms == (10, 4)
            assert view.charges("answer").strip(0).tolist() == [105] * 4 + [125] + [105] * 5
            assert view.charges("diagnostic").everywhere == view.spent("diagnostic") == 9
            assert [seq for seq, _ in view.releases(0)] == [8]
        assert audit(ledger, derive).ok

    def test_releases_are_read_from_where_one_is(self, ledger: Any) -> None:
        sent = [release(), functional(), residual(), by_cell()]
        seqs = put(ledger, *sent[:2])
        with ledger.view() as view:
            seqs += put(ledger, sent[2])
            assert [seq for seq, _ in view.releases(0)] == seqs[:2]
        with ledger.transaction() as transaction:
            transaction.arrive(Arrival(1, b"m" * 16, 0.5, 0.25, 1.0, 0.1))
            seqs.append(transaction.append(sent[3]))
            assert [seq for seq, _ in transaction.releases(seqs[1])] == seqs[2:]
        with ledger.view() as view:
            for i in range(5):
                after = 0 if i == 0 else seqs[i - 1]
                found = view.releases(after)
                assert [seq for seq, _ in found] == seqs[i:]
                assert [r.to_json() for _, r in found] == [r.to_json() for r in sent[i:]]
                assert all(r.keys == r.paid == () for _, r in found)

    def test_what_is_held_of_one_moment_stays(self, ledger: Any) -> None:
        put(ledger, age_spends(10, 3))
        with ledger.view() as view:
            put(ledger, age_spends(20, 3), functional())
            before = view.charges("answer")
            assert before.strip(0).max() == 10
        with ledger.view() as view:
            put(ledger, age_spends(30, 3))
            between = view.charges("answer")
            put(ledger, spend(1))
            assert view.charges("answer").worst() == between.worst()
        with ledger.view() as view:
            after = view.charges("answer")
        assert before.strip(0).max() == 10
        assert after.strip(0)[3] == between.strip(0)[3] + 31 > 60

    def test_what_was_rolled_back_was_never_paid(self, ledger: Any) -> None:
        put(ledger, age_spends(10, 3))

        def lose() -> None:
            with ledger.transaction() as transaction:
                transaction.append(age_spends(500, 3))
                transaction.append(functional())
                assert transaction.charges("answer").worst() > 500
                raise ZeroDivisionError

        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                lose()
            put(ledger, age_spends(10, 3))
        with ledger.view() as view:
            assert view.charges("answer").strip(0).tolist() == [0] * 3 + [30] + [0] * 6
        assert audit(ledger, derive).ok

    @pytest.mark.parametrize(
        "wrong",
        [
            lambda r: {"paid": ()},
            lambda r: {"paid": r.paid * 2},
            lambda r: {"paid": (((0,), r.paid[0][1] - 1 * (r.paid[0][1] > 0)),)},
            lambda r: {"paid": (((0,), r.paid[0][1] + 1),)},
            lambda r: {"paid": (((0,), r.paid[0][1][:9]),)},
            lambda r: {"paid": (((0,), -r.paid[0][1]),)},
            lambda r: {"paid": (((0,), [r.charge] + [-1] * 9),)},
            lambda r: {"paid": (((0,), [r.charge] + [0.5] * 9),)},
            lambda r: {"paid": (((0, 1), r.paid[0][1]),)},
            lambda r: {"paid": (((7,), r.paid[0][1]),)},
            lambda r: {"paid": (((), r.charge - 1),)},
            lambda r: {"by_cell": False},
            lambda r: {"by_cell": False, "paid": (((), r.charge + 1),)},
            lambda r: {"weights": {"kind": "other"}},
            lambda r: {"weights": {}},
        ],
    )
    def test_what_does_not_say_what_cells_pay_is_refused(self, ledger: Any, wrong: Any) -> None:
        with pytest.raises(LedgerCorrupt):
            put(ledger, replace(by_cell(), **wrong(by_cell())))
        with ledger.view() as view:
            assert (view.seq, view.spent("answer")) == (2, 0)

    def test_too_many_cells_pay_everywhere(self, ledger: Any) -> None:
        sent = by_cell()
        put(ledger, replace(sent, paid=(((), sent.charge),)))
        with ledger.view() as view:
            assert view.charges("answer").everywhere == sent.charge

    @pytest.mark.parametrize(
        "bad",
        [
            lambda: residual(charge=residual().charge - 1),
            lambda: residual(charge=residual().charge + 1),
            lambda: residual(values=range(19)),
            lambda: residual(values=(*range(19), None)),
            lambda: residual(values=(*range(19), 0.5)),
            lambda: replace(residual(), precisions=(Fraction(20**2, 60**2) * 2,)),
            lambda: replace(residual(), precisions=(Fraction(1, 3),)),
            lambda: replace(residual(), precisions=(None,)),
            lambda: replace(residual(), sigmas=(60.0, 60.0)),
            lambda: replace(residual(), sigmas=(float("inf"),)),
            lambda: replace(residual(), attributes=("age",)),
            lambda: replace(residual(), keys=(b"k" * 16,) * 20),
            lambda: replace(residual(), weights={"kind": "residual", "atoms": [20, 1]}),
            lambda: functional(charge=functional().charge - 1),
            lambda: functional(charge=functional().charge + 1),
            lambda: functional(cells=False, charge=functional().charge - 1),
            lambda: functional(values=(1, 2)),
            lambda: replace(functional(), precisions=(Fraction(1, 64),)),
            lambda: replace(functional(), values=(None,), sigmas=(None,), precisions=(None,)),
            lambda: replace(
                functional(), weights=functional().weights | {"steps": [0, 3, -4, 1, 1, 1]}
            ),
            lambda: replace(functional(), weights=functional().weights | {"bits": 1}),
            lambda: replace(functional(), weights=functional().weights | {"steps": [0] * 4}),
        ],
    )
    def test_unsound_kinds_are_refused(self, ledger: Any, bad: Any) -> None:
        with pytest.raises(LedgerCorrupt):
            put(ledger, bad())
        with ledger.view() as view:
            assert (view.seq, view.spent("answer")) == (2, 0)

    @pytest.mark.parametrize("made", [by_cell, residual, functional])
    def test_a_given_charge_is_paid_by_the_dearest(self, ledger: Any, made: Any) -> None:
        sent = made(charge=made().charge + 5, note={"given": True})
        put(ledger, sent)
        with ledger.view() as view:
            assert view.spent("answer") == sent.charge
        with pytest.raises(LedgerCorrupt, match="noise costs"):
            put(ledger, made(charge=made().charge - 1, note={"given": True}))
        assert audit(ledger, derive).ok

    def test_a_functional_that_is_not_charged_by_cell_is_paid_by_every_cell(
        self, ledger: Any
    ) -> None:
        sent = functional(cells=False)
        put(ledger, sent)
        with ledger.view() as view:
            assert view.charges("answer").everywhere == sent.charge
        assert audit(ledger, derive).ok

    def test_sixteen_threads_and_two_cells(self, place: SqliteUnderTest) -> None:
        made = place.open(terms())
        with made.transaction() as transaction:
            transaction.open_epoch("p", DOMAIN)
        outcomes = contend_by_cell(made, 16)
        assert sorted(o.split()[0] for o in outcomes) == ["granted"] * 4 + ["refused"] * 12
        two_cells_are_full(made)
        made.close()

    @pytest.mark.parametrize("kind", sorted(DURABLE))
    def test_four_processes_and_two_cells(self, kind: str, place: SqliteUnderTest) -> None:
        made = place.open(terms())
        with made.transaction() as transaction:
            transaction.open_epoch("p", DOMAIN)
        lines = at_once(kind, place.address, "contend", 4, "by-cell", count=4)
        outcomes = [line.split()[0] for worker in lines for line in worker]
        assert sorted(outcomes) == ["granted"] * 4 + ["refused"] * 12
        two_cells_are_full(made)
        made.close()

    @pytest.mark.long
    def test_readers_beside_writers_see_whole_moments(self, ledger: Any) -> None:
        """Every commit charges two ages alike, one of them in two parts."""
        stop, torn = threading.Event(), list[Any]()

        def read() -> None:
            while not stop.is_set():
                with ledger.view() as view:
                    paid = view.charges("answer").strip(0).tolist()
                    releases = view.releases(0)
                if paid[2] != paid[5] or paid[2] != sum(
                    r.charge for _, r in releases if r.question == "two"
                ):
                    torn.append(paid)

        def write() -> None:
            for _ in range(15):
                put(
                    ledger,
                    age_spends(10, 2, question="two"),
                    age_spends(4, 5, question="five"),
                    age_spends(6, 5, question="five"),
                )

        writers = [threading.Thread(target=write) for _ in range(3)]
        readers = [threading.Thread(target=read) for _ in range(3)]
        for thread in (*readers, *writers):
            thread.start()
        for thread in writers:
            thread.join()
        stop.set()
        for thread in readers:
            thread.join()
        assert torn == []
        with ledger.view() as view:
            assert view.charges("answer").strip(0).tolist()[2] == 450
        assert audit(ledger, derive).ok


def age_spends(charge: int, age: int, **rest: Any) -> Release:
    """A count of one age, by cell, for a given charge."""
    region = REGIONS.to_json(REGIONS.where(0, ((age, age + 1),)))
    return spend(
        charge, weights={"kind": "region", "region": region, "group": []}, cells=True, **rest
    )


def two_cells_are_full(ledger: Any) -> None:
    with ledger.view() as view:
        assert view.charges("answer").strip(0).tolist() == [2 * CHARGE] * 2 + [0] * 8
        assert view.spent("answer") == QUANTA
    report = audit(ledger, derive)
    assert report.ok
    assert (report.releases, report.spent["answer"]) == (4, QUANTA)


def analyst(name: str, share: Fraction | str = "1/4") -> Enrolment:
    return Enrolment("add", name, "analyst", Fraction(share))


@pytest.fixture
def peopled(ledger: Any) -> Any:
    """A ledger with an analyst and a curator."""
    with ledger.transaction() as transaction:
        transaction.enrol(analyst("ana"))
        transaction.enrol(Enrolment("add", "cora", "curator", None))
    return ledger


class TestPrincipals:
    def test_they_are_the_fold_of_their_changes(self, peopled: Any) -> None:
        ana, quarter = Principal("ana", "analyst", Fraction(1, 4)), Fraction(1, 4)
        cora = Principal("cora", "curator", None)
        changes = [
            (Enrolment("suspend", "ana", "analyst", quarter), replace(ana, active=False)),
            (
                Enrolment("share", "ana", "analyst", Fraction(1, 3)),
                replace(ana, active=False, share=Fraction(1, 3)),
            ),
            (
                Enrolment("resume", "ana", "analyst", Fraction(1, 3)),
                replace(ana, share=Fraction(1, 3)),
            ),
        ]
        with peopled.view() as before:
            for seq, (change, after) in enumerate(changes, 5):
                with peopled.transaction() as transaction:
                    assert transaction.enrol(change) == seq
                    assert transaction.principals()["ana"] == after
                with peopled.view() as view:
                    assert list(view.principals().items()) == [("ana", after), ("cora", cora)]
            assert before.principals() == {"ana": ana, "cora": cora}
        assert [e.read()["kind"] for e in peopled.entries(3)] == ["principal"] * 5
        assert audit(peopled, derive).ok

    def test_there_is_nobody_at_first_and_nobody_can_be_slipped_in(self, ledger: Any) -> None:
        with ledger.view() as view:
            assert view.principals() == {}
            with pytest.raises(TypeError):
                view.principals()["eve"] = Principal("eve", "curator", None)

    def test_they_outlast_data_versions(self, peopled: Any) -> None:
        with peopled.transaction() as transaction:
            transaction.open_epoch("print-2", DOMAIN)
            assert list(transaction.principals()) == ["ana", "cora"]
        with peopled.view() as view:
            assert list(view.principals()) == ["ana", "cora"]

    @pytest.mark.parametrize(
        "change",
        [
            analyst("ana"),
            Enrolment("add", "ana", "curator", None),
            analyst("ben", "4/5"),
            analyst("ben", "-1/5"),
            analyst("ben", Fraction(1, 10**6 + 1)),
            Enrolment("add", "ben", "analyst", None),
            Enrolment("add", "ben", "curator", Fraction(0)),
            Enrolment("add", "ben", "owner", None),  # type: ignore[arg-type]
            Enrolment("drop", "ana", "analyst", Fraction(1, 4)),  # type: ignore[arg-type]
            analyst("Ben"),
            analyst("0ben"),
            analyst(""),
            analyst("b" * 65),
            analyst("ben\n"),
            Enrolment("suspend", "ben", "analyst", Fraction(1, 4)),
            Enrolment("suspend", "ana", "analyst", Fraction(1, 5)),
            Enrolment("suspend", "ana", "curator", None),
            Enrolment("resume", "ana", "analyst", Fraction(1, 4)),
            Enrolment("share", "ana", "analyst", Fraction(1, 4)),
            Enrolment("share", "ana", "analyst", Fraction(5, 4)),
            Enrolment("share", "cora", "curator", Fraction(1, 4)),
        ],
        ids=lambda change: f"{change.event}-{change.name[:9]}-{change.role}-{change.share}",
    )
    def test_what_is_not_true_of_them_is_refused(self, peopled: Any, change: Enrolment) -> None:
        with pytest.raises(LedgerCorrupt, match="refused"), peopled.transaction() as transaction:
            transaction.enrol(change)
        with peopled.view() as view:
            assert view.seq == 4
            assert list(view.principals()) == ["ana", "cora"]

    def test_a_lost_change_never_was(self, peopled: Any) -> None:
        def lose() -> None:
            with peopled.transaction() as transaction:
                transaction.enrol(analyst("ben"))
                transaction.issue(token(principal="ben"))
                transaction.keep_answer(KeptAnswer("ben", "k", "0" * 64, NOON, "{}"))
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            lose()
        with peopled.view() as view:
            assert (list(view.principals()), view.tokens()) == (["ana", "cora"], [])
            assert view.answered("ben", "k") is None

    def test_the_end_comes_for_changes_too_but_not_for_tokens_and_answers(
        self, peopled: Any
    ) -> None:
        with peopled.transaction() as transaction:
            transaction.issue(token("aa0001"))
            transaction.end()
        with pytest.raises(LedgerError, match="closed"), peopled.transaction() as transaction:
            transaction.enrol(analyst("ben"))
        with peopled.transaction() as transaction:
            transaction.revoke("aa0001", NOON)
            transaction.issue(token("aa0002"))
            transaction.keep_answer(KeptAnswer("ana", "k", "0" * 64, NOON, "{}"))
        with peopled.view() as view:
            assert [t.revoked for t in view.tokens()] == [NOON, None]
            assert view.closed
        assert audit(peopled, derive).ok

    @pytest.mark.parametrize("kind", sorted(DURABLE))
    def test_processes_share_out_no_more_than_there_is(
        self, kind: str, place: SqliteUnderTest
    ) -> None:
        made = place.open(terms())
        lines = at_once(kind, place.address, "enrol", 4, count=4)
        outcomes = [line.split()[0] for worker in lines for line in worker]
        assert sorted(outcomes) == ["granted"] * 3 + ["refused"] * 13
        with made.view() as view:
            assert view.principals().assigned == 1
        assert audit(made, derive).ok
        made.close()


class TestTokens:
    def test_they_are_found_by_hash_and_listed_by_age(self, peopled: Any) -> None:
        made = [
            token("bb02", made=NOON - timedelta(days=1)),
            token("aa01", days=30),
            token("cc03", principal="cora", scopes=("ask", "curate", "quote", "read")),
        ]
        made = [replace(t, id=f"{t.id}ff") for t in made]
        with peopled.transaction() as transaction:
            for each in reversed(made):
                transaction.issue(each)
            assert transaction.tokens() == made
        with peopled.view() as view:
            assert view.tokens() == made
            assert [view.token(t.hash) for t in made] == made
            assert view.token(b"?" * 32) is None
            assert view.seq == 4  # nothing of it is in the log
            assert "hash" not in repr(view.tokens())
        assert audit(peopled, derive).ok

    def test_they_are_revoked_once(self, peopled: Any) -> None:
        later = NOON + timedelta(hours=1)
        with peopled.transaction() as transaction:
            transaction.issue(token("aaaaaa", days=1))
            transaction.issue(token("bbbbbb", days=1))
        with peopled.view() as before:
            with peopled.transaction() as transaction:
                transaction.revoke("aaaaaa", later)
            assert all(t.works(later) for t in before.tokens())
        with peopled.view() as view:
            gone, left = view.tokens()
            assert gone == replace(token("aaaaaa", days=1), revoked=later)
            assert (gone.works(NOON), left.works(NOON)) == (False, True)
            assert not left.works(NOON + timedelta(days=1))
        for id_ in ("aaaaaa", "cccccc"):
            with pytest.raises(LedgerCorrupt), peopled.transaction() as transaction:
                transaction.revoke(id_, later)

    @pytest.mark.parametrize(
        "bad",
        [
            token("aa0001"),
            token("aa0002", hash=token("aa0001").hash),
            token("aa0002", principal="ben"),
            token("aa0002", scopes=()),
            token("aa0002", scopes=("ask", "curate")),
            token("aa0002", scopes=("all",)),  # type: ignore[arg-type]
            token("AA0002"),
            token(""),
            token("aa0002", hash=b"short"),
            token("aa0002", days=0),
            token("aa0002", made=NOON.replace(microsecond=1)),
            token("aa0002", made=NOON.replace(tzinfo=None)),
            token("aa0002", revoked=NOON),
        ],
        ids=range(13),
    )
    def test_unsound_ones_are_refused(self, peopled: Any, bad: Token) -> None:
        with peopled.transaction() as transaction:
            transaction.issue(token("aa0001"))
        with pytest.raises(LedgerCorrupt), peopled.transaction() as transaction:
            transaction.issue(bad)
        with peopled.view() as view:
            assert view.tokens() == [token("aa0001")]


def kept_answer(key: str, days: int = 0, name: str = "ana", **rest: Any) -> KeptAnswer:
    request = hashlib.sha256(key.encode()).hexdigest()
    at = NOON + timedelta(days=days)
    return KeptAnswer(name, key, **{"request": request, "at": at, "document": f"é {key}", **rest})


class TestKeptAnswers:
    def test_they_are_found_by_their_principal_and_key(self, peopled: Any) -> None:
        sent = [kept_answer("one"), kept_answer("!~" * 64), kept_answer("one", name="cora")]
        with peopled.transaction() as transaction:
            for each in sent:
                transaction.append(release())
                transaction.keep_answer(each)
            assert transaction.answered("ana", "one") == (sent[0].request, "é one")
        for each in sent:
            assert peopled.answered(each.principal, each.key) == (each.request, each.document)
        for name, key in (("ana", "two"), ("ben", "one"), ("ana", "ONE")):
            assert peopled.answered(name, key) is None
        assert audit(peopled, derive).ok

    def test_the_newest_requests_are_told_oldest_first(self, peopled: Any) -> None:
        sent = [
            kept_answer("b", days=1),
            kept_answer("a", days=1),
            kept_answer("z", name="cora"),
            kept_answer("c", days=2, name="cora"),
        ]
        with peopled.view() as view:
            assert view.requests(9) == []
        for each in sent:
            with peopled.transaction() as transaction:
                transaction.append(release())
                transaction.keep_answer(each)
        inorder = [(sent[i].principal, sent[i].request) for i in (2, 1, 0, 3)]
        with peopled.view() as view:
            assert view.requests(9) == view.requests(4) == inorder
            assert view.requests(2) == inorder[2:]
            assert view.requests(0) == []

    def test_an_answer_that_was_not_paid_is_not_kept(self, peopled: Any) -> None:
        def overspend() -> None:
            with peopled.transaction() as transaction:
                transaction.keep_answer(kept_answer("one"))
                transaction.append(spend(ledger_cap + 1))

        ledger_cap = peopled.terms.caps["answer"]
        with pytest.raises(LedgerCorrupt, match="purse"):
            overspend()
        assert peopled.answered("ana", "one") is None

    def test_the_version_is_another_whenever_anything_is(
        self, peopled: Any, place: SqliteUnderTest
    ) -> None:
        changes: list[Callable[[Any], Any]] = [
            lambda tx: tx.append(release()),
            lambda tx: tx.issue(token("aaaaaa", days=1)),
            lambda tx: tx.revoke("aaaaaa", NOON),
            lambda tx: tx.keep_answer(kept_answer("one")),
        ]
        others = peopled if isinstance(place, MemoryUnderTest) else place.open(peopled.terms)
        for writer, change in [*((peopled, c) for c in changes), (others, changes[0])]:
            before = peopled.version()
            assert peopled.version() == before
            with writer.transaction() as transaction:
                change(transaction)
            assert before is None or peopled.version() != before
        if others is not peopled:
            others.close()

    def test_the_version_is_the_same_to_all_readers_while_nothing_changes(
        self, peopled: Any
    ) -> None:
        def seen() -> list[Any]:
            with peopled.view():
                beside = peopled.version()
            return [beside, peopled.version()]

        seen()  # whoever reads for the first time knows of nothing before
        before = seen()
        assert before == seen()
        with peopled.transaction() as transaction:
            transaction.append(release())
        after = seen()
        assert before[0] is None or not {*before} & {*after}

    def test_a_key_is_answered_once_and_nothing_is_paid_twice(self, peopled: Any) -> None:
        for _ in range(2):
            with (
                pytest.raises(LedgerCorrupt, match="already") if _ else nullcontext(),
                peopled.transaction() as transaction,
            ):
                transaction.append(release())
                transaction.keep_answer(kept_answer("one"))
        assert peopled.folds().totals["answer"] == release().charge

    def test_a_week_later_they_go(self, peopled: Any) -> None:
        with peopled.transaction() as transaction:
            for days in (0, 1, 7):
                transaction.keep_answer(kept_answer(f"day-{days}", days))
        assert peopled.answered("ana", "day-0") is not None  # seven days, and not more
        with peopled.transaction() as transaction:
            transaction.keep_answer(kept_answer("day-8", 8, "cora"))
            assert transaction.answered("ana", "day-0") is None
            transaction.keep_answer(kept_answer("day-0", 8))
        assert peopled.answered("ana", "day-1") is not None
        assert peopled.answered("ana", "day-0") is not None

    @pytest.mark.parametrize(
        "bad",
        [
            kept_answer("a", name="ben"),
            kept_answer(""),
            kept_answer("a b"),
            kept_answer("ä"),
            kept_answer("a\n"),
            kept_answer("a" * 129),
            kept_answer("a", request="0" * 63),
            kept_answer("a", request="G" * 64),
            kept_answer("a", at=NOON.replace(tzinfo=None)),
            kept_answer("a", document="a\0b"),
            kept_answer("a", document="\ud800"),
        ],
        ids=range(11),
    )
    def test_unsound_ones_are_refused(self, peopled: Any, bad: KeptAnswer) -> None:
        with pytest.raises(LedgerCorrupt), peopled.transaction() as transaction:
            transaction.keep_answer(bad)
        assert peopled.answered(bad.principal, bad.key) is None

    @pytest.mark.parametrize("kind", sorted(DURABLE))
    def test_processes_that_ask_the_same_at_once_pay_once(
        self, kind: str, place: SqliteUnderTest
    ) -> None:
        made = place.open(terms())
        with made.transaction() as transaction:
            transaction.open_epoch("p", DOMAIN)
            transaction.enrol(analyst("ana"))
        lines = at_once(kind, place.address, "answer", 4, count=4)
        outcomes = [line.split() for worker in lines for line in worker]
        assert sorted(o[0] for o in outcomes) == ["again"] * 15 + ["paid"]
        assert len({o[1] for o in outcomes}) == 1
        assert audit(made, derive).releases == 1
        made.close()


def shadow(back: Any = None, by: str = "ben", **rest: Any) -> Release:
    """What an analyst would have bought alone, and what comes back to others."""
    made = release(note={"by": by}, **rest)
    values = tuple(None if v is None else 0 for v in made.values)
    return replace(made, alone=True, values=values, back=back)


@pytest.fixture
def sharing(ledger: Any) -> Any:
    """Of two analysts one has paid for all that the other is about to use."""
    with ledger.transaction() as transaction:
        transaction.enrol(analyst("ana"))
        transaction.enrol(analyst("ben"))
        transaction.append(shadow({}, "ana"))
        transaction.append(release(note={"by": "ana"}))
    return ledger


HALF = int((release().precisions[0] or 0) * QUANTA / 2) // 2
"""Of what the precision is worth in whole quanta, which the charge may exceed by one."""


def quanta(view: Any) -> dict[str, int]:
    names = ("answer", *(f"answer/{a}{k}" for a in ("ana", "ben") for k in ("", *KINDS)))
    return {name: view.spent(name) for name in names if view.spent(name)}


KINDS = ("/alone", "/reuse", "/back")


class TestTransfers:
    def test_what_comes_back_moves_between_accounts_and_nowhere_else(self, sharing: Any) -> None:
        charge = release().charge
        with sharing.view() as before, sharing.transaction() as transaction:
            transaction.append(shadow({"ana": HALF}))
            assert quanta(transaction) == {
                "answer": charge,
                "answer/ana": charge - HALF,
                "answer/ana/alone": charge,
                "answer/ana/back": HALF,
                "answer/ben": HALF,
                "answer/ben/alone": charge,
                "answer/ben/reuse": HALF,
            }
            assert transaction.charges("answer/ana").worst() == charge - HALF
            assert quanta(before) == dict.fromkeys(
                ("answer", "answer/ana", "answer/ana/alone"), charge
            )
        (_, told), (_, newest) = sharing_shadows(sharing)
        assert (told.back, newest.back, newest.reuse) == ({}, {"ana": HALF}, HALF)
        report = audit(sharing, derive)
        assert report.ok, report.findings

    def test_it_is_kept_over_a_new_data_version(self, sharing: Any) -> None:
        with sharing.transaction() as transaction:
            transaction.append(shadow({"ana": HALF}))
            kept = quanta(transaction)
            transaction.open_epoch("q", DOMAIN)
            assert quanta(transaction) == kept
        with sharing.view() as view:
            assert quanta(view) == kept
        assert audit(sharing, derive).ok

    @pytest.mark.parametrize(
        ("bad", "said"),
        [
            (shadow({"eve": HALF}), "no other analyst"),
            (shadow({"cora": HALF}), "no other analyst"),
            (shadow({"ben": HALF}), "no other analyst"),
            (shadow({"ana": 0}), "cannot come back"),
            (shadow({"ana": -HALF}), "cannot come back"),
            (shadow({"ana": 0.5}), "cannot come back"),
            (shadow({"ana": release().charge + 1}), "more comes back to ana than was paid"),
            (shadow({"ana": HALF}, sigmas=(20.0,)), "more than the share alone would pay"),
            (replace(release(note={"by": "ben"}), back={"ana": HALF}), "alone gives"),
            (replace(by_cell(note={"by": "ben"}), alone=True, back={"ana": 5}), "by cell"),
        ],
        ids=lambda x: x if isinstance(x, str) else "",
    )
    def test_what_cannot_come_back_is_refused(self, sharing: Any, bad: Release, said: str) -> None:
        with sharing.transaction() as transaction:
            transaction.enrol(Enrolment("add", "cora", "curator", None))
        before = sharing.folds()
        with pytest.raises(LedgerCorrupt, match=said), sharing.transaction() as transaction:
            transaction.append(bad)
        assert sharing.folds() == before

    @pytest.mark.parametrize(
        ("back", "said"),
        [
            (None, None),
            ({"ana": HALF}, None),
            ({"ana": HALF - 1}, "by the rule it is"),
            ({}, "by the rule it is"),
            ({"ana": 2 * HALF}, "by the rule it is"),
        ],
    )
    def test_an_audit_derives_every_transfer_again(
        self, sharing: Any, back: Any, said: str | None
    ) -> None:
        with sharing.transaction() as transaction:
            transaction.append(shadow(back))
        found = [f.message for f in audit(sharing, derive).findings]
        assert not found if said is None else any(said in message for message in found)


def sharing_shadows(ledger: Any) -> list[tuple[int, Release]]:
    with ledger.view() as view:
        found: list[tuple[int, Release]] = view.shadows(0)
    return found


class TestTransactions:
    def test_an_exception_keeps_nothing(self, ledger: Any) -> None:
        before = ledger.folds(), list(ledger.entries())

        def lose() -> None:
            with ledger.transaction() as transaction:
                transaction.append(release())
                transaction.open_epoch("x", DOMAIN)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            lose()
        assert (ledger.folds(), list(ledger.entries())) == before
        assert put(ledger, release()) == [3]

    def test_a_failed_append_spoils_what_came_before_it(self, ledger: Any) -> None:
        def swallow() -> None:
            with ledger.transaction() as transaction:
                transaction.append(release())
                with pytest.raises(LedgerCorrupt):
                    transaction.append(release(version=7))
                with pytest.raises(LedgerCorrupt, match="earlier step"):
                    transaction.append(release())

        with pytest.raises(LedgerCorrupt, match="had failed"):
            swallow()
        with ledger.view() as view:
            assert view.seq == 2

    def test_what_cannot_be_spelled_is_refused(self, ledger: Any) -> None:
        for note in ({"x": float("nan")}, {"x": object()}):
            with pytest.raises(LedgerCorrupt, match="JSON"), ledger.transaction() as transaction:
                transaction.append(
                    Release(
                        **{f: getattr(release(), f) for f in Release.__slots__} | {"note": note}
                    )
                )
        assert put(ledger, release()) == [3]

    def test_one_inside_another_is_a_fault_at_once(self, ledger: Any) -> None:
        with ledger.transaction(), pytest.raises(LedgerError, match="inside"), ledger.transaction():
            pass
        with ledger.transaction(), pytest.raises(LedgerError, match="inside"):
            ledger.remember("a", "b")
        assert put(ledger, release()) == [3]

    @pytest.mark.parametrize("kind", sorted(DURABLE))
    def test_waiting_for_another_ends_in_busy(self, ledger: Any, place: SqliteUnderTest) -> None:
        impatient = place.open(ledger.terms, timeout=0.1)
        with ledger.transaction(), pytest.raises(LedgerBusy), impatient.transaction():
            pass
        assert put(impatient, release()) == [3]
        impatient.close()

    def test_waiting_for_a_thread_ends_in_busy(self, place: SqliteUnderTest) -> None:
        impatient = place.open(terms(), timeout=0.1)
        held, leave = threading.Event(), threading.Event()

        def hold() -> None:
            with impatient.transaction():
                held.set()
                leave.wait(10)

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait(10)
        with pytest.raises(LedgerBusy), impatient.transaction():
            pass
        with pytest.raises(LedgerBusy):
            impatient.remember("a", "b")
        with impatient.view() as view:
            assert view.seq == 1
        leave.set()
        thread.join()
        impatient.close()

    def test_budget_for_two_and_sixteen_threads(self, place: SqliteUnderTest) -> None:
        made = place.open(terms())
        with made.transaction() as transaction:
            transaction.open_epoch("p", DOMAIN)
        outcomes = contend(made, "t", 16)
        assert sorted(o.split()[0] for o in outcomes) == ["granted"] * 2 + ["refused"] * 14
        report = audit(made, derive)
        assert report.ok
        assert (report.releases, report.spent["answer"]) == (2, QUANTA)
        made.close()

    @pytest.mark.parametrize("kind", sorted(DURABLE))
    def test_budget_for_two_and_four_processes(self, kind: str, place: SqliteUnderTest) -> None:
        made = place.open(terms())
        with made.transaction() as transaction:
            transaction.open_epoch("p", DOMAIN)
        lines = at_once(kind, place.address, "contend", 4, count=4)
        outcomes = [line.split()[0] for worker in lines for line in worker]
        assert sorted(outcomes) == ["granted"] * 2 + ["refused"] * 14
        report = audit(made, derive)
        assert report.ok
        assert (report.releases, report.spent["answer"]) == (2, QUANTA)
        made.close()

    def test_many_threads_lose_nothing(self, ledger: Any) -> None:
        def work(name: int) -> None:
            for i in range(10):
                put(ledger, release(sigmas=(500.0,), weights=f"{name % 3}-{i}"))
                with ledger.view() as view:
                    view.known(release().keys)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        report = audit(ledger, derive)
        assert report.ok
        assert report.releases == 80
        assert sum(k.releases for k in ledger.folds()[1].values()) == 80

    def test_an_audit_beside_a_writer(self, ledger: Any) -> None:
        stop = threading.Event()

        def work() -> None:
            while not stop.is_set():
                put(ledger, release(sigmas=(20000.0,)))

        thread = threading.Thread(target=work)
        thread.start()
        try:
            assert all(audit(ledger, derive).ok for _ in range(5))
        finally:
            stop.set()
            thread.join()

    def test_a_closed_ledger_says_so(self, ledger: Any) -> None:
        ledger.close()
        ledger.close()
        with pytest.raises(LedgerError, match="closed"), ledger.view():
            pass
        with pytest.raises(LedgerError, match="closed"), ledger.transaction():
            pass
        for read in (lambda: list(ledger.entries()), ledger.folds, lambda: ledger.remembered("a")):
            with pytest.raises(LedgerError, match="closed"):
                read()


class TestDurability:
    @pytest.fixture(params=sorted(DURABLE))
    def kind(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    def test_it_is_all_there_after_opening_again(self, ledger: Any, place: SqliteUnderTest) -> None:
        put(ledger, release(), release(sigmas=(12.0, None)))
        ledger.remember("note", "text")
        before = ledger.folds(), list(ledger.entries()), ledger.secret
        ledger.close()
        for again in (place.open(ledger.terms), place.read()):
            assert (again.folds(), list(again.entries()), again.secret) == before
            assert again.terms == ledger.terms
            assert again.remembered("note") == "text"
            assert audit(again, derive).ok
            again.close()

    def test_people_tokens_and_answers_are_there_after_opening_again_and_in_a_backup(
        self, peopled: Any, place: SqliteUnderTest, kind: str, tmp_path: Path
    ) -> None:
        with peopled.transaction() as transaction:
            transaction.issue(token("aa0001", days=3))
            transaction.issue(token("aa0002"))
            transaction.revoke("aa0002", NOON)
            transaction.keep_answer(kept_answer("one"))
        peopled.backup(tmp_path / "copy")
        with peopled.view() as view:
            before = view.principals(), view.tokens()
        peopled.close()
        copy = DURABLE[kind](str(tmp_path / "copy"))
        for again in (place.open(peopled.terms), place.read(), copy.read()):
            with again.view() as view:
                assert (view.principals(), view.tokens()) == before
                assert view.answered("ana", "one") == again.answered("ana", "one")
            assert again.answered("ana", "one") is not None
            assert audit(again, derive).ok
            again.close()

    def test_two_that_have_it_open_see_whom_the_other_added(
        self, peopled: Any, place: SqliteUnderTest
    ) -> None:
        other = place.open(peopled.terms)
        for i in range(4):
            with (peopled, other)[i % 2].transaction() as transaction:
                transaction.enrol(analyst(f"new{i}", "1/10"))
            for each in (peopled, other):
                with each.view() as view:
                    assert len(view.principals()) == 3 + i
        other.close()

    def test_charges_by_cell_are_there_after_opening_again(
        self, ledger: Any, place: SqliteUnderTest
    ) -> None:
        put(ledger, by_cell(), functional(), residual(), release(), by_cell(sigma=3.0))
        with ledger.view() as view:
            before = view.charges("answer").paid((0, 1))
        ledger.close()
        for again in (place.read(), place.open(terms(xi=Fraction(1, 4)))):
            with again.view() as view:
                assert view.charges("answer").paid((0, 1)).tolist() == before.tolist()
            assert audit(again, derive).ok
        put(again, by_cell(sigma=3.0))
        with again.view() as view:
            paid = view.charges("answer").paid((0, 1)) - before
        assert paid.max(axis=1).tolist() == [0] * 2 + [by_cell(sigma=3.0).charge] * 3 + [0] * 5
        again.close()

    def test_two_that_have_it_open_see_what_the_other_charged(
        self, ledger: Any, place: SqliteUnderTest
    ) -> None:
        """Each advances from what it saw last: by nothing, by a set, by a new set, into a new version."""
        other = place.open(ledger.terms)
        sent = [age_spends(3, 1), functional(), age_spends(4, 1), by_cell(), spend(6), functional()]
        with other.view() as old:
            assert old.charges("answer").worst() == 0
            for i, one in enumerate(sent):
                put((ledger, other)[i % 2], one)
                for each in (ledger, other, ledger):
                    with each.view() as view:
                        paid = view.charges("answer")
                        assert paid.worst() == view.spent("answer")
                        assert sorted(paid.sets()) == sorted({(0,), *[(0, 1)] * (i > 0)})
            assert old.charges("answer").worst() == 0
        with other.view() as old:
            spent = old.spent("answer")
            with ledger.transaction() as transaction:
                transaction.open_epoch("print-2", DOMAIN)
            put(ledger, by_cell(version=2))
            assert sorted(old.charges("answer").sets()) == [(0,), (0, 1)]
            for each in (ledger, other):
                with each.view() as view:
                    paid = view.charges("answer")
                    assert (paid.everywhere, list(paid.sets())) == (spent, [(0,)])
            assert sorted(old.charges("answer").sets()) == [(0,), (0, 1)]
        assert audit(other, derive).ok
        other.close()

    def test_a_reader_cannot_write(self, ledger: Any, place: SqliteUnderTest) -> None:
        reader = place.read()
        with pytest.raises(LedgerError, match="reading"), reader.transaction():
            pass
        with pytest.raises(LedgerError, match="reading"):
            reader.remember("a", "b")
        put(ledger, release())
        with reader.view() as view:
            assert view.seq == 3
        reader.close()

    def test_other_terms_are_named_with_both_values(
        self, ledger: Any, place: SqliteUnderTest
    ) -> None:
        other = Terms(
            Fraction(1, 2),
            {**ledger.terms.caps, "diagnostic": 5},
            {"column": "person", "max_rows": 3},
        )
        with pytest.raises(LedgerMismatch) as caught:
            place.open(other)
        text = str(caught.value)
        for part in ('"1/2"', "rho", "caps.diagnostic", "unit.max_rows", "5", "3"):
            assert part in text
        assert [d["term"] for d in caught.value.context["differing"]] == [
            "caps.diagnostic",
            "rho",
            "unit.max_rows",
        ]
        assert caught.value.context["differing"][2] == {
            "term": "unit.max_rows",
            "ledger": 1,
            "contract": 3,
        }

    @pytest.mark.long
    def test_processes_that_create_at_once_agree(self, kind: str, tmp_path: Path) -> None:
        for number in range(4):
            folder = tmp_path / str(number)
            folder.mkdir()
            place = DURABLE[kind].fresh(folder)
            lines = at_once(kind, place.address, "create", count=4)
            assert len({line for worker in lines for line in worker}) == 1
            made = place.open(terms())
            assert made.secret.hex() == lines[0][0]
            assert [e.read()["kind"] for e in made.entries()] == ["open"]
            assert len(list(folder.glob(".*"))) == 0
            made.close()

    def test_a_backup_beside_a_writer_is_a_ledger(
        self, ledger: Any, kind: str, tmp_path: Path
    ) -> None:
        put(ledger, release())
        copy = tmp_path / "backup"
        ledger.backup(copy)
        put(ledger, release())
        with pytest.raises(LedgerError, match="never overwrites"):
            ledger.backup(copy)
        restored = DURABLE[kind](str(copy)).open(ledger.terms)
        assert restored.secret == ledger.secret
        assert audit(restored, derive).releases == 1
        assert put(restored, release()) == [4]
        restored.close()


# ----------------------------------------------------------------------------------- the audit


@pytest.fixture
def written(ledger: Any) -> list[Entry]:
    """A log with two versions, both purses, a vector, a top-up and a settled target."""
    settled = Release.from_json(
        release().to_json() | {"settles": [["ab" * 16, "1/50", "1/20"]]}, release().keys
    )
    put(ledger, release(weights="old"))
    with ledger.transaction() as transaction:
        transaction.open_epoch("print-2", DOMAIN)
    put(
        ledger,
        release(version=2, sigmas=(10.0, None, 20.0), note={"n": 1}),
        release(version=2, purse="diagnostic", sigmas=(15.0,)),
        release(version=2, sigmas=(11.0,)),
        Release.from_json(settled.to_json() | {"version": 2}, settled.keys),
    )
    return list(ledger.entries())


def edited(entries: list[Entry], seq: int, rechain: bool, **changes: Any) -> list[Entry]:
    """The log with fields of one body changed; ``rechain`` forges all hashes from there on."""
    out: list[Entry] = []
    for entry in entries:
        body = entry.read() | (changes if entry.seq == seq else {})
        prev = out[-1].hash if out and rechain else body["prev"]
        forged = Entry.chained(body, entry.seq, prev)
        out.append(forged if rechain else Entry(entry.seq, forged.body, entry.hash))
    return out


def again(place: SqliteUnderTest, **options: Any) -> AuditReport:
    reader = place.read()
    try:
        return audit(reader, derive, **options)
    finally:
        reader.close()


class TestAudit:
    def test_a_whole_log_has_no_findings(self, ledger: Any, written: list[Entry]) -> None:
        report = audit(ledger, derive, pinned={3: written[2].hash})
        assert report.findings == ()
        assert (report.entries, report.releases, report.epochs) == (8, 5, 2)
        assert report.head == written[-1].hash
        assert report.spent == ledger.folds()[0]
        assert not report.closed


@pytest.fixture
def enrolments(peopled: Any) -> list[Entry]:
    with peopled.transaction() as transaction:
        transaction.enrol(Enrolment("suspend", "ana", "analyst", Fraction(1, 4)))
        transaction.enrol(Enrolment("share", "ana", "analyst", Fraction(1, 5)))
        transaction.enrol(analyst("ben", "4/5"))
    return list(peopled.entries())


@pytest.fixture
def by_cells(ledger: Any) -> list[Entry]:
    put(
        ledger,
        by_cell(),
        residual(),
        functional(),
        functional(cells=False),
        by_cell(sigma=20.0),
    )
    return list(ledger.entries())


class TestForgery:
    """Logs whose chain holds and which say what cannot be.  The audit reads them alike wherever they lie."""

    @pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)], ids=str)
    def kind(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    def test_every_flipped_field_is_found(
        self, place: SqliteUnderTest, written: list[Entry]
    ) -> None:
        for entry in written:
            for name, value in entry.read().items():
                if name == "seq" or (
                    entry.seq == 1 and name in {"rho", "caps", "unit", "relation"}
                ):
                    continue  # seq is forced by the editor; terms that cannot be read do not open
                flipped = f"{value}x" if isinstance(value, str) else [value, 1]
                place.rewrite(edited(written, entry.seq, rechain=False, **{name: flipped}))
                if entry.seq == 1:
                    with pytest.raises(LedgerError) if name == "kind" else nullcontext():
                        assert not again(place).ok, name
                    continue
                report = again(place)
                assert not report.ok, name
                assert any(f.seq in (entry.seq, entry.seq + 1) for f in report.findings), name
        place.rewrite(written)
        assert again(place).ok

    @pytest.mark.parametrize(
        ("seq", "changes", "said"),
        [
            (1, {"rho": "2"}, "noise costs"),
            (1, {"caps": {"answer": 10, "diagnostic": 10**15}}, "reaches"),
            (1, {"caps": {"answer": QUANTA, "diagnostic": 1}}, "caps exceed"),
            (1, {"kind": "epoch", "version": 1, "fingerprint": "", "domain": 0}, None),
            (2, {"version": 2}, "out of turn"),
            (4, {"version": 3}, "out of turn"),
            (4, {"kind": "open"}, None),
            (5, {"charge": release().charge - 1}, "noise costs"),
            (5, {"charge": release().charge + 1}, "noise costs"),
            (5, {"charge": release().charge + 1, "note": {"given": True}}, "total is kept"),
            (5, {"charge": 0}, "positive whole"),
            (5, {"charge": -1}, "positive whole"),
            (5, {"charge": "7"}, "positive whole"),
            (5, {"sigma": [(30.0).hex(), None, (20.0).hex()]}, "claims more"),
            (5, {"sigma": [(5.0).hex(), None, (20.0).hex()]}, "noise costs"),
            (5, {"sigma": ["0x1.4p+3", None, (20.0).hex()]}, "canonical"),
            (5, {"precision": ["1/64", None, "1/512"]}, "claims more"),
            (5, {"precision": ["1/300", None, "1/512"]}, "dyadic"),
            (5, {"precision": ["1/128", None, "1/512"]}, "known of"),
            (5, {"precision": ["2/256", None, "1/512"]}, "canonical"),
            (5, {"value": [101, None, 102]}, "known of"),
            (5, {"value": [100, 1, 102]}, "by halves"),
            (5, {"value": [100, None]}, "differ in number"),
            (5, {"step": 5}, "known of"),
            (5, {"reach": "2"}, "noise costs"),
            (5, {"version": 1}, "not the newest"),
            (5, {"purse": "diagnostic"}, "total is kept"),
            (5, {"purse": "third"}, "unknown purse"),
            (5, {"weights": {"kind": "region", "region": "none", "group": []}}, "known of"),
            (5, {"measure": "sum:age"}, "known of"),
            (5, {"extra": 1}, "canonical"),
            (5, {"kind": "other"}, "cannot be read"),
            (5, {"kind": "close"}, "end of the contract"),
            (5, {"sigma": ["inf", None, (20.0).hex()]}, "not positive and finite"),
            (5, {"reach": "1/0"}, "cannot be read"),
            (5, {"note": None}, "cannot be read"),
            (5, {"note": {"confirm": "ab" * 16}}, "known of"),
            (5, {"note": {"confirm": "AB" * 16}}, "tag of a confirmation"),
            (5, {"ask": "a2"}, "known of"),
            (5, {"ask": None}, "not one word"),
            (8, {"settles": [["ac" * 16, "1/50", "1/20"]]}, "known of"),
            (8, {"settles": [["ab" * 16, "1/51", "1/20"]]}, "known of"),
            (8, {"settles": [["ab" * 16, "2", "1/20"]]}, "cannot have been met"),
            (8, {"settles": []}, "known of"),
        ],
        ids=lambda x: str(x)[:50],
    )
    def test_a_forged_chain_is_found_by_what_it_says(
        self,
        place: SqliteUnderTest,
        written: list[Entry],
        seq: int,
        changes: dict[str, Any],
        said: str | None,
    ) -> None:
        place.rewrite(edited(written, seq, rechain=True, **changes))
        try:
            report = again(place, pinned={8: written[-1].hash})
        except LedgerCorrupt:
            assert seq == 1
            return
        found = [f.message for f in report.findings]
        assert said is None or any(said in message for message in found), found
        assert any("noted earlier" in message for message in found)
        assert not any("chain is broken" in m or "hash is not" in m for m in found)

    @pytest.mark.parametrize(
        ("seq", "changed", "said"),
        [
            (3, {"share": "1/3"}, "does not change the share"),
            (3, {"share": "3/2"}, "from 0 to 1"),
            (3, {"share": "2/8"}, "canonical"),
            (3, {"share": 1}, "canonical"),
            (3, {"share": None}, "from 0 to 1"),
            (3, {"share": "x"}, "cannot be read"),
            (3, {"name": "ann"}, "no principal 'ana'"),
            (3, {"name": "Ana"}, "cannot be a name"),
            (3, {"name": ["ana"]}, "cannot be a name"),
            (3, {"role": "curator"}, "has no share"),
            (3, {"role": ["analyst"]}, "unknown role"),
            (3, {"event": "suspend"}, "no principal 'ana'"),
            (3, {"event": "drop"}, "unknown change"),
            (3, {"extra": 1}, "canonical"),
            (3, {"kind": "arrival"}, "cannot be read"),
            (4, {"role": "analyst"}, "from 0 to 1"),
            (5, {"event": "resume"}, "is active already"),
            (5, {"event": "share"}, "has the share 0.25 already"),
            (5, {"event": "add"}, "already"),
            (6, {"share": "1/4"}, "does not fit"),
            (6, {"share": "1/2"}, "does not fit"),
            (7, {"share": "9/10"}, "does not fit"),
            (7, {"name": "cora"}, "already"),
        ],
        ids=lambda x: str(x)[:50],
    )
    def test_forged_principals_are_found(
        self,
        place: SqliteUnderTest,
        enrolments: list[Entry],
        seq: int,
        changed: dict[str, Any],
        said: str,
    ) -> None:
        assert again(place).ok
        place.rewrite(edited(enrolments, seq, rechain=True, **changed))
        found = [f.message for f in again(place).findings]
        assert any(said in message for message in found), found

    @pytest.mark.parametrize(
        ("seq", "changes", "said"),
        [
            (3, {"weights": by_cell(ages=((2, 6),)).weights}, "paid on the columns 0"),
            (3, {"attributes": ["city"]}, None),
            (3, {"by_cell": False}, "canonical"),
            (3, {"by_cell": 1}, "canonical"),
            (3, {"sigma": [(5.0).hex()]}, "noise costs"),
            (3, {"charge": by_cell().charge - 1}, "noise costs"),
            (3, {"charge": by_cell().charge + 1, "note": {"given": True}}, "paid on the columns 0"),
            (4, {"sigma": [(50.0).hex()]}, "noise costs"),
            (4, {"charge": residual().charge + 1, "note": {"given": True}}, "paid by every cell"),
            (4, {"precision": ["1/4"]}, "claims more"),
            (4, {"weights": {"kind": "residual", "atoms": [5, 4]}}, "noise costs"),
            (4, {"weights": {"kind": "residual", "atoms": [20]}}, "the atoms of 2"),
            (4, {"value": [0] * 19}, "a residual of 20"),
            (4, {"weights": {"kind": "table", "atoms": [10, 2]}}, "unknown weights"),
            (5, {"weights": functional(steps=(1, 3, -4, 1)).weights}, "paid on the columns 0,1"),
            (5, {"weights": functional(steps=(0, 3, -5, 1)).weights}, "noise costs"),
            (5, {"weights": functional(classes=([0, 6], [0, 1])).weights}, "paid on the columns"),
            (5, {"weights": functional(bits=1).weights}, "noise costs"),
            (5, {"weights": functional().weights | {"classes": [[0, 10], [0, 1]]}}, "do not fit"),
            (5, {"attributes": ["age", "sex"]}, "paid on the columns"),
            (5, {"attributes": ["city", "age"]}, "do not fit"),
            (5, {"sigma": [(9.0).hex()]}, "noise costs"),
            (5, {"purse": "diagnostic"}, "from the diagnostic purse"),
            (6, {"by_cell": True}, "paid by every cell"),
        ],
        ids=lambda x: str(x)[:50],
    )
    def test_forged_charges_by_cell_are_found(
        self,
        place: SqliteUnderTest,
        by_cells: list[Entry],
        seq: int,
        changes: dict[str, Any],
        said: str | None,
    ) -> None:
        assert again(place).ok
        place.rewrite(edited(by_cells, seq, rechain=True, **changes))
        report = again(place)
        found = [f.message for f in report.findings]
        assert found
        assert said is None or any(said in message for message in found), found


class TestDamage:
    """What is edited in a durable ledger, past Defray."""

    @pytest.fixture(params=sorted(DURABLE))
    def kind(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    @pytest.mark.parametrize(
        "statement",
        [
            "UPDATE tokens SET scopes = 'ask all'",
            "UPDATE tokens SET scopes = 'ask ask'",
            "UPDATE tokens SET scopes = 7",
            "UPDATE tokens SET made = 'noon'",
            "UPDATE tokens SET made = 1e300",
            "UPDATE tokens SET expires = 9223372036854775807",
        ],
    )
    def test_damaged_tokens_are_said_to_be(
        self, peopled: Any, place: SqliteUnderTest, statement: str
    ) -> None:
        with peopled.transaction() as transaction:
            transaction.issue(token())
        place.execute((statement, ()))
        with peopled.view() as view:
            for read in (view.tokens, lambda: view.token(token().hash)):
                with pytest.raises(LedgerCorrupt, match="damaged: a token"):
                    read()

    def test_damaged_principals_are_said_to_be(
        self, enrolments: list[Entry], place: SqliteUnderTest
    ) -> None:
        for changed in ({"share": "9/10"}, {"share": "x"}, {"name": ["ben"]}):
            place.rewrite(edited(enrolments, 7, rechain=True, **changed))
            damaged = place.read()
            with damaged.view() as view, pytest.raises(LedgerCorrupt, match="damaged: who"):
                view.principals()
            damaged.close()

    def test_other_spellings_are_found(self, place: SqliteUnderTest, written: list[Entry]) -> None:
        for old, new in ((b":", b": "), (b'"seq":5', b'"seq":6'), (b"{", b'{"a":1,'), (b"}", b"")):
            body = written[4].body.replace(old, new, 1)
            place.rewrite([*written[:4], Entry(5, body, written[4].hash), *written[5:]])
            assert not again(place).ok
        for junk in (b"", b"[]", b"null", b"\xff", b"[" * 100_000, b"9" * 10_000):
            place.rewrite([*written[:4], Entry(5, junk, written[4].hash), *written[5:]])
            assert any(f.seq == 5 for f in again(place).findings)

    def test_a_wrong_hash_is_found(self, place: SqliteUnderTest, written: list[Entry]) -> None:
        place.rewrite([*written[:-1], Entry(8, written[-1].body, "0" * 64)])
        assert [f.seq for f in again(place).findings] == [8]

    def test_a_missing_entry_is_found(self, place: SqliteUnderTest, written: list[Entry]) -> None:
        for i in range(1, len(written)):
            place.rewrite(written[:i] + written[i + 1 :])
            assert not again(place).ok

    def test_a_cut_off_end_is_found_by_the_folds_and_by_a_noted_head(
        self, place: SqliteUnderTest, written: list[Entry]
    ) -> None:
        place.rewrite(written[:-1])
        report = again(place, pinned={8: written[-1].hash})
        assert any("total is kept" in f.message for f in report.findings)
        assert any("cut off" in f.message for f in report.findings)

    def test_reordered_entries_are_found(
        self, place: SqliteUnderTest, written: list[Entry]
    ) -> None:
        a, b = written[5], written[6]
        swapped = [*written[:5], Entry(6, b.body, b.hash), Entry(7, a.body, a.hash), written[7]]
        place.rewrite(swapped)
        assert any("chain is broken" in f.message for f in again(place).findings)

    @pytest.mark.parametrize(
        "statement",
        [
            "UPDATE totals SET quanta = quanta - 1 WHERE purse = 'answer'",
            "UPDATE totals SET quanta = 0",
            "DELETE FROM totals WHERE purse = 'diagnostic'",
            "INSERT INTO totals(purse, quanta, cap) VALUES ('other', 5, 10)",
            "UPDATE known SET precision = '1/2'",
            "UPDATE known SET weighted = '7'",
            "UPDATE known SET weighted = 'seven'",
            "UPDATE known SET releases = releases + 1",
            "UPDATE known SET last = 1",
            "UPDATE known SET idx = idx + 1",
            "DELETE FROM known",
            "INSERT INTO known VALUES ('k', '1', '1', 1, 1, 1, '', '1', 'a1')",
            "UPDATE known SET first = '1/4'",
            "UPDATE known SET asks = 'a1 a2'",
        ],
    )
    def test_an_edited_fold_is_found(
        self, place: SqliteUnderTest, written: list[Entry], statement: str
    ) -> None:
        place.execute((statement, ()))
        assert not again(place).ok

    @pytest.mark.parametrize(
        "statement",
        [
            "UPDATE charges SET quanta = quanta - 1 WHERE attributes = '' AND purse = 'answer'",
            "UPDATE charges SET quanta = (SELECT quanta FROM charges WHERE attributes = '0,1') "
            "WHERE attributes = '0'",
            "UPDATE charges SET quanta = x'00' WHERE attributes = '0'",
            "UPDATE charges SET quanta = x'' WHERE attributes = '0,1'",
            "UPDATE charges SET quanta = 7 WHERE attributes = '0,1'",
            "UPDATE charges SET last = last + 1 WHERE attributes = '0'",
            "UPDATE charges SET number = 3 WHERE attributes = '0'",
            "UPDATE charges SET attributes = '2' WHERE attributes = '0'",
            "UPDATE charges SET attributes = 'x' WHERE attributes = '0'",
            "DELETE FROM charges WHERE attributes = '0'",
            "DELETE FROM charges WHERE attributes = ''",
            "DELETE FROM charges",
            "INSERT INTO charges VALUES ('answer', '2', 3, 3, x'00')",
            "INSERT INTO charges VALUES ('other', '', 0, 0, 5)",
        ],
    )
    def test_edited_charges_are_found(
        self, place: SqliteUnderTest, by_cells: list[Entry], statement: str
    ) -> None:
        place.execute((statement, ()))
        assert not again(place).ok

    @pytest.mark.parametrize(
        "statement",
        [
            "DELETE FROM charges WHERE attributes = ''",
            "UPDATE charges SET quanta = x'00' WHERE attributes = '0'",
            "UPDATE charges SET attributes = '7' WHERE attributes = '0'",
            "UPDATE charges SET attributes = 'x' WHERE attributes = '0'",
            "UPDATE totals SET quanta = 1",
        ],
    )
    def test_damaged_charges_are_not_added_to(
        self, place: SqliteUnderTest, by_cells: list[Entry], statement: str
    ) -> None:
        place.execute((statement, ()))
        damaged = place.open(terms(xi=Fraction(1, 4)))
        for made in (release(), by_cell()):
            with pytest.raises(LedgerCorrupt):
                put(damaged, made)
        with damaged.view() as view, pytest.raises(LedgerCorrupt):
            view.charges("answer")
        damaged.close()


# -------------------------------------------------------------------------------- folds, at random


@pytest.mark.long
@pytest.mark.parametrize("kind", sorted(LEDGERS))
@settings(max_examples=30, deadline=None)
@given(plan=st.lists(st.tuples(changes(), st.booleans(), st.booleans()), max_size=12))
def test_principals_are_what_a_replay_of_the_log_says(kind: str, plan: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ledger = LEDGERS[kind].fresh(Path(folder)).open(terms())
        kept = 0
        for change, as_likely, lost in plan:
            with ledger.view() as view:
                before = view.principals()
            sent = likely(change, before) if as_likely else change
            expected = enrolled(before, sent)
            try:
                with ledger.transaction() as transaction:
                    transaction.enrol(sent)
                    assert transaction.principals() == expected
                    if lost:
                        raise ZeroDivisionError
                kept += 1
            except LedgerCorrupt as error:
                assert isinstance(expected, str)
                assert expected in error.message
            except ZeroDivisionError:
                pass
            with ledger.view() as view:
                assert 0 <= view.principals().assigned <= 1
        replayed: Any = NOBODY
        for entry in ledger.entries(2):
            replayed = enrolled(replayed, Enrolment.from_json(entry.read()))
        with ledger.view() as view:
            assert list(view.principals().items()) == list(replayed.items())
            assert view.seq == 1 + kept
        assert audit(ledger, derive).ok
        ledger.close()


appends = st.tuples(
    st.just("append"),
    st.sampled_from(["a", "b", "c"]),
    st.lists(st.one_of(st.none(), st.floats(50, 1e6)), min_size=1, max_size=3).filter(any),
    st.integers(-(2**80), 2**80),
    st.sampled_from(["answer", "diagnostic"]),
    st.integers(-3, 30),
)
steps = st.lists(
    st.lists(st.one_of(appends, st.just(("epoch",)), st.just(("fail",))), max_size=4), max_size=6
)


@pytest.mark.long
@pytest.mark.parametrize("kind", sorted(LEDGERS))
@settings(max_examples=40, deadline=None)
@given(plan=steps)
def test_folds_are_what_a_naive_replay_computes(kind: str, plan: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ledger = LEDGERS[kind].fresh(Path(folder)).open(terms(xi=Fraction(1, 2)))
        with ledger.transaction() as transaction:
            transaction.open_epoch("p", DOMAIN)
        kept: list[tuple[int, Release]] = []
        version = 1
        for batch in plan:
            new: list[tuple[int, Release]] = []
            opened = version
            try:
                with ledger.transaction() as transaction:
                    for step in batch:
                        if step[0] == "fail":
                            raise ZeroDivisionError
                        if step[0] == "epoch":
                            opened = transaction.open_epoch("p", DOMAIN).counter
                            continue
                        _, name, sigmas, value, purse, grain = step
                        made = release(
                            sigmas=sigmas,
                            weights=name,
                            version=opened,
                            purse=purse,
                            step=grain,
                            values=[None if s is None else value + i for i, s in enumerate(sigmas)],
                        )
                        new.append((transaction.append(made), made))
            except ZeroDivisionError:
                continue
            version = opened
            kept += new
        totals, known, _ = ledger.folds()
        for purse in ("answer", "diagnostic"):
            assert totals[purse] == sum(r.charge for _, r in kept if r.purse == purse)
        naive: dict[bytes, list[tuple[Fraction, Fraction, int, int]]] = {}
        for seq, r in kept:
            if r.version == version:
                for i, key in enumerate(r.keys):
                    if (p := r.precisions[i]) is not None and (y := r.values[i]) is not None:
                        naive.setdefault(key, []).append((p, y / Fraction(2) ** r.step, seq, i))
        assert known == {
            key: Known(
                sum((p for p, *_ in parts), Fraction(0)),
                sum((p * y for p, y, *_ in parts), Fraction(0)),
                len(parts),
                parts[-1][2],
                parts[-1][3],
                first=parts[0][0],
                asks=("a1",),
            )
            for key, parts in naive.items()
        }
        with ledger.view() as view:
            keys = [*known, b"unknown"]
            assert view.known(keys) == [known.get(key, UNKNOWN) for key in keys]
        assert audit(ledger, derive).ok
        ledger.close()
