"""The kinds of ``weights`` that a release can measure: what is sound, and how far one row moves them.

They are spelled out in :mod:`defray.ledger.records`.  Everything here follows from a release's body alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final, TypeGuard

from defray.core.amounts import QUANTA

KINDS: Final = ("region", "residual", "cells")

EXACT_BITS: Final = 53
"""Steps of a functional stay below 2 to this: they are exact as floats."""

FINEST: Final = 1000
"""The most binary digits after the point of a weight."""


_ONE: Final = Fraction(1)


def squared_weight(weights: Mapping[str, Any]) -> Fraction:
    """How far one row moves what was measured, squared, in the dearest cell, where ``reach`` is 1.

    >>> squared_weight({"kind": "residual", "atoms": [3, 4]})
    Fraction(72, 1)
    >>> squared_weight({"kind": "cells", "classes": [None], "bits": 1, "steps": [0, -3, 1]})
    Fraction(9, 4)
    """
    match weights["kind"]:
        case "residual":
            return Fraction(math.prod(n * (n - 1) for n in weights["atoms"]))
        case "cells":
            return Fraction(max(map(abs, weights["steps"])) ** 2, 4 ** weights["bits"])
        case _:
            return _ONE


def squared_gain(weights: Mapping[str, Any]) -> int:
    """A precision is at most this over sigma^2: ``n_A^2`` for a residual, whose precision is that of the
    residual itself and not of its integer table."""
    if weights["kind"] != "residual":
        return 1
    cells: int = math.prod(weights["atoms"])
    return cells**2


def charge_for(squared: Fraction, sigma: float, rho: Fraction) -> int:
    """``quanta_up(squared / (2 sigma^2), rho)``: the quanta of noise ``sigma`` where a unit moves what is
    measured by ``squared``, squared.

    >>> charge_for(Fraction(1), 1.0, Fraction(1)) == QUANTA // 2
    True
    """
    top, bottom = sigma.as_integer_ratio()
    cost = squared.numerator * bottom**2 * QUANTA * rho.denominator
    return -(-cost // (squared.denominator * 2 * top**2 * rho.numerator))


def unsound(weights: Mapping[str, Any], attributes: int, values: int) -> Iterator[str]:
    """What is wrong with the weights of a release of so many attributes and values, as far as can be seen
    without the declared domain."""
    match weights.get("kind"):
        case "region":
            return
        case "residual":
            yield from _unsound_residual(weights.get("atoms"), attributes, values)
        case "cells":
            yield from _unsound_cells(weights, attributes, values)
        case kind:
            yield f"unknown weights: {kind!r:.40}"


def _unsound_residual(atoms: Any, attributes: int, values: int) -> Iterator[str]:
    if not (isinstance(atoms, list | tuple) and len(atoms) == attributes):
        yield f"the atoms of {attributes} columns are not {atoms!r:.40}"
    elif not all(whole(n) and n > 1 for n in atoms):
        yield f"a residual of columns of {list(atoms)!r:.40} atoms is nothing"
    elif math.prod(atoms) != values:
        yield f"{values} values, but a residual of {math.prod(atoms)} cells"


def _unsound_cells(weights: Mapping[str, Any], attributes: int, values: int) -> Iterator[str]:
    classes, bits, steps = (weights.get(name) for name in ("classes", "bits", "steps"))
    if not (isinstance(classes, list | tuple) and len(classes) == attributes):
        yield f"the classes of {attributes} columns are not {classes!r:.40}"
        return
    if not all(starts is None or _ascending(starts) for starts in classes):
        yield f"classes do not begin at 0 and ascend: {classes!r:.40}"
        return
    if not (whole(bits) and 0 <= bits <= FINEST):
        yield f"the bits {bits!r:.40} are not a small whole number"
        return
    if not (isinstance(steps, list | tuple) and steps and all(map(whole, steps))):
        yield "the steps are not whole numbers"
        return
    if max(map(abs, steps)) >> EXACT_BITS:
        yield f"a step has more than {EXACT_BITS} binary digits"
    known = math.prod(len(starts) for starts in classes if starts is not None)
    if len(steps) % known or (None not in classes and len(steps) != known):
        yield f"{len(steps)} steps, but classes of {known} cells"
    if values != 1:
        yield f"{values} values, but one functional"


def _ascending(starts: Any) -> bool:
    return (
        isinstance(starts, list | tuple)
        and len(starts) > 0
        and all(map(whole, starts))
        and starts[0] == 0
        and all(i < j for i, j in pairwise(starts))
    )


def whole(x: object) -> TypeGuard[int]:
    return isinstance(x, int) and not isinstance(x, bool)
