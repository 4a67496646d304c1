"""Starting and ending worker processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def start(kind: str, address: str, command: str, *rest: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.ledger.worker", kind, address, command, *map(str, rest)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def at_once(kind: str, address: str, command: str, *rest: object, count: int) -> list[list[str]]:
    """Start ``count`` workers, let all get ready, release them together; the lines each wrote."""
    workers = [start(kind, address, command, *rest) for _ in range(count)]
    for worker in workers:
        assert worker.stdout is not None
        ready = worker.stdout.readline()
        assert ready == "ready\n", worker.communicate()[1]
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    lines = []
    for worker in workers:
        out, err = worker.communicate(timeout=60)
        assert worker.returncode == 0, err
        lines.append(out.splitlines())
    return lines
