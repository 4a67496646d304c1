"""Text of others, cut to a length that fits in a message."""

from __future__ import annotations


def brief(text: str, most: int = 80) -> str:
    """
    >>> brief("elephant", 4)
    'ele…'
    """
    return text if len(text) <= most else text[: most - 1] + "…"
