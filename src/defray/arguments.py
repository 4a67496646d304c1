"""The arguments of an ask, checked where they come in: alike for a contract at hand and for one afar."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

from defray.errors import BadInput, DefrayError

WISHED = ("within", "confidence", "rho", "simultaneous", "snap", "validity")

R = TypeVar("R")
C = ParamSpec("C")


def guarded(name: str, callback: Callable[C, R] | None) -> Callable[C, R] | None:
    """The caller's callback; what it raises comes back as the caller's mistake."""
    if callback is None:
        return None
    if not callable(callback):
        raise BadInput(
            f"{name} must be a function, not {type(callback).__name__}", hint="or leave it out"
        )

    def call(*args: C.args, **kwargs: C.kwargs) -> R:
        try:
            return callback(*args, **kwargs)
        except DefrayError:
            raise
        except Exception as raised:
            kind = type(raised).__name__
        raise BadInput(f"the {name} function raised {kind}", hint="nothing was charged")

    return call


def question_of(sql: Any) -> str:
    if not isinstance(sql, str):
        raise BadInput(
            f"a question is a text, not {type(sql).__name__}",
            hint='"SELECT COUNT(*) FROM people WHERE age >= 40"',
        )
    return sql


def questions_of(name: str, questions: Any) -> list[str]:
    if isinstance(questions, str) or not isinstance(questions, Iterable):
        raise BadInput(f"{name} takes a list of questions", hint='["SELECT COUNT(*) FROM people"]')
    return [question_of(sql) for sql in questions]


def seconds(timeout: Any) -> float | None:
    if timeout is None:
        return None
    try:
        seconds = float(timeout)
    except (TypeError, ValueError, OverflowError):
        seconds = 0.0
    if not 0 < seconds <= threading.TIMEOUT_MAX:
        raise BadInput("timeout must be a positive number of seconds", hint="timeout=30")
    return seconds


def wished(arguments: dict[str, Any]) -> dict[str, Any]:
    """Those of an ask's arguments that say how accurate it is to be."""
    return {k: v for k, v in arguments.items() if k in WISHED}


def flag(name: str, value: Any) -> bool:
    if type(value) is not bool:
        raise BadInput(f"{name} is True or False, not {value!r:.40}", hint="leave it out")
    return value
