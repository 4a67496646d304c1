"""A mapping that is branched often and grows: a branch costs about the square root of its size."""

from __future__ import annotations

from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Layered(Generic[K, V]):
    """What was branched off is never changed by what the branch becomes, nor the other way round.

    >>> one = Layered({"a": 1})
    >>> other = one.branch()
    >>> other["a"], other["b"] = 2, 3
    >>> one.get("a", 0), one.get("b", 0), other.get("a", 0), other.get("b", 0)
    (1, 0, 2, 3)
    """

    __slots__ = ("_base", "_top")

    def __init__(self, base: dict[K, V] | None = None, top: dict[K, V] | None = None) -> None:
        self._base: dict[K, V] = {} if base is None else base  # shared, so never changed
        self._top: dict[K, V] = {} if top is None else top

    def get(self, key: K, default: V) -> V:
        return self._top[key] if key in self._top else self._base.get(key, default)

    def __setitem__(self, key: K, value: V) -> None:
        self._top[key] = value

    def branch(self) -> Layered[K, V]:
        """Another one that holds the same."""
        if len(self._top) ** 2 > len(self._base):
            self._base, self._top = {**self._base, **self._top}, {}
        return Layered(self._base, dict(self._top))
