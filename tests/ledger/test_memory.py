"""The ledger in memory is the ledger in a file, step for step, but for what a file is needed for."""

from __future__ import annotations

import tempfile
import threading
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from defray.core.amounts import QUANTA
from defray.errors import DefrayError, LedgerError
from defray.ledger.audit import audit
from defray.ledger.beside import KeptAnswer
from defray.ledger.memory import MemoryLedger, MemoryTransaction
from defray.ledger.records import Arrival, Release, Terms
from defray.ledger.sqlite import SqliteLedger
from defray.ledger.store import Ledger, Transaction, View
from tests.ledger.forks import in_child
from tests.ledger.makers import DOMAIN, NOON, derive, release, terms, token
from tests.strategies import changes, likely

NAMES = ("a", "b", "c")
MARKS = (b"\xaa" * 16, b"\xbb" * 16)
KEYS = [*MARKS, *(k for name in NAMES for k in release(sigmas=(9.0,) * 3, weights=name).keys)]

releases = st.tuples(
    st.just("append"),
    st.sampled_from(NAMES),
    st.lists(st.one_of(st.none(), st.sampled_from([60.0, 1000.0])), min_size=1, max_size=3).filter(
        any
    ),
    st.sampled_from(["answer", "diagnostic"]),
    st.sampled_from([0, 0, 0, 1]),
    st.lists(st.sampled_from([(MARKS[0], "1/50", "1/20"), (MARKS[1], "1/9", "1/2")]), max_size=1),
)
arrivals = st.tuples(st.just("arrive"), st.sampled_from(MARKS), st.sampled_from([0, 0, 0, 1]))
enrolments = st.tuples(st.just("enrol"), changes(), st.booleans())
IDS = ("aa0001", "aa0002", "aa0003")
steps = st.one_of(
    releases,
    releases,
    arrivals,
    enrolments,
    enrolments,
    st.tuples(st.just("issue"), st.sampled_from(IDS), st.sampled_from(["ana", "ben"])),
    st.tuples(st.just("revoke"), st.sampled_from(IDS)),
    st.tuples(st.just("keep"), st.sampled_from(["ana", "ben"]), st.integers(0, 20)),
    st.just(("epoch",)),
    st.just(("fail",)),
    st.sampled_from([("end",), ("look",), ("look",), ("look",)]),
)
plans = st.lists(st.lists(steps, max_size=4), max_size=8)


def seen(view: View) -> tuple[Any, ...]:
    """All that a reading can tell."""
    return (
        view.seq,
        view.closed,
        view.epoch,
        view.spent("answer"),
        view.spent("diagnostic"),
        view.known(KEYS),
        view.known(KEYS[:1]),
        [view.arrivals(after, newest) for after in (0, 1, 3) for newest in (1, 2, 100)],
        list(view.principals().items()),
        view.tokens(),
        [view.token(token(id_).hash) for id_ in IDS],
        [view.answered(name, str(key)) for name in ("ana", "ben") for key in range(3)],
    )


def take(transaction: Transaction, step: tuple[Any, ...], version: int) -> Any:
    match step:
        case ("append", name, sigmas, purse, ahead, settles):
            made = release(sigmas=sigmas, weights=name, version=version + ahead, purse=purse)
            body = made.to_json() | {"settles": [[k.hex(), s, g] for k, s, g in settles]}
            return transaction.append(Release.from_json(body, made.keys))
        case ("arrive", mark, skipped):
            before = transaction.arrivals(0, 1)
            number = (before[0].number if before else 0) + 1 + skipped
            return transaction.arrive(Arrival(number, mark, 0.5, 0.25, 1.0, float(number), None))
        case ("enrol", change, as_likely):
            before = transaction.principals()
            return transaction.enrol(likely(change, before) if as_likely else change)
        case ("issue", id_, name):
            return transaction.issue(token(id_, name))
        case ("revoke", id_):
            return transaction.revoke(id_, NOON)
        case ("keep", name, day):
            at = NOON + timedelta(days=day)
            return transaction.keep_answer(KeptAnswer(name, str(day % 3), "0" * 64, at, f"{day}"))
        case ("epoch",):
            return transaction.open_epoch("print", DOMAIN)
        case ("end",):
            return transaction.end()
        case ("look",):
            return seen(transaction)
        case _:
            raise ZeroDivisionError


