"""What was said at one moment of the log, to be said again for as long as that moment lasts."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

MOST = 1024


class Recent:
    """Values that follow from the log, the data version and a key alone, kept until the log goes on.  Safe to
    share between threads.

    >>> recent = Recent()
    >>> recent.keep("head 1", "a", 5)
    >>> recent.get("head 1", "a"), recent.get("head 2", "a")
    (5, None)
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._kept: tuple[Hashable, dict[Hashable, Any]] = None, {}

    def get(self, moment: Hashable, key: Hashable) -> Any:
        """What was kept under the key at this very moment; None where nothing was."""
        of, kept = self._kept
        return kept.get(key) if of == moment is not None else None

    def keep(self, moment: Hashable, key: Hashable, value: Any) -> None:
        """Keep a value that never changes; those of other moments are forgotten, and all once they are too
        many.  Of no moment (None) nothing is."""
        if moment is None:
            return
        of, kept = self._kept
        if of != moment or len(kept) >= self._most:
            kept = {}
            self._kept = moment, kept
        kept[key] = value
