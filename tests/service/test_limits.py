"""Sizes, rates and ids."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from defray.errors import Throttled
from defray.service.limits import AtOnce, Buckets, Limits
from tests.service.conftest import COUNT, House
from tests.tables import people

JSON = {"content-type": "application/json"}


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_lets_a_burst_through_and_then_its_rate():
    clock = Clock()
    buckets = Buckets(2.0, 3, clock)
    for _ in range(3):
        buckets.take("ana")
    with pytest.raises(Throttled) as caught:
        buckets.take("ana")
    assert caught.value.context["retry_after"] == 1
    buckets.take("ben")  # each has a bucket of their own
    clock.now = 0.5
    buckets.take("ana")
    with pytest.raises(Throttled):
        buckets.take("ana")
    clock.now = 1e9
    for _ in range(3):
        buckets.take("ana")
    with pytest.raises(Throttled):
        buckets.take("ana")


def test_a_slow_rate_says_how_long_to_wait():
    buckets = Buckets(0.01, 1, Clock())
    buckets.take("ana")
    with pytest.raises(Throttled) as caught:
        buckets.take("ana")
    assert caught.value.context["retry_after"] == 100


def test_asks_and_reads_are_limited_apart_with_retry_after(tmp_path: Path):
    limits = Limits(asks_per_second=0.01, asks_burst=2, reads_per_second=0.01, reads_burst=3)
    with people(tmp_path, rows=100) as session:
        house = House(session, limits)
        with house.client:
            asks = [house.ask("ana") for _ in range(3)]
            assert [got.status_code for got in asks] == [200, 200, 429]
            assert 1 <= int(asks[2].headers["retry-after"]) <= 100
            assert asks[2].json()["code"] == "throttled"
            reads = [house.get("ana", "/contract").status_code for _ in range(4)]
            assert reads == [200, 200, 200, 429]
            assert house.ask("ben").status_code == 200
            assert house.get("ben", "/contract").status_code == 200


def test_requests_at_work_are_bounded_for_each_name():
    reading = AtOnce(2)
    for _ in range(2):  # and no more are counted as at work than are
        with ExitStack() as held:
            for name in ("ana", "ana", "ben"):
                held.enter_context(reading.one_of(name))
            with pytest.raises(Throttled):
                held.enter_context(reading.one_of("ana"))


def test_a_body_is_bounded_declared_or_not(calm: House):
    most = calm.limits.body_bytes
    headers = calm.headers("ana", **JSON)
    text = b'{"sql": "' + b"x" * most + b'"}'

    def parts() -> Iterator[bytes]:
        for start in range(0, len(text), 50_000):
            yield text[start : start + 50_000]

    for content in (text, parts()):
        got = calm.client.post("/v1/ask", content=content, headers=headers)
        assert (got.status_code, got.json()["code"]) == (413, "body-too-large")
        assert got.headers["content-type"] == "application/problem+json"
    declared = {**headers, "content-length": "9" * 30}
    assert calm.client.post("/v1/ask", content=b"{}", headers=declared).status_code == 413


def test_sql_is_bounded_by_the_library(calm: House):
    got = calm.ask("ana", COUNT + " " * 70_000)
    assert (got.status_code, got.json()["code"]) == (422, "query-refused")


def test_lists_are_bounded(calm: House):
    many = [COUNT] * (calm.limits.questions + 1)
    for path, body in (
        ("/quotes", {"questions": many, "within": 50}),
        ("/ask", {"sql": COUNT, "within": 50, "among": many}),
        ("/quote", {"sql": COUNT, "within": 50, "among": many}),
    ):
        got = calm.send("ana", "POST", path, body)
        assert (got.status_code, got.json()["code"]) == (422, "bad-input")


@pytest.mark.parametrize("sane", ["a", "req-1.2_3", "x" * 64])
def test_a_sane_request_id_is_taken_over(calm: House, sane: str):
    got = calm.client.get("/v1/health", headers={"X-Request-Id": sane})
    assert got.headers["x-request-id"] == sane


@pytest.mark.parametrize("odd", ["", "x" * 65, "a b", 'a"b', "{}", "a;b"])
def test_another_one_is_replaced(calm: House, odd: str):
    first, second = (
        calm.client.get("/v1/health", headers={"X-Request-Id": odd}).headers["x-request-id"]
        for _ in range(2)
    )
    assert odd not in (first, second)
    assert first != second
    assert len(first) == 16


def test_a_timeout_is_cut_to_the_longest(slow_house: House):
    seen: list[Any] = []
    source = slow_house.session._engine._source
    scan = source.scan

    def watched(what: Any, control: Any = None) -> Any:
        seen.append(control.timeout)
        return scan(what, control)

    source.scan = watched  # type: ignore[method-assign]
    for i, timeout in enumerate((None, 5, 1e6)):
        body = {"sql": f"{COUNT} WHERE age = {i}", "within": 50, "timeout": timeout}
        assert slow_house.send("ana", "POST", "/ask", body).status_code == 200
    assert seen == [600, 5, 600]
