"""Calls come when they are due, in their order, whatever others of them do."""

from __future__ import annotations

import logging
import time
from threading import Event

import pytest

from defray.service.alarm import Alarm


def test_calls_are_made_in_the_order_of_their_times():
    alarm, over, made = Alarm(), Event(), list[str]()
    alarm.after(0.3, over.set)
    alarm.after(0.2, lambda: made.append("late"))
    alarm.after(0.05, lambda: made.append("early"))
    alarm.after(0.05, lambda: made.append("next"))
    assert over.wait(10) and made == ["early", "next", "late"]


def test_one_that_is_due_sooner_than_what_is_waited_for_is_not_late():
    alarm, soon = Alarm(), Event()
    alarm.after(60, lambda: None)
    time.sleep(0.05)  # until it waits for that
    began = time.monotonic()
    alarm.after(0.1, soon.set)
    assert soon.wait(10) and 0.09 < time.monotonic() - began < 10


def test_a_call_that_fails_is_logged_and_the_next_is_made(caplog: pytest.LogCaptureFixture):
    alarm, after = Alarm(), Event()

    def fail() -> None:
        raise ValueError("private")

    alarm.after(0, fail)
    alarm.after(0.05, after.set)
    assert after.wait(10)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR and "private" not in record.getMessage()
    assert "ValueError" in record.getMessage()


def test_where_no_thread_could_begin_the_next_call_begins_one(monkeypatch: pytest.MonkeyPatch):
    alarm, made = Alarm(), Event()
    with monkeypatch.context() as full:
        full.setattr("threading._start_new_thread", refuse)
        full.setattr("threading._start_joinable_thread", refuse, raising=False)
        with pytest.raises(RuntimeError):
            alarm.after(0, lambda: None)
    alarm.after(0, made.set)
    assert made.wait(10)


def refuse(*_: object, **__: object) -> None:
    raise RuntimeError("can't start new thread")
