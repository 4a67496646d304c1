"""One statement of the paper, its bound, and what was measured of the product."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """``source``: where the paper states it.  ``bound``, ``measured``: short texts.  ``verdict``: the bound
    held in every sequence."""

    statement: str
    source: str
    bound: str
    measured: str
    verdict: bool


def figure(x: float) -> str:
    """A number in six significant digits.

    >>> figure(0.0192073), figure(1 / 3), figure(0.0), figure(12)
    ('0.0192073', '0.333333', '0', '12')
    """
    return f"{float(x):.6g}"


def most(x: float, limit: float = 1.0) -> str:
    """A number that must not pass ``limit``, with as many digits as tell the two apart (at most 13).

    >>> most(0.99999987), most(1.0), most(0.25), most(1.0000002)
    ('0.9999999', '1', '0.25', '1.0000002')
    """
    digits = 6
    while digits < 13 and x != limit and float(f"{x:.{digits}g}") == limit:
        digits += 1
    return f"{x:.{digits}g}"
