"""The command line: ``defray`` and ``python -m defray``.

:func:`main` turns what happened into an exit code and never shows a traceback.  The commands are declared
in :mod:`defray.cli.app`; they import what they need when they run, so that the books (``balance``,
``history``) open without the data's libraries.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from defray.errors import BadInput, DefrayError

if TYPE_CHECKING:
    from cyclopts import CycloptsError

INTERRUPTED = 130
READER_LEFT = 141
UNWRITTEN = 74


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    0 done, 2 bad input, 3 refused, 4 data, 5 ledger, 6 a missing extra, 7 not allowed, 70 a fault of
    Defray, 130 stopped by Ctrl-C, 74 the output could not be written, 141 whoever read it left early.
    """
    _open_standard_streams()
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = _run(tokens)
        sys.stdout.flush()
    except BrokenPipeError:
        return _leave_quietly()
    except OSError as failed:
        sys.stderr.write(
            f"error: the output could not be written ({failed.strerror})\n"
            "  an answer that was paid for is in the ledger: ask again, it is free\n"
        )
        _leave_quietly()
        return UNWRITTEN
    except KeyboardInterrupt:
        sys.stderr.write("stopped; what was answered before is kept and stays free\n")
        return INTERRUPTED
    return code


def _run(tokens: list[str]) -> int:
    from cyclopts import CycloptsError

    from defray.cli import screen
    from defray.cli.app import app

    screen.begin(tokens)
    error: DefrayError
    try:
        code = app(
            tokens,
            console=screen.out(),
            error_console=screen.err(),
            exit_on_error=False,
            print_error=False,
            result_action="return_value",
        )
        return code if isinstance(code, int) else 0
    except DefrayError as raised:
        error = raised
    except CycloptsError as raised:
        error = _usage(raised, tokens)
    except OSError:
        raise
    except Exception as raised:
        from defray.session import incident_of

        error = incident_of(raised)
    screen.fail(error)
    return error.exit_code


def _usage(error: CycloptsError, tokens: list[str]) -> BadInput:
    """A command that was typed wrongly, as bad input."""
    error.verbose = False
    if error.unused_tokens and tokens[0] in ("ask", "quote"):
        hint = "put the whole SQL in quotes, as one argument"
    else:
        hint = f"see {' '.join(['defray', *(error.command_chain or ()), '--help'])}"
    return BadInput(str(error).strip(), hint=hint)


def _open_standard_streams() -> None:
    """A stream that was closed by whoever started us reads as empty and swallows what is written."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115  # open as long as the process
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _leave_quietly() -> int:
    """The reader of our output has gone: nothing more can be said, and nothing is wrong here."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    return READER_LEFT
