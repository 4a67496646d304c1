"""What was tried to come nearer to the offline bound, above all on windows that end today.

The engine's metric is ``G0 = W^.2`` with W the second moment of random ranges.  The alternatives keep its
transform (DST-I) and change the spectrum, buy more than was asked, or promise the class of questions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.baselines import least
from benchmarks.peers.course import View, play
from benchmarks.peers.predicates import N_MAX, asks
from benchmarks.peers.report import Section
from benchmarks.views import last_days, prefixes, ranges
from defray.support.view.metric import FLOOR, Metric, metric
from defray.support.view.plan import listed, saddle
from defray.support.view.promise import Promise

Floats = NDArray[np.float64]
Spectrum = Callable[[int], Floats]

WINDOWS = (1, 7, 30, 90)
OVERBUY = 0.97
HEADROOM = 1.005
"""A promise's cap, in units of its class charge: rounding and its numerical lifts take less."""

WORKLOADS: Mapping[str, Callable[[], Floats]] = {
    "last 1/7/30/90 of 256 days": lambda: last_days(256),
    "1,000 ranges, 64 cells": lambda: ranges(64, 1000, np.random.default_rng(1064)),
    "200 prefixes, 64 cells": lambda: prefixes(64, 200, np.random.default_rng(0)),
}


def frequencies(cells: int) -> Floats:
    return np.pi * np.arange(1, cells + 1) / (cells + 1)


def power(exponent: float) -> Spectrum:
    """``W^p``."""
    return lambda cells: (1 - np.cos(frequencies(cells))) ** -exponent


def windows(lengths: tuple[int, ...], exponent: float) -> Spectrum:
    """A power of the mean second moment of all windows of these lengths, each scaled to its length."""

    def spectrum(cells: int) -> Floats:
        half = frequencies(cells) / 2
        parts = [(np.sin(length * half) / np.sin(half)) ** 2 / length for length in lengths]
        return np.asarray(np.sum(parts, axis=0)) ** exponent

    return spectrum


def scales(exponent: float) -> Spectrum:
    """The same over all powers of two."""
    return lambda cells: windows(tuple(2**i for i in range(cells.bit_length())), exponent)(cells)


TRIED: tuple[tuple[str, Spectrum | None], ...] = (
    ("as it is: W^.2", None),
    ("W^.15", power(0.15)),
    ("W^.25", power(0.25)),
    ("W^.3", power(0.3)),
    ("all scales, power .3", scales(0.3)),
    ("all scales, power .5", scales(0.5)),
    ("windows of just 1, 7, 30, 90, power .5", windows(WINDOWS, 0.5)),
)


def with_spectrum(cells: int, spectrum: Floats) -> Metric:
    floored = np.maximum(spectrum, FLOOR * spectrum.max())
    return Metric((cells,), (True,), np.sqrt(floored / floored.mean()))


def charge(questions: Floats, base: Metric, variance: float = 1.0) -> float:
    return play(asks(questions, variance), {"view": View(base)}, N_MAX).charge


def promised(questions: Floats) -> tuple[float, int]:
    """The charge, and how many are answered, where the class of exactly these questions was promised, and the
    cap is what the class costs."""
    plan = saddle(listed(np.unique(questions, axis=0)), questions.shape[1])
    view = View(metric((questions.shape[1],), (True,)), promise=Promise.of(plan, 1.0))
    course = play(asks(questions), {"view": view}, N_MAX, cap=HEADROOM * plan.charge)
    return course.charge, course.answered


def section(workloads: Mapping[str, Callable[[], Floats]] = WORKLOADS) -> Section:
    made = {name: make() for name, make in workloads.items()}
    bounds = {name: least(q, np.ones(len(q))) for name, q in made.items()}
    rows: list[tuple[Any, ...]] = []
    for what, spectrum in TRIED:
        ratios = []
        for name, q in made.items():
            cells = q.shape[1]
            base = with_spectrum(cells, spectrum(cells)) if spectrum else metric((cells,), (True,))
            ratios.append(charge(q, base) / bounds[name])
        rows.append((what, *ratios))
    more = [
        charge(q, metric((q.shape[1],), (True,)), OVERBUY) / bounds[name]
        for name, q in made.items()
    ]
    rows.append(("3 % more than asked", *more))
    kept = []
    for name, q in made.items():
        paid, answered = promised(q)
        kept.append(paid / bounds[name] if answered == len(q) else math.nan)
    rows.append(("the class promised (W^.2)", *kept))
    bars = tuple(
        (row[0], name, float(ratio))
        for row in rows
        for name, ratio in zip(made, row[1:], strict=True)
    )
    notes = (
        "Charge of the dearest cell over the proved offline bound; all questions answered. A spectrum that "
        "gains on windows loses on ranges, also the one made of just these windows: W^.2 stays. A promise "
        "of the class, which knows what may be asked but neither order nor number, brings any of them to "
        "what the class costs.",
    )
    title = "What was tried to come nearer to the offline bound"
    return Section("tried", title, ("idea", *made), tuple(rows), notes, (), bars, "over the bound")
