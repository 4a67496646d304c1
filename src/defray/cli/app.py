"""The commands and their options.  Each imports what it needs when it runs."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Group, Parameter

from defray import __version__
from defray.cli.screen import json_wanted, say, show
from defray.errors import BadInput, LedgerCorrupt, TargetError

if TYPE_CHECKING:
    from defray.core.contract import Contract
    from defray.session import Session

app = App(
    name="defray",
    version=__version__,
    help=(
        "Ask a private table statistical questions at the accuracy you need. "
        "Past answers defray the next one."
    ),
    help_format="plaintext",
    suppress_keyboard_interrupt=False,
)
curating = Group.create_ordered("For the curator")
asking = Group.create_ordered("For the analyst")
reading = Group.create_ordered("The books")
ledger_app = App(name="ledger", help="Look after the ledger.", group=reading)
app.command(ledger_app)
app.register_install_completion_command()

DEFAULT_CONTRACT = "contract.toml"
UNNAMED = f"The contract file (default: $DEFRAY_CONTRACT, else ./{DEFAULT_CONTRACT})."

Named = Annotated[Path | None, Parameter(name=["--contract", "-c"], help=UNNAMED)]
Json = Annotated[
    bool, Parameter(name="--json", negative="", help="One JSON document, every digit.")
]
Words = Annotated[
    str,
    Parameter(
        allow_leading_hyphen=True,
        help="SQL in quotes, a file of questions separated by ';', or - for stdin. "
        "A contract file may stand before it.",
    ),
]
Delta = Annotated[
    float | None, Parameter(help="Show epsilon at this delta (default: the contract's).")
]
Yes = Annotated[bool, Parameter(negative="", help="Do it; there is no way back.")]


@Parameter(name="*")
@dataclass(frozen=True)
class Accuracy:
    """How accurate an answer must be, where the SQL has no ERROR WITHIN clause."""

    within: Annotated[
        list[str] | None,
        Parameter(negative="", help="The error: 50, 2%, or by name: n=50 (may be repeated)."),
    ] = None
    confidence: Annotated[str | None, Parameter(help="How sure: 95% (the default), 0.99.")] = None
    rho: Annotated[
        str | None, Parameter(help="Instead of an error: what this budget buys from scratch.")
    ] = None
    simultaneous: Annotated[
        bool | None, Parameter(help="All intervals of a table hold at once.")
    ] = None
    snap: Annotated[
        bool, Parameter(negative="", help="Widen thresholds inside a bin to its edges.")
    ] = False
    validity: Annotated[
        str | None,
        Parameter(help="What intervals allow for: fixed (the default), anytime, looks=5, confirm."),
    ] = None

    def arguments(self) -> dict[str, Any]:
        """As Session.quote and Session.ask take them."""
        from defray.cli.questions import within_of

        return {
            "within": within_of(self.within),
            "confidence": self.confidence,
            "rho": self.rho,
            "simultaneous": self.simultaneous,
            "snap": "outward" if self.snap else None,
            "validity": self.validity,
        }


Together = Annotated[
    bool,
    Parameter(negative="", help="Plan the questions of a file together: cheaper in all."),
]


def contract_path(given: Path | None) -> Path:
    """The contract that a command is about.  Raises BadInput where there is none."""
    path = given or Path(os.environ.get("DEFRAY_CONTRACT") or DEFAULT_CONTRACT)
    if not path.exists():
        hint = "name one with -c FILE, or draft one: defray init DATA"
        raise BadInput(f"there is no contract at {path}", hint=hint)
    return path


def sorted_out(words: tuple[str, ...], contract: Path | None) -> tuple[str, Path | None]:
    """The SQL (or what holds it) and the contract, from ``[CONTRACT] SQL``.  Raises BadInput."""
    unknown = next(
        (w for w in words if w.startswith("-") and w[1:].strip("-").isidentifier()), None
    )
    if unknown is not None:
        raise BadInput(f"unknown option: {unknown}", hint="see defray ask --help")
    named = [w for w in words if w.endswith(".toml")]
    asked = [w for w in words if not w.endswith(".toml")]
    if len(asked) != 1:
        raise BadInput(
            f"one question is asked at a time, in quotes; here are {len(asked)}",
            hint='defray ask "SELECT COUNT(*) FROM ..." --within 50; see defray ask --help',
        )
    if len(named) + (contract is not None) > 1:
        raise BadInput("the contract is named twice", hint="see defray ask --help")
    return asked[0], Path(named[0]) if named else contract


def checked_delta(delta: float | None) -> float | None:
    if delta is not None and not 0 < delta < 1:
        raise TargetError(f"--delta must lie between 0 and 1, not {delta:g}", hint="--delta 1e-6")
    return delta


def contract_of(given: Path | None) -> Contract:
    from defray.config.reader import read_contract

    return read_contract(contract_path(given))


def opened(given: Path | None) -> Session:
    from defray import open as open_session

    return open_session(contract_path(given))


def tell(document: dict[str, Any], in_words: Callable[[dict[str, Any]], None]) -> None:
    """A document as JSON where that is wanted, else in words."""
    if json_wanted():
        show(document)
    else:
        in_words(document)


# -- the curator -----------------------------------------------------------------------------------


@app.command(group=curating)
def init(
    file: Annotated[
        str,
        Parameter(
            help="A CSV, Parquet or DuckDB file, a glob in quotes, or the dsn of a PostgreSQL database."
        ),
    ],
    *,
    peek: Annotated[
        bool, Parameter(negative="", help="Fill the domains from the rows, which leaks them.")
    ] = False,
    table: Annotated[
        str | None, Parameter(help="The table inside a DuckDB file or a database.")
    ] = None,
    output: Annotated[Path, Parameter(name=["--output", "-o"], help="Where to write.")] = Path(
        DEFAULT_CONTRACT
    ),
    force: Annotated[bool, Parameter(negative="", help="Overwrite the file.")] = False,
    json: Json = False,
) -> None:
    """Draft a contract for a data file, from names and types only."""
    from defray.cli.drafts import place_beside, write_draft
    from defray.config.draft import draft, draft_table
    from defray.config.server import is_dsn

    if is_dsn(file):
        if peek:
            raise BadInput(
                "--peek reads files only", hint="leave it out, and declare what is known publicly"
            )
        text = draft_table(file, table)
    else:
        text = draft(place_beside(Path(file), output), peek=peek, table=table)
    write_draft(output, text, force=force)
    if json:
        show({"contract": str(output), "peeked": peek})
        return
    say(f"wrote {output}", "bold")
    if peek:
        say("its domains were read off the rows: see the warning at its head", "yellow")
        say(f"next: edit it (budget, unit, domains), then: defray check {output}")
    else:
        say(f"next: fill in the budget, the unit and the columns, then: defray check {output}")


@app.command(group=curating)
def check(contract: Named = None, *, delta: Delta = None, json: Json = False) -> None:
    """Say whether a contract file is valid, and what it says in words."""
    from defray.cli import books

    words = books.terms_in_words(contract_of(contract), checked_delta(delta))
    tell(words, books.show_check)


@app.command(group=curating)
def close(
    contract: Named = None,
    *,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """End a contract for ever, with a certificate of what was spent."""
    from defray.cli import books

    what = contract_of(contract)
    if not yes:
        what_it_means = (
            "closing is for ever: afterwards only what is known already is answered, free"
        )
        raise BadInput(f"{what_it_means}; nothing was done", hint="add --yes to close it")
    certificate = books.end(what)
    tell(certificate, books.show_certificate)


# These are imported when they run, so their help is told here.
app.command(
    "defray.cli.simulate:simulate",
    group=curating,
    help="Run a workload through several policies, without data, and compare what each satisfies.",
)
app.command(
    "defray.cli.simulate:plan",
    group=curating,
    help="Say which budget a workload needs, and what more or less of it would do.",
)
app.command(
    "defray.cli.serve:serve",
    group=curating,
    help="Answer several analysts over HTTP until stopped; each needs a token.",
)


analyst_app = App(
    name="analyst", help="Say who may ask: people, their shares and tokens.", group=curating
)
app.command(analyst_app)
for _name, _help in {
    "add": "Add an analyst, or another curator, with a first token.",
    "list": "Everybody, what is unassigned, and all tokens.",
    "suspend": "Stop all tokens of somebody, until resumed.",
    "resume": "Let somebody who was suspended go on.",
    "share": "Give an analyst another share of the contract.",
    "issue": "Give somebody one more token.",
    "rotate": "Give somebody a new token and revoke all others.",
    "revoke": "Stop one token for ever, by its id.",
}.items():
    _where = "list_" if _name == "list" else _name
    analyst_app.command(f"defray.cli.analysts:{_where}", name=_name, help=_help)


# -- the analyst -----------------------------------------------------------------------------------


@app.command(group=asking)
def quote(
    *words: Words,
    contract: Named = None,
    accuracy: Accuracy | None = None,
    together: Together = False,
    delta: Delta = None,
    json: Json = False,
) -> None:
    """Say what a question, or a file of questions, would cost now; nothing is spent."""
    from defray.cli import asking

    sql, contract = sorted_out(words, contract)
    questions = asking.read_questions(sql)
    arguments = (accuracy or Accuracy()).arguments()
    with opened(contract) as session:
        asking.quote(session, questions, arguments, checked_delta(delta), together=together)


@app.command(group=asking)
def ask(
    *words: Words,
    contract: Named = None,
    accuracy: Accuracy | None = None,
    together: Together = False,
    max_rho: Annotated[str | None, Parameter(help="Refuse to pay more than this.")] = None,
    timeout: Annotated[float | None, Parameter(help="Give up the scan after S seconds.")] = None,
    dry_run: Annotated[
        bool, Parameter(negative="", help="Answer from made-up rows: free, no row is read.")
    ] = False,
    json: Json = False,
) -> int:
    """Answer a question; pays only what earlier answers do not already say."""
    from defray.cli import asking

    if timeout is not None and not timeout > 0:
        raise BadInput(f"--timeout must be a positive number of seconds, not {timeout:g}")
    sql, contract = sorted_out(words, contract)
    questions = asking.read_questions(sql)
    arguments = (accuracy or Accuracy()).arguments()
    with opened(contract) as session:
        arguments |= {"max_rho": max_rho, "timeout": timeout, "dry_run": dry_run}
        return asking.ask(session, questions, arguments, together=together)


@app.command(group=asking)
def demo(
    *,
    keep: Annotated[
        Path | None, Parameter(help="Leave contract, data and ledger in this folder.")
    ] = None,
    json: Json = False,
) -> None:
    """Watch ten questions on the RAND Health Insurance data being answered and paid for."""
    from defray.cli.demo import run

    run(keep)


# -- the books -------------------------------------------------------------------------------------


@app.command(group=reading)
def balance(
    contract: Named = None,
    *,
    within: Annotated[str, Parameter(help="Count the questions left at this error.")] = "50",
    confidence: Annotated[str, Parameter(help="And this confidence.")] = "95%",
    by: Annotated[
        str | None, Parameter(help="Also what each value of this column was charged.")
    ] = None,
    json: Json = False,
) -> None:
    """What was spent, what is left, and about how many more counts fit."""
    from defray.cli import books

    found = books.read_balance(contract_of(contract), within, confidence, by)
    tell(found, books.show_balance)


@app.command(group=reading)
def history(
    contract: Named = None,
    *,
    limit: Annotated[int | None, Parameter(help="Only the newest N.")] = None,
    refresh: Annotated[
        bool,
        Parameter(negative="", help="Show earlier answers as all releases so far have them; free."),
    ] = False,
    json: Json = False,
) -> None:
    """Every question that was paid for, oldest first."""
    from defray.cli import books

    if limit is not None and limit < 1:
        raise BadInput(f"--limit must be at least 1, not {limit}", hint="--limit 10")
    asks = books.read_history(contract_of(contract), refresh=refresh)
    newest = asks if limit is None else asks[max(0, len(asks) - limit) :]
    if json:
        show({"asks": newest, "total": len(asks)})
    else:
        books.show_history(newest, len(asks))


@app.command(group=reading)
def explain(
    id: Annotated[str, Parameter(help="As history shows it, or the id of a row: 12 or 12.0.")],
    /,
    *,
    contract: Named = None,
    json: Json = False,
) -> None:
    """Say what an answer rests on, and how much of it earlier answers had paid."""
    from defray.cli import explaining

    tell(explaining.read(contract_of(contract), id), explaining.show)


@app.command(group=reading)
def audit(contract: Named = None, *, json: Json = False) -> int:
    """Replay the ledger from zero, derive every charge and claim again; fails if anything is wrong."""
    from defray.cli import books

    found = books.read_audit(contract_of(contract))
    tell(found, books.show_audit)
    return 0 if found["ok"] else LedgerCorrupt.exit_code


@ledger_app.command
def accept_older(contract: Named = None, *, yes: Yes = False, json: Json = False) -> None:
    """Let a ledger go on that has forgotten newer entries; what they spent can then be spent again."""
    from defray.cli import books

    what = contract_of(contract)
    books.acceptable(what)
    if not yes:
        what_it_means = (
            "whatever was answered after the end of this ledger is forgotten, though it was seen: "
            "the contract's promise holds no more for the people in the table"
        )
        raise BadInput(f"{what_it_means}; nothing was done", hint="add --yes to accept it")
    tell(books.accept_older(what), books.show_accepted)


@ledger_app.command
def backup(
    path: Annotated[Path, Parameter(help="A new file.")],
    /,
    *,
    contract: Named = None,
    json: Json = False,
) -> None:
    """Write a consistent copy of the ledger to a new file, while others go on."""
    from defray.cli import books

    books.backup(contract_of(contract), path)
    if json:
        show({"backup": str(path)})
    else:
        say(f"wrote {path}; it holds the ledger's secret, so keep it as safe as the data")


@ledger_app.command(name="init")
def init_ledger(
    contract: Named = None,
    *,
    grant: Annotated[
        str | None, Parameter(help="Let this role of the database append to the ledger.")
    ] = None,
    json: Json = False,
) -> None:
    """Make the ledger before the first question: as the role that is to own it."""
    from defray.cli import ledgers

    tell(ledgers.init(contract_of(contract), grant), ledgers.show_init)


@ledger_app.command(name="copy")
def copy_ledger(
    source: Annotated[Path, Parameter(name="FROM", help="The contract file that is left.")],
    target: Annotated[Path, Parameter(name="TO", help="The same with another [ledger].")],
    /,
    *,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Move the ledger to where another contract file keeps it; the old one is never used again."""
    from defray.cli import ledgers

    if not yes:
        raise BadInput(
            "the ledger that is left is marked, and answers no more; nothing was done",
            hint="add --yes to move it",
        )
    tell(ledgers.copy(contract_of(source), contract_of(target)), ledgers.show_copy)
