"""The accuracy clause: ``ERROR WITHIN 50 FOR n, 2% FOR m AT CONFIDENCE 95% SIMULTANEOUS``, and after it
``VALIDITY ANYTIME``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from defray.core.validity import KINDS, MAX_LOOKS, Kind, Validity
from defray.errors import QueryError
from defray.query.descriptor import Accuracy, Aggregate, Goal
from defray.query.reader import Name, Reader
from defray.query.tokens import number

EXAMPLE = "write ERROR WITHIN 50 AT CONFIDENCE 95%"
VALIDITIES: dict[str, Kind] = {kind.upper(): kind for kind in KINDS}


@dataclass(frozen=True, slots=True)
class Clause:
    """An accuracy clause as written, before its names are matched with the outputs."""

    goals: tuple[tuple[Name | None, Goal], ...]
    confidence: Fraction | None
    simultaneous: bool | None
    validity: Validity | None = None


def starts_here(reader: Reader) -> bool:
    """Whether an accuracy clause begins at the current token."""
    word, ahead = reader.now.word, reader.ahead()
    if word == "ERROR":
        return ahead.word == "WITHIN"
    if word == "AT":
        return ahead.word == "CONFIDENCE"
    if word == "VALIDITY":
        return ahead.word in VALIDITIES
    return word == "CONFIDENCE" and (ahead.kind == "number" or ahead.text in ("-", "+"))


def read(reader: Reader) -> Clause:
    """Reads the clause that begins at the current token."""
    goals: list[tuple[Name | None, Goal]] = []
    if reader.take_word("ERROR"):
        reader.need_word("WITHIN")
        while True:
            start = reader.now.start
            goals.append(_goal(reader))
            if len(goals) > 1 and any(name is None for name, _ in goals):
                raise reader.refuse(
                    "bad-accuracy",
                    "one goal serves all outputs; several goals need FOR",
                    (start, reader.last_end),
                    "write ERROR WITHIN 50 FOR n, 2% FOR m AT CONFIDENCE 95%",
                )
            if not reader.take_sign(","):
                break
    confidence = None
    if reader.take_word("AT") and reader.now.word != "CONFIDENCE":
        raise reader.refuse("bad-accuracy", "CONFIDENCE is expected here", reader.now, EXAMPLE)
    if reader.take_word("CONFIDENCE"):
        confidence = _confidence(reader)
    simultaneous: bool | None = None
    validity: Validity | None = None
    while True:
        if simultaneous is None and reader.take_word("SIMULTANEOUS"):
            simultaneous = True
        elif simultaneous is None and reader.now.word == "PER" and reader.ahead().word == "CELL":
            reader.next()
            reader.next()
            simultaneous = False
        elif validity is None and reader.take_word("VALIDITY"):
            validity = _validity(reader)
        else:
            return Clause(tuple(goals), confidence, simultaneous, validity)


def resolve(reader: Reader, clause: Clause, aggregates: Sequence[Aggregate]) -> Accuracy:
    """The clause with its names matched with the outputs' aliases."""
    goals: list[tuple[str | None, Goal]] = []
    for name, goal in clause.goals:
        alias = None if name is None else find_alias(name, aggregates)
        if name is not None and alias is None:
            raise reader.refuse(
                "bad-accuracy",
                f"no output is named {name.text}",
                name,
                "the outputs are " + ", ".join(a.alias for a in aggregates[:8]),
            )
        if name is not None and any(alias == other for other, _ in goals):
            raise reader.refuse(
                "bad-accuracy", f"{alias} has two goals", name, "write one goal for each output"
            )
        goals.append((alias, goal))
    return Accuracy(tuple(goals), clause.confidence, clause.simultaneous, clause.validity)


def find_alias(name: Name, aggregates: Sequence[Aggregate]) -> str | None:
    """The alias that a name means: exact, else (unquoted) whatever the case; aliases differ in more
    than case."""
    for aggregate in aggregates:
        if aggregate.alias == name.text:
            return aggregate.alias
    if not name.quoted:
        folded = name.text.casefold()
        for aggregate in aggregates:
            if aggregate.alias.casefold() == folded:
                return aggregate.alias
    return None


def _goal(reader: Reader) -> tuple[Name | None, Goal]:
    start = reader.now.start
    value, percent = _amount(reader, "a number such as 50 or 2%")
    where = (start, reader.last_end)
    if percent and not 0 < value < 1:
        raise reader.refuse(
            "bad-accuracy", "a relative error lies between 0% and 100%", where, "write 2%"
        )
    if value <= 0:
        raise reader.refuse(
            "bad-accuracy", "an error must be a positive finite number", where, EXAMPLE
        )
    name = reader.name("the name of an output") if reader.take_word("FOR") else None
    return name, Goal(value, percent)


def _confidence(reader: Reader) -> Fraction:
    start = reader.now.start
    value, percent = _amount(reader, "a confidence such as 95%")
    where = (start, reader.last_end)
    if percent and not Fraction(1, 2) <= value < 1:
        raise reader.refuse(
            "bad-accuracy", "a confidence lies from 50% to below 100%", where, "write 95% or 0.95"
        )
    if not 0 < value < 1:
        hint = (
            f"write {reader.text[start : reader.last_end]}%" if 50 <= value < 100 else "write 95%"
        )
        raise reader.refuse(
            "bad-accuracy", "a confidence lies between 0 and 1, or is a percentage", where, hint
        )
    return value


def _validity(reader: Reader) -> Validity:
    kind = VALIDITIES.get(reader.now.word)
    if kind is None:
        raise reader.refuse(
            "bad-accuracy",
            f"{reader.now.shown()} is not FIXED, ANYTIME, LOOKS or CONFIRM",
            reader.now,
            "write VALIDITY ANYTIME",
        )
    reader.next()
    if kind != "looks":
        return Validity(kind)
    start = reader.now.start
    value, percent = _amount(reader, "a number of looks")
    if percent or value.denominator != 1 or not 1 <= value <= MAX_LOOKS:
        raise reader.refuse(
            "bad-accuracy",
            f"LOOKS takes a whole number from 1 to {MAX_LOOKS}",
            (start, reader.last_end),
            "write VALIDITY LOOKS 5",
        )
    return Validity("looks", int(value))


def _amount(reader: Reader, wanted: str) -> tuple[Fraction, bool]:
    """A number, signed or not, and whether it is a percentage (then divided by 100)."""
    token = reader.now
    sign = reader.next() if reader.at_sign("-", "+") else None
    digits = reader.now
    if digits.kind != "number":
        raise reader.refuse("bad-accuracy", f"{digits.shown()} is not {wanted}", token, EXAMPLE)
    reader.next()
    try:
        value = number(reader.text, digits)
    except QueryError as refused:
        raise reader.refuse("bad-accuracy", refused.message, digits, EXAMPLE) from None
    if sign is not None and sign.text == "-":
        value = -value
    if reader.take_sign("%"):
        return value / 100, True
    return value, False
