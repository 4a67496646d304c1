"""A sequence of questions as it goes: what is decided, drawn and answered, and how long it takes."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from defray.noise.opendp_sampler import OpenDPSampler
from defray.support.view.answer import settled
from defray.support.view.certificate import Certificate
from defray.support.view.lattice import Rounded
from defray.support.view.metric import Metric
from defray.support.view.offer import Free, Offer, offer
from defray.support.view.promise import Promise
from defray.support.view.state import SLACK, Row, State

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """A count ``q . x`` over the cells of a view, at a target variance.  An answer breaks the target where
    it is off by more than ``bound``."""

    view: str
    q: Floats
    variance: float
    bound: float


class Gate(Protocol):
    """Says which of the questions that fit are bought."""

    def arrives(self, ask: Ask) -> None:
        """Every ask, before it is decided."""

    def grants(self, more: float, left: float) -> bool:
        """Whether the ask that arrived last may use ``more`` of the precision that is ``left``."""


class Open:
    """Whatever fits is bought."""

    def arrives(self, ask: Ask) -> None:
        pass

    def grants(self, more: float, left: float) -> bool:
        return True


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """Its metric; its true counts, where errors are to be measured; the class that was promised, if any."""

    metric: Metric
    truth: Floats | None = None
    promise: Promise | None = None


@dataclass(eq=False)
class Course:
    """What became of every ask.  ``over`` counts the answers, over all seeds, that are off by more than the
    bound; ``squares`` holds for every answered ask the mean squared error over seeds, in units of the
    target variance; ``claims`` the variance that the certificate claims, in the same units."""

    seeds: int
    states: dict[str, State] = field(default_factory=dict)
    asked: int = 0
    free: int = 0
    releases: int = 0
    over: int = 0
    squares: list[float] = field(default_factory=list)
    claims: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    answered_at: list[int] = field(default_factory=list)

    @property
    def answered(self) -> int:
        return len(self.claims)

    @property
    def charge(self) -> float:
        """The largest charge of a cell, in precision (twice its rho), added over views."""
        return sum(float(s.charges.max()) for s in self.states.values())

    @property
    def rho(self) -> float:
        return self.charge / 2

    @property
    def broken(self) -> float | None:
        """The share of answers, over all seeds, that break the target; None where nothing was measured."""
        measured = len(self.squares) * self.seeds
        return self.over / measured if measured else None

    @property
    def square(self) -> float | None:
        """The mean over all answers of what ``squares`` holds."""
        return math.fsum(self.squares) / len(self.squares) if self.squares else None

    @property
    def claimed(self) -> float | None:
        """The largest of the ``claims``."""
        return max(self.claims, default=None)

    def milliseconds(self, part: float) -> float:
        return 1e3 * float(np.quantile(self.seconds, part)) if self.seconds else 0.0

    @property
    def mean_milliseconds(self) -> float:
        return 1e3 * math.fsum(self.seconds) / max(1, len(self.seconds))


def play(
    asks: Iterable[Ask],
    views: Mapping[str, View],
    n_max: float,
    *,
    cap: float = math.inf,
    gate: Gate | None = None,
    level: bool | None = None,
    seeds: int = 0,
) -> Course:
    """Every ask in order: decide, fold the release in, answer from the state; refusals cost nothing.

    ``cap`` bounds what any row pays in all views together, in precision; a ``gate`` may refuse what fits.
    What is measured never depends on noise, so one course serves all seeds: each release is drawn
    ``seeds`` times, each answer combined from its certificate as often.  Seconds are the processor's;
    drawing and comparing are not in them.
    """
    out, gate = Course(seeds), gate or Open()
    heard = {name: Heard(view.truth, seeds) for name, view in views.items()}
    for name, view in views.items():
        out.states[name] = State.empty(view.metric.cells, n_max)
    promises = {name: view.promise for name, view in views.items()}
    worst = dict.fromkeys(views, 0.0)
    for at, ask in enumerate(asks):
        start = time.process_time()
        gate.arrives(ask)
        state = out.states[ask.view]
        elsewhere = math.fsum(paid for name, paid in worst.items() if name != ask.view)
        found = offer(
            state,
            ask.q,
            ask.variance,
            np.maximum(cap - elsewhere - state.charges, 0.0),
            views[ask.view].metric,
            half_width=ask.bound,
            elsewhere=elsewhere,
            promise=promises[ask.view],
            level=level,
        )
        said: Certificate | None = None
        if isinstance(found, Free):
            said = found.certificate
        elif isinstance(found, Offer):
            after = float((state.charges + found.charge).max())
            if gate.grants(after - worst[ask.view], cap - elsewhere - worst[ask.view]):
                state = state.add(Row(at, found.b, found.variance, 0.0, ask.variance))
                said = settled(state, ask.q, found.certificate, SLACK * ask.bound / n_max)
                out.states[ask.view], promises[ask.view] = state, found.promise
                worst[ask.view] = float(state.charges.max())
            else:
                found = None
        out.seconds.append(time.process_time() - start)
        out.asked += 1
        if isinstance(found, Offer):
            out.releases += 1
            heard[ask.view].add(found.release)
        if said is not None:
            out.free += isinstance(found, Free)
            out.answered_at.append(at)
            out.claims.append(said.variance / ask.variance)
            errors = heard[ask.view].errors(ask.q, said.weights)
            if errors is not None:
                out.over += int((np.abs(errors) > ask.bound).sum())
                out.squares.append(float(errors @ errors) / (seeds * ask.variance))
    return out


class Heard:
    """What the releases of one view said, a column a seed: ``b . x`` plus noise drawn on its lattice."""

    def __init__(self, truth: Floats | None, seeds: int) -> None:
        self.truth, self.count = truth, 0
        self.values = np.zeros((8 if seeds else 0, seeds))

    def add(self, release: Rounded) -> None:
        if self.truth is None or not self.values.size:
            return
        if self.count == len(self.values):
            self.values = np.concatenate([self.values, np.zeros_like(self.values)])
        scale = math.ldexp(release.sigma, release.bits)
        noise = OpenDPSampler().draw([scale] * self.values.shape[1])
        exact = float(release.b @ self.truth)
        self.values[self.count] = exact + np.ldexp(np.array(noise, float), -release.bits)
        self.count += 1

    def errors(self, q: Floats, weights: Floats) -> Floats | None:
        """Of the answer with these weights, for each seed; None where nothing is known to compare with."""
        if self.truth is None or not self.values.size:
            return None
        return np.asarray(weights @ self.values[: self.count] - q @ self.truth)
