"""Counts and times in the text form of Prometheus; no label names a principal or a question."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from threading import Lock
from typing import Final

from defray.service.logs import event

BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper ends of the buckets of durations, in seconds."""

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._buckets: dict[str, list[int]] = defaultdict(lambda: [0] * (len(BOUNDS) + 1))
        self._seconds: dict[str, float] = defaultdict(float)
        self._asks: Counter[str] = Counter()

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        with self._lock:
            self._requests[method, route, status] += 1
            self._buckets[route][bisect_left(BOUNDS, seconds)] += 1
            self._seconds[route] += seconds

    def ask(self, outcome: str) -> None:
        """An ask ended: ``paid``, ``free``, or the code of its error."""
        with self._lock:
            self._asks[outcome] += 1

    def text(self, gauges: Mapping[str, float]) -> str:
        """Everything so far, with gauges read now (their names without the prefix ``defray_``)."""
        with self._lock:
            return "\n".join([*self._lines(), *_gauges(gauges), ""])

    def _lines(self) -> Iterator[str]:
        yield from _head("requests_total", "counter", "Requests by method, route and status.")
        for (method, route, status), n in sorted(self._requests.items()):
            labels = f'method="{method}",route="{route}",status="{status}"'
            yield f"defray_requests_total{{{labels}}} {n}"
        yield from _head("request_seconds", "histogram", "How long requests took, by route.")
        for route, counts in sorted(self._buckets.items()):
            so_far = 0
            for bound, n in zip((*(f"{b:g}" for b in BOUNDS), "+Inf"), counts, strict=True):
                so_far += n
                yield f'defray_request_seconds_bucket{{route="{route}",le="{bound}"}} {so_far}'
            yield f'defray_request_seconds_sum{{route="{route}"}} {self._seconds[route]:.6f}'
            yield f'defray_request_seconds_count{{route="{route}"}} {so_far}'
        yield from _head("asks_total", "counter", "Asks by outcome: paid, free or an error's code.")
        for outcome, n in sorted(self._asks.items()):
            yield f'defray_asks_total{{outcome="{outcome}"}} {n}'


def told(metrics: Metrics, outcome: str, principal: str, request_id: str) -> None:
    """Log and count an ask that has ended."""
    event("ask", outcome=outcome, principal=principal, request_id=request_id)
    metrics.ask(outcome)


def _gauges(gauges: Mapping[str, float]) -> Iterator[str]:
    for name, value in gauges.items():
        yield f"# TYPE defray_{name} gauge"
        yield f"defray_{name} {value!r}"


def _head(name: str, kind: str, what: str) -> tuple[str, str]:
    return f"# HELP defray_{name} {what}", f"# TYPE defray_{name} {kind}"
