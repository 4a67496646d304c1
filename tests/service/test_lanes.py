"""Whoever has least at work is next; nobody holds all threads."""

from __future__ import annotations

import time
from concurrent.futures import Future
from threading import Event, Lock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from defray.service.alarm import Alarm
from defray.service.lanes import STILL_SECONDS, Lane


class Bench:
    """Work that lasts until it is let go, and the order in which it began."""

    def __init__(self, threads: int, patience: float = 0) -> None:
        self.lane, self.lock = Lane("test", threads, patience), Lock()
        self.begun: list[str] = []
        self.seen: dict[str, Event] = {}
        self.go: dict[str, Event] = {}
        self.done: dict[str, Future[str]] = {}

    def submit(self, who: str, name: str) -> None:
        self.seen[name], self.go[name] = Event(), Event()
        self.done[name] = self.lane.submit(who, lambda: self.work(name))

    def work(self, name: str) -> str:
        with self.lock:
            self.begun.append(name)
        self.seen[name].set()
        assert self.go[name].wait(10)
        return name

    def let(self, name: str) -> None:
        assert self.seen[name].wait(10)
        self.go[name].set()
        assert self.done[name].result(10) == name


def test_one_principal_leaves_a_thread_to_the_others():
    bench = Bench(3)
    for name in ("a1", "a2", "a3", "a4"):
        bench.submit("ana", name)
    bench.submit("ben", "b1")
    assert bench.seen["b1"].wait(10)
    assert sorted(bench.begun) == ["a1", "a2", "b1"]
    for name in ("a1", "a2", "a3", "a4", "b1"):
        bench.let(name)


def test_whoever_has_least_at_work_is_next():
    bench = Bench(2)
    for who in ("ana", "ben"):
        for n in (1, 2, 3):
            bench.submit(who, f"{who}{n}")
    bench.submit("cem", "cem1")
    assert bench.seen["ana1"].wait(10) and bench.seen["ben1"].wait(10)
    bench.let("ana1")
    assert bench.seen["cem1"].wait(
        10
    )  # neither ana, who has waited longest, nor ben, who has one at work
    assert sorted(bench.begun) == ["ana1", "ben1", "cem1"]
    for name in ("ben1", "cem1", "ana2", "ben2", "ana3", "ben3"):
        bench.let(name)


@pytest.mark.parametrize("others", [0, 1], ids=["alone", "while others go on"])
def test_what_waits_while_nothing_of_its_own_goes_on_gives_its_turn_up(others: int):
    bench, given_up, over = Bench(2), Event(), Event()
    bench.submit("ana", "a1")
    waits = bench.lane.submit("ana", lambda: "had its turn", meanwhile=given_up.set)

    def go_on() -> None:
        if not over.is_set():
            bench.lane.submit("ben", lambda: over.wait(0.01)).add_done_callback(lambda _: go_on())

    for _ in range(others):
        go_on()
    assert given_up.wait(10) and waits.cancelled()
    over.set()
    bench.let("a1")


def test_what_waits_while_turns_are_taken_keeps_its_own():
    bench, given_up = Bench(1), list[int]()
    short = [bench.lane.submit("ana", lambda: time.sleep(0.02)) for _ in range(30)]
    last = bench.lane.submit("ana", lambda: "last", meanwhile=lambda: given_up.append(1))
    assert last.result(10) == "last" and all(done.done() for done in short)
    assert not given_up


def test_what_work_raises_is_raised_where_it_is_waited_for():
    lane = Lane("test", 1)

    def wrong() -> None:
        raise ValueError("wrong")

    failed = lane.submit("ana", wrong)
    with pytest.raises(ValueError, match="wrong"):
        failed.result(10)
    assert lane.submit("ana", lambda: 5).result(10) == 5


def test_with_patience_work_goes_one_by_one_until_some_of_it_lasts():
    bench = Bench(3)
    bench.lane = Lane("test", 3, patience=0.2)
    for name in ("a1", "a2"):
        bench.submit("ana", name)
    bench.let("a1")
    assert bench.seen["a2"].wait(10)
    bench.submit("ben", "b1")
    assert bench.begun == ["a1", "a2"]  # not beside it as yet
    assert bench.seen["b1"].wait(10)
    for name in ("a2", "b1"):
        bench.let(name)


