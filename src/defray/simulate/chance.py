"""The one source of chance in simulations: seeded, so that every run can be repeated.

Nothing here ever touches data or a release; noise that protects people comes from ``defray.noise``.
"""

from __future__ import annotations

import numpy as np


def generator(seed: int, *stream: int) -> np.random.Generator:  # noqa: TID251
    """Random numbers of one stream of a seed; different streams are independent.

    >>> generator(7, 1).random() == generator(7, 1).random() != generator(7, 2).random()
    True
    """
    return np.random.default_rng([seed, *stream])  # noqa: TID251
