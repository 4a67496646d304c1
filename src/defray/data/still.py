"""Reading data that has to hold still: again where it was only touched, not at all where it changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from defray.data.fingerprint import Stamp
from defray.data.source import Control
from defray.data.watch import Watch
from defray.errors import SourceChanged, SourceUnavailable

State = tuple[tuple[Stamp, ...], str]
"""The files' stamps, and the fingerprint of their content."""

V = TypeVar("V")
R = TypeVar("R")

MAX_READINGS: Final = 3
"""How often a scan is done again because files were touched meanwhile, their content unchanged."""


def read_still(
    state: Callable[[], State],
    opened: Callable[[State], V],
    read: Callable[[V, Watch], R],
    control: Control | None,
) -> R:
    """What is read of the data, ``opened`` in one state that is still the state afterwards.

    Raises SourceChanged where it changed, else what ``opened`` and ``read`` raise, and Cancelled.
    """
    before = state()
    watch = Watch(control or Control(), sum(f.size for f in before[0]))
    for _ in range(MAX_READINGS):
        watch.check()
        version = opened(before)
        failure: SourceUnavailable | None = None
        found: R | None = None
        try:
            found = read(version, watch)
        except SourceUnavailable as error:
            failure = error
        after = state()
        if after == before:
            if found is None:
                raise failure or SourceUnavailable("the scan failed")
            return found
        if after[1] != before[1]:
            break
        before = after  # the same content, but it may have been half written while it was read
    raise SourceChanged(
        "the data changed while it was being read",
        hint="nothing was spent; ask again once the files hold still",
    )
