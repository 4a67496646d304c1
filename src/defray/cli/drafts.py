"""Writing a drafted contract beside its data."""

from __future__ import annotations

import os
from pathlib import Path

from defray.errors import BadInput


def place_beside(file: Path, output: Path) -> Path:
    """The data's path as a contract at ``output`` must write it: as given where the contract will stand
    in the current folder, else absolute (a contract's paths are relative to its own folder)."""
    return file if output.absolute().parent == Path.cwd() else file.absolute()


def write_draft(output: Path, text: str, *, force: bool) -> None:
    """Write a new file; BadInput where there is one already, unless ``force``."""
    try:
        with output.open("w" if force else "x", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
    except FileExistsError:
        raise BadInput(
            f"{output} exists already", hint="name another file with -o, or add --force"
        ) from None
    except OSError as error:
        why = error.strerror or os.strerror(error.errno or 0)
        raise BadInput(f"cannot write {output}: {why}", hint="name another file with -o") from None
