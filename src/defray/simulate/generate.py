"""Workloads made to order: what repeats, comes in a bad order, or is adversarial.

Half-widths are log-uniform in [3, 60] at 95 % (``rho_min = z^2 / (2 U^2)``) and true counts lognormal with
median 1,500, at least 5, unless said otherwise.  Equal seeds give equal workloads.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from defray.core.brief import brief
from defray.errors import BadInput
from defray.simulate.chance import generator
from defray.simulate.pricing import least_rho
from defray.simulate.workload import Workload

_Floats = NDArray[np.float64]
_Ints = NDArray[np.int64]

STREAM: Final = 2
"""The stream of chance that workloads are made from; runs have others."""

MOST_ASKS: Final = 10_000_000
NARROW, WIDE = 3.0, 60.0
TYPICAL, SPREAD, FEWEST = 1500.0, 1.5, 5.0


def iid(n: int, seed: int) -> Workload:
    """Different questions in no order."""
    return _fresh("iid", *_drawn(n, seed))


def heavy_first(n: int, seed: int) -> Workload:
    """The dearest first: a greedy budget is gone before the cheap ones come."""
    demands, truths = _drawn(n, seed)
    order = np.argsort(-demands, kind="stable")
    return _fresh("heavy_first", demands[order], truths[order])


def heavy_last(n: int, seed: int) -> Workload:
    """The cheapest first."""
    demands, truths = _drawn(n, seed)
    order = np.argsort(demands, kind="stable")
    return _fresh("heavy_last", demands[order], truths[order])


def burst(n: int, seed: int, factor: float = 4.0) -> Workload:
    """The last third needs ``factor`` times as much: what was seen so far misleads."""
    demands, truths = _drawn(n, seed)
    demands[2 * n // 3 :] *= factor
    return _fresh("burst", demands, truths)


def small_is_hard(n: int, seed: int) -> Workload:
    """The largest counts first: the small ones, hardest by QIF, come late."""
    demands, truths = _drawn(n, seed)
    order = np.argsort(-truths, kind="stable")
    return _fresh("small_is_hard", demands[order], truths[order])


def repeats(n: int, seed: int, overlap: float = 0.5) -> Workload:
    """``floor(overlap (n - 1))`` of the later asks repeat an earlier question at the same target (the paper's
    alpha_ov, appendix E.3); the others are new."""
    chance = generator(seed, STREAM, 1)
    again = np.zeros(n, dtype=bool)
    again[1 + chance.permutation(n - 1)[: math.floor(overlap * (n - 1))]] = True
    new_so_far = np.cumsum(~again)
    # A repeat is of any question so far, each as likely.
    drawn = (chance.random(n) * new_so_far).astype(np.int64)
    keys = np.where(again, drawn, new_so_far - 1)
    demands, truths = _drawn(int(new_so_far[-1]), seed)
    return Workload("repeats", keys, demands[keys], truths[keys], np.zeros(n, dtype=np.int64))


def zipf(n: int, seed: int, distinct: int = 500, exponent: float = 1.0) -> Workload:
    """Questions of Zipf's popularity, ``rank^-exponent``; each ask has a half-width of its own."""
    keys = _popular(n, seed, distinct, exponent)
    truths = _truths(distinct, seed)[keys]
    return Workload("zipf", keys, _demands(n, seed), truths, np.zeros(n, dtype=np.int64))


def mixed_analysts(
    n: int, seed: int, analysts: int = 4, distinct: int = 500, exponent: float = 1.0
) -> Workload:
    """Several analysts, each as busy, who ask the same popular questions."""
    one = zipf(n, seed, distinct, exponent)
    who = generator(seed, STREAM, 3).integers(analysts, size=n)
    return Workload("mixed_analysts", one.keys, one.demands, one.truths, who.astype(np.int64))


def two_query(n: int, seed: int) -> Workload:
    """The paper's illustration (section 6.2): a question that needs 0.7 rho, then the same at 1.0."""
    return Workload("two_query", _zeros(2), np.array([0.7, 1.0]), np.full(2, TYPICAL), _zeros(2))


def w_a(n: int, seed: int) -> Workload:
    """W_A of Theorem 8: one question that needs 1 rho, the whole budget (1)."""
    return _fresh("w_a", np.ones(1), np.full(1, TYPICAL))


def w_b(n: int, seed: int) -> Workload:
    """W_B of Theorem 8: the question of W_A, then ``n`` different ones that need ``1/n`` rho each."""
    demands = np.concatenate((np.ones(1), np.full(n, 1 / n)))
    return _fresh("w_b", demands, np.full(n + 1, TYPICAL))


def _zeros(n: int) -> _Ints:
    return np.zeros(n, dtype=np.int64)


def _fresh(name: str, demands: _Floats, truths: _Floats) -> Workload:
    """Every question a different one, all from one analyst."""
    n = len(demands)
    return Workload(name, np.arange(n, dtype=np.int64), demands, truths, _zeros(n))


def _drawn(n: int, seed: int) -> tuple[_Floats, _Floats]:
    return _demands(n, seed), _truths(n, seed)


def _demands(n: int, seed: int) -> _Floats:
    low, high = math.log(NARROW), math.log(WIDE)
    half_widths = np.exp(generator(seed, STREAM, 4).uniform(low, high, n))
    return np.asarray(least_rho(1.0) / half_widths**2, dtype=np.float64)