def test_so_much_short_work_goes_abreast():
    bench = Bench(3)
    bench.lane = Lane("test", 3, patience=0.2, abreast=2)
    for who in ("ana", "ben", "cem"):
        bench.submit(who, who)
    assert bench.seen["ana"].wait(10) and bench.seen["ben"].wait(10)
    assert bench.begun == ["ana", "ben"]  # as yet
    assert bench.seen["cem"].wait(10)
    for who in ("ana", "ben", "cem"):
        bench.let(who)


def test_work_that_comes_after_other_work_begins_when_none_of_it_is_left():
    first = Bench(1, patience=60)
    after, given_up = Lane("after", 2, after=(first.lane,)), list[int]()
    for name in ("a1", "a2"):
        first.submit("ana", name)
    last = after.submit("ana", lambda: [*first.begun], meanwhile=lambda: given_up.append(1))
    first.let("a1")
    time.sleep(2 * STILL_SECONDS)
    assert first.seen["a2"].wait(10) and not last.done()
    first.let("a2")
    assert last.result(0.5) == ["a1", "a2"] and not given_up
    assert after.submit("ana", lambda: "at once").result(0.5) == "at once"


def test_work_that_comes_after_other_work_keeps_its_turn_beside_long_work():
    first, own = Bench(1, patience=60), Bench(3)
    own.lane = Lane("after", 3, after=(first.lane,))
    own.submit("ana", "long")
    assert own.seen["long"].wait(10)
    first.submit("ana", "a1")
    assert first.seen["a1"].wait(10)
    given_up = list[int]()
    waits = own.lane.submit("ben", lambda: "its turn", meanwhile=lambda: given_up.append(1))
    time.sleep(2 * STILL_SECONDS)
    first.let("a1")
    assert waits.result(10) == "its turn" and not given_up
    own.let("long")


def test_work_never_waits_for_long_after_other_work(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("defray.service.lanes.AFTER_SECONDS", 0.2)
    first = Bench(1, patience=60)
    after = Lane("after", 2, after=(first.lane,))
    first.submit("ana", "a1")
    assert first.seen["a1"].wait(10)
    began = time.monotonic()
    waits = [after.submit(who, time.monotonic) for who in ("ana", "ben")]
    assert all(0.15 < done.result(10) - began < 5 for done in waits)
    first.let("a1")


def test_work_does_not_wait_after_long_work():
    first = Bench(2, patience=0.2)
    after = Lane("after", 1, after=(first.lane,))
    first.submit("ana", "a1")
    assert first.seen["a1"].wait(10)
    began = time.monotonic()
    assert 0.1 < after.submit("ben", time.monotonic).result(10) - began < 1
    first.let("a1")


def test_a_lane_that_always_comes_after_others_sets_no_more_alarms_than_it_waits_for(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("defray.service.lanes.AFTER_SECONDS", 0.2)
    monkeypatch.setattr("defray.service.lanes.ALARM", alarm := Alarm())
    first = Bench(1, patience=60)
    after = Lane("after", 4, 0.3, after=(first.lane,))
    first.submit("ana", "a1")
    assert first.seen["a1"].wait(10)
    waits = [after.submit(f"p{n % 5}", lambda: time.sleep(0.01)) for n in range(100)]
    for n in range(40):
        time.sleep(0.05)
        waits.append(after.submit(f"p{n % 5}", lambda: time.sleep(0.01)))
    assert len(alarm._coming) <= 8  # those of the patience that is over since; none sets another
    first.let("a1")
    assert all(done.result(30) is None for done in waits)


@given(
    st.integers(1, 4), st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), max_size=40)
)
def test_all_work_is_done_once_with_its_own_result(threads: int, asked: list[tuple[str, int]]):
    lane = Lane("test", threads)
    futures = [lane.submit(who, lambda n=n: n * n) for who, n in asked]
    assert [future.result(10) for future in futures] == [n * n for _, n in asked]
