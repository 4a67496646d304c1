"""Numbers for people: rounded to what their half-width can tell, and drawn with it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Context, Decimal

_CONTEXT = Context(prec=400)

ROUNDED = "numbers are rounded to what their half-width can tell; --json has every digit"


def rho(x: float) -> str:
    """Four significant digits.

    >>> rho(0.0192073), rho(0.0), rho(1.0)
    ('0.01921', '0', '1')
    """
    return f"{x:.4g}"


def percent(share: float) -> str:
    """
    >>> percent(0.95), percent(0.999)
    ('95 %', '99.9 %')
    """
    return f"{share * 100:.10g} %"


@dataclass(frozen=True, slots=True)
class Shown:
    """A row's numbers as text."""

    value: str
    half: str
    low: str
    high: str


def shown(value: float | None, low: float, high: float, half: float) -> Shown:
    """The numbers of a row, rounded to two or three digits of its half-width (which is rounded up).

    >>> shown(1234.3, 1184.3, 1284.3, 50.0)
    Shown(value='1,234', half='50', low='1,184', high='1,284')
    >>> shown(2.8613, 2.8021, 2.9205, 0.0592).value
    '2.861'
    >>> shown(None, 0, math.inf, math.inf).high
    'inf'
    """
    place = _place(half, value, low, high)
    return Shown(
        "unknown" if value is None else _round(value, place, ROUND_HALF_EVEN),
        _round(half, place, ROUND_CEILING),
        _round(low, place, ROUND_HALF_EVEN),
        _round(high, place, ROUND_HALF_EVEN),
    )


def _place(half: float, *others: float | None) -> int:
    """The power of ten that is still shown."""
    if half == 0 or not math.isfinite(half):
        whole = all(x is None or not math.isfinite(x) or x == int(x) for x in others)
        return 0 if whole else -6
    e = math.floor(math.log10(half))
    return e - 1 if e < 2 else e - 2


def _round(x: float, place: int, how: str) -> str:
    if not math.isfinite(x):
        return f"{x:g}"
    # What is off by a rounding error of floats only is not moved a whole place outward.
    nearest = round(x / 10.0**place)
    number = Decimal(x)
    if abs(x - nearest * 10.0**place) < 1e-9 * 10.0**place:
        number, how = Decimal(nearest).scaleb(place, _CONTEXT), ROUND_HALF_EVEN
    out = number.quantize(Decimal(1).scaleb(min(place, 0)), how, _CONTEXT)
    if place > 0:
        out = number.scaleb(-place, _CONTEXT).quantize(Decimal(1), how, _CONTEXT)
        out = out.scaleb(place, _CONTEXT)
    text = f"{out:,f}"
    return text.removeprefix("-") if set(text) <= set("-0.,") else text


def bar(
    low: float,
    value: float | None,
    high: float,
    axis: tuple[float, float],
    width: int,
    *,
    ascii_only: bool = False,
) -> str:
    """A bar from zero to the interval, which is drawn with its ends and the value in it.

    >>> bar(30, 40, 50, (0, 60), 13)
    '██████├─●─┤  '
    >>> bar(-30, -20, -10, (-30, 30), 13)
    '├─●─┤█│      '
    >>> bar(1, 1, 1, (0, 0), 3)
    '●  '
    """
    full, left, line, right, point, zero = "#[-]o|" if ascii_only else "█├─┤●│"
    start, end = axis
    if not (math.isfinite(low) and math.isfinite(high)):
        return "?".ljust(width)

    def at(x: float) -> int:
        share = 0.0 if end <= start else (x - start) / (end - start)
        return min(width - 1, max(0, round(share * (width - 1))))

    cells = [" "] * width
    origin, a, b = at(0.0), at(low), at(high)
    middle = a if value is None else at(value)
    for i in range(min(origin, middle), max(origin, middle) + 1):
        cells[i] = full
    if start < 0 < end:
        cells[origin] = zero
    for i in range(a, b + 1):
        cells[i] = line
    if a < b:
        cells[a], cells[b] = left, right
    if value is not None:
        cells[middle] = point
    return "".join(cells)


def axis_of(rows: list[tuple[float, float]]) -> tuple[float, float]:
    """From zero, or further out, to the outermost finite ends of the intervals."""
    ends = [x for row in rows for x in row if math.isfinite(x)]
    return min([0.0, *ends]), max([0.0, *ends])
