"""Asks at work: every ask is a job, whether its caller waits or asks later.

What its principal was told before is most likely known: one lane looks, which takes little.  What others were
told before is most likely free as well, once it is noted in who asks, which the same lane does.  What must be
bought waits in another; what nobody was told before goes there at once, and is looked at only where that
stands still.
What was paid for is durable before a job knows of it, so a job that is lost with its process loses nothing:
asked again, the question is free.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import Any, Literal, NamedTuple

from defray.errors import BadInput, Cancelled, DefrayError, NotFound, Throttled
from defray.service.lanes import Lane
from defray.service.limits import Limits
from defray.session import incident_of

State = Literal["running", "done", "failed", "cancelled"]

Look = Callable[[], dict[str, Any] | None]
"""The answer's document, where it is known; it may raise."""

Work = Callable[["Job"], dict[str, Any]]
"""What a job does otherwise: it returns the answer's document or raises."""

BUSY_SECONDS = 2

REMEMBERED = 1 << 14
"""So many answered requests are told from new ones."""


class Known(NamedTuple):
    """What answers an ask without buying: ``look`` writes nothing, ``note`` what is new to who asks."""

    look: Look
    note: Look


class Lanes(NamedTuple):
    """Where asks wait for their turn: to be looked at or noted, and to be bought."""

    looks: Lane
    scans: Lane


NOTING = ""
"""In whose name asks are noted, which may wait for the ledger: together they leave a thread to looks, as one
principal does."""


@dataclass(eq=False)
class Job:
    """One ask of one principal.  ``digest`` is of its request, ``request_id`` of the one that began it; it
    ``lasts`` where what is answered is known from then on."""

    id: str
    principal: str
    request_id: str
    key: str | None
    digest: str
    kept: bool
    made: float
    lasts: bool
    state: State = "running"
    progress: float = 0.0
    answer: dict[str, Any] | None = None
    error: DefrayError | None = None
    stop: Event = field(default_factory=Event)
    future: Future[None] = field(default_factory=Future)

    def __post_init__(self) -> None:
        self.future.set_running_or_notify_cancel()  # one who waits no more does not end it for others

    def advance(self, fraction: float) -> None:
        self.progress = max(self.progress, min(fraction, 1.0))

    def outcome(self) -> dict[str, Any]:
        """The answer of a job that has ended.  Raises its error."""
        if self.error is not None:
            raise self.error
        assert self.answer is not None
        return self.answer


