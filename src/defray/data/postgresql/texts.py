"""Numbers, dates and times that lie in text, read without a cast that could raise.

PostgreSQL before version 16 cannot ask whether a text can be cast, and reads many more spellings than
others.  So a text is taken apart by a pattern, and put together by functions whose arguments were checked.

Numbers are written ``[+-]digits[.digits][e[+-]digits]`` with single underscores between digits, or ``inf``,
``infinity``, in any case and between white space; those of more than 1000 signs, or with an
exponent of more than 4 digits, are none.  Dates are ``YYYY-MM-DD``, times follow as
``HH:MM[:SS[.fraction]]`` behind a blank or ``T`` and may end in ``Z``, ``UTC`` or an offset.
"""

from __future__ import annotations

from typing import Final

_SPACE: Final = r"[ \t\n\r\f\v]*"
_WHOLE: Final = "[0-9]+(?:_[0-9]+)*"
_NUMBER: Final = (
    rf"^{_SPACE}[+-]?(?:{_WHOLE}\.?(?:{_WHOLE})?|\.{_WHOLE})(?:[eE][+-]?0*[0-9]{{1,4}})?{_SPACE}$"
)
_INFINITE: Final = rf"^{_SPACE}[+-]?[iI][nN][fF](?:[iI][nN][iI][tT][yY])?{_SPACE}$"
_DAY: Final = "([0-9]{1,6})[-/]([0-9]{1,2})[-/]([0-9]{1,2})"
_TIME: Final = r"([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?)?"
_ZONE: Final = "(?:Z| ?UTC|([+-])([0-9][0-9]):?([0-9][0-9])?)?"
LONGEST: Final = 1000
LARGEST: Final = "1.7976931348623158079e308"
"""What is below rounds to a double; what is above rounds to infinity."""
LEAST: Final = "2.4703282292062328e-324"
"""What is below rounds to 0; what is above rounds to a double that is not."""


def _clean(x: str) -> str:
    """The text of a number as every cast takes it."""
    return f"replace(btrim({x}, E' \\t\\n\\r\\f\\v'), '_', '')"


def number(x: str) -> str:
    """A ``numeric``, which may be infinite, or NULL; never NaN."""
    return (
        f"CASE WHEN length({x}) > {LONGEST} THEN NULL"
        f" WHEN {x} ~ '{_NUMBER}' THEN CAST({_clean(x)} AS numeric)"
        f" WHEN {x} ~ '{_INFINITE}' THEN CAST({_clean(x)} AS numeric) END"
    )


def double(x: str) -> str:
    """A double as ``strtod`` reads it: too large a number is infinite, too small a one is 0."""
    infinite = "CAST('-Infinity' AS float8) ELSE CAST('Infinity' AS float8)"
    return (
        f"(SELECT CASE WHEN abs(v) >= {LARGEST} THEN CASE WHEN v < 0 THEN {infinite} END"
        f" WHEN abs(v) <= {LEAST} THEN 0 ELSE CAST(v AS float8) END"
        f" FROM (SELECT {number(x)} AS v OFFSET 0) AS n_)"
    )


def _parts(x: str, pattern: str, names: tuple[str, ...]) -> str:
    cast = ", ".join(f"m[{i}] AS {name}" for i, name in enumerate(names, 1))
    return f"(SELECT {cast} FROM regexp_match(btrim({x}), '^{pattern}$') AS m) AS p_"


_THERE: Final = (
    "CAST(y AS integer) BETWEEN 1 AND 290000 AND CAST(mo AS integer) BETWEEN 1 AND 12"
    " AND CAST(d AS integer) BETWEEN 1 AND 31"
)
_FIRST: Final = "make_date(CAST(y AS integer), CAST(mo AS integer), 1)"
_MADE: Final = f"({_FIRST} + (CAST(d AS integer) - 1))"
_SAME: Final = f"extract(month FROM {_MADE}) = CAST(mo AS integer)"


def date(x: str) -> str:
    """The day that a text names, with or without a time; NULL where there is none.  Infinities are days
    beyond every domain."""
    past = f"WHEN position('-' IN {x}) > 0 THEN DATE '-infinity' ELSE DATE 'infinity' END"
    endless = f"CASE WHEN {x} ~ '{_INFINITE.replace('[+-]', '-')}' THEN CASE {past}"
    return f"{endless} ELSE CAST({timestamp(x)} AS date) END"


def timestamp(x: str) -> str:
    """The moment that a text names, in UTC; NULL where there is none."""
    names = ("y", "mo", "d", "h", "mi", "s", "f", "sign", "zh", "zm")
    whole = rf"{_DAY}(?:[ T] *{_TIME}{_ZONE})?"
    clock = (
        "coalesce(CAST(h AS integer), 0) <= 23 AND coalesce(CAST(mi AS integer), 0) <= 59"
        " AND coalesce(CAST(s AS integer), 0) <= 59"
        " AND coalesce(CAST(zm AS integer), 0) <= 59"
    )
    seconds = (
        "(CAST(coalesce(h, '0') AS bigint) * 3600 + CAST(coalesce(mi, '0') AS bigint) * 60"
        " + CAST(coalesce(s, '0') AS bigint)"
        " - CASE WHEN sign = '-' THEN -1 ELSE 1 END"
        " * (CAST(coalesce(zh, '0') AS bigint) * 3600 + CAST(coalesce(zm, '0') AS bigint) * 60))"
    )
    micros = "CAST(rpad(left(coalesce(f, ''), 6), 6, '0') AS bigint)"
    moment = (
        f"CAST({_MADE} AS timestamp)"
        f" + ({seconds} * 1000000 + {micros}) * CAST('1 microsecond' AS interval)"
    )
    return (
        f"(SELECT CASE WHEN {_THERE} THEN CASE WHEN {_SAME} AND {clock} THEN {moment} END END"
        f" FROM {_parts(x, whole, names)})"
    )
