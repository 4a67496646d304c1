"""The answer to a question from a view's state: weights over releases, and the exact number they make."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from defray.support.view.certificate import Certificate, certify, known
from defray.support.view.state import State

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """``value = sum_i w_i y_i`` exactly, every float weight being a dyadic rational.

    On a table of at most ``n_max`` rows, ``|value - q . x| <= half_width(z, n_max)`` with the probability of
    ``|N(0,1)| <= z``.
    """

    value: Fraction
    certificate: Certificate

    def half_width(self, z: float, n_max: float) -> float:
        return half_width(self.certificate, z, n_max)


def half_width(certificate: Certificate, z: float, n_max: float) -> float:
    """The noise's part and the deviation's; the true number of rows never enters.

    >>> half_width(Certificate(np.zeros(0), np.zeros(1), 1e-6, 4.0), 2.0, 1e6)
    5.0
    """
    return z * math.sqrt(certificate.variance) + certificate.deviation * n_max


def answer(
    state: State, q: Floats, values: Sequence[Fraction] | Mapping[int, Fraction]
) -> Estimate:
    """What a state says about q: all answers of one state are linear in q, so a parent is the sum of its
    children, whatever was measured.

    ``values`` are the releases' exact values, in the order of the rows or by release id; the floats in the
    state serve planning only.
    """
    certificate = known(state, q)
    if isinstance(values, Mapping):
        values = [values[int(i)] for i in state.ids]
    return Estimate(combined(certificate.weights, values), certificate)


def settled(after: State, q: Floats, bought: Certificate, allowed: float) -> Certificate:
    """What the state after a release says about the question it was bought for.

    Least squares keep the promise of ``bought`` (the offer's certificate) except where rounding hides a
    direction that is hardly known; there the weights that were offered answer.
    """
    said = known(after, q)
    if said.deviation <= max(allowed, bought.deviation) and said.variance <= bought.variance * (
        1 + 1e-8
    ):
        return said
    return certify(after, q, np.append(bought.weights, bought.own))


def combined(weights: Floats, values: Sequence[Fraction]) -> Fraction:
    """``sum_i w_i y_i``, exactly.

    >>> combined(np.array([0.5, 0.0, -2.0**-40]), [Fraction(3), Fraction(7), Fraction(1, 2)])
    Fraction(3298534883327, 2199023255552)
    """
    terms = [(w.as_integer_ratio(), y) for w, y in zip(weights.tolist(), values, strict=True) if w]
    if not terms:
        return Fraction(0)
    # Both denominators are powers of two in the ledger: one common denominator, and integers above it.
    common = math.lcm(*(d * y.denominator for (_, d), y in terms))
    total = sum(n * y.numerator * (common // (d * y.denominator)) for (n, d), y in terms)
    return Fraction(total, common)


def by_release(state: State, certificate: Certificate) -> dict[int, float]:
    """A certificate as weights over release ids."""
    return {int(i): w for i, w in zip(state.ids, certificate.weights.tolist(), strict=True) if w}
