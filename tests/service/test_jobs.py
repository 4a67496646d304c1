"""Asks that nobody waits for: states, progress, cancelling, bounds."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from defray.errors import InternalError, NotFound, Throttled
from defray.service.jobs import Job, Jobs, Known, Lanes
from defray.service.lanes import Lane
from defray.service.limits import Limits
from tests.service.conftest import COUNT, House
from tests.tables import open_session, write_contract, write_people

ASYNC = {"Prefer": "respond-async"}


def test_a_job_ends_with_the_answer(slow_house: House):
    later = slow_house.ask("ana", **ASYNC)
    assert later.status_code == 202
    assert later.headers["preference-applied"] == "respond-async"
    location = later.headers["location"]
    assert location == f"/v1/jobs/{later.json()['id']}"
    running = slow_house.client.get(location, headers=slow_house.headers("ana")).json()
    assert running == {"id": later.json()["id"], "state": "running", "progress": 0.0}
    done = slow_house.followed("ana", location)
    assert (done["state"], done["progress"]) == ("done", 1.0)
    assert done["answer"] == {**slow_house.ask("ana").json(), **_of_paying(done["answer"])}


def _of_paying(answer: dict[str, Any]) -> dict[str, Any]:
    """What differs between an answer and its free repeat."""
    names = ("rows", "charged_rho", "reused_rho", "items", "remaining_rho", "notes")
    return {name: answer[name] for name in names}


@pytest.mark.parametrize("prefer", ["respond-async, wait=10", "wait=10, Respond-Async; x=1"])
def test_preferences_in_all_their_spellings(house: House, prefer: str):
    assert house.ask("ana", Prefer=prefer).status_code == 202


def test_other_preferences_change_nothing(house: House):
    assert house.ask("ana", Prefer="return=minimal").status_code == 200


def test_a_job_that_fails_says_why(house: House):
    later = house.ask("ana", within=1e-6, **ASYNC, **{"X-Request-Id": "mine"})
    job = house.followed("ana", later.headers["location"])
    assert job["state"] == "failed"
    assert (job["problem"]["status"], job["problem"]["code"]) == (409, "budget-exceeded")
    assert job["problem"]["request_id"] == "mine"


def test_a_running_job_is_cancelled_at_no_cost(slow_house: House):
    location = slow_house.ask("ana", **ASYNC).headers["location"]
    got = slow_house.client.delete(location, headers=slow_house.headers("ana"))
    assert (got.status_code, got.json()["state"]) == (200, "running")
    job = slow_house.followed("ana", location)
    assert (job["state"], job["problem"]["code"]) == ("cancelled", "cancelled")
    assert slow_house.get("ana", "/balance").json()["spent_rho"] == 0
    again = slow_house.client.delete(location, headers=slow_house.headers("ana"))
    assert again.json()["state"] == "cancelled"


def test_cancelling_what_is_done_changes_nothing(house: House):
    location = house.ask("ana", **ASYNC).headers["location"]
    done = house.followed("ana", location)
    assert house.client.delete(location, headers=house.headers("ana")).json() == done


def test_a_timeout_cancels(tmp_path: Path):
    write_people(tmp_path, 2_000)
    with open_session(write_contract(tmp_path)) as session:
        house = House(session)
        with house.client:
            body = {"sql": COUNT, "within": 50, "timeout": 1e-9}
            got = house.send("ana", "POST", "/ask", body)
    assert (got.status_code, got.json()["code"]) == (409, "cancelled")
    assert "timeout" in got.json()["detail"]


def test_scans_of_several_analysts_run_beside_each_other(slow_house: House):
    asked = {"ana": COUNT, "ben": COUNT + " WHERE age > 1"}
    places = {
        who: slow_house.ask(who, sql, **ASYNC).headers["location"] for who, sql in asked.items()
    }
    assert slow_house.get("cat", "/metrics").text.count("defray_asks_running 2.0") == 1
    ends = [slow_house.followed(who, place)["state"] for who, place in places.items()]
    assert ends == ["done", "done"]


def test_too_many_at_once_are_told_to_wait(slow_house: House):
    locations = [slow_house.ask("ana", COUNT + f" WHERE age > {i}", **ASYNC) for i in range(3)]
    assert [got.status_code for got in locations] == [202, 202, 429]
    assert int(locations[2].headers["retry-after"]) >= 1
    assert slow_house.ask("ben", **ASYNC).status_code == 202


# -- the registry alone ------------------------------------------------------------------------------


class Bench:
    """Jobs with a clock of the test's own; ``wait`` is work that lasts until it is let go or stopped."""

    def __init__(self, answered: Any = (), **limits: Any) -> None:
        self.now, self.go, self.ended = 0.0, Event(), list[Job]()
        held = Limits(**limits)
        lanes = Lanes(Lane("look", held.looks), Lane("ask", held.scans))
        self.jobs = Jobs(held, self.ended.append, lanes, lambda: self.now, answered)

    def start(
        self, who: str = "ana", work: Any = None, look: Any = None, note: Any = None, **more: Any
    ) -> Job:
        unknown = lambda: None  # noqa: E731
        known = Known(look or unknown, note or unknown)
        given = {"known": known, "request_id": "r", "digest": "d", "kept": True, **more}
        return self.jobs.start(who, work or self.wait, **given)

    def wait(self, job: Job) -> dict[str, Any]:
        while not self.go.wait(0.01):
            if job.stop.is_set():
                break
            job.advance(0.5)
        return {"stopped": job.stop.is_set()}


