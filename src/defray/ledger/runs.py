"""Charges as runs of equal cells, which is what most of them are.

Runs are spelled in one way only: their lengths, then their values, as 64-bit little-endian integers.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Quanta = NDArray[np.int64]


def runs(quanta: Quanta) -> bytes:
    """The runs of the cells of an array, row-major.

    >>> np.frombuffer(runs(np.array([[7, 7], [7, 0]]))).size
    4
    """
    flat = np.ravel(quanta)
    starts = np.append(0, np.flatnonzero(flat[1:] != flat[:-1]) + 1)
    lengths = np.diff(starts, append=flat.size)
    return np.concatenate([lengths, flat[starts]]).astype("<i8").tobytes()


def cells(spelling: bytes, shape: Sequence[int]) -> Quanta:
    """The array of that shape whose runs these are; ValueError if there is none."""
    lengths, values = np.frombuffer(spelling, "<i8").reshape(2, -1)
    count = math.prod(shape)
    if not ((lengths > 0) & (lengths <= count)).all() or int(lengths.sum()) != count:
        raise ValueError("these are not the runs of so many cells")
    return np.repeat(values.astype(np.int64), lengths).reshape(shape)


def pack(spelling: bytes) -> bytes:
    return zlib.compress(spelling, 1)


def unpack(blob: bytes, at_most: int) -> bytes:
    """The runs in a blob; ValueError if there are none, or they are of more than ``at_most`` cells."""
    opened = zlib.decompressobj()
    try:
        spelling = opened.decompress(blob, 16 * at_most + 1)
    except zlib.error:
        raise ValueError("a blob of charges is damaged") from None
    if not opened.eof or opened.unused_data:
        raise ValueError("a blob of charges is damaged, or too long")
    return spelling
