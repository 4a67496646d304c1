"""The shipped example: the RAND Health Insurance Experiment behind a small contract."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from shutil import copy, rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from defray.session import Session


def open_demo(folder: Path | None = None) -> Session:
    """A fresh contract over a copy of the demo data, in ``folder`` or a temporary one."""
    from defray.config.opening import wire
    from defray.config.reader import read_contract
    from defray.session import Session

    home = folder or Path(mkdtemp(prefix="defray-demo-"))
    for name in ("contract.toml", "randhie.parquet"):
        with_data = files("defray.example").joinpath(name)
        copy(str(with_data), home / name)
    cleanup = None if folder else lambda: rmtree(home, ignore_errors=True)
    return Session(wire(read_contract(home / "contract.toml")), cleanup)