def test_progress_only_grows_and_ends_at_one():
    bench = Bench()
    job = bench.start()
    while job.progress == 0:
        time.sleep(0.001)
    job.advance(0.2)
    assert job.progress == 0.5
    bench.go.set()
    job.future.result()
    assert (job.state, job.progress, bench.ended) == ("done", 1.0, [job])
    bench.jobs.close(1)


def test_jobs_are_forgotten_after_their_time_and_beyond_their_number():
    bench = Bench(jobs_kept=2, job_seconds=100)
    bench.go.set()
    first, second = bench.start(), bench.start()
    for job in (first, second):
        job.future.result()
    third = bench.start()
    third.future.result()
    with pytest.raises(NotFound):
        bench.jobs.find("ana", first.id)
    assert bench.jobs.find("ana", second.id) is second
    bench.now = 101
    with pytest.raises(NotFound):
        bench.jobs.find("ana", third.id)
    bench.jobs.close(1)


def test_what_is_known_does_not_wait_for_what_is_bought():
    bench = Bench(scans=1)
    bought = bench.start()
    known = bench.start(note=lambda: {"known": True})
    known.future.result()
    assert (known.state, known.answer, bought.state) == ("done", {"known": True}, "running")
    bench.go.set()
    bought.future.result()
    assert bought.answer == {"stopped": False}
    bench.jobs.close(1)


def test_what_was_told_before_is_looked_at_first_or_noted_and_all_else_is_not():
    bench, looked = Bench(), list[str]()

    def looking(name: str) -> Callable[[], dict[str, Any] | None]:
        return lambda: looked.append(name)

    bench.go.set()
    for who, digest in [("ana", "d"), ("ana", "d"), ("ben", "d"), ("ana", "e"), ("ben", "d")]:
        look, note = (looking(f"{how} {who} {digest}") for how in ("look", "note"))
        bench.start(who, look=look, note=note, digest=digest).future.result()
    assert looked == ["look ana d", "note ben d", "look ben d"]
    assert [job.answer for job in bench.ended] == [{"stopped": False}] * 5
    bench.jobs.close(1)


def test_notes_that_stand_still_leave_a_thread_to_looks():
    bench, ledger = Bench([("ana", "d")], looks=3), Event()

    def note() -> dict[str, Any]:
        assert ledger.wait(10)
        return {"noted": True}

    held = [bench.start(who, note=note, digest="d") for who in ("ben", "cem", "dan", "eve")]
    looked = bench.start("ana", look=lambda: {"known": True}, digest="d")
    looked.future.result(10)
    assert looked.answer == {"known": True}
    assert [job.state for job in held] == ["running"] * 4
    ledger.set()
    for job in held:
        job.future.result(10)
        assert job.answer == {"noted": True}
    bench.jobs.close(1)


def test_what_was_told_before_the_service_began_is_known_as_well():
    bench, looked = Bench([("ana", "d"), ("ana", "e")]), list[str]()
    bench.go.set()
    for who, digest in [("ana", "d"), ("ben", "e"), ("ben", "f")]:
        look, note = (lambda how=how: looked.append(how) for how in ("look", "note"))
        bench.start(who, look=look, note=note, digest=digest).future.result()
    assert looked == ["look", "note"]
    bench.jobs.close(1)


def test_what_cannot_be_known_is_done_each_time_and_tells_nothing():
    bench, looked = Bench(), list[str]()
    bench.go.set()
    for known in (None, None, Known(lambda: looked.append("look"), lambda: looked.append("note"))):
        bench.start(known=known).future.result()
    assert not looked
    bench.jobs.close(1)


def test_what_waits_for_long_and_is_not_known_is_bought_in_its_turn():
    bench, looked = Bench(scans=1), Event()
    first, second = bench.start(), bench.start(note=looked.set)
    assert looked.wait(10)
    assert (first.state, second.state) == ("running", "running")
    bench.go.set()
    second.future.result()
    assert (first.answer, second.answer) == ({"stopped": False},) * 2
    bench.jobs.close(1)


def test_what_is_wrong_is_told_by_the_first_look():
    def wrong() -> None:
        raise NotFound("no such thing", hint="look elsewhere")

    bench = Bench(scans=1)
    held = bench.start()
    job = bench.start(note=wrong)
    job.future.result()
    assert (job.state, held.state) == ("failed", "running")
    with pytest.raises(NotFound):
        job.outcome()
    bench.go.set()
    bench.jobs.close(1)


def test_closing_lets_what_runs_end_and_then_cancels():
    bench = Bench()
    job = bench.start()
    bench.jobs.close(0.05)
    assert job.answer == {"stopped": True}
    with pytest.raises(Throttled):
        bench.start()


def test_one_who_waits_no_more_does_not_end_it_for_others():
    bench = Bench()
    job = bench.start()
    assert not job.future.cancel()
    bench.go.set()
    job.future.result()
    assert job.state == "done"
    bench.jobs.close(1)


def test_a_job_that_waits_for_a_thread_is_cancelled_before_it_begins():
    bench = Bench(scans=1)
    first, second = bench.start(), bench.start()
    bench.jobs.cancel("ana", second.id)
    bench.go.set()
    first.future.result()
    second.future.result()
    assert (first.state, second.state) == ("done", "cancelled")
    bench.jobs.close(1)


def test_a_job_ends_whatever_its_work_raises():
    def wrong(*_: Job) -> None:
        raise KeyboardInterrupt

    bench = Bench()
    bench.go.set()
    bench.start().future.result(10)
    for job in (bench.start(look=wrong), bench.start(digest="e", work=wrong)):
        job.future.result(10)
        assert job.state == "failed"
        with pytest.raises(InternalError):
            job.outcome()
    bench.jobs.close(1)
