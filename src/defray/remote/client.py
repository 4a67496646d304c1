"""The face of a contract that is served elsewhere: the methods and the answers of a local session."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import quote as percent
from urllib.parse import urlencode

from defray.arguments import flag, guarded, question_of, questions_of, seconds, wished
from defray.core.answer import Answer, Quote
from defray.errors import BadInput, NotFound, Unreachable
from defray.remote.problems import error_of
from defray.remote.transport import Reply, Token, Transport

PATIENCE: Final = 600.0
"""How long, in seconds, an ask without a timeout of its own waits for its answer."""

SHORTEST_POLL: Final = 0.02
LONGEST_POLL: Final = 1.0
PAGE: Final = 1000

T = TypeVar("T")


class Client:
    """A contract at work in another place.  Use as a context manager or call :meth:`close`.

    ``timeout`` (s) is for one exchange over the network; ``retries`` is how often a request is sent again
    where the connection failed or the service asks to wait.  An ask keeps its key through all of them, so it
    is paid for once.  ``token`` may be a function, called for each request.  Safe to share between threads.

    Every method raises the errors of :class:`~defray.session.Session`, and Unauthorized, Forbidden,
    Throttled, or :class:`~defray.errors.Unreachable`.
    """

    def __init__(
        self,
        url: str,
        token: Token,
        *,
        timeout: float = 30.0,
        retries: int = 4,
        insecure: bool = False,
    ) -> None:
        wait = seconds(timeout)
        if type(retries) is not int or retries < 0:
            raise BadInput("retries is a number of times, or 0", hint="retries=4")
        self._transport = Transport(
            url,
            token,
            timeout=30.0 if wait is None else wait,
            retries=retries,
            insecure=flag("insecure", insecure),
        )

    def __repr__(self) -> str:
        return f"<contract at {self.url}>"

    @property
    def url(self) -> str:
        return self._transport.url

    # -- asking -----------------------------------------------------------------------------------

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
        wish = _wish(within, confidence, rho, simultaneous, snap, validity)
        body = {"sql": question_of(sql), **wish, **_among(among)}
        reply = self._transport.send("POST", "/v1/quote", body, asked=[sql, *(among or ())])
        return self._read(Quote.from_dict, reply.document)

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
        as :meth:`ask_all` plans them."""
        listed = questions_of("quote_all", questions)
        wish = _wish(within, confidence, rho, simultaneous, snap, validity)
        if not listed:
            return []
        body = {"questions": listed, **wish, "together": flag("together", together)}
        reply = self._transport.send("POST", "/v1/quotes", body, asked=listed)
        return self._read(lambda told: [*map(Quote.from_dict, told["quotes"])], reply.document)

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
        idempotency_key: str | None = None,
    ) -> Answer:
        """Answer a question; pays only what earlier answers do not already say.  Arguments as in
        :meth:`Session.ask <defray.session.Session.ask>`.

        With ``progress`` or ``cancelled`` the ask is a job of the service that is followed; else its answer
        is waited for.  Where the connection is lost for good, the error's context holds the
        ``idempotency_key`` under which the same ask can be sent again: what was answered meanwhile is
        told, and not paid twice.
        """
        progress, cancelled = guarded("progress", progress), guarded("cancelled", cancelled)
        limit = seconds(timeout)
        body = {
            "sql": question_of(sql),
            **_wish(within, confidence, rho, simultaneous, snap, validity),
            **_among(among),
            **_given(max_rho=max_rho, timeout=limit),
        }
        if flag("dry_run", dry_run):
            body["dry_run"] = True
        key = secrets.token_urlsafe(18) if idempotency_key is None else _key(idempotency_key)
        wait = PATIENCE if limit is None else limit + self._transport.timeout
        try:
            if progress is None and cancelled is None:
                document = self._asked(body, key, wait).document
            else:
                document = self._followed(body, key, wait, progress, cancelled)
        except Unreachable as lost:
            again = f"ask again with idempotency_key={key!r}: it is not paid twice"
            raise Unreachable(lost.message, hint=again, idempotency_key=key) from None
        return self._read(Answer.from_dict, document)

    def ask_all(self, questions: Sequence[str], **arguments: Any) -> list[Answer]:
        """Answer several questions that are planned together, as
        :meth:`Session.ask_all <defray.session.Session.ask_all>` does: ``arguments`` as in :meth:`ask`."""
        listed = questions_of("ask_all", questions)
        if "idempotency_key" in arguments:
            raise BadInput("several asks have several keys", hint="leave idempotency_key out")
        if not arguments.get("dry_run"):  # nothing is charged for a list with a mistake in it
            self.quote_all(listed, **wished(arguments))
        return [self.ask(sql, among=listed, **arguments) for sql in listed]

    # -- the books --------------------------------------------------------------------------------

    def history(self, *, refresh: bool = False) -> list[dict[str, Any]]:
        """Every ask that was paid for, oldest first: of an analyst the own ones, of a curator all."""
        asks: list[dict[str, Any]] = []
        query: dict[str, Any] = {"limit": PAGE, **({"refresh": "true"} if refresh else {})}
        while True:
            page = self._get("/v1/history", query)
            asks += self._read(lambda told: list(told["asks"]), page)
            cursor = page.get("next")
            if cursor is None:
                return asks[::-1]
            query["cursor"] = cursor

    def balance(
        self, *, within: Any = 50, confidence: Any = "95%", by: str | None = None
    ) -> dict[str, Any]:
        """What was spent, what is left, and about how many fresh counts of that accuracy still fit; ``by``
        a column, also what each of its values was charged."""
        query = {"within": within, "confidence": confidence, **_given(by=by)}
        return self._get("/v1/balance", query)

    def explain(self, id: str | int) -> dict[str, Any]:
        """What an answer rests on, and how much of it was paid before."""
        return self._get(f"/v1/answers/{percent(str(id), safe='', errors='replace')}/explain")

    def audit(self) -> dict[str, Any]:
        """For curators: what a replay of the ledger from zero found, as
        :meth:`AuditReport.to_dict <defray.ledger.audit.AuditReport.to_dict>` tells it."""
        return self._get("/v1/audit")

    def me(self) -> dict[str, Any]:
        """Who the token stands for, what it may do, and the account there is."""
        return self._get("/v1/me")

    def terms(self) -> dict[str, Any]:
        """What the contract promises, in words and numbers."""
        return self._get("/v1/contract")

    def schema(self) -> dict[str, Any]:
        """The columns that can be asked about, with their domains."""
        return self._get("/v1/schema")

    # -- the way there ----------------------------------------------------------------------------

    def _get(self, path: str, query: Mapping[str, Any] | None = None) -> dict[str, Any]:
        asked = f"{path}?{urlencode(query, errors='replace')}" if query else path
        return self._read(dict, self._transport.send("GET", asked).document)

    def _asked(self, body: Mapping[str, Any], key: str, wait: float, **more: str) -> Reply:
        return self._transport.send(
            "POST",
            "/v1/ask",
            body,
            headers={"Idempotency-Key": key, **more},
            timeout=wait,
            asked=[body["sql"], *body.get("among", ())],
        )

    def _followed(
        self,
        body: Mapping[str, Any],
        key: str,
        wait: float,
        progress: Callable[[float], None] | None,
        cancelled: Callable[[], bool] | None,
    ) -> Any:
        """The answer of an ask that is a job of the service."""
        reply = self._asked(body, key, wait, Prefer="respond-async")
        if reply.status != 202:
            return reply.document
        place = self._read(lambda told: f"/v1/jobs/{percent(told['id'], safe='')}", reply.document)
        try:
            job = self._ended(place, progress, cancelled)
        except KeyboardInterrupt:
            self._transport.send("DELETE", place)
            raise
        except NotFound:  # it went with its service: the key says whether it had answered
            return self._asked(body, key, wait).document
        if job.get("state") == "done":
            return job.get("answer")
        raise error_of(job.get("problem") or {}, 500, [body["sql"]])

    def _ended(
        self,
        place: str,
        progress: Callable[[float], None] | None,
        cancelled: Callable[[], bool] | None,
    ) -> dict[str, Any]:
        """The document of a job that has ended.  It is told to stop once ``cancelled`` says so, or where the
        caller's functions fail; one that is writing its answer by then ends with that."""
        told, pause, stopping = 0.0, SHORTEST_POLL, False
        failed: BadInput | None = None
        while True:
            job = self._read(dict, self._transport.send("GET", place).document)
            running = job.get("state") == "running"
            try:
                if progress is not None and not stopping and job.get("progress", 0.0) > told:
                    told = job["progress"]
                    progress(told)
                stop = running and not stopping and cancelled is not None and cancelled()
            except BadInput as error:
                failed, stop = error, running
            if stop:
                self._transport.send("DELETE", place)
                stopping = True
            if not running:
                if failed is None:
                    return job
                kept = "the answer was paid for by then: ask again, it is free"
                raise BadInput(
                    failed.message, hint=kept if job.get("state") == "done" else failed.hint
                )
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_POLL)

    def _read(self, reader: Callable[[Any], T], document: Any) -> T:
        """What a document says.  Raises Unreachable where it is none of that kind."""
        try:
            return reader(document)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise self._transport.unreadable() from None

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _wish(
    within: Any,
    confidence: Any,
    rho: Any,
    simultaneous: bool | None,
    snap: str | None,
    validity: str | None,
) -> dict[str, Any]:
    return _given(
        within=within,
        confidence=confidence,
        rho=rho,
        simultaneous=simultaneous,
        snap=snap,
        validity=validity,
    )


def _key(key: Any) -> str:
    if not (isinstance(key, str) and 1 <= len(key) <= 128 and all("!" <= c <= "~" for c in key)):
        raise BadInput(
            "an idempotency_key is a text of 1 to 128 visible ASCII characters, without blanks",
            hint='idempotency_key="nightly-2026-07-01"',
        )
    return key


def _among(among: Any) -> dict[str, Any]:
    return {} if among is None else {"among": questions_of("among", among)}


def _given(**arguments: Any) -> dict[str, Any]:
    return {name: _plain(value) for name, value in arguments.items() if value is not None}


def _plain(value: Any) -> Any:
    """The value as JSON has it; numbers of other kinds (exact ones, of numpy) as they are written."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return str(value)
