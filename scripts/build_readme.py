"""Run every command of README.md, or of the pages that are named, again and put its real output under it.

In a block marked ``console`` the lines that start with ``$ `` are run, in order, in one scratch folder that
lives for the whole page (``$ cd FOLDER`` holds for the rest of it); everything else in the block is replaced
by what they print.  A block that follows ``<!-- file: NAME -->`` is written there first.  A block marked
``python`` that follows ``<!-- run -->`` is run in the same folder and its output goes to the ``text`` block
after it.  ``python scripts/build_readme.py [PAGE ...]`` rewrites them; ``--check`` only tries that all
commands still exit as they did (noise differs from run to run, so texts are not compared).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
PYTHON = re.compile(r"(<!-- run -->\n```python\n(.*?)```\n\n```text\n)(.*?)(```)", re.DOTALL)
FILE = re.compile(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", re.DOTALL)
REFUSED = 3


def run(command: list[str] | str, folder: Path, home: Path) -> str:
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "100"}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    done = subprocess.run(
        command,
        shell=isinstance(command, str),
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    if done.returncode not in (0, REFUSED):
        sys.exit(f"{command}\nexited {done.returncode}:\n{done.stdout}{done.stderr}")
    printed = (done.stdout + done.stderr).replace(str(home), "/home/you")
    return "\n".join(line.rstrip() for line in printed.splitlines())


def rebuild(page: Path) -> None:
    text = page.read_text()
    with tempfile.TemporaryDirectory() as scratch:
        home = folder = Path(scratch)

        def console(match: re.Match[str]) -> str:
            nonlocal folder
            out = []
            for line in match[1].splitlines():
                if re.fullmatch(r"\$ cd \S+", line):
                    folder /= line[5:]
                    out.append(line)
                elif line.startswith("$ "):
                    printed = run(line[2:], folder, home)
                    out.append(f"{line}\n{printed}".rstrip())
            return "```console\n" + "\n".join(out) + "\n```"

        def python(match: re.Match[str]) -> str:
            return f"{match[1]}{run([sys.executable, '-c', match[2]], folder, home)}\n{match[4]}"

        for name, content in FILE.findall(text):
            (home / name).write_text(content)
        text = BLOCK.sub(console, text)
        text = PYTHON.sub(python, text)
    if "--check" not in sys.argv:
        page.write_text(text)


if __name__ == "__main__":
    pages = [Path(word) for word in sys.argv[1:] if word != "--check"]
    for page in pages or [README]:
        rebuild(page)
