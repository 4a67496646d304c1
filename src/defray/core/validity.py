"""When an interval holds: what an analyst may have seen before deciding to ask once more.

An interval at 95 % is right for a question that was fixed beforehand.  Asking again until the answer suits is
another experiment: at the moment the analyst stops, such intervals hold far less often (privacy is not
affected).  ``anytime`` is the normal-mixture confidence sequence (Robbins 1970): with precision P, of which
the first release brought p, and eta = 0.12 p, it is right at every P at once with probability 1 - gamma
(Ville's inequality; a discrete Gaussian is sub-Gaussian with its sigma).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, Literal

from defray.core.amounts import dyadic_up
from defray.errors import TargetError

Kind = Literal["fixed", "anytime", "looks", "confirm"]
KINDS: Final[tuple[Kind, ...]] = ("fixed", "anytime", "looks", "confirm")
MAX_LOOKS: Final = 1000

MIXTURE: Final = Fraction(12, 100)
"""eta as a part of the first release's precision: makes the 95 % width least near the first looks."""

_AGAINST: Final = "error against the table as the contract declares it"
_UP: Final = 1 + 2.0**-48
"""More than the rounding errors of a width together."""
_SURE: Final = 1 + 2.0**-40
"""More than those of a precision found from a width."""


@dataclass(frozen=True, slots=True)
class Validity:
    """``fixed``; ``anytime``; at most ``looks`` looks, declared beforehand (Bonferroni); or ``confirm``: a
    release of its own, reported alone.

    >>> str(Validity("looks", 5)), Validity("looks", 5).sql, Validity().sql
    ('looks=5', 'LOOKS 5', 'FIXED')
    """

    kind: Kind = "fixed"
    looks: int = 1

    def __str__(self) -> str:
        return f"looks={self.looks}" if self.kind == "looks" else self.kind

    @property
    def sql(self) -> str:
        return f"LOOKS {self.looks}" if self.kind == "looks" else self.kind.upper()

    @property
    def own_releases_only(self) -> bool:
        """Whether only releases of the functional itself count as known of it."""
        return self.kind in ("anytime", "looks")

    @property
    def label(self) -> str:
        """What is said beside an interval."""
        if self.kind == "anytime":
            return f"valid whenever you stop asking this question; {_AGAINST}"
        if self.kind == "looks":
            times = "1 look" if self.looks == 1 else f"{self.looks} looks"
            return (
                f"valid for at most {times} at this question, with errors that you fixed before the "
                f"first; {_AGAINST}"
            )
        if self.kind == "confirm":
            return f"valid whatever was asked before: from a release of its own; {_AGAINST}"
        return f"valid if you decided to ask before seeing any answer to this question; {_AGAINST}"


DEFAULT: Final = Validity()

COMPLETED: Final = (
    "valid whatever was asked before this confirmation, if you decided to complete it before seeing its "
    f"first part; {_AGAINST}"
)
"""What is said of a confirmation that took more than one ask."""


def parse_validity(value: Any) -> Validity:
    """A validity as users write it: ``"anytime"``, ``"looks=5"``, ``"confirm"``, ``"fixed"``.  Raises
    TargetError.

    >>> parse_validity("looks=5") == Validity("looks", 5)
    True
    """
    kind, equals, count = str(value).strip().lower().partition("=")
    for known in KINDS:
        if kind.strip() != known or bool(equals) != (known == "looks"):
            continue
        if known != "looks":
            return Validity(known)
        digits = count.strip()
        if digits.isascii() and digits.isdigit() and len(digits) <= 4:
            looks = int(digits)
            if 1 <= looks <= MAX_LOOKS:
                return Validity("looks", looks)
        raise TargetError(
            f"looks must be a whole number from 1 to {MAX_LOOKS}, not {digits[:20]}",
            hint='for example validity="looks=5"',
        )
    raise TargetError(
        f"validity must be fixed, anytime, looks=K or confirm, not {str(value)[:40]}",
        hint='for example validity="anytime"',
    )


def anytime_width(precision: Fraction, first: Fraction, gamma: float) -> float:
    """The half-width ``sqrt((P + eta) ln((P + eta) / (eta gamma**2))) / P``, rounded up.

    >>> F = Fraction
    >>> [round((anytime_width(F(n), F(1), 0.05) / 1.959964) ** 2 * n, 2) for n in (1, 10, 100, 1000)]
    [2.4, 2.75, 3.31, 3.91]
    """
    eta = MIXTURE * first
    grown = precision + eta
    log = _log(grown / eta) - 2 * math.log(gamma)
    return math.sqrt(log) * math.sqrt(float(grown)) / float(precision) * _UP


@lru_cache(maxsize=4096)
def anytime_precision(amount: Fraction, first: Fraction, gamma: float) -> Fraction:
    """The least dyadic precision P (up to 2**-39 of it) with ``anytime_width(P, first, gamma) <= amount``.

    ``first`` 0: nothing is known yet, so that P itself will be the first release's,
    ``P = 1.12 ln(1.12 / (0.12 gamma**2)) / amount**2``.
    """
    if not first:
        part = float(MIXTURE)
        log = math.log((1 + part) / part) - 2 * math.log(gamma)
        return dyadic_up(Fraction((1 + part) * log * _SURE) / amount**2)
    eta = MIXTURE * first
    wanted = _log(amount) + _log(eta) / 2
    low, high = -1e4, 1e4  # of ln(P / eta), in which the width strictly falls
    while low < (middle := (low + high) / 2) < high:
        if _log_width(middle, gamma) > wanted:
            low = middle
        else:
            high = middle
    whole, rest = divmod(high, math.log(2))
    return dyadic_up(eta * Fraction(math.exp(rest) * _SURE) * Fraction(2) ** int(whole))


def _log_width(log_ratio: float, gamma: float) -> float:
    """ln of the half-width times the root of eta, at ``ln(P / eta)``."""
    grown = max(log_ratio, 0.0) + math.log1p(math.exp(-abs(log_ratio)))  # ln(P / eta + 1)
    return (math.log(grown - 2 * math.log(gamma)) + grown) / 2 - log_ratio


def _log(x: Fraction) -> float:
    """ln x, of fractions beyond the floats too."""
    shift = x.numerator.bit_length() - x.denominator.bit_length()
    return math.log(x / Fraction(2) ** shift) + shift * math.log(2)
