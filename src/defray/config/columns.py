"""One ``[columns.NAME]`` table of a contract -> one :class:`~defray.core.column.Column`."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Final, cast, get_args

from defray.config.bounds import SUMMABLE, read_bounds
from defray.config.fields import Section, dotted, shown
from defray.core.column import Column
from defray.core.dates import EPOCH, EPOCH_DAY, MICROSECOND
from defray.core.numbers import show_number
from defray.core.shapes import MAX_LISTED, Anything, Cuts, Grid, Kind, Shape, Values, Whole

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
MAX_CELLS: Final = 2**62
"""No column has this many cells."""

SYNONYMS: Final = {
    "int": "integer", "int32": "integer", "int64": "integer", "bigint": "integer",
    "smallint": "integer", "long": "integer", "double": "float", "real": "float",
    "float64": "float", "number": "float", "numeric": "decimal", "money": "decimal",
    "str": "string", "text": "string", "varchar": "string", "char": "string",
    "category": "string", "enum": "string", "bool": "boolean", "datetime": "timestamp",
    "time": "timestamp", "timestamptz": "timestamp", "day": "date",
}  # fmt: skip

DOMAIN_KEYS: Final = ("values", "edges", "min", "max", "step", "bins")
ALLOWED: Final[Mapping[Kind, tuple[str, ...]]] = {
    "integer": ("values", "min", "max"),
    "float": DOMAIN_KEYS,
    "decimal": DOMAIN_KEYS,
    "string": ("values",),
    "boolean": ("values",),
    "date": ("min", "max"),
    "timestamp": ("min", "max", "step"),
}
DOMAIN_CURE: Final[Mapping[Kind, str]] = {
    "integer": "add min = 0 and max = 120, or values = [1, 2, 3]",
    "float": "add min and max with step or bins, or edges = [0, 10, 100], or values = [0, 0.5, 1]",
    "decimal": "add min and max with step or bins, or edges = [0, 10, 100], or values = [0, 0.5]",
    "string": 'add values = ["a", "b"]',
    "boolean": "",
    "date": "add min = 2020-01-01 and max = 2029-12-31",
    "timestamp": 'add min = 2020-01-01 and max = 2030-01-01 and step = "1 hour"',
}
_SECONDS: Final = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 7 * 86400}


def read_column(section: Section, name: str) -> Column | None:
    """The column, or None after at least one noted mistake."""
    null = section.choice("null", ("cell", "drop")) or "cell"
    if "type" not in section:
        cure = 'add type = "integer" (or float, decimal, string, boolean, date, timestamp)'
        section.problem("type", "the type is missing", f"{cure}, or delete {_header(section)}")
        return None
    kind = cast(Kind | None, section.choice("type", KINDS, synonyms=SYNONYMS))
    if kind is None:
        return None
    bounds, step = read_bounds(section, kind)
    shape = _shape(section, kind)
    other = _other(section, kind, shape)
    if shape is None:
        return None
    if shape.count + 2 >= MAX_CELLS:
        cure = "choose a coarser grid or a smaller range"
        section.problem(None, f"the domain has {shape.count} cells; the limit is 2**62", cure)
    return Column(name, kind, shape, null, other, bounds, step)  # type: ignore[arg-type]


def _header(section: Section) -> str:
    return f"[{dotted(section.where)}]"


def _other(section: Section, kind: Kind, shape: Shape | None) -> str:
    other = section.choice("other", ("null", "cell", "clamp", "drop"))
    if other == "clamp" and kind in ("string", "boolean"):
        cure = 'write other = "null", "cell" or "drop"'
        section.problem("other", f"a {kind} has no nearest value to be clamped to", cure)
    elif other == "clamp" and isinstance(shape, Values):
        cure = 'declare min and max instead of values, or other = "null", "cell" or "drop"'
        section.problem("other", "only a range can be clamped to, not a list of values", cure)
    elif other is not None and isinstance(shape, Anything):
        cure = f"remove other, or declare a domain: {DOMAIN_CURE[kind]}"
        section.problem("other", "without a domain no value is outside of it", cure)
    return other or "null"


# -- domains -----------------------------------------------------------------------------------------


def _shape(section: Section, kind: Kind) -> Shape | None:
    given = [key for key in DOMAIN_KEYS if key in section]
    allowed = ALLOWED[kind]
    wrong = [key for key in given if key not in allowed]
    for key in wrong:
        cure = f"remove it; {kind} columns take {', '.join(allowed)}"
        if kind == "integer":
            cure += "; every integer from min to max is a cell"
        section.problem(key, f"{key} does not apply to {kind} columns", cure)
    given = [key for key in given if key in allowed]
    if not given:
        return _default_shape(section, kind, refused=bool(wrong))
    if given[0] in ("values", "edges"):
        if len(given) > 1:
            others = ", ".join(f"{key} = {shown(section.data[key])}" for key in given[1:])
            cure = f"keep {given[0]}, or keep the others"
            section.problem(given[0], f"{given[0]} and {others} are two domains", cure)
            return None
        return _values(section, kind) if given[0] == "values" else _cuts(section)
    missing = [key for key in ("min", "max") if key not in given]
    if missing:
        cure = f"add {' and '.join(missing)}; {DOMAIN_CURE[kind]}"
        section.problem(missing[0], f"{missing[0]} is missing next to {', '.join(given)}", cure)
        return None
    if kind in ("integer", "date"):
        return _whole_shape(section, kind)
    return _grid(section, kind)


def _default_shape(section: Section, kind: Kind, *, refused: bool) -> Shape | None:
    if kind == "boolean":
        return Values((False, True))
    if kind in SUMMABLE and "bounds" in section:
        return Anything()
    if not refused:
        cure = DOMAIN_CURE[kind]
        if kind in SUMMABLE:
            cure += "; or bounds = [0, 120] alone where it is only summed"
        cure += (
            f"; or delete {_header(section)}: columns that are not declared cannot be asked about"
        )
        section.problem(None, f"the {kind} column has no domain", cure)
    return None


def _values(section: Section, kind: Kind) -> Values | None:
    value = section.data["values"]
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_LISTED:
        what = f"{len(value)} values" if isinstance(value, list) else shown(value)
        cure = f"write a list of 1 to {MAX_LISTED} values: {DOMAIN_CURE[kind] or 'or remove it'}"
        section.problem("values", f"{what}: not a list of 1 to {MAX_LISTED} values", cure)
        return None
    items: dict[Fraction | str | bool, None] = {}
    sound = True
    for i, written in enumerate(value):
        item = _item(section, kind, written, i)
        if item is not None and item in items:
            message = f"{shown(written)} is listed twice"
            section.problem("values", message, "list each value once", item=i)
        sound = sound and item is not None and item not in items
        if item is not None:
            items[item] = None
    return Values(tuple(items)) if sound else None


def _item(section: Section, kind: Kind, written: Any, i: int) -> Fraction | str | bool | None:
    if kind == "string" or kind == "boolean":
        if isinstance(written, str if kind == "string" else bool):
            return written
        cure = "put it in quotes" if kind == "string" else "write true or false without quotes"
        section.problem("values", f"{shown(written)} is not a {kind}", cure, item=i)
        return None
    number = section.as_number("values", written, item=i)
    if number is not None and kind == "integer" and not _is_int64(number):
        cure = 'write whole numbers of at most 64 bits, or type = "float"'
        section.problem("values", f"{shown(written)} is not an integer", cure, item=i)
        return None
    return number


def _cuts(section: Section) -> Cuts | None:
    value = section.data["edges"]
    if not isinstance(value, list) or not 2 <= len(value) <= MAX_LISTED + 1:
        what = f"{len(value)} edges" if isinstance(value, list) else shown(value)
        cure = "n + 1 edges make n cells: edges = [0, 10, 100]"
        section.problem("edges", f"{what}: not a list of 2 to {MAX_LISTED + 1} edges", cure)
        return None
    numbers = [section.as_number("edges", written, item=i) for i, written in enumerate(value)]
    edges = [e for e in numbers if e is not None]
    if len(edges) < len(numbers):
        return None
    for i, (a, b) in enumerate(itertools.pairwise(edges), 1):
        if a >= b:
            message = f"{show_number(a)}, {show_number(b)}: the edges do not ascend"
            section.problem("edges", message, "sort them, each one once", item=i)
            return None
    return Cuts(tuple(edges))


def _ends(
    section: Section, read: Callable[[str], Fraction | None]
) -> tuple[Fraction, Fraction] | None:
    low, high = read("min"), read("max")
    if low is None or high is None:
        return None
    if low > high:
        both = f"min = {shown(section.data['min'])} and max = {shown(section.data['max'])}"
        section.problem("min", f"{both} are the wrong way round", "exchange them")
        return None
    return low, high


def _whole_shape(section: Section, kind: Kind) -> Whole | None:
    def integer(key: str) -> Fraction | None:
        number = section.number(key)
        if number is not None and not _is_int64(number):
            message = f"{shown(section.data[key])} is not an integer of at most 64 bits"
            section.problem(key, message, f'write a whole number, or type = "float": {key} = 0')
            return None
        return number

    def day(key: str) -> Fraction | None:
        moment = _moment(section, key)
        return None if moment is None else Fraction((moment.date() - EPOCH_DAY).days)

    ends = _ends(section, integer if kind == "integer" else day)
    return None if ends is None else Whole(int(ends[0]), int(ends[1]))


def _grid(section: Section, kind: Kind) -> Grid | None:
    def moment(key: str) -> Fraction | None:
        at = _moment(section, key)
        return None if at is None else Fraction((at - EPOCH) // MICROSECOND)

    timed = kind == "timestamp"
    if timed and "step" not in section:
        section.problem("step", "step is missing", 'add step = "1 hour"')
    elif not timed and ("step" in section) == ("bins" in section):
        if "step" in section:
            both = f"step = {shown(section.data['step'])}, bins = {shown(section.data['bins'])}"
            section.problem(
                "bins", f"{both}: only one of the two may be given", "remove one of them"
            )
        else:
            message = "min and max need step or bins next to them"
            section.problem("step", message, "add step = 5, or bins = 20")
    ends = _ends(section, moment if timed else section.number)
    step = _duration(section) if timed else section.number("step", positive=True)
    bins = section.whole("bins", low=1, high=MAX_CELLS)
    if ends is None or (step is None) == (bins is None):
        return None
    low, high = ends
    if low == high:
        message = f"min = max = {shown(section.data['max'])} leaves no range to divide"
        section.problem("max", message, "write a max above min, or use values")
        return None
    if bins is not None:
        return Grid(low, (high - low) / bins, bins)
    assert step is not None
    count = (high - low) / step
    if count.denominator != 1:
        parts = (f"{key} = {shown(section.data[key])}" for key in ("step", "min", "max"))
        below, above = low + math.floor(count) * step, low + math.ceil(count) * step
        near = [_as_end(edge, timed) for edge in (below, above) if edge > low]
        cure = f"for example max = {' or '.join(near)}"
        section.problem("step", f"the step does not divide the range: {', '.join(parts)}", cure)
        return None
    return Grid(low, step, int(count))


def _as_end(edge: Fraction, timed: bool) -> str:
    if not timed:
        return show_number(edge)
    try:
        return (EPOCH + int(edge) * MICROSECOND).isoformat()
    except OverflowError:
        return "an earlier time"


def _moment(section: Section, key: str) -> dt.datetime | None:
    """A TOML date or time, or a string of one, in UTC without a zone."""
    value = section.data[key]
    try:
        at = dt.datetime.fromisoformat(value) if isinstance(value, str) else value
        if isinstance(at, dt.datetime):
            return at.astimezone(dt.UTC).replace(tzinfo=None) if at.tzinfo else at
        if isinstance(at, dt.date):
            return dt.datetime(at.year, at.month, at.day)
    except (ValueError, OverflowError):
        pass  # no date: noted below, like every other wrong value
    section.problem(key, f"{shown(value)} is not a date", f"for example: {key} = 2020-01-31")
    return None


def _duration(section: Section) -> Fraction | None:
    """The step of a time grid, such as ``"15 minutes"``, in microseconds."""
    if "step" not in section:
        return None
    value = section.data["step"]
    match = re.fullmatch(r"\s*(?:([0-9]{1,9})\s+)?([a-z]+?)s?\s*", str(value).lower())
    if match and match[2] in _SECONDS and int(match[1] or 1) > 0:
        return Fraction(int(match[1] or 1) * _SECONDS[match[2]] * 10**6)
    cure = 'write step = "15 minutes", "1 hour", "1 day" or "1 week"'
    if match and match[2] in ("month", "quarter", "year"):
        cure += f"; questions can group days by {match[2]}"
    section.problem("step", f"{shown(value)} is not a length of time", cure)
    return None


def _is_int64(number: Fraction) -> bool:
    return number.denominator == 1 and -(2**63) <= number < 2**63
