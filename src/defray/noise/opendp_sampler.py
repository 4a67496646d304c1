"""Discrete Gaussian noise from OpenDP's exact sampler.

The sampler draws around 0 on the 64-bit integers and the caller adds the draw to the exact value in
unbounded integers: OpenDP's own addition saturates at the ends of 64 bits without a word.  Scales below
2**50 keep a draw that far out (2**62, more than 4000 standard deviations) from ever happening; it is
checked all the same.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

from defray.errors import InternalError, MissingExtra

SCALE_LIMIT: Final = 2.0**50
DRAW_LIMIT: Final = 2**62

_calls = threading.Lock()


class OpenDPSampler:
    """A :class:`~defray.noise.sampler.Sampler`; randomness comes from the operating system by way of
    OpenDP.  OpenDP is loaded at the first draw."""

    __slots__ = ()

    def draw(self, scales: Sequence[float]) -> list[int]:
        batches: dict[float, list[int]] = {}
        for place, scale in enumerate(scales):
            batches.setdefault(_checked(scale), []).append(place)
        drawn = [0] * len(scales)
        for scale, places in batches.items():
            for place, x in zip(places, _batch(scale, len(places)), strict=True):
                drawn[place] = x
        return drawn


def _checked(scale: float) -> float:
    if isinstance(scale, bool) or not isinstance(scale, int | float):
        raise ValueError(f"a noise scale must be a number, not {scale!r}")
    if not (math.isfinite(scale) and 0 < scale < SCALE_LIMIT):
        raise ValueError(f"a noise scale must lie strictly between 0 and 2**50, not at {scale!r}")
    return float(scale)


def _batch(scale: float, count: int) -> list[int]:
    measurement = gaussian(scale)
    with _calls:
        drawn: list[int] = measurement([0] * count)
    if len(drawn) != count or not all(isinstance(x, int) and abs(x) < DRAW_LIMIT for x in drawn):
        raise InternalError("The noise source returned what cannot be noise; nothing was released.")
    return drawn


@lru_cache(maxsize=256)
def gaussian(scale: float) -> Callable[[list[int]], Any]:
    """OpenDP's Gaussian measurement on vectors of 64-bit integers, at that scale."""
    try:
        # Not opendp.prelude, which loads extras for data frames and learning where they are installed.
        from opendp.domains import atom_domain, vector_domain
        from opendp.measurements import make_gaussian
        from opendp.metrics import l2_distance
        from opendp.mod import enable_features
    except ImportError as error:
        raise MissingExtra(
            "Noise needs the package opendp, which is not installed.", hint="pip install opendp"
        ) from error
    with _calls:
        enable_features("contrib")
        measurement: Callable[[list[int]], Any] = make_gaussian(
            vector_domain(atom_domain(T="i64")), l2_distance(T="i64"), scale
        )
    return measurement
