"""Regenerates the measured tables of docs/policies.md: ``python scripts/build_policies.py`` (some minutes).

A comment in the document names a command, and after ``|`` the title of the one table that is wanted of its
output; what stands between it and the next ``<!-- end -->`` is replaced by that output.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "policies.md"
BLOCK = re.compile(
    r"<!-- (?P<command>[^|>]+?)(?: \| (?P<title>[^>]+?))? -->\n.*?<!-- end -->", re.DOTALL
)


def output(command: str, title: str | None) -> str:
    """What a command prints; of several tables the one with this title."""
    words = command.split()
    if words[0] == "defray":
        words = ["python", "-m", *words]
    environment = {**os.environ, "COLUMNS": "110", "OPENBLAS_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
    run = [sys.executable, *words[1:]]
    done = subprocess.run(
        run, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    if title is not None:
        start = next(i for i, line in enumerate(lines) if line.startswith(title))
        stop = next(i for i in range(start, len(lines)) if lines[i].startswith("└"))
        lines = lines[start : stop + 1]
    return "\n".join(lines)


def rebuilt(block: re.Match[str]) -> str:
    head = block[0].partition("\n")[0]
    return f"{head}\n```text\n{output(block['command'], block['title'])}\n```\n<!-- end -->"


if __name__ == "__main__":
    DOCUMENT.write_text(BLOCK.sub(rebuilt, DOCUMENT.read_text("utf-8")), "utf-8")
