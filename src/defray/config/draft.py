"""A first contract file for a data file, for the curator to complete.

Without ``peek`` only names and types are read: the header line of a CSV, the schema of a Parquet or
DuckDB file.  The draft is valid TOML, and the reader lists exactly what is still to fill in.  With
``peek`` the domains are filled from the rows (:mod:`defray.config.peek`), which leaks them; the file says
so, and reads as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from defray.config.blocks import left_out
from defray.config.fields import is_name, toml_key, toml_string
from defray.config.keys import key_at
from defray.config.places import table_name
from defray.config.schema import Found, names_and_types
from defray.config.server import table_on_server
from defray.core.contract import SourceSpec

_EXAMPLES: Final[Mapping[str, tuple[str, ...]]] = {
    "integer": ("min = 0", "max = 120", "bounds = [0, 120]   # only if it may be summed"),
    "float": ("min = 0", "max = 100", "step = 5", "bounds = [0, 100]   # only if it may be summed"),
    "decimal": (
        "min = 0",
        "max = 100",
        "step = 5",
        "bounds = [0, 100]   # only if it may be summed",
    ),
    "string": ('values = ["a", "b"]',),
    "date": ("min = 2020-01-01", "max = 2029-12-31"),
    "timestamp": ("min = 2020-01-01", "max = 2030-01-01", 'step = "1 hour"'),
}
_UNTYPED: Final = (
    'type = "integer"    # or float, decimal, string, boolean, date, timestamp',
    "min = 0             # integer, date; float and timestamp with a step, too",
    "max = 120",
    'values = ["a", "b"] # string; any list of values',
)


def draft(path: Path, *, peek: bool = False, table: str | None = None) -> str:
    """The text of a contract file for the data at ``path`` (a glob, too); ``table`` is one inside a
    DuckDB file.  The path is written down as given, so relative to where the contract will stand.

    Raises BadInput for a path or table that cannot be used, SourceUnavailable for an unreadable file.
    """
    found = names_and_types(path, table)
    blocks: Mapping[str, str] = {}
    if peek:
        from defray.config.peek import peek_columns

        found, blocks = peek_columns(found)
    return _text(found, blocks, peek=peek)


def draft_table(dsn: str, table: str | None) -> str:
    """The text of a contract file for a table in a PostgreSQL database, from names and types only.

    Raises BadInput, MissingExtra or SourceUnavailable.
    """
    return _text(table_on_server(dsn, table), {}, peek=False)


# -- writing -----------------------------------------------------------------------------------------

_HEAD: Final = """\
# A privacy contract for {what}, drafted by Defray.
#
# Write only what is public knowledge: a domain or a bound that is read off the rows leaks them.
# Lines that start with "# " before a key are suggestions: take the sign away where they apply.
"""

_PEEKED: Final = """\
#
# WARNING: the values, ranges and types below were READ FROM THE DATA (--peek). Whoever sees this
# contract, or an answer by it, learns from them that such rows exist. Replace each one by what is
# known without looking at the rows, or make sure that it may be public.
"""

_BUDGET: Final = """
# The budget is the curator's choice. At delta = 1e-6, for one unit with all of its rows:
#   rho = 0.05 is about epsilon = 1.5,  rho = 0.5 about 5.2,  rho = 1 about 7.8
"""

_UNIT: Final = """
# Whose presence is protected: a row, or a person who may own several rows, of which max_rows are
# kept:  unit = {column = "person_id", max_rows = 5}
"""


def _text(found: Found, blocks: Mapping[str, str], *, peek: bool) -> str:
    spec = SourceSpec(found.kind, found.path, found.table)
    what = found.path if found.kind != "postgresql" else found.table or ""
    parts = [_HEAD.format(what=toml_string(what)), _PEEKED if peek else ""]
    parts.append(f"\nversion = 1\ntable = {toml_string(table_name(spec))}   # in SQL: FROM ...\n")
    parts.append(_BUDGET)
    parts.append("rho = 1.0   # choose\n" if peek else "# rho = 0.5\n")
    parts.append(_UNIT)
    parts.append('unit = "row"   # choose\n')
    parts.append("\n")
    for path in ("xi", "m_floor", "n_max", "horizon"):
        parts.append(f"# {key_at(path).example.ljust(16)} # {key_at(path).meaning}\n")
    parts.append(_source_text(found))
    for name, kind in found.columns.items():
        parts.append("\n" + (blocks.get(name) or _block(name, kind)))
    return "".join(parts)


def _source_text(found: Found) -> str:
    lines = [
        "",
        "[source]",
        f"kind = {toml_string(found.kind)}",
        f"{'dsn' if found.kind == 'postgresql' else 'path'} = {toml_string(found.path)}",
    ]
    if found.table is not None:
        lines.append(f"table = {toml_string(found.table)}")
    if found.kind == "postgresql":
        lines.append(f'data_version = "1"   # {key_at("source.data_version").meaning}')
    if found.kind == "csv":
        lines += ["", *(f"# {remark}" for remark in found.remarks), "[source.csv]"]
        lines += [f"{key} = {_value(value)}" for key, value in found.options.items()]
        for key in ("delimiter", "null", "encoding"):
            if key not in found.options:
                about = key_at(f"source.csv.{key}")
                lines.append(f"# {about.example}   # {about.meaning}")
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(toml_string(v) for v in value)}]"
    return toml_string(value)


def _block(name: str, kind: str | None) -> str:
    if not is_name(name):
        return left_out(name, "its name is empty or has control characters")
    if kind == "":
        return left_out(name, "questions about its type are not available")
    lines = [f"[columns.{toml_key(name)}]   # fill in, or delete"]
    if kind is None:
        lines += [f"# {line}" for line in _UNTYPED]
    else:
        lines.append(f"type = {toml_string(kind)}")
        lines += [f"# {line}" for line in _EXAMPLES.get(kind, ())]
    return "\n".join(lines) + "\n"
