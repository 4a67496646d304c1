"""Every error Defray raises on purpose, with a stable code and what to do next.

::

    DefrayError
    ├── BadInput                   the request itself is wrong                    exit 2
    │   ├── ContractError          the contract file; lists every mistake at once
    │   ├── WorkloadError          a file of asks to simulate; likewise
    │   ├── QueryError             the SQL text; carries the position for a caret
    │   ├── NotFound               an answer, a column, a principal or a token of that name
    │   └── TargetError            the accuracy asked for
    ├── Refused                    well-formed, but the contract does not allow it  exit 3
    │   ├── BudgetRefused          the remaining budget cannot meet the target
    │   ├── MaxRhoRefused          dearer than the caller's own ``max_rho``
    │   ├── TooFewRows             AVG where too few rows can be vouched for
    │   └── TooManyLooks           more looks at a number than were declared
    ├── DataError                  the private side failed; never carries backend text  exit 4
    │   ├── SourceUnavailable
    │   ├── SourceChanged          the data changed during the scan
    │   └── Cancelled              stopped by the caller or a timeout
    ├── LedgerError                the durable memory                             exit 5
    │   ├── LedgerBusy
    │   │   └── LedgerUnavailable  the server of the ledger cannot be reached
    │   ├── ContractClosed         nothing is spent any more; what is known stays free
    │   ├── LedgerMismatch         contract and ledger disagree
    │   └── LedgerCorrupt
    ├── MissingExtra               an optional dependency is not installed        exit 6
    ├── Unauthorized               no token, or one that does not work            exit 7
    ├── Forbidden                  the token does not allow this                  exit 7
    ├── Throttled                  too many requests in too short a time          exit 7
    ├── Unreachable                a service elsewhere does not answer            exit 8
    └── InternalError              a fault of Defray; carries an incident id      exit 70

Nothing here ever holds a true value, a row, or text of a database: messages are built from the
question, the contract and the transcript only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final


class DefrayError(Exception):
    """Base of all errors: a stable ``code``, a ``message``, a ``hint`` (the cure) and ``context``."""

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "", **context: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.context: Mapping[str, Any] = context

    def __reduce__(self) -> tuple[Any, ...]:
        """As it is, whatever a class asks for where it is made."""
        return _restored, (type(self), self.args, self.__dict__)

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message

    def to_dict(self) -> dict[str, Any]:
        """The machine-readable form shown by every face (``--json``, HTTP)."""
        return {"code": self.code, "message": self.message, "hint": self.hint, **self.context}


def _restored(
    kind: type[DefrayError], args: tuple[Any, ...], state: Mapping[str, Any]
) -> DefrayError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class BadInput(DefrayError):
    code = "bad-input"
    exit_code = 2


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake of a file: where it is, what is wrong and how to cure it."""

    key: str
    message: str
    cure: str
    line: int | None = None

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line is not None else ""
        return f"{where}{self.key}: {self.message}\n    {self.cure}"


SHOWN: Final = 100
"""How many mistakes of a file are told to people; machines get all."""


class Mistakes:
    """What errors about a file have in common: all its ``problems``, in file order."""

    message: str
    problems: tuple[Problem, ...]

    def details(self) -> list[str]:
        """The mistakes for people, each with its cure."""
        told = [f"  {problem}" for problem in self.problems[:SHOWN]]
        more = len(self.problems) - SHOWN
        return [*told, f"  and {more:,} more"] if more > 0 else told

    def __str__(self) -> str:
        return "\n".join([self.message, *self.details()])

    @staticmethod
    def counted(path: str, problems: Sequence[Problem]) -> str:
        return f"{path} has {len(problems):,} mistake{'s' if len(problems) != 1 else ''}"

    @staticmethod
    def listed(problems: Sequence[Problem], place: str) -> list[dict[str, Any]]:
        """The mistakes for machines, ``place`` being what the key of each is called."""
        return [
            {"line": p.line, place: p.key, "message": p.message, "cure": p.cure} for p in problems
        ]


class ContractError(Mistakes, BadInput):
    """The contract cannot be used."""

    code = "contract-invalid"

    def __init__(self, problems: Sequence[Problem], *, path: str = "") -> None:
        self.problems = tuple(problems)
        super().__init__(
            self.counted(path or "the contract", self.problems),
            problems=self.listed(self.problems, "key"),
        )


