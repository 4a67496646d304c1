"""A workload from a file, one ask a line in arrival order.  Nothing is half read: every bad line is told at
once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from defray.controller.goals import Wish
from defray.core.contract import Contract
from defray.errors import BadInput, Problem, QueryError, WorkloadError
from defray.simulate.pricing import Prices, least_rho
from defray.simulate.records import LINE, Records, quoted, read_records
from defray.simulate.workload import Workload, Written

TYPICAL: Final = 1500.0
"""The true value of a question where none is given: the median of generated ones."""

NO_TRUTH: Final = (
    f"no truth is given: every question's true value is taken as {TYPICAL:,.0f}, so that difficulty "
    "weights tell nothing"
)

LEAST, MOST = 1e-60, 1e60

Need = tuple[int, float, float, bool]
"""A question by number; the rho it needs, from and to; whether that is still to be multiplied by
``(k * Delta)^2``."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A workload, and what there is to say about how it was read."""

    workload: Workload
    notes: tuple[str, ...] = ()


class _Mistake(Exception):
    """What is wrong with a line, in the order of a Problem: field, message, cure."""


def read_workload(
    path: Path,
    contract: Contract | None = None,
    progress: Callable[[int, int], None] | None = None,
    *,
    askable: bool = False,
) -> Loaded:
    """The workload of a file; SQL is priced under the ``contract``, else it is a mere name.  ``progress`` is
    told lines read and lines in all.  ``askable``: the contract's engine must be able to answer every ask.
    Raises BadInput, or WorkloadError with every mistake."""
    records = read_records(path)
    reading = _Reading(records, contract, askable)
    for i, record in enumerate(records):
        if progress is not None and not i % 256:
            progress(i, len(records.lines))
        reading.take(*record)
    if records.problems:
        raise WorkloadError(records.problems, path=str(path))
    return reading.loaded(path.name)


