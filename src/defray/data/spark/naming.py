"""How a contract names what Spark reads: a table of a catalogue, or a path."""

from __future__ import annotations

import re
from typing import Final

from defray.errors import SourceUnavailable

_PART: Final = re.compile(r'"((?:[^"]|"")+)"|`((?:[^`]|``)+)`|([^."`]+)')


def is_local(path: str) -> bool:
    return "://" not in path or path.startswith("file://")


def table_parts(name: str) -> list[str]:
    """The parts of a table's name; one with a dot or a quote in it is quoted.

    >>> table_parts('warehouse.Health."2024.people"')
    ['warehouse', 'Health', '2024.people']
    """
    parts, at = [], 0
    while found := _PART.match(name, at):
        double, back, plain = found.groups()
        parts.append(
            double.replace('""', '"') if double else back.replace("``", "`") if back else plain
        )
        at = found.end()
        if at == len(name):
            return parts
        if name[at] != ".":
            break
        at += 1
    raise SourceUnavailable(
        "source.table is no name of a table",
        hint='write catalog.schema.table; a part with a dot in double quotes: health."2024.people"',
    )
