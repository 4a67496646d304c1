"""At most ``max_rows`` rows of a unit: the ones with the smallest keyed hashes.

The hash of a row is HMAC-SHA256(secret, unit id, row key), or of the unit id and the row's declared content
where no row key is declared; rows of one unit with equal hashes are taken in the order of their content.
So which rows of a unit are kept depends on that unit's rows alone: not on the order of rows or files,
and not on other units.  Every field is written with its length in bytes, NULL with a mark of its own, so that
different rows never hash the same text.  Rows without a unit, and rows that some column drops, are not
rows of the table at all and take nobody's place.

Only units with more than ``max_rows`` rows are hashed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from defray.core.contract import Unit

BLOCK = 64


@dataclass(frozen=True, slots=True)
class Raw:
    """A column as it lies in the data: an SQL expression and its physical type."""

    x: str
    physical: str

    @property
    def text(self) -> str:
        """Its text: one for each value of the type."""
        if self.physical.startswith("TIMESTAMP") and "TIME ZONE" in self.physical:
            return f"CAST(epoch_us({self.x}) AS VARCHAR)"
        return self.x if self.physical == "VARCHAR" else f"CAST({self.x} AS VARCHAR)"

    @property
    def present(self) -> str:
        if self.physical in ("DOUBLE", "FLOAT"):
            return f"({self.x} IS NOT NULL AND NOT isnan({self.x}))"
        return f"{self.x} IS NOT NULL"


def field(raw: Raw) -> str:
    """One field of a message: ``N``, or ``<bytes>:<text>``."""
    return f"coalesce(strlen({raw.text}) || ':' || {raw.text}, 'N')"


def message(fields: Sequence[str]) -> str:
    return fields[0] if len(fields) == 1 else f"concat({', '.join(fields)})"


def hmac_sha256(secret: bytes, text: str) -> str:
    """HMAC-SHA256 (RFC 2104) of an SQL text, as SQL, in hexadecimal."""
    key = (secret if len(secret) <= BLOCK else hashlib.sha256(secret).digest()).ljust(BLOCK, b"\0")
    inner, outer = (bytes(b ^ pad for b in key).hex() for pad in (0x36, 0x5C))
    return f"sha256(unhex('{outer}') || unhex(sha256(unhex('{inner}') || encode({text}))))"


def kept_rows(
    unit: Unit,
    secret: bytes,
    relation: str,
    *,
    unit_column: Raw,
    row_key: Sequence[Raw],
    content: Sequence[Raw],
    values: Sequence[str],
    keep: Sequence[str],
    part: int = 0,
    parts: int = 1,
) -> str:
    """A SELECT of ``values`` (``expr AS name``) over the kept rows of ``relation``.  ``keep`` are the
    conditions of rows that belong to the table, over the names of ``values``.  ``part`` of ``parts``
    takes every so-manieth unit only, to bound the memory."""
    names = ", ".join(v.rsplit(" AS ", 1)[1] for v in values)
    whole = message([field(c) for c in content])
    hashed = [field(unit_column), *(map(field, row_key) if row_key else [whole])]
    mine = ", ".join([*values, f"{unit_column.x} AS unit_"])
    full = f"{mine}, {message(hashed)} AS hashed_, {whole} AS content_"
    present = f"FROM {relation} WHERE {unit_column.present}"
    if parts > 1:
        present += f" AND hash({unit_column.x}) % {int(parts)} = {int(part)}"
    condition = f" WHERE {' AND '.join(f'({k})' for k in keep)}" if keep else ""
    mac = hmac_sha256(secret, "hashed_")
    order = f"{mac}, content_" if row_key else mac
    return (
        f"WITH heavy_ AS NOT MATERIALIZED (SELECT unit_ FROM (SELECT {mine} {present}){condition}"
        f" GROUP BY unit_ HAVING COUNT(*) > {int(unit.max_rows)})"
        f" SELECT {names} FROM (SELECT {mine} {present}) ANTI JOIN heavy_ USING (unit_){condition}"
        f" UNION ALL SELECT {names} FROM (SELECT {names}, row_number() OVER"
        f" (PARTITION BY unit_ ORDER BY {order}) AS place_"
        f" FROM (SELECT {full} {present}) SEMI JOIN heavy_ USING (unit_){condition})"
        f" WHERE place_ <= {int(unit.max_rows)}"
    )
