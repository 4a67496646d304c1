"""Threads that several share fairly: whoever has least at work is next, and nobody holds all of them."""

from __future__ import annotations

import heapq
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from threading import Lock
from typing import Any, NamedTuple, TypeVar

from defray.service.alarm import Alarm

R = TypeVar("R")


STILL_SECONDS = 0.5
"""For which a lane has let nothing begin when it stands still for what waits."""

AFTER_SECONDS = 2.0
"""For which work waits after that of other lanes, at most."""

AGAIN_SECONDS = 0.1
"""After which it is looked again whether that is long work by now."""


ALARM = Alarm()
"""Of all lanes."""


class Waiting(NamedTuple):
    """A piece of work that waits for its turn, ``since`` when."""

    future: Future[Any]
    work: Callable[[], Any]
    meanwhile: Callable[[], object] | None
    since: float


class Turn(NamedTuple):
    """A piece of work that a thread is free for; ``number`` counts them."""

    number: int
    name: str
    future: Future[Any]
    work: Callable[[], Any]


class Lane:
    """So many threads for the work of all principals.

    Next is whose work is least at work, then who has waited longest for a turn.  One principal's work leaves
    a thread to the others, where there are several.  With ``patience``, only so many go ``abreast`` until
    they have been at work for so many seconds: short work that computes is done soonest a processor each, and
    nothing waits for long work.  It begins ``after`` the short work of other lanes: when none is left there,
    or for :data:`AFTER_SECONDS` there always was some.
    """

    def __init__(
        self,
        name: str,
        threads: int,
        patience: float = 0.0,
        *,
        abreast: int = 1,
        after: Sequence[Lane] = (),
    ) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=f"defray-{name}")
        self._free, self._most = threads, max(threads - 1, 1)
        self._lock = Lock()
        self._waiting: dict[str, deque[Waiting]] = {}
        self._working: Counter[str] = Counter()
        self._turns: dict[str, int] = {}
        self._count = count(1)
        self._patience, self._abreast = patience, abreast
        self._since: dict[int, float] = {}
        self._wakes = math.inf
        self._watching = False
        self._after, self._left = after, list[Callable[[], None]]()
        for lane in after:
            lane._left.append(self._look)

    def submit(
        self,
        principal: str,
        work: Callable[[], R],
        *,
        meanwhile: Callable[[], object] | None = None,
    ) -> Future[R]:
        """What work returns, or raises, once it had its turn.  Where long work keeps it waiting, it gives its
        turn up (its future is cancelled) and ``meanwhile`` is called."""
        future: Future[R] = Future()
        with self._lock:
            waiting = Waiting(future, work, meanwhile, time.monotonic())
            self._waiting.setdefault(principal, deque()).append(waiting)
            self._begin()
            if self._waiting and meanwhile is not None and not self._watching:
                self._watching = True
                self._watch()
        return future

    def _watch(self) -> None:
        """Look, after a while, whether what waits comes nearer to its turn; the lock is held."""
        begun = dict(self._turns)
        ALARM.after(STILL_SECONDS, lambda: self._give_up(begun))

    def _give_up(self, begun: dict[str, int]) -> None:
        """Have those give up their turns for whom nothing ``begun`` since then."""
        given_up: list[Waiting] = []
        with self._lock:
            still = not self._free and begun == self._turns  # else it comes after other work
            for name in [*self._waiting]:
                held = self._working[name] >= self._most and begun.get(name) == self._turns[name]
                if still or held:
                    queue = self._waiting.pop(name)
                    gone = [w for w in queue if w.meanwhile is not None and w.future.cancel()]
                    given_up += gone
                    if left := deque(w for w in queue if w not in gone):
                        self._waiting[name] = left
            self._watching = any(w.meanwhile for queue in self._waiting.values() for w in queue)
            if self._watching:
                self._watch()
        for one in given_up:
            assert one.meanwhile is not None
            one.meanwhile()

    def _begin(self) -> None:
        """Begin what there are threads for; the lock is held."""
        while (turn := self._take()) is not None:
            self._pool.submit(self._run, turn)

    def _take(self) -> Turn | None:
        """What a thread is to do next, where one is free; the lock is held."""
        while self._free and (name := self._next()) is not None and not self._early():
            queue = self._waiting[name]
            future, work, *_ = queue.popleft()
            if not queue:
                del self._waiting[name]
            if future.set_running_or_notify_cancel():
                self._free -= 1
                self._working[name] += 1
                self._turns[name] = number = next(self._count)
                self._since[number] = time.monotonic()
                return Turn(number, name, future, work)
        return None

    def _early(self) -> bool:
        """Whether nothing may begin as yet; it is looked again when it may."""
        now, until = time.monotonic(), -math.inf
        youngest = heapq.nlargest(self._abreast, self._since.values())
        if len(youngest) == self._abreast:
            until = youngest[-1] + self._patience
        if any(lane.busy for lane in self._after):
            oldest = min(queue[0].since for queue in self._waiting.values())
            until = max(until, min(oldest + AFTER_SECONDS, now + AGAIN_SECONDS))
        if now < until < self._wakes:
            self._wakes = until
            ALARM.after(until - now, lambda: self._wake(until))
        return now < until

    @property
    def busy(self) -> bool:
        """Whether something is at work that may be short."""
        with self._lock:
            return self._busy()

    def _busy(self) -> bool:
        """The same; the lock is held."""
        long = time.monotonic() - self._patience
        return any(since > long for since in self._since.values())

    def _wake(self, at: float) -> None:
        """Look again, unless it is looked sooner: the alarms of one lane are no more than it waits for."""
        with self._lock:
            if at == self._wakes:
                self._wakes = math.inf
                self._begin()

    def _look(self) -> None:
        with self._lock:
            self._begin()

    def _next(self) -> str | None:
        """Whose turn it is."""
        ready = [name for name in self._waiting if self._working[name] < self._most]
        return min(ready, key=lambda n: (self._working[n], self._turns.get(n, 0)), default=None)

    def _run(self, turn: Turn | None) -> None:
        """A turn, and those that come after it: most are done sooner than handed to another thread."""
        while turn is not None:
            try:
                turn.future.set_result(turn.work())
            except BaseException as raised:  # whoever waits for it raises it
                turn.future.set_exception(raised)
            with self._lock:
                self._free += 1
                del self._since[turn.number]
                self._working[turn.name] -= 1
                if not self._working[turn.name]:
                    del self._working[turn.name]
                turn = self._take()
                self._begin()
                busy = self._busy()
            if not busy:
                for left in self._left:
                    left()