def played(ledger: Ledger, plan: list[list[tuple[Any, ...]]]) -> list[Any]:
    """What every step returned or raised, and what was seen after every transaction."""
    told: list[Any] = []
    for batch in plan:
        with ledger.view() as before:
            first = seen(before)
            try:
                with ledger.transaction() as transaction:
                    for step in batch:
                        epoch = transaction.epoch
                        told.append(take(transaction, step, epoch.counter if epoch else 0))
            except ZeroDivisionError:
                told.append("lost")
            except DefrayError as error:
                told.append((type(error), error.message))
            assert seen(before) == first
        with ledger.view() as after:
            told.append(seen(after))
    return told


@settings(max_examples=60)
@given(plan=plans)
def test_it_tells_what_the_ledger_in_a_file_tells(plan: list[list[tuple[Any, ...]]]) -> None:
    # Small caps, so that some releases do not fit.
    under = replace(terms(), caps={"answer": QUANTA // 2000, "diagnostic": QUANTA // 4000})
    begun: list[list[tuple[Any, ...]]] = [[("epoch",)], *plan]
    with (
        tempfile.TemporaryDirectory() as folder,
        SqliteLedger.open(Path(folder) / "ledger", under) as kept,
        MemoryLedger(under) as made,
    ):
        assert played(made, begun) == played(kept, begun)
        assert list(made.entries()) == list(kept.entries())
        assert list(made.entries(3)) == list(kept.entries(3))
        assert made.folds() == kept.folds()
        assert made.terms == kept.terms
        assert audit(made, derive) == audit(kept, derive)


def opened(timeout: float = 5.0) -> MemoryLedger:
    made = MemoryLedger(terms(), timeout=timeout)
    with made.transaction() as transaction:
        transaction.open_epoch("print", DOMAIN)
    return made


def test_terms_that_cannot_be_kept_are_refused() -> None:
    for wrong in (
        Terms(Fraction(0), {"answer": 1, "diagnostic": 0}, {}),
        Terms(Fraction(1), {"answer": -1, "diagnostic": 0}, {}),
        Terms(Fraction(1), {"answer": QUANTA, "diagnostic": 1}, {}),
    ):
        with pytest.raises(LedgerError):
            MemoryLedger(wrong)


def test_the_terms_do_not_follow_the_caller_s() -> None:
    caps: dict[Any, int] = {"answer": 10, "diagnostic": 0}
    made = MemoryLedger(Terms(Fraction(1), caps, {}))
    caps["answer"] = QUANTA
    assert made.terms.caps["answer"] == 10


def test_two_ledgers_have_nothing_in_common() -> None:
    one, other = opened(), opened()
    with one.transaction() as transaction:
        transaction.append(release())
    assert one.secret != other.secret
    assert other.folds()[:2] == ({"answer": 0, "diagnostic": 0}, {})


def test_it_is_not_copied_to_a_file(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="not kept in a file"):
        opened().backup(tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_forked_child_cannot_spend_the_same_budget() -> None:
    made = opened()

    def spend_again() -> str:
        told = []
        for use in (made.view, made.transaction):
            try:
                with use():
                    told.append("served")
            except LedgerError as error:
                told.append(error.message)
        return " / ".join(told)

    refused = "A ledger in memory serves only the process that made it."
    assert in_child(spend_again) == f"{refused} / {refused}"
    with made.transaction() as transaction:
        assert transaction.append(release()) == 3


def test_an_interrupted_commit_is_never_built_upon(monkeypatch: pytest.MonkeyPatch) -> None:
    made = opened()
    before = made.folds(), list(made.entries())

    def interrupted(self: MemoryTransaction) -> None:
        self._kept.entries.extend(self._added.entries)
        raise KeyboardInterrupt

    def buy() -> None:
        with made.transaction() as transaction:
            transaction.append(release())

    with monkeypatch.context() as patch:
        patch.setattr(MemoryTransaction, "commit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            buy()
    with pytest.raises(LedgerError, match="interrupted"):
        buy()
    assert (made.folds(), list(made.entries())) == before


def test_readings_beside_a_writer_are_whole() -> None:
    """Every transaction buys two functionals at once: no reading sees one without the other."""
    made = opened()
    pair = release(sigmas=(20_000.0, 20_000.0))
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            with made.transaction() as transaction:
                transaction.append(pair)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(300):
            with made.view() as view:
                one, other = view.known(pair.keys)
                assert one.releases == other.releases == view.seq - 2
                assert view.spent("answer") == pair.charge * one.releases
            totals, known, _ = made.folds()
            counts = {k.releases for k in known.values()}
            assert len(counts) <= 1
            assert totals["answer"] == pair.charge * max(counts, default=0)
    finally:
        stop.set()
        thread.join()
    assert audit(made, derive).ok