class WorkloadError(Mistakes, BadInput):
    """The asks of a file cannot be used."""

    code = "workload-invalid"

    def __init__(self, problems: Sequence[Problem], *, path: str = "") -> None:
        self.problems = tuple(sorted(problems, key=lambda p: p.line or 0))
        super().__init__(
            self.counted(path or "the workload", self.problems),
            problems=self.listed(self.problems, "field"),
        )


class QueryError(BadInput):
    """The SQL text is refused.  ``kind`` is a stable sub-code, ``start``/``end`` are offsets into
    ``text`` (a caret is drawn under them), ``hint`` is the nearest form that works."""

    code = "query-refused"

    def __init__(
        self, message: str, *, kind: str, text: str, start: int, end: int, hint: str = ""
    ) -> None:
        super().__init__(message, hint=hint, kind=kind, start=start, end=end)
        self.kind = kind
        self.text = text
        self.start = start
        self.end = end

    def caret(self) -> str:
        """The offending line of the text with ``^^^`` under the offending characters."""
        start = min(max(self.start, 0), len(self.text))
        line_start = self.text.rfind("\n", 0, start) + 1
        line_end = self.text.find("\n", start)
        line = self.text[line_start : line_end if line_end >= 0 else len(self.text)]
        column = start - line_start
        width = max(1, min(self.end, line_start + len(line)) - start)
        left = max(0, column - 60)
        shown = line[left : column + max(60, width)]
        pad = "".join("\t" if c == "\t" else " " for c in line[left:column])
        return f"{shown}\n{pad}{'^' * min(width, max(1, len(shown) - (column - left)))}"

    def __str__(self) -> str:
        lines = [self.message, *("  " + part for part in self.caret().splitlines())]
        return "\n".join([*lines, f"  {self.hint}"] if self.hint else lines)

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "caret": self.caret()}


class TargetError(BadInput):
    """The accuracy asked for is not one (zero, negative, nan, unknown alias, mixed units ...)."""

    code = "target-invalid"


class NotFound(BadInput):
    """There is no answer or token of that id, or no column or principal of that name."""

    code = "not-found"


class Refused(DefrayError):
    code = "refused"
    exit_code = 3


class BudgetRefused(Refused):
    """The target does not fit in what is left.  ``limit`` names which budget, ``asked`` and
    ``remaining`` are in rho, ``best`` is the best accuracy that still fits per aggregate alias
    (``None`` where nothing fits)."""

    code = "budget-exceeded"


class MaxRhoRefused(Refused):
    code = "max-rho-exceeded"


class TooFewRows(Refused):
    """An average was asked over a region whose row count cannot be told from zero."""

    code = "too-few-rows"


class TooManyLooks(Refused):
    """More looks than ``looks=K`` declared: the number was released for ``asks`` asks already, ``looks``
    are allowed."""

    code = "too-many-looks"


class DataError(DefrayError):
    code = "data-error"
    exit_code = 4


class SourceUnavailable(DataError):
    code = "source-unavailable"


class SourceChanged(DataError):
    code = "source-changed"


class Cancelled(DataError):
    code = "cancelled"


class LedgerError(DefrayError):
    code = "ledger-error"
    exit_code = 5


class LedgerBusy(LedgerError):
    code = "ledger-busy"


class LedgerUnavailable(LedgerBusy):
    """The server of the ledger cannot be reached, or went away; it is worth trying again."""

    code = "ledger-unavailable"


class ContractClosed(LedgerError):
    code = "contract-closed"


class LedgerMismatch(LedgerError):
    code = "ledger-mismatch"


class LedgerCorrupt(LedgerError):
    code = "ledger-corrupt"


class MissingExtra(DefrayError):
    code = "missing-extra"
    exit_code = 6


class Unauthorized(DefrayError):
    """Who asks is not known: there is no token, or it is unknown, expired, revoked or of a suspended
    principal.  A ``reason`` that callers are not told is for the operator's log."""

    code = "unauthorized"
    exit_code = 7

    def __init__(self, message: str, *, hint: str = "", reason: str = "", **context: Any) -> None:
        super().__init__(message, hint=hint, **context)
        self.reason = reason


class Forbidden(DefrayError):
    """Who asks is known, and may not do this."""

    code = "forbidden"
    exit_code = 7


class Throttled(DefrayError):
    """Too many requests in too short a time; ``retry_after`` is in seconds."""

    code = "throttled"
    exit_code = 7


class InternalError(DefrayError):
    code = "internal-error"
    exit_code = 70


class Unreachable(DefrayError):
    """A service elsewhere does not answer, or not as a Defray service does.  Of an ask ``idempotency_key`` is
    what to send it again with, so that it is not paid twice."""

    code = "unreachable"
    exit_code = 8
