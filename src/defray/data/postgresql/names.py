"""How a contract names a table of a database."""

from __future__ import annotations

import re
from typing import Final

_PART: Final = r'"(?:[^"]|"")+"|[^".]+'


def parse_name(name: str) -> tuple[str, str] | None:
    """The schema (``public`` where none is named) and the table, as the catalogue has them; a part with a dot
    or a quote in it stands in double quotes.  None where it cannot be read.

    >>> parse_name("people"), parse_name('Survey."My.Table"')
    (('public', 'people'), ('Survey', 'My.Table'))
    """
    if not re.fullmatch(rf"(?:{_PART})(?:\.(?:{_PART}))?", name):
        return None
    parts = [
        part[1:-1].replace('""', '"') if part.startswith('"') else part
        for part in re.findall(_PART, name)
    ]
    return (parts[0], parts[1]) if len(parts) == 2 else ("public", parts[0])
