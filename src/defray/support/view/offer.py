"""What to measure for a question: nothing, or what history does not explain of it, if that fits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from defray.support.view.certificate import Certificate, certify, known
from defray.support.view.lattice import Rounded, rounded
from defray.support.view.limit import best_variance
from defray.support.view.metric import Metric, Scaled, barrier, identity
from defray.support.view.price import Candidate, fitting, itself, top_up, within
from defray.support.view.promise import Promise
from defray.support.view.state import MIXED, SLACK, State

Floats = NDArray[np.float64]

AIM: Final = 1 - 1e-8
"""Releases aim at this part of the target variance, so that rounding never makes a repeat cost anything."""

ROOM: Final = 1 - 1e-6
"""A release made to fit a cap leaves this much of it to rounding."""

PROMISED: Final = "the reserve of the promise"


@dataclass(frozen=True, slots=True, eq=False)
class Free:
    """History answers the question within its target: nothing to buy."""

    certificate: Certificate


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """Draw ``release``; then ``weights . history + own * new`` answers q as the certificate says.

    ``charge`` is what each cell pays, in precision; every entry fits the cap.
    """

    release: Rounded
    certificate: Certificate
    charge: Floats
    why: str
    promise: Promise | None = None
    """The promise after this release."""

    @property
    def b(self) -> Floats:
        return self.release.b

    @property
    def variance(self) -> float:
        """Of the release, not of the answer."""
        return self.release.variance


class Terms(NamedTuple):
    """What holds beside the question: ``cap``, what each cell may still pay; ``paid``, what it has paid, in
    this view and beyond what all cells have paid elsewhere; ``allowed``, the largest deviation of a cell;
    ``promise`` and ``level``, see :func:`offer`."""

    cap: Floats
    paid: Floats
    allowed: float
    promise: Promise | None
    level: bool | None


def offer(
    state: State,
    q: Floats,
    variance: float,
    cap: Floats,
    metric: Metric | None,
    *,
    half_width: float,
    elsewhere: Floats | float = 0.0,
    promise: Promise | None = None,
    level: bool | None = None,
    whatever_fits: bool = False,
) -> Free | Offer | None:
    """The cheapest way to know ``q . x`` with that variance; None where none of those tried passes the cap.

    ``cap`` is what each cell may still pay, in precision (rho = k^2/2 of it), ``elsewhere`` what cells have
    paid outside this view.  Tried in order: the dense metric, the reserve of a promise, q itself, the hard
    barrier; without a metric only the middle two.  A promise turns away what would break it; for a question
    of its class None is never returned.  What it holds back of cells is not to be taken off ``cap``.

    ``level`` chooses the soft cap of the barrier, which levels the cells long before the cap is near; by
    default it is used as long as the targets seen differ by at most 100x in variance.  Where they are known
    to be mixed, say False from the start.

    ``whatever_fits`` adds the release of least variance among all that fit (there being no promise), so that
    None means there is none; it answers one question at the expense of many later ones (64 cells, 1,000
    ranges, a cap of 6: 398 are answered instead of 562).
    """
    terms = Terms(
        cap,
        state.charges + (elsewhere - np.min(elsewhere)),
        SLACK * half_width / state.n_max,
        promise,
        level,
    )
    held = known(state, q)
    if held.deviation <= terms.allowed and held.variance <= variance * (1 + 1e-9):
        return Free(held)
    for candidate in _candidates(state, q, variance, terms, held, metric):
        found = None if candidate is None else _admitted(state, q, candidate, terms)
        if found is not None:
            return found
    if whatever_fits and promise is None:
        limit = best_variance(state, q, cap * ROOM, variance * AIM)
        candidate = fitting(state, q, variance * AIM, limit, cap, "what fits")
        return None if candidate is None else _admitted(state, q, candidate, terms)
    return None


def _candidates(
    state: State, q: Floats, variance: float, terms: Terms, held: Certificate, metric: Metric | None
) -> Iterator[Candidate | None]:
    level = terms.level
    if level is None:
        level = max(state.loosest, variance) <= MIXED * min(state.tightest, variance)
    total, aim = terms.paid + terms.cap, variance * AIM
    if state.count and metric is not None:
        scale = barrier(terms.paid, total, variance, soft=level)
        yield top_up(state, q, aim, Scaled(metric, scale), "the dense metric")
    if terms.promise is not None:
        yield within(state, q, aim, terms.promise.metric, PROMISED)
    yield itself(q, variance, held, terms.allowed, "the question itself")
    if state.count and metric is not None:
        scale = barrier(terms.paid, total, variance, soft=False)
        yield top_up(state, q, aim, Scaled(identity(state.cells), scale), "the barrier")


def _admitted(state: State, q: Floats, candidate: Candidate, terms: Terms) -> Offer | None:
    """A candidate on its lattice; None where that breaks a cap, a promise or the allowed deviation."""
    release = rounded(candidate.b, candidate.variance, terms.allowed)
    if release is None or not (release.charge <= terms.cap).all():
        return None
    said = certify(state, q, candidate.weights, candidate.own, release.b, release.variance)
    if said.deviation > terms.allowed:
        return None
    promise = terms.promise
    if promise is not None:
        promise = promise.after(release.b, release.variance)
        if candidate.why != PROMISED and not (release.charge + promise.held <= terms.cap).all():
            return None
    return Offer(release, said, release.charge, candidate.why, promise)
