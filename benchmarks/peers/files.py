"""Files of recorded workloads, read with errors that name file, line and cure."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from defray.errors import BadInput

Record = dict[str, str]


def wrong(path: Path, problem: str, hint: str = "", line: int | None = None) -> BadInput:
    where = f"{path}, line {line}" if line is not None else str(path)
    return BadInput(f"{where}: {problem}", hint=hint)


def text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as failed:
        raise wrong(path, "not UTF-8 text", "save it as UTF-8") from failed
    except OSError as failed:
        raise wrong(path, f"cannot be read ({failed.strerror})", "name another file") from failed


def rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows of a CSV file with their lines, cells stripped, without empty ones."""
    reader = csv.reader(text(path).splitlines(), skipinitialspace=True, strict=True)
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                yield reader.line_num, [cell.strip() for cell in row]
    except csv.Error as failed:
        raise wrong(path, f"not CSV: {failed}", line=reader.line_num) from failed


def records(path: Path, needed: Sequence[str]) -> Iterator[tuple[int, Record]]:
    """The rows of a CSV file with a header that names at least the ``needed`` columns, in any order."""
    lines = rows(path)
    _, header = next(lines, (0, []))
    missing = [name for name in needed if name not in header]
    if missing:
        raise wrong(
            path,
            f"no column {missing[0]!r}" if header else "empty",
            f"its first line names the columns {', '.join(needed)}",
            line=1,
        )
    for line, row in lines:
        if len(row) != len(header):
            raise wrong(path, f"{len(row)} cells under {len(header)} columns", line=line)
        yield line, dict(zip(header, row, strict=True))


def number(path: Path, line: int, record: Record, name: str) -> float:
    """A finite number."""
    try:
        value = float(record[name])
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise wrong(path, f"{name} is {record[name]!r}, which is no finite number", line=line)
    return value


def positive(path: Path, line: int, record: Record, name: str) -> float:
    value = number(path, line, record, name)
    if value <= 0:
        raise wrong(path, f"{name} is {record[name]!r}, and must be above 0", line=line)
    return value
