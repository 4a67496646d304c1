r"""Marginals from releases: the answer is ``sum w_i z_i``, and the weights w_i are its certificate.

Release i is a noisy residual of a set A_i with precision h_i; ``z_i`` is its centred table.  In every cell
b of marginal B the answer adds ``w_i z_i[b restricted to A_i]`` with ``w_i = h_i / (h_A n_{B\A})``.  It is
unbiased iff the weights of every A in B sum to ``1 / n_{B\A}``, and its variance is then ``sum w_i^2 p_A /
h_i``: both follow from the weights and the log alone, whatever made them.  Weights are exact rationals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from defray.support.marginal.lattice import Integers
from defray.support.marginal.residuals import AttributeSet, Columns, Floats


@dataclass(frozen=True, slots=True)
class Release:
    """A noisy residual from the log: ``values * 2**-bits`` is t_A with its noise, cells in row-major
    order."""

    id: int
    attributes: AttributeSet
    bits: int
    precision: Fraction
    values: Integers

    def centred(self, columns: Columns) -> Floats:
        """z_A with its noise, centred again: what noise the release has along means is dropped."""
        table = np.asarray(self.values).reshape(columns.shape(self.attributes))
        scaled = table.astype(np.float64) / columns.cells(self.attributes)
        return centre(np.ldexp(scaled, -self.bits))


def centre(table: Floats) -> Floats:
    """Without its mean along every axis."""
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


@dataclass(frozen=True, slots=True)
class Certificate:
    """How a marginal is answered: a weight for each release it rests on, the same in all cells."""

    attributes: AttributeSet
    weights: Mapping[int, Fraction]

    def unbiased(self, columns: Columns, releases: Mapping[int, Release]) -> bool:
        """Whether the weights make exactly this marginal."""
        sums = dict.fromkeys(columns.marginal(self.attributes).sets, Fraction(0))
        for i, weight in self.weights.items():
            a = releases[i].attributes
            if a not in sums:
                return False
            sums[a] += weight
        n = columns.cells(self.attributes)
        return all(total == Fraction(columns.cells(a), n) for a, total in sums.items())

    def variance(self, columns: Columns, releases: Mapping[int, Release]) -> Fraction:
        """Of every cell."""
        return sum(
            (
                w * w * columns.price(releases[i].attributes) / releases[i].precision
                for i, w in self.weights.items()
            ),
            Fraction(0),
        )

    def answer(self, columns: Columns, releases: Mapping[int, Release]) -> Floats:
        """The marginal, in units."""
        tables: dict[AttributeSet, Floats] = {}
        for i, weight in self.weights.items():
            a = releases[i].attributes
            part = float(weight) * releases[i].centred(columns)
            tables[a] = tables[a] + part if a in tables else part
        return spread(columns, self.attributes, tables)


def certify(
    columns: Columns, marginal: Iterable[int], releases: Iterable[Release]
) -> Certificate | None:
    """The least variance that releases give a marginal; None where a residual is missing."""
    attributes = columns.reduced(marginal)
    of: dict[AttributeSet, list[Release]] = {a: [] for a in columns.marginal(attributes).sets}
    for release in releases:
        if release.attributes in of:
            of[release.attributes].append(release)
    n = columns.cells(attributes)
    weights: dict[int, Fraction] = {}
    for a, found in of.items():
        if not found:
            return None
        held = sum((r.precision for r in found), Fraction(0))
        for r in found:
            weights[r.id] = r.precision * columns.cells(a) / (held * n)
    return Certificate(attributes, weights)


def exact_variance(
    columns: Columns, marginal: Iterable[int], held: Mapping[AttributeSet, Fraction]
) -> Fraction | None:
    """Of every cell of a marginal, from exact precisions; None where a residual is missing."""
    attributes = columns.reduced(marginal)
    n = columns.cells(attributes)
    total = Fraction(0)
    for a in columns.marginal(attributes).sets:
        if not held.get(a):
            return None
        total += columns.price(a) * Fraction(columns.cells(a), n) ** 2 / held[a]
    return total


def reconstruct(
    columns: Columns, marginal: Iterable[int], residuals: Mapping[AttributeSet, Floats]
) -> Floats:
    """The marginal whose residuals are those (fused, centred) tables: their sum, each spread evenly over
    the cells that it does not tell apart."""
    attributes = columns.reduced(marginal)
    n = columns.cells(attributes)
    sets = columns.marginal(attributes).sets
    return spread(columns, attributes, {a: residuals[a] * (columns.cells(a) / n) for a in sets})


def spread(
    columns: Columns, attributes: AttributeSet, tables: Mapping[AttributeSet, Floats]
) -> Floats:
    """The sum of tables on subsets of ``attributes``, constant along the axes that they lack."""
    total = np.zeros(columns.shape(attributes))
    for a, table in tables.items():
        total += table.reshape([columns.atoms[i] if i in a else 1 for i in attributes])
    return total
