r"""Certificates: how what is known of a functional follows from releases, as exact weights over them.

``estimate = sum w_i y_i`` over values of releases, whose noise is independent: its variance is ``sum w_i^2
v_i``, and it is an estimate of q iff ``sum w_i b_i = q``.  Both are checked from the weights and the log
alone, whatever chose the weights.  A functional is known in one of four ways:

* by releases of its own, fused by precision: ``w_i = p_i / sum p``;
* from a view, by least squares (:mod:`defray.support.view.certificate`);
* a full GROUP BY from residuals (:mod:`defray.support.marginal.certificate`);
* from residuals and releases of its own, which are fused by precision.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from defray.core.amounts import dyadic_down
from defray.support.axes import Axes
from defray.support.exact import Block
from defray.support.history import PLACES, Item
from defray.support.known import Known
from defray.support.marginal.certificate import Certificate as MarginalCertificate
from defray.support.marginal.certificate import Release as Residual
from defray.support.marginal.certificate import certify
from defray.support.marginal.residuals import Columns
from defray.support.overlap import WORTH, Overlap
from defray.support.view.certificate import Certificate
from defray.support.view.state import State

Way = Literal["own releases", "view", "residuals", "own releases and residuals"]

EXACTLY: Final = 2**18
"""Up to so many products a view's certificate is worked out in exact fractions; above, the bound on the
deviation of its floats stands for it (which includes their rounding)."""

SLACK: Final = 1e-9
"""Variances may be off by this part: other machines add floats in another order."""


@dataclass(frozen=True, slots=True)
class Term:
    """``weight`` times a value of release ``seq``, at ``place``, of noise of at most ``variance`` (units).
    Of a residual all cells of the table count alike: it has no place."""

    seq: int
    place: int | None
    weight: Fraction
    variance: Fraction

    @property
    def share(self) -> Fraction:
        """What it adds to the variance of the estimate."""
        return self.weight**2 * self.variance


@dataclass(frozen=True, eq=False)
class Explained:
    """What is known of one functional: the terms of its estimate, by which ``way``, how far their sum may be
    from the functional in any cell (``deviation``), and the ``precision`` that is claimed of it.  On a
    table of at most ``rows`` rows (times the largest weight of a row) the deviation is worth
    ``deviation * rows``."""

    way: Way
    terms: tuple[Term, ...]
    deviation: Fraction
    rows: Fraction
    precision: Fraction

    @cached_property
    def variance(self) -> Fraction:
        """``sum w^2 v``, exactly."""
        return sum((t.share for t in self.terms), Fraction(0))

    @cached_property
    def shares(self) -> Mapping[int, Fraction]:
        """By release, its part of the variance."""
        found: dict[int, Fraction] = {}
        for term in self.terms:
            found[term.seq] = found.get(term.seq, Fraction(0)) + term.share
        return {seq: share / self.variance for seq, share in sorted(found.items())}

    @cached_property
    def places(self) -> Mapping[int, frozenset[int] | None]:
        """By release, where in it the terms are; None: all of its table."""
        found: dict[int, set[int | None]] = {}
        for term in self.terms:
            found.setdefault(term.seq, set()).add(term.place)
        return {
            seq: None if None in places else frozenset(p for p in places if p is not None)
            for seq, places in found.items()
        }

    @property
    def borne(self) -> float:
        """The precision that the weights bear: a deviation counts ``WORTH`` times in what is one sigma."""
        spread = float(self.variance) ** 0.5 + WORTH * float(self.deviation * self.rows)
        return 1 / spread**2 if spread else 0.0

    @cached_property
    def releases(self) -> tuple[int, ...]:
        return tuple(sorted({t.seq for t in self.terms}))

    @property
    def stands(self) -> bool:
        """Whether the weights bear the precision that is claimed."""
        return float(self.precision) <= self.borne * (1 + SLACK)

    def scaled(self, factor: Fraction) -> tuple[Term, ...]:
        """The terms of ``factor`` times the functional."""
        return tuple(Term(t.seq, t.place, t.weight * factor, t.variance) for t in self.terms)


Own = tuple[int, int, Fraction]
"""A release of a functional itself: its seq, its place there and its precision."""


def explained(
    block: Block,
    cell: int,
    known: Known,
    own: Sequence[Own],
    overlap: Overlap | None,
    *,
    wide: bool,
    exact: int = EXACTLY,
    views: Sequence[Axes] = (),
) -> Explained | None:
    """How ``known`` follows from the log; None where nothing is known.  ``wide``: by others than the
    functional's ``own`` releases, also in these ``views``.  Up to ``exact`` products are worked out in
    fractions."""
    if not known.precision:
        return None
    if not wide or overlap is None:
        return of_own(own, known.precision)
    found = []
    if overlap.by_residuals(block):
        assert block.marginal is not None
        items = overlap.history.spaces[str(block.measure)]
        columns = Columns(overlap.history.domain.widths)
        found = [of_residuals(columns, block.marginal, items, known.precision)]
        found += [of_both(f, own, known.precision) for f in found if f is not None and own]
    for state, q, certificate in overlap.certificates(block, cell, views):
        found.append(of_view(state, q, certificate, known.precision, exact))
    return max((f for f in found if f is not None), key=lambda f: f.borne, default=None)


def of_own(own: Sequence[Own], precision: Fraction) -> Explained:
    """Fused by precision; the variance of each is at most one over it."""
    total = sum((p for _, _, p in own), Fraction(0))
    terms = tuple(Term(seq, place, p / total, 1 / p) for seq, place, p in own)
    return Explained("own releases", terms, Fraction(0), Fraction(0), precision)


def of_view(
    state: State,
    q: NDArray[np.float64],
    certificate: Certificate,
    precision: Fraction,
    exact: int = EXACTLY,
) -> Explained:
    """Least squares in a view, whose float weights are exact dyadic numbers."""
    used = np.flatnonzero(certificate.weights)
    weights = certificate.weights[used].tolist()
    terms = tuple(
        Term(*divmod(int(i), PLACES), Fraction(w), Fraction(v))
        for i, w, v in zip(state.ids[used], weights, state.variances[used].tolist(), strict=True)
    )
    deviation = Fraction(certificate.deviation)
    if len(used) * len(q) <= exact:
        deviation = deviation_of(state.rows[used], q, certificate.weights[used])
    return Explained("view", terms, deviation, Fraction(state.n_max), precision)


def deviation_of(
    rows: NDArray[np.float64], q: NDArray[np.float64], weights: NDArray[np.float64]
) -> Fraction:
    """The largest ``|q - sum w b|`` of any cell, exactly: floats are whole numbers of a power of two.

    >>> deviation_of(np.array([[0.5, 2.0]]), np.array([1.0, 1.0]), np.array([0.25]))
    Fraction(7, 8)
    """
    (b, low), (w, fine), (wanted, grain) = _whole(rows), _whole(weights), _whole(q)
    common = min(low + fine, grain)
    total = (w @ b) * 2 ** (low + fine - common) if len(w) else 0
    most = max(abs(x) for x in (wanted * 2 ** (grain - common) - total).tolist())
    return Fraction(most) * Fraction(2) ** common


def _whole(table: NDArray[np.float64]) -> tuple[NDArray[np.object_], int]:
    """Floats as whole numbers of ``2**e``."""
    parts, exponents = np.frexp(table)
    used = exponents[parts != 0]
    least = int(used.min()) - 53 if used.size else 0
    shifts = np.maximum(exponents - 53 - least, 0).astype(object)
    numbers = np.ldexp(parts, 53).astype(np.int64).astype(object)
    return np.asarray(numbers * 2**shifts, object), least


def of_residuals(
    columns: Columns, marginal: Iterable[int], items: Iterable[Item], precision: Fraction
) -> Explained | None:
    """A marginal from its residuals: unbiased by exact weights, or not explained at all."""
    nothing = np.zeros(0)
    held = {
        i.seq: Residual(i.seq, i.columns, 0, i.precision, nothing)
        for i in items
        if i.centred is not None
    }
    certificate = certify(columns, marginal, held.values())
    if certificate is None or not certificate.unbiased(columns, held):
        return None
    terms = _terms(columns, certificate, held)
    return Explained("residuals", terms, Fraction(0), Fraction(0), precision)


def of_both(residuals: Explained, own: Sequence[Own], precision: Fraction) -> Explained:
    """Residuals, fused with releases of the functional itself."""
    mine = of_own(own, precision)
    a, b = dyadic_down(1 / residuals.variance), 1 / mine.variance
    terms = (*residuals.scaled(a / (a + b)), *mine.scaled(b / (a + b)))
    return Explained("own releases and residuals", terms, Fraction(0), Fraction(0), precision)


def _terms(
    columns: Columns, certificate: MarginalCertificate, held: Mapping[int, Residual]
) -> tuple[Term, ...]:
    return tuple(
        Term(seq, None, w, columns.price(held[seq].attributes) / held[seq].precision)
        for seq, w in certificate.weights.items()
    )