class _Reading:
    """Asks, line by line."""

    def __init__(self, records: Records, contract: Contract | None, askable: bool) -> None:
        self._askable = askable
        self._problems = records.problems
        self._prices = None if contract is None else Prices(contract)
        self._found: dict[Any, Any] = {}
        self._sql: dict[str | bytes, int] = {}
        self._keys: dict[str, int] = {}
        self._labels: list[str] = []
        self._crowd: dict[str, int] = {}
        self._facts: dict[str, dict[int, tuple[float, int]]] = {"truth": {}, "scale": {}}
        self._asked: list[int] = []
        self._low: list[float] = []
        self._high: list[float] = []
        self._per_scale: list[bool] = []
        self._analysts: list[int] = []
        self._texts: dict[tuple[Any, ...], Written] | None = (
            {} if "sql" in records.columns else None
        )
        self._asks: list[Written] = []

    def take(
        self,
        line: int,
        sql: Any,
        key: Any,
        within: Any,
        confidence: Any,
        rho: Any,
        analyst: Any,
        truth: Any,
        scale: Any,
    ) -> None:
        """One line."""
        at = None
        try:
            at, low, high, per_scale = self._need(sql, key, within, confidence, rho)
        except _Mistake as mistake:
            self._note(line, mistake)
        try:
            who = self._who(analyst)
            if at is None:
                return
            if truth is not None:
                self._fact("truth", truth, at, line)
            if scale is not None:
                self._fact("scale", scale, at, line)
        except _Mistake as mistake:
            self._note(line, mistake)
            return
        self._asked.append(at)
        self._low.append(low)
        self._high.append(high)
        self._per_scale.append(per_scale)
        self._analysts.append(who)
        if self._texts is not None:
            said = (sql, within, confidence, analyst, rho)
            if (ask := self._texts.get(said)) is None:
                ask = self._texts[said] = Written(*("" if x is None else str(x) for x in said))
            self._asks.append(ask)

    def loaded(self, name: str) -> Loaded:
        """What was read, if all of it was right."""
        at = np.array(self._asked, dtype=np.int64)
        squares = np.where(self._per_scale, self._of_questions("scale", 1.0)[at] ** 2, 1.0)
        low, high = np.array(self._low) * squares, np.array(self._high) * squares
        workload = Workload(
            name=name,
            keys=at,
            demands=low,
            truths=self._of_questions("truth", TYPICAL)[at],
            analysts=np.array(self._analysts, dtype=np.int64),
            labels=tuple(self._labels),
            asks=tuple(self._asks),
            ceilings=high if (high > low).any() else None,
        )
        return Loaded(workload, tuple(self._notes(workload)))

    def _note(self, line: int, mistake: _Mistake) -> None:
        name, message, cure = mistake.args
        self._problems.append(Problem(name, message, cure, line))

    # -- one line ----------------------------------------------------------------------------------

    def _need(self, sql: Any, key: Any, within: Any, confidence: Any, rho: Any) -> Need:
        if sql is None:
            if key is None:
                cure = 'add a name: "key": "all", or a question: "sql": "SELECT ..."'
                raise _Mistake(LINE, "neither sql nor key is given", cure)
        elif key is not None:
            raise _Mistake(LINE, "sql and key are both given", "keep one of them")
        given = None
        if rho is not None:
            if within is not None or confidence is not None:
                raise _Mistake("rho", "rho and an accuracy are both given", "keep one of them")
            given = _number("rho", rho)
        if sql is None and self._askable:
            cure = 'write the question itself: "sql": "SELECT ..."'
            raise _Mistake("key", "a key names a question, and a table can only be asked SQL", cure)
        if sql is None:
            at = self._number_of(self._keys, _text("key", key))
        elif self._prices is None:
            at = self._number_of(self._sql, _text("sql", sql))
        else:
            return self._priced(self._prices, _text("sql", sql), within, confidence, given)
        if given is not None:
            return at, given, given, False
        if within is None:
            cure = 'add "within": 50, or "rho": what it needs'
            if sql is not None:
                cure += "; SQL itself is read only under a contract: --contract FILE"
            raise _Mistake("within", "neither within nor rho is given", cure)
        try:
            rho_min = least_rho(_accuracy("within", within), _accuracy("confidence", confidence))
        except BadInput as error:
            raise _Mistake(_field(error), error.message, error.hint) from None
        return at, rho_min, rho_min, True

    def _priced(
        self, prices: Prices, sql: str, within: Any, confidence: Any, given: float | None
    ) -> Need:
        if given is not None:
            wish = (Wish.of(None, None, given, None, None),) if self._askable else ()
            descriptor, label = self._once(prices.question, sql, *wish)
            return self._number_of(self._sql, descriptor, label), given, given, False
        goal = _accuracy("within", within), _accuracy("confidence", confidence)
        found = self._once(prices.of, sql, *goal)
        return (
            self._number_of(self._sql, found.descriptor, found.label),
            found.low,
            found.high,
            False,
        )

    def _once(self, what: Callable[..., T], *arguments: Any) -> T:
        """What a function makes of its arguments, or the mistake that it finds in them; worked out once."""
        found: T | _Mistake | None = self._found.get(arguments)
        if found is None:
            try:
                found = what(*arguments)
            except QueryError as error:
                caret = error.caret().replace("\n", "\n    ")
                found = _Mistake("sql", f"{error.message}\n    {caret}", error.hint)
            except BadInput as error:
                found = _Mistake(_field(error), error.message, error.hint)
            self._found[arguments] = found
        if isinstance(found, _Mistake):
            raise _Mistake(*found.args)
        return found

    def _number_of(
        self, known: dict[Any, int], descriptor: str | bytes, label: str | None = None
    ) -> int:
        """The number of a question, a new one where it was not asked before."""
        at = known.get(descriptor)
        if at is None:
            at = known[descriptor] = len(self._labels)
            self._labels.append(str(descriptor) if label is None else label)
        return at

    def _who(self, analyst: Any) -> int:
        name = "" if analyst is None else _text("analyst", analyst)
        return self._crowd.setdefault(name, len(self._crowd))

    def _fact(self, name: str, value: Any, at: int, line: int) -> None:
        """What is true of a question however it is asked: given once, or always the same."""
        number = _number(name, value)
        facts = self._facts[name]
        if at not in facts:
            facts[at] = number, line
            return
        first, where = facts[at]
        if first != number:
            message = f"{number:.12g}, but {first:.12g} in line {where}, for the same question"
            raise _Mistake(name, message, f"a question has one {name}")

    def _of_questions(self, name: str, default: float) -> NDArray[np.float64]:
        values = np.full(len(self._labels), default)
        for at, (number, _) in self._facts[name].items():
            values[at] = number
        return values

    def _notes(self, workload: Workload) -> Iterator[str]:
        if workload.ceilings is not None:
            ranged = workload.ceilings > workload.demands
            low, high = workload.demands[ranged].sum(), workload.ceilings[ranged].sum()
            yield (
                f"{int(ranged.sum())} of {len(workload)} asks are averages or percentages: they need "
                f"{low:.4g} to {high:.4g} rho in all, which only asking tells; taken at the low end"
            )
        if workload.asks and self._prices is None:
            yield (
                "without a contract SQL is only a name: texts that differ at all are different "
                "questions, and within counts in units of scale"
            )
        if not self._facts["truth"]:
            yield NO_TRUTH


def _field(error: BadInput) -> str:
    """Which field an accuracy's mistake is in; all are read by the product's own parsers."""
    named = (name for name in ("confidence", "rho") if error.message.startswith(name))
    return next(named, "within")


def _text(name: str, value: Any) -> str:
    text = str(value) if type(value) is int else value
    if type(text) is not str or not text:
        raise _Mistake(name, f"{quoted(value)} is not a text", "write a text that is not empty")
    if not text.isascii() and any("\ud800" <= c <= "\udfff" for c in text):
        raise _Mistake(name, "the text holds half of a character", "write the whole character")
    return text


def _number(name: str, value: Any) -> float:
    """A truth may be any finite number; the others are positive."""
    try:
        number = float("nan" if isinstance(value, bool) else value)
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if (-MOST if name == "truth" else LEAST) <= number <= MOST:
        return number
    kind = (
        f"a number from {-MOST:g} to {MOST:g}"
        if name == "truth"
        else f"a number from {LEAST:g} to {MOST:g}"
    )
    raise _Mistake(name, f"{quoted(value)} is not {kind}", "write a number such as 0.5")


def _accuracy(name: str, value: Any) -> Any:
    """An accuracy as users write it, still to be read."""
    if value is None or type(value) in (str, float, int):
        return value
    raise _Mistake(name, f"{quoted(value)} is not an accuracy", 'write 50, "2%" or "95%"')
