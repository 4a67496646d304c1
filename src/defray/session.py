"""The local face of a contract: what ``defray.open`` returns."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from defray import books
from defray.arguments import WISHED, flag, guarded, question_of, questions_of, seconds, wished
from defray.controller.goals import Wish
from defray.core.answer import Answer, Quote
from defray.core.contract import Contract
from defray.core.principals import Caller
from defray.data.source import Control
from defray.engine import Engine
from defray.errors import BadInput, DefrayError, InternalError
from defray.explaining import explain
from defray.ledger.audit import AuditReport
from defray.ledger.records import digest

P = ParamSpec("P")
R = TypeVar("R")

log = logging.getLogger("defray")


def shielded(method: Callable[P, R]) -> Callable[P, R]:
    """Errors leave without the frames they came through, which may hold private values.  Faults of Defray
    itself leave as an incident id only; the log gets the id, the kind and the place of the fault, never
    its text."""

    from functools import wraps

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        error: DefrayError
        try:
            return method(*args, **kwargs)
        except DefrayError as known:
            error = known.with_traceback(None)
        except Exception as fault:
            error = incident_of(fault)
        error.__context__ = error.__cause__ = None
        raise error

    return call


def incident_of(fault: BaseException) -> InternalError:
    """The error shown for a fault, which is logged under the incident's id."""
    import secrets
    import traceback

    incident = secrets.token_hex(4)
    frames = traceback.extract_tb(fault.__traceback__)
    where = " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(frames[-6:]))
    log.error("incident %s: %s at %s", incident, type(fault).__name__, where)
    return InternalError(
        f"internal error, incident {incident}",
        hint="the log names the place; please report it with the incident id. What was answered before "
        "is kept and stays free",
        incident=incident,
    )


