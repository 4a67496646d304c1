"""What needs no process of its own: usage, exit codes, splitting, numbers, and the README."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from defray import __version__
from defray.cli import main, numbers
from defray.cli.app import app
from defray.cli.questions import split, within_of
from defray.errors import BadInput, InternalError, MissingExtra

README = Path(__file__).parents[2] / "README.md"


def commands() -> list[str]:
    """Every command as it is typed."""
    found = []
    for name, command in app.resolved_commands().items():
        if name.startswith("-"):
            continue
        inner = [n for n in command.resolved_commands() if not n.startswith("-")]
        found += [f"defray {name} {n}" for n in inner] or [f"defray {name}"]
    return found


def test_the_commands() -> None:
    assert {c.split()[1] for c in commands()} == {
        "init", "check", "quote", "ask", "balance", "history", "explain", "audit", "ledger", "close", "demo",
        "simulate", "plan", "analyst", "serve",
    }  # fmt: skip


def test_every_command_is_in_the_readme() -> None:
    text = " ".join(README.read_text("utf-8").split())
    missing = [c for c in commands() if c not in text]
    assert not missing, f"README.md does not mention: {', '.join(missing)}"


@pytest.mark.parametrize("command", [[], *([*c.split()[1:]] for c in commands())])
def test_help(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "--help"]) == 0
    assert "Usage: defray" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == __version__


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["wat"], "defray --help"),
        (["ask"], "defray ask --help"),
        (["ask", "SELECT", "COUNT(*)"], "in quotes"),
        (["ask", "x", "--wat"], "defray ask --help"),
        (["ask", "x", "--timeout", "soon"], "defray ask --help"),
        (["ask", "x", "--timeout", "0"], "--timeout"),
        (["ask", "x", "--within", "n=1", "--within", "5"], "--within m=2%"),
        (["ask", "nowhere.sql"], "stdin"),
        (["check", "nowhere.toml"], "defray init"),
        (["history", "--limit", "-1"], "--limit"),
        (["init", "nowhere.csv"], "data file"),
    ],
)
def test_wrong_usage(
    words: list[str],
    hint: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert hint in err
    assert main([*words, "--json"]) == 2
    out, err = capsys.readouterr()
    assert err == ""
    assert set(json.loads(out)["error"]) >= {"code", "message", "hint"}


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        (MissingExtra("x is not installed"), 6),
        (InternalError("internal error"), 70),
        (ZeroDivisionError("a private value"), 70),
        (KeyboardInterrupt(), 130),
    ],
)
def test_exit_codes(
    raised: BaseException,
    code: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise raised

    monkeypatch.setattr("defray.cli.app.contract_of", fail)
    assert main(["balance"]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err
    assert "Traceback" not in err
    assert "private" not in err


def test_characters_that_a_terminal_obeys_are_not_echoed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["ask", "x", "--within", "\x1b[2J=1", "--within", "\x1b]0;"]) == 2
    assert "\x1b" not in capsys.readouterr().err


def test_split_at_semicolons_outside_quotes_and_comments() -> None:
    text = "/* a /* b; */ ; */ SELECT ';''' ;; \n-- x; y\n SELECT \"a;b\" -- z;\n; ' open ; "
    assert [(s.line, s.sql) for s in split(text)] == [
        (1, "SELECT ';'''"),
        (3, 'SELECT "a;b" -- z;'),
        (4, "' open ;"),
    ]
    assert split(" ; -- nothing\n;/* at; all") == []


def test_within_by_name() -> None:
    assert within_of(["2%"]) == "2%"
    assert within_of(["a = 5"]) == {"a": "5"}
    for wrong in (["5", "6"], ["=5", "b=6"], ["a=1", "a=2"]):
        with pytest.raises(BadInput):
            within_of(wrong)


@pytest.mark.parametrize(
    ("value", "half", "shown", "half_shown"),
    [
        (1234.4, 50.0, "1,234", "50"),
        (-0.4, 10.0, "0", "10"),
        (-3.2, 10.0, "-3", "10"),
        (123456.7, 1234.5, "123,460", "1,240"),
        (2.71828, 0.0521, "2.718", "0.053"),
        (0.0, 0.0, "0", "0"),
        (5e12, 3e11, "5,000,000,000,000", "300,000,000,000"),
        (1e-7, 2e-8, "0.000000100", "0.000000020"),
    ],
)
def test_numbers_are_rounded_to_the_half_width(
    value: float, half: float, shown: str, half_shown: str
) -> None:
    n = numbers.shown(value, value - half, value + half, half)
    assert (n.value, n.half) == (shown, half_shown)


def test_numbers_that_are_unknown() -> None:
    n = numbers.shown(None, 0.0, 1000.0, math.inf)
    assert (n.value, n.low, n.high) == ("unknown", "0", "1,000")


@pytest.mark.parametrize(
    ("low", "value", "high", "axis", "drawn"),
    [
        (4, 6, 8, (0, 10), "████├─●─┤  "),
        (-8, -6, -4, (-10, 0), "  ├─●─┤████"),
        (-8, -6, -4, (-10, 10), " ├●┤█│     "),
        (-2, 1, 4, (-10, 10), "    ├─●┤   "),
        (9.9, 10, 10.1, (0, 10), "██████████●"),
        (-math.inf, None, math.inf, (0, 10), "?          "),
        (2, None, 8, (0, 10), "██├─────┤  "),
    ],
)
def test_bars(
    low: float, value: float | None, high: float, axis: tuple[float, float], drawn: str
) -> None:
    assert numbers.bar(low, value, high, axis, 11) == drawn
