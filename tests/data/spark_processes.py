"""A Python of its own, for tests of what a whole process does with Spark."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(
    folder: Path, *command: str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """In the folder, with nothing on its standard input and nothing of Spark in its environment."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK", "SPARK"))}
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return subprocess.run(
        [sys.executable, *map(textwrap.dedent, command)],
        cwd=folder,
        env={**inherited, "PYTHONPATH": path, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
