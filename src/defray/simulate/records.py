"""A file of records, one a line: JSON Lines, or CSV with a header.  Reading goes on after a mistake."""

from __future__ import annotations

import csv
import difflib
import io
import json
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path
from typing import Any, Final

from defray.core.brief import brief
from defray.errors import BadInput, Problem, WorkloadError

FIELDS: Final = ("sql", "key", "within", "confidence", "rho", "analyst", "truth", "scale")
EXAMPLE: Final = '{"key": "all", "within": 50}'

MAX_BYTES: Final = 2**30
LINE: Final = "(line)"
"""The field of a mistake that concerns a whole line."""


@dataclass(slots=True)
class Records:
    """The records by column (None: not there), the line that each begins at, and the mistakes so far."""

    lines: list[int]
    columns: Mapping[str, Sequence[Any]]
    problems: list[Problem] = field(default_factory=list)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Line number, then one value for each of :data:`FIELDS`."""
        columns = (self.columns.get(name) or repeat(None) for name in FIELDS)
        return zip(self.lines, *columns, strict=False)


def read_records(path: Path) -> Records:
    """Raises BadInput or WorkloadError where the file cannot be read at all."""
    text = _text(path)
    json_lines = _is_json(text, path)
    records = _json_lines(text, path) if json_lines else _csv(text, path)
    if not records.lines and not records.problems:
        cure = (
            f"write {EXAMPLE}"
            if json_lines
            else "write key,within and below it lines such as all,50"
        )
        raise WorkloadError([Problem(LINE, "the file holds no ask", cure, 1)], path=str(path))
    return records


def quoted(value: Any) -> str:
    """A value as JSON, shortened: what was read, without anything that a terminal obeys."""
    return brief(json.dumps(value), 60)


def _text(path: Path) -> str:
    try:
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
            raise BadInput(f"{path} is not a file", hint="name a .jsonl or .csv file")
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "this cannot be the name of a file"
        raise BadInput(f"cannot read {path}: {why}", hint="name a .jsonl or .csv file") from None
    if len(raw) > MAX_BYTES:
        raise BadInput(f"{path} is larger than {MAX_BYTES >> 30} GiB", hint="take a part of it")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        problem = Problem(LINE, "the file is not UTF-8 from here on", "save it in UTF-8", line)
        raise WorkloadError([problem], path=str(path)) from None


def _is_json(text: str, path: Path) -> bool:
    suffix = path.suffix.lower()
    if suffix in (".csv", ".tsv"):
        return False
    return suffix in (".jsonl", ".ndjson", ".json") or text.lstrip()[:1] in ("{", "[")


# -- JSON Lines ----------------------------------------------------------------------------------


def _json_lines(text: str, path: Path) -> Records:
    if text.lstrip()[:1] == "[":
        cure = f"write one object a line, without brackets and commas: {EXAMPLE}"
        problem = Problem(LINE, "this is one JSON array", cure, 1)
        raise WorkloadError([problem], path=str(path))
    decode = json.JSONDecoder(object_pairs_hook=_unique).decode
    # Column by column: a million small containers would keep the garbage collector busy.
    lines: list[int] = []
    columns: dict[str, list[Any]] = {name: [] for name in FIELDS}
    problems: list[Problem] = []
    present: set[str] = set()
    known = frozenset(FIELDS)
    added = [(name, columns[name].append) for name in FIELDS]
    for line, written in enumerate(text.split("\n"), 1):
        if not written or written.isspace():
            continue
        try:
            record = decode(written)
        except (ValueError, RecursionError) as error:
            problems.append(Problem(LINE, _why_not(error), f"write {EXAMPLE}", line))
            continue
        if not isinstance(record, dict):
            problems.append(Problem(LINE, "this is not an object", f"write {EXAMPLE}", line))
        elif not record.keys() <= known:
            problems.extend(_unknown(name, line) for name in record if name not in known)
        else:
            lines.append(line)
            present.update(record)
            get = record.get
            for name, add in added:
                add(get(name))
    return Records(lines, {name: columns[name] for name in FIELDS if name in present}, problems)


class _Twice(ValueError):
    """A field that an object names twice."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        names = [name for name, _ in pairs]
        raise _Twice(next(name for name in names if names.count(name) > 1))
    return record


def _why_not(error: Exception) -> str:
    match error:
        case _Twice():
            return f"{quoted(error.args[0])} is there twice"
        case json.JSONDecodeError():
            return f"not JSON: {error.msg} at column {error.colno}"
        case RecursionError():
            return "nested too deeply for an ask"
    return "a number has too many digits"


# -- CSV -----------------------------------------------------------------------------------------


def _csv(text: str, path: Path) -> Records:
    header, delimiter, top = _header(text)
    if not any(header):
        return Records([], {})
    width = len(header)
    problems = [_unknown(name, top) for name in header if name not in FIELDS]
    problems += [
        Problem(name, "two columns have this name", "keep one of them", top)
        for name in FIELDS
        if header.count(name) > 1
    ]
    if "sql" not in header and "key" not in header:
        cure = "a workload is CSV, whose first line names the columns (key,within), or JSON Lines"
        problems.append(Problem(LINE, "the header has no column sql or key", cure, top))
        raise WorkloadError(problems, path=str(path))
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    lines: list[int] = []
    cells: list[list[str | None]] = [[] for _ in header]
    line = 1
    try:
        for row in reader:
            if line > top and row:
                if len(row) == width:
                    lines.append(line)
                    for column, cell in zip(cells, row, strict=True):
                        column.append(cell or None)
                else:
                    message = f"{len(row)} fields, where the header has {width}"
                    cure = 'put a text that holds the delimiter in quotes: "a, b"'
                    problems.append(Problem(LINE, message, cure, line))
            line = reader.line_num + 1
    except csv.Error as error:
        message = f"not CSV from here on: {error}"
        problems.append(Problem(LINE, message, 'write a quote inside quotes twice: ""', line))
    columns = dict(zip(header, cells, strict=True))
    return Records(lines, {name: columns[name] for name in FIELDS if name in columns}, problems)


def _header(text: str) -> tuple[list[str], str, int]:
    """The column names, split where that gives the most known ones; the delimiter; the header's line."""
    body = text.lstrip("\r\n")
    line = text.count("\n", 0, len(text) - len(body)) + 1
    found: list[tuple[int, list[str], str]] = []
    for delimiter in (",", ";", "\t", "|"):
        row = next(csv.reader([body.partition("\n")[0]], delimiter=delimiter), [])
        names = [name.strip().lower() for name in row]
        found.append((len(set(names) & set(FIELDS)), names, delimiter))
    _, names, delimiter = max(found, key=lambda split: split[0])
    return names, delimiter, line


def _unknown(name: str, line: int) -> Problem:
    near = difflib.get_close_matches(name.strip().lower(), FIELDS, 1, 0.6)
    cure = f"did you mean {near[0]}?" if near else f"the fields are {', '.join(FIELDS)}"
    return Problem(name if name.isidentifier() else quoted(name), "no such field", cure, line)