class Jobs:
    """The jobs of all principals.  ``ended`` is told of each that ends; ``answered`` are those who were told
    something before, each with the digest of the request, the oldest first."""

    def __init__(
        self,
        limits: Limits,
        ended: Callable[[Job], None],
        lanes: Lanes,
        clock: Callable[[], float] = time.monotonic,
        answered: Iterable[tuple[str, str]] = (),
    ) -> None:
        self._limits, self._ended, self._clock = limits, ended, clock
        self._lanes = lanes
        self._lock = Lock()
        self._jobs: dict[str, Job] = {}
        self._answered: dict[str, set[str]] = {}  # who was told, by digest, the oldest first
        self._closing = False
        for principal, digest in answered:
            self._remember(principal, digest)

    def start(
        self,
        principal: str,
        work: Work,
        known: Known | None,
        *,
        request_id: str,
        digest: str,
        key: str | None = None,
        kept: bool = False,
    ) -> Job:
        """Begin an ask, or join the one that runs under the same idempotency key.  Where it cannot be
        ``known``, or is not, ``work`` is done.

        Raises BadInput where that one is another request, Throttled where the principal has too many at
        work.  A ``kept`` job can be found after it has ended.
        """
        with self._lock:
            self._forget()
            mine = [job for job in self._jobs.values() if job.principal == principal]
            running = [job for job in mine if job.state == "running"]
            same = next((job for job in running if key is not None and job.key == key), None)
            if same is not None:
                if same.digest != digest:
                    raise reused()
                same.kept = same.kept or kept
                return same
            if self._closing:
                raise _busy("the service is about to stop", self._limits.grace_seconds)
            if len(running) >= self._limits.asks_at_once:
                raise _busy(f"{len(running)} of your asks are at work already", BUSY_SECONDS)
            ended = [job for job in mine if job.state != "running"]
            for job in ended[: max(len(mine) + 1 - self._limits.jobs_kept, 0)]:
                del self._jobs[job.id]
            id, made, lasts = secrets.token_hex(12), self._clock(), known is not None
            job = Job(id, principal, request_id, key, digest, kept, made, lasts)
            self._jobs[job.id] = job
            told = self._answered.get(digest, ())
        self._begin(job, work, known, told)
        return job

    def _begin(self, job: Job, work: Work, known: Known | None, told: Collection[str]) -> None:
        """Let a job wait where its answer most likely is; ``told`` are those who were told the same."""
        noted: Callable[[], object] | None = None
        if known is not None:
            look, note = known

            def noted() -> None:
                self._lanes.looks.submit(NOTING, lambda: self._look(job, note, work))

            if job.principal in told:
                self._lanes.looks.submit(job.principal, lambda: self._look(job, look, work))
                return
            if told:
                noted()
                return
        self._lanes.scans.submit(job.principal, lambda: self._work(job, work), meanwhile=noted)

    def _look(self, job: Job, look: Look, work: Work) -> None:
        """Answer what is known; hand on what has to be bought."""
        self._do(job, look)
        if job.answer is None and job.error is None:
            self._lanes.scans.submit(job.principal, lambda: self._work(job, work))
        else:
            self._end(job)

    def _work(self, job: Job, work: Work) -> None:
        self._do(job, lambda: work(job))
        self._end(job)

    def _do(self, job: Job, part: Look) -> None:
        try:
            if job.stop.is_set():
                raise Cancelled("the ask was cancelled", hint="nothing was spent")
            job.answer = part()
        except DefrayError as error:
            job.error = error
        except BaseException as fault:  # of whatever kind: nobody but the job can tell who waits
            job.error = incident_of(fault)

    def _end(self, job: Job) -> None:
        try:
            self._settle(job)
            self._ended(job)
        finally:
            job.future.set_result(None)  # whoever waits goes on, whatever happened

    def _settle(self, job: Job) -> None:
        with self._lock:
            match job.error:
                case None:
                    job.state, job.progress = "done", 1.0
                    if job.lasts:
                        self._remember(job.principal, job.digest)
                case Cancelled():
                    job.state = "cancelled"
                case _:
                    job.state = "failed"
            if not job.kept:
                self._jobs.pop(job.id, None)

    def _remember(self, principal: str, digest: str) -> None:
        """That this was answered; the lock is held."""
        self._answered.setdefault(digest, set()).add(principal)
        if len(self._answered) > REMEMBERED:
            del self._answered[next(iter(self._answered))]

    def find(self, principal: str, id: str) -> Job:
        """A job of this principal.  Raises NotFound, also for one of another's."""
        with self._lock:
            self._forget()
            job = self._jobs.get(id)
        if job is None or job.principal != principal or not job.kept:
            raise NotFound(
                "there is no job of that id",
                hint="jobs are forgotten after a while; ask again, what was paid for is free",
            )
        return job

    def cancel(self, principal: str, id: str) -> Job:
        """Ask a job to stop; one whose answer is being written ends with that answer."""
        job = self.find(principal, id)
        job.stop.set()
        return job

    def at_work(self, principal: str, key: str) -> bool:
        """Whether an ask of this principal is at work under that key."""
        with self._lock:
            return any(
                job.key == key and job.principal == principal and job.state == "running"
                for job in self._jobs.values()
            )

    def running(self) -> int:
        with self._lock:
            return sum(job.state == "running" for job in self._jobs.values())

    def stop_all(self) -> None:
        """Begin no more, and ask all that run to stop."""
        with self._lock:
            self._closing = True
            for job in self._jobs.values():
                job.stop.set()

    def close(self, seconds: float) -> None:
        """Begin no more; what still runs after so many seconds is cancelled.  Returns when all have ended."""
        with self._lock:
            self._closing = True
            futures = [job.future for job in self._jobs.values()]
        wait(futures, timeout=seconds)
        self.stop_all()
        wait(futures)

    def _forget(self) -> None:
        """Drop what ended too long ago; the lock is held."""
        before = self._clock() - self._limits.job_seconds
        for job in [*self._jobs.values()]:
            if job.state != "running" and job.made < before:
                del self._jobs[job.id]


def reused() -> BadInput:
    return BadInput(
        "this Idempotency-Key was used for another request",
        hint="a new request needs a new key; nothing was charged",
    )


def _busy(why: str, seconds: float) -> Throttled:
    return Throttled(why, hint="wait and send it again", retry_after=max(int(seconds), 1))