class Session:
    """A contract at work, in this process.  Use as a context manager or call :meth:`close`.

    >>> import defray
    >>> with defray.demo() as contract:
    ...     answer = contract.ask("SELECT COUNT(*) FROM randhie WHERE year = 1", within=200)
    >>> answer.met
    True
    """

    def __init__(
        self,
        engine: Engine,
        cleanup: Callable[[], None] | None = None,
        name: str | None = None,
    ) -> None:
        self._engine = engine
        self._cleanup = cleanup
        self._name = name

    def __repr__(self) -> str:
        contract = self.contract
        return (
            f"<contract on {contract.table}: rho {float(contract.rho):g}, protects {contract.unit}>"
        )

    @property
    def contract(self) -> Contract:
        return self._engine.contract

    @shielded
    def quote(
        self,
        sql: str,
        *,
        within: Any = None,
        confidence: Any = None,
        rho: Any = None,
        simultaneous: bool | None = None,
        snap: str | None = None,
        validity: str | None = None,
        among: Sequence[str] | None = None,
    ) -> Quote:
        """What asking this would cost now; free.  Arguments as in :meth:`ask`."""
        return self._engine.quote(
            question_of(sql),
            Wish.of(within, confidence, rho, simultaneous, snap, validity),
            () if among is None else questions_of("among", among),
            self._name,
        )

    @shielded
    def quote_all(
        self,
        questions: Sequence[str],
        *,
        within: Any = None,
        confidence: Any = None,
        rho: Any = None,
        simultaneous: bool | None = None,
        snap: str | None = None,
        validity: str | None = None,
        together: bool = False,
    ) -> list[Quote]:
        """The prices of several questions asked in this order, each crediting the ones before; ``together``
        as :meth:`ask_all` plans them, with fewer charges in all."""
        wish = Wish.of(within, confidence, rho, simultaneous, snap, validity)
        listed = questions_of("quote_all", questions)
        together_with = listed if together else ()
        return self._engine.quote_all([(sql, wish) for sql in listed], together_with, self._name)

    @shielded
    def ask(
        self,
        sql: str,
        *,
        within: Any = None,
        confidence: Any = None,
        rho: Any = None,
        max_rho: Any = None,
        simultaneous: bool | None = None,
        snap: str | None = None,
        validity: str | None = None,
        among: Sequence[str] | None = None,
        timeout: float | None = None,
        progress: Callable[[float], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
        dry_run: bool = False,
        key: str | None = None,
        request: str | None = None,
    ) -> Answer:
        """Answer a question; pays only what earlier answers do not already say.

        ``within`` is an error in the aggregate's units (``50``), a percentage (``"2%"``), or a dict by
        alias; ``confidence`` defaults to 95%.  ``rho`` asks instead for the accuracy that much budget buys
        from scratch.  ``max_rho`` refuses anything dearer.  ``simultaneous`` makes the intervals of all
        cells hold at once.  ``snap="outward"`` widens thresholds that fall inside a bin.  ``validity`` says
        what the intervals allow for: ``"fixed"``, ``"anytime"`` (ask on as you like), ``"looks=5"`` or
        ``"confirm"`` (one release of its own).  ``among`` are the questions that this is one of, where
        others are to follow with the same arguments (see :meth:`ask_all`).  ``timeout`` (s), ``progress``
        and ``cancelled`` concern the scan.  ``dry_run`` answers from made-up rows, free: no row is read.
        Of a session on behalf of somebody, what was paid for a ``key`` is answered again under that key,
        for the same ``request`` (a digest, 64 hex digits), without looking again.

        Raises :class:`~defray.errors.BadInput`, :class:`~defray.errors.Refused`,
        :class:`~defray.errors.DataError` or :class:`~defray.errors.LedgerError`.
        """
        control = Control(
            guarded("progress", progress), guarded("cancelled", cancelled), seconds(timeout)
        )
        wish = Wish.of(within, confidence, rho, simultaneous, snap, validity)
        others = () if among is None else questions_of("among", among)
        asked = question_of(sql)
        if flag("dry_run", dry_run):
            from defray.dry import dry_run as dry

            return dry(
                self._engine,
                asked,
                wish,
                others,
                max_rho=max_rho,
                control=control,
                name=self._name,
            )
        caller = self._caller(asked, key, request)
        return self._engine.ask(
            asked, wish, among=others, max_rho=max_rho, control=control, caller=caller
        )

    @shielded
    def known(
        self,
        sql: str,
        *,
        max_rho: Any = None,
        among: Sequence[str] | None = None,
        key: str | None = None,
        request: str | None = None,
        follow: bool = False,
        **wish: Any,
    ) -> Answer | None:
        """What :meth:`ask` answers where that is free and, unless an analyst's shadow may ``follow``, nothing
        is written; else None.  No row is read.  The other arguments as in :meth:`ask`."""
        wanted = Wish.of(*(wish.pop(name, None) for name in WISHED))
        if wish:
            raise TypeError(f"known() has no argument {next(iter(wish))}")
        others = () if among is None else questions_of("among", among)
        asked = question_of(sql)
        caller = self._caller(asked, key, request)
        return self._engine.known(
            asked, wanted, among=others, max_rho=max_rho, caller=caller, follow=follow
        )

    def _caller(self, asked: str, key: str | None, request: str | None) -> Caller | None:
        if self._name is None:
            return None
        return Caller(self._name, key, request or digest(asked.encode()))

    def ask_all(self, questions: Sequence[str], **arguments: Any) -> list[Answer]:
        """Answer several questions that are planned together: ``arguments`` as in :meth:`ask`, for each.

        They are asked in this order, each ``among`` all of them.  What full GROUP BYs have in common is then
        bought once, as precisely as suits them all.  Where one is refused the rest is not asked; what was
        answered before is kept, and free to ask again.
        """
        listed = questions_of("ask_all", questions)
        if not arguments.get("dry_run"):  # nothing is charged for a list with a mistake in it
            self.quote_all(listed, **wished(arguments))
        return [self.ask(sql, among=listed, **arguments) for sql in listed]

    @shielded
    def warm(self) -> None:
        """Load what a first question would wait for.  Costs nothing."""
        self._engine.warm()

    @shielded
    def version(self) -> Hashable | None:
        """As :meth:`defray.ledger.store.Ledger.version` says, of the ledger."""
        return self._engine.ledger.version()

    @shielded
    def moment(self, at: Hashable | None = None) -> tuple[str, int] | None:
        """The head of the log and the data version.  While they stay, a quote is as it was, and so is an
        answer that is free, to whoever got it.  ``at`` is the :meth:`version`, where it was just read.  None
        where files would have to be waited for."""
        return self._engine.moment(at)

    @shielded
    def kept(self, key: str) -> bool:
        """Whether something was paid for under this key, on behalf of whoever asks here."""
        if self._name is None:
            return False
        return self._engine.ledger.answered(self._name, key) is not None

    @shielded
    def requests(self, most: int) -> list[tuple[str, str]]:
        """As :meth:`defray.ledger.store.View.requests` says, of the ledger now."""
        with self._engine.ledger.view() as view:
            return view.requests(most)

    def on_behalf_of(self, name: str) -> Session:
        """The same contract for one principal of its ledger: an analyst's account pays, and sees the own
        asks.  Closing it does nothing."""
        return Session(self._engine, name=name)

    @shielded
    def history(self, *, refresh: bool = False) -> list[dict[str, Any]]:
        """Every ask that was paid for, oldest first.  With ``refresh``, what was answered in the newest data
        version and what is known of it now, which is at least as much, and free."""
        return books.history(self.contract, self._engine.ledger, refresh=refresh, name=self._name)

    @shielded
    def balance(
        self, *, within: Any = 50, confidence: Any = "95%", by: str | None = None
    ) -> dict[str, Any]:
        """What was spent, what is left, and about how many fresh counts of that accuracy still fit; ``by`` a
        column, also what each of its values was charged.

        Raises :class:`~defray.errors.NotFound` where there is no such column.
        """
        return books.balance(
            self.contract,
            self._engine.ledger,
            within=within,
            confidence=confidence,
            by=by,
            name=self._name,
        )

    @shielded
    def spending(self) -> list[dict[str, Any]]:
        """What was spent on answers after each ask, oldest first: what the dearest cell had paid, of the
        contract or of an analyst's account."""
        return books.spending(self.contract, self._engine.ledger, name=self._name)

    @shielded
    def audit(self) -> AuditReport:
        """Replay the ledger from zero and re-derive every charge, and what the newest answers claimed."""
        return books.run_audit(self._engine.ledger, self.contract)

    @shielded
    def explain(self, id: str | int) -> dict[str, Any]:
        """What an answer rests on, and how much of it was paid before: by the id of its ask, as
        :meth:`history` has it, or that of a row (:attr:`~defray.core.answer.Row.id`).

        Raises :class:`~defray.errors.NotFound` where nothing was released under that id.
        """
        owner = books.owner_of(self._engine.ledger, self._name)
        return explain(self.contract, self._engine.ledger, id, owner)

    @shielded
    def backup(self, path: str | Path) -> None:
        """A consistent copy of the ledger in a new file, while others go on."""
        try:
            place = Path(path)
            if b"\0" in str(place).encode():
                raise ValueError
        except (TypeError, ValueError):
            raise BadInput("backup takes the path of a new file", hint='"copy.ledger"') from None
        self._engine.ledger.backup(place)

    @shielded
    def end(self) -> dict[str, Any]:
        """Close the contract for ever; returns its certificate."""
        return books.end(self.contract, self._engine.ledger)

    def close(self) -> None:
        """Release files and connections; the contract itself stays open."""
        if self._name is not None:
            return
        self._engine.close()
        if self._cleanup is not None:
            self._cleanup()
            self._cleanup = None

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