def _truths(n: int, seed: int) -> _Floats:
    drawn = np.exp(generator(seed, STREAM, 5).normal(math.log(TYPICAL), SPREAD, n))
    return np.maximum(FEWEST, drawn)


def _popular(n: int, seed: int, distinct: int, exponent: float) -> _Ints:
    popularity = np.cumsum(np.arange(1, distinct + 1, dtype=np.float64) ** -exponent)
    drawn = generator(seed, STREAM, 2).random(n) * popularity[-1]
    ranks = np.searchsorted(popularity, drawn, side="right")
    return np.asarray(np.minimum(ranks, distinct - 1), dtype=np.int64)


# -- by name -------------------------------------------------------------------------------------


Make = Callable[..., Workload]
"""``(n, seed, **parameters)``: n asks, or what of them the workload has by definition."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number from ``low`` to ``high``, whole if those are."""

    meaning: str
    default: float
    low: float
    high: float

    @property
    def whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)


@dataclass(frozen=True, slots=True)
class Generator:
    """A generator and its parameters by name; ``n`` is among them where the number of asks is free."""

    make: Make
    parameters: Mapping[str, Parameter] = field(default_factory=dict)

    @property
    def meaning(self) -> str:
        return " ".join((self.make.__doc__ or "").replace("``", "").split())


_N: Final = Parameter("asks", 1000, 1, MOST_ASKS)
_SHARED: Final = {
    "n": _N,
    "distinct": Parameter("different questions", 500, 1, MOST_ASKS),
    "exponent": Parameter("how unequal they are; 0: equally popular", 1.0, 0.0, 10.0),
}

GENERATORS: Final[Mapping[str, Generator]] = {
    "iid": Generator(iid, {"n": _N}),
    "heavy_first": Generator(heavy_first, {"n": _N}),
    "heavy_last": Generator(heavy_last, {"n": _N}),
    "burst": Generator(
        burst, {"n": _N, "factor": Parameter("how much more the last third needs", 4.0, 1e-6, 1e6)}
    ),
    "small_is_hard": Generator(small_is_hard, {"n": _N}),
    "repeats": Generator(
        repeats, {"n": _N, "overlap": Parameter("the part that repeats", 0.5, 0.0, 1.0)}
    ),
    "zipf": Generator(zipf, _SHARED),
    "mixed_analysts": Generator(
        mixed_analysts, {**_SHARED, "analysts": Parameter("how many ask", 4, 1, 100_000)}
    ),
    "two_query": Generator(two_query),
    "w_a": Generator(w_a),
    "w_b": Generator(w_b, {"n": Parameter("questions after the first", 20, 1, MOST_ASKS)}),
}
"""By the name that ``--generate NAME:parameter=value,...`` takes."""


@dataclass(frozen=True, slots=True)
class Spec:
    """A generator with its parameters chosen: ``spec(seed)`` is a workload called by the ``text``."""

    text: str
    make: Callable[[int], Workload]

    def __call__(self, seed: int) -> Workload:
        return replace(self.make(seed), name=self.text)


def read_spec(text: str) -> Spec:
    """``zipf:n=10000,distinct=500,exponent=1.1``.  Raises BadInput.

    >>> len(read_spec("w_b:n=3")(0)), read_spec("iid").text
    (4, 'iid:n=1000')
    """
    name, colon, rest = (part.strip() for part in text.partition(":"))
    found = GENERATORS.get(name)
    if found is None:
        near = difflib.get_close_matches(name, GENERATORS, 1)
        hint = f"did you mean {near[0]}?" if near else f"one of {', '.join(GENERATORS)}"
        raise BadInput(f"there is no generator called {brief(name) or 'nothing'}", hint=hint)
    given: dict[str, float] = {}
    for part in rest.split(",") if colon else ():
        key, equals, value = (piece.strip() for piece in part.partition("="))
        parameter = found.parameters.get(key)
        if not equals or parameter is None:
            hint = f"write {name}:" + ",".join(
                f"{k}={p.default:g}" for k, p in found.parameters.items()
            )
            if not found.parameters:
                hint = f"write {name} alone"
            raise BadInput(f"{name} has no parameter {brief(part) or 'nothing'}", hint=hint)
        if key in given:
            raise BadInput(f"{name}: {key} is given twice", hint="keep one of them")
        given[key] = _value(f"{name}: {key}", value, parameter)
    chosen = {k: given.get(k, p.default) for k, p in found.parameters.items()}
    called = ",".join(f"{k}={v:.12g}" for k, v in chosen.items())
    chosen.setdefault("n", 1)
    return Spec(f"{name}:{called}" if called else name, partial(_make, found.make, chosen))


def _make(make: Make, chosen: Mapping[str, Any], seed: int) -> Workload:
    return make(seed=seed, **chosen)


def _value(what: str, text: str, parameter: Parameter) -> float:
    kind = "a whole number" if parameter.whole else "a number"
    limits = f"from {parameter.low:,} to {parameter.high:,}"
    try:
        number = float(text)
        if parameter.low <= number <= parameter.high and (not parameter.whole or number % 1 == 0):
            return int(number) if parameter.whole else number
    except (ValueError, OverflowError):
        pass
    raise BadInput(
        f"{what} must be {kind} {limits}, not {brief(text) or 'nothing'}",
        hint=f"{parameter.meaning}; {parameter.default:g} if left out",
    )
