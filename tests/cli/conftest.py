"""A folder with a small table, and a terminal to type ``defray`` in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
UNSET = ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "COLUMNS", "DEFRAY_CONTRACT")
WRITTEN = """\
version = 1
rho = 1
xi = 0.1
m_floor = 10
n_max = 10_000
unit = "row"
[source]
kind = "csv"
path = "people.csv"
[columns.age]
type = "integer"
min = 0
max = 99
[columns.sex]
type = "string"
values = ["F", "M"]
[columns.income]
type = "integer"
min = 0
max = 50_000
bounds = [0, 50_000]
"""


@dataclass(frozen=True)
class Said:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True)
class Terminal:
    """Runs ``python -m defray`` in a folder, as a user would."""

    folder: Path

    def __call__(
        self, *words: str, stdin: str | None = None, env: Mapping[str, str] | None = None
    ) -> Said:
        done = subprocess.run(
            [sys.executable, "-m", "defray", *words],
            cwd=self.folder,
            env=self.environment(env),
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
        )
        assert "Traceback" not in done.stderr
        return Said(done.returncode, done.stdout, done.stderr)

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if k not in UNSET}
        path = os.pathsep.join([str(ROOT / "src"), kept.get("PYTHONPATH", "")])
        return {**kept, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8", **(more or {})}


def people(folder: Path) -> None:
    """500 people; every third is F, ages are 18 to 89, incomes 0 to 49,900."""
    rows = [f"{18 + i % 72},{'FMM'[i % 3]},{i * 100 % 50_000}" for i in range(500)]
    (folder / "people.csv").write_text("\n".join(["age,sex,income", *rows]) + "\n")


@pytest.fixture
def bare(tmp_path: Path) -> Terminal:
    """The table alone."""
    people(tmp_path)
    return Terminal(tmp_path)


@pytest.fixture
def defray(bare: Terminal) -> Terminal:
    """The table and a contract."""
    (bare.folder / "contract.toml").write_text(WRITTEN)
    return bare


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Terminal:
    """The table, a contract and a first paid question, for tests that change nothing."""
    folder = tmp_path_factory.mktemp("shared")
    people(folder)
    (folder / "contract.toml").write_text(WRITTEN)
    terminal = Terminal(folder)
    assert terminal("ask", "SELECT COUNT(*) FROM people", "--within", "20").code == 0
    return terminal
