"""Answers as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from starlette.responses import Response

_FORMULAS: Final = ("=", "+", "-", "@", "\t", "\r")


def download(name: str, records: Sequence[Mapping[str, Any]]) -> Response:
    """Records of equal fields as a file."""
    return Response(
        text(records),
        media_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}.csv"'},
    )


def text(records: Iterable[Mapping[str, Any]]) -> str:
    """CSV (RFC 4180).  Numbers have all their digits; NULL is an empty field; a text that a spreadsheet would
    take for a formula begins with an apostrophe.

    >>> text([{"plan": "=1+1", "value": -0.5, "low": None}])
    "plan,value,low\\r\\n'=1+1,-0.5,\\r\\n"
    """
    rows = [dict(record) for record in records]
    out = io.StringIO()
    names = list(rows[0]) if rows else []
    writer = csv.writer(out)
    writer.writerow(_field(name) for name in names)
    writer.writerows([_field(row[name]) for name in names] for row in rows)
    return out.getvalue()


def _field(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(_FORMULAS):
        return "'" + value
    return value


def then_and_now(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of an earlier answer, flat: the group, then what was told then and what is known now."""
    return [
        {
            **{f"group_{name}": label for name, label in row["group"].items()},
            "aggregate": row["aggregate"],
            **{
                f"{field}_{time}": row[time][field]
                for time in ("then", "now")
                for field in ("value", "half_width")
            },
        }
        for row in rows
    ]
