"""The Java that Spark would start, looked at before Spark fails with pages of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from defray.errors import SourceUnavailable

OLDEST: Final = 17
_CURE: Final = (
    f"set JAVA_HOME to its folder, or install it (Debian, Ubuntu: openjdk-{OLDEST}-jre-headless)"
)


def check_java() -> None:
    """Raises SourceUnavailable where there is none that Spark 4 can run on."""
    java = _command()
    found = None if java is None else _version(java)
    if found is None:
        raise SourceUnavailable(
            f"Spark needs Java {OLDEST} or later, and none was found", hint=_CURE
        )
    if found < OLDEST:
        raise SourceUnavailable(
            f"Spark needs Java {OLDEST} or later, and this is Java {found}", hint=_CURE
        )


def _command() -> str | None:
    """As ``spark-class`` finds it."""
    home = os.environ.get("JAVA_HOME")
    if not home:
        return shutil.which("java")
    java = Path(home) / "bin" / "java"
    return str(java) if os.access(java, os.X_OK) else None


def _version(java: str) -> int | None:
    """The major version: 8 of ``1.8.0``, 17 of ``17.0.15``."""
    said = ""
    try:
        said = subprocess.run(
            [java, "-version"], capture_output=True, text=True, errors="replace", timeout=60
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found else None
