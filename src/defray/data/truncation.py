"""At most ``max_rows`` rows of a unit: the ones with the smallest keyed hashes.

The hash of a row is HMAC-SHA256(secret, unit id, row key), or of the unit id and the row's declared content
where no row key is declared; rows of one unit with equal hashes are taken in the order of their content.
So which rows of a unit are kept depends on that unit's rows alone: not on the order of rows or files,
and not on other units.  Every field is written with its length in bytes, NULL with a mark of its own, so that
different rows never hash the same text.  Rows without a unit, and rows that some column drops, are not
rows of the table at all and take nobody's place.

Where few units have more than ``max_rows`` rows, only those are hashed: the rest is kept as it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from defray.core.contract import Unit
from defray.data.dialect import Dialect
from defray.data.physical import Raw

BLOCK = 64


def field(raw: Raw, dialect: Dialect) -> str:
    """One field of a message: ``N``, or ``<bytes>:<text>``."""
    return f"coalesce({dialect.byte_length(raw.text)} || ':' || {raw.text}, 'N')"


def message(fields: Sequence[str]) -> str:
    return fields[0] if len(fields) == 1 else f"concat({', '.join(fields)})"


def hmac_sha256(secret: bytes, text: str, dialect: Dialect) -> str:
    """HMAC-SHA256 (RFC 2104) of an SQL text, as SQL."""
    return dialect.hmac_sha256(*pads(secret), text)


def pads(secret: bytes) -> tuple[bytes, bytes]:
    """What the outer and the inner hash begin with."""
    key = (secret if len(secret) <= BLOCK else hashlib.sha256(secret).digest()).ljust(BLOCK, b"\0")
    outer, inner = (bytes(b ^ pad for b in key) for pad in (0x5C, 0x36))
    return outer, inner


def kept_rows(
    unit: Unit,
    secret: bytes,
    relation: str,
    dialect: Dialect,
    *,
    unit_column: Raw,
    row_key: Sequence[Raw],
    content: Sequence[Raw],
    values: Sequence[str],
    keep: Sequence[str],
    among: str | None = None,
    apart: bool = True,
) -> str:
    """A SELECT of ``values`` (``expr AS name``) over the kept rows of ``relation``.  ``keep`` are the
    conditions of rows that belong to the table, over the names of ``values``.  ``among``
    is a condition on units, to take a part of them only.  ``apart``: units with too many rows are told from
    the others first, which takes a pass over all rows; else all rows are hashed."""
    names = ", ".join(v.rsplit(" AS ", 1)[1] for v in values)
    whole = message([field(c, dialect) for c in content])
    hashed = [field(c, dialect) for c in (unit_column, *row_key)] + ([] if row_key else [whole])
    mine = ", ".join([*values, f"{unit_column.x} AS unit_"])
    full = f"{mine}, {message(hashed)} AS hashed_, {whole} AS content_"
    present = f"FROM {relation} WHERE {unit_column.present}"
    if among is not None:
        present += f" AND {among}"
    mac = hmac_sha256(secret, "hashed_", dialect)
    order = f"{mac}, {dialect.bytewise('content_')}" if row_key else mac
    most = int(unit.max_rows)

    def where(conditions: Sequence[str]) -> str:
        return f" WHERE {' AND '.join(f'({c})' for c in conditions)}" if conditions else ""

    def first(rows: str, conditions: Sequence[str]) -> str:
        ranked = (
            f"SELECT {names}, row_number() OVER (PARTITION BY unit_ ORDER BY {order}) AS place_"
            f" FROM {rows}{where(conditions)}"
        )
        return f"SELECT {names} FROM {dialect.derived(ranked)} WHERE place_ <= {most}"

    hashable = f"SELECT {full} {present}"
    if not apart:
        return first(dialect.derived(hashable), keep)
    rows = f"SELECT {mine} {present}"
    light, alone = dialect.joined(rows, "heavy_", "unit_", there=False)
    heavy, those = dialect.joined(hashable, "heavy_", "unit_", there=True)
    return (
        f"WITH heavy_ AS {dialect.with_twice}"
        f" (SELECT unit_ FROM {dialect.derived(rows)}{where(keep)}"
        f" GROUP BY unit_ HAVING COUNT(*) > {most})"
        f" SELECT {names} FROM {light}{where((*alone, *keep))}"
        f" UNION ALL {first(heavy, (*those, *keep))}"
    )
