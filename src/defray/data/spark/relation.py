"""Opening a contract's data in a Spark session: the FROM item, and the columns it has.

A path is Parquet: a file, a glob, or a folder.  Folders named ``column=value`` (Hive's partitions) make
columns, read as text like every text.  A path without a scheme is of the local file system.
"""

from __future__ import annotations

import glob
import json
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from defray.core.contract import Contract
from defray.data.fingerprint import find
from defray.data.physical import Raw
from defray.data.spark.dialect import SPARK
from defray.data.spark.faults import NO_PATH, guarded
from defray.data.spark.naming import is_local, table_parts
from defray.data.spark.reading import raw
from defray.data.spark.session import Session
from defray.errors import SourceUnavailable

_VIEW: Final = "defray_data"


@dataclass(frozen=True, slots=True)
class Opened:
    """A session, the FROM item of the table in it and its columns by name."""

    session: Session
    relation: str
    columns: Mapping[str, Raw]


def opened(session: Session, contract: Contract) -> Opened:
    """Raises SourceUnavailable with a fixed text."""
    spec = contract.source
    if spec.path is None:
        relation = ".".join(map(SPARK.name, table_parts(spec.table or contract.table)))

        def look() -> Any:
            return session.spark.sql(f"SELECT * FROM {relation}").schema

        cure = "check source.table: a table or view that Spark can read"
    else:
        relation, paths, base = _VIEW, *_paths(contract)

        def look() -> Any:
            reader = session.spark.read
            if base is not None:
                reader = reader.option("basePath", base)
            frame = reader.parquet(*paths)
            frame.createOrReplaceTempView(_VIEW)
            return frame.schema

        cure = (
            "check source.path: every matching file must be Parquet, with columns of the same types"
        )
    schema = guarded(look, "the data could not be read", cure)
    twice = Counter(f.name for f in schema.fields)
    columns = {
        f.name: raw(SPARK.name(f.name), f.dataType.simpleString())
        for f in schema.fields
        if twice[f.name] == 1
    }
    return Opened(session, f"{relation} AS rows_", columns)


def how_read(contract: Contract) -> str:
    """Everything in the contract's source, but for where files are, that decides which rows are read."""
    spec = contract.source
    parts: dict[str, Any] = {"kind": "spark"}
    if spec.path is None:
        parts["table"] = table_parts(spec.table or contract.table)
    return json.dumps(parts, sort_keys=True, separators=(",", ":"))


# -- paths --------------------------------------------------------------------------------------------


def pattern(contract: Contract) -> Path:
    """The path or glob of local data."""
    path = contract.source.path or ""
    return contract.directory.absolute() / path.removeprefix("file://")


def files(pattern: Path, extra: tuple[str, ...] = ()) -> list[Path]:
    """The files that Spark reads at a local path or glob, in sorted order: those of its folders too, but
    for hidden ones."""
    text = str(pattern)
    matched = [text] if os.path.exists(text) else sorted(glob.glob(text, recursive=True))
    if not any(os.path.isdir(m) for m in matched):
        return find(pattern, extra)
    found = [Path(m) for m in matched if os.path.isfile(m)]
    for folder in matched:
        for root, folders, names in os.walk(folder):
            folders[:] = [f for f in folders if _is_seen(f)]
            found += [Path(root, name) for name in names if _is_seen(name)]
    if not found:
        raise SourceUnavailable(
            f"no data file at {pattern.name}",
            hint="check source.path in the contract; relative paths start at the contract's folder",
        )
    return sorted(set(found))


def _is_seen(name: str) -> bool:
    return not (name.startswith(".") or (name.startswith("_") and "=" not in name))


def _paths(contract: Contract) -> tuple[Sequence[str], str | None]:
    """The paths for Spark, and the folder that partitions are told from where it is not the path itself."""
    path = contract.source.path or ""
    if not is_local(path):
        return [path], _still(path) if _still(path) != path else None
    here = pattern(contract)
    text = str(here)
    matched = [text] if os.path.exists(text) else sorted(glob.glob(text, recursive=True))
    if not matched:
        raise NO_PATH.error()
    if any(c in m for m in matched for c in "*?[]{}\\"):
        raise SourceUnavailable(
            "a data file has one of * ? [ ] { } \\ in its name or folder",
            hint="rename it: Spark reads these as patterns",
        )
    base = None if os.path.exists(text) else f"file://{_still(text)}"
    return [f"file://{m}" for m in matched], base


def _still(path: str) -> str:
    """The part of a path before its first pattern."""
    parts = path.split("/")
    moving = (i for i, part in enumerate(parts) if re.search(r"[*?\[{]", part))
    return "/".join(parts[: next(moving, len(parts))])
