"""``defray quote`` and ``defray ask``: one question, or a file of them in order."""

from __future__ import annotations

import signal
from threading import Event
from types import FrameType
from typing import Any

from defray.arguments import WISHED
from defray.cli import answers, screen
from defray.cli.numbers import rho
from defray.cli.progress import Bar
from defray.cli.questions import Questions, read_questions
from defray.cli.screen import say, show
from defray.core.answer import Answer
from defray.errors import BadInput, Cancelled, DefrayError
from defray.session import Session

__all__ = ["ask", "quote", "read_questions"]


def quote(
    session: Session,
    questions: Questions,
    arguments: dict[str, Any],
    delta: float | None,
    *,
    together: bool = False,
) -> None:
    """Prices, and for a file their total; ``together``: as planned together."""
    delta = session.contract.delta if delta is None else delta
    texts = [s.sql for s in questions.statements]
    if questions.single:
        price = session.quote(texts[0], **arguments)
        if screen.json_wanted():
            show(price.to_dict())
        else:
            answers.show_quote(price, delta)
        return
    try:
        prices = session.quote_all(texts, **arguments, together=together)
    except DefrayError:
        _blame(session, questions, arguments)
        raise
    if screen.json_wanted():
        total = answers.total_of(prices, delta)
        show({"quotes": [p.to_dict() for p in prices], "total": total})
    else:
        answers.show_quotes(prices, delta)


def _blame(session: Session, questions: Questions, arguments: dict[str, Any]) -> None:
    """Raise the mistake of the first question of a file that has one, saying which it is."""
    wish = {name: arguments[name] for name in WISHED}
    for i, statement in enumerate(questions.statements):
        try:
            session.quote(statement.sql, **wish)
        except BadInput as error:
            raise questions.place(i, error) from None


def ask(
    session: Session, questions: Questions, arguments: dict[str, Any], *, together: bool = False
) -> int:
    """Answers, and the exit code; ``together``: to questions that are planned together.  A file stops at the
    first question that fails; what was answered before it is shown."""
    if together:
        arguments = {**arguments, "among": [s.sql for s in questions.statements]}
    if not questions.single and not arguments.get("dry_run"):
        _blame(session, questions, arguments)  # nothing is charged for a file with a mistake in it
    done: list[Answer] = []
    machine = screen.json_wanted()
    for i, statement in enumerate(questions.statements):
        try:
            answer = _answer(session, statement.sql, arguments)
        except DefrayError as error:
            questions.place(i, error)
            if not machine or questions.single:
                raise
            show({"answers": [a.to_dict() for a in done], "error": error.to_dict()})
            return error.exit_code
        done.append(answer)
        if not machine:
            if i:
                say()
            answers.show_answer(answer)
    if machine:
        documents = [a.to_dict() for a in done]
        show(documents[0] if questions.single else {"answers": documents})
    elif not questions.single:
        total = sum(a.charged_rho for a in done)
        say()
        say(f"{len(done)} questions charged {rho(total)} rho in all", "bold")
    return 0


def _answer(session: Session, sql: str, arguments: dict[str, Any]) -> Answer:
    """One ask.  The first Ctrl-C stops the scan in good order; what was charged by then is shown."""
    pressed = Event()

    def stop(number: int, frame: FrameType | None) -> None:
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()

    before = signal.signal(signal.SIGINT, stop)
    try:
        with Bar("reading the table") as bar:
            return session.ask(sql, **arguments, progress=bar, cancelled=pressed.is_set)
    except Cancelled:
        if pressed.is_set():
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, before)
