"""``[source]`` of kind ``spark``: a table or a path, and the options of a session that Defray makes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from defray.config.fields import Section, shown, toml_key
from defray.core.contract import SourceSpec
from defray.data.spark.naming import is_local, table_parts
from defray.data.spark.settings import ALWAYS, SETTINGS
from defray.errors import SourceUnavailable

_NAME: Final = re.compile(r"[A-Za-z][\w-]*(\.[\w-]+)*", re.ASCII)
_SECRET: Final = re.compile(
    r"password|secret|token|credential|(access|account)\.?key", re.IGNORECASE
)
_OWN: Final = {*SETTINGS, *ALWAYS}
_TEXT_FILES: Final = (".csv", ".tsv", ".txt", ".json", ".gz")


def read_spark(source: Section) -> SourceSpec:
    """Where the rows are; what is wrong has been noted."""
    path, table = source.text("path"), source.text("table")
    version = source.text("data_version")
    if "dsn" in source:
        cure = "remove dsn; the master goes into [source.spark]"
        source.problem("dsn", "dsn does not apply to spark", cure)
    if "csv" in source:
        source.problem("csv", "csv does not apply to spark", "remove [source.csv]")
    if "path" in source and "table" in source:
        source.problem("table", "both path and table are given", "keep one of them")
    elif "path" not in source and "table" not in source:
        cure = 'add table = "health.people" or path = "people"'
        source.problem("table", "neither table nor path is given", cure)
    if table is not None:
        _check_table(source, table)
    if path is not None and path.lower().endswith(_TEXT_FILES):
        cure = 'write kind = "csv" for CSV files, or convert them to Parquet'
        source.problem("path", f"{shown(path)} is not Parquet, which Spark reads here", cure)
    named = "path" in source or "table" in source
    if named and "data_version" not in source and not (path is not None and is_local(path)):
        cure = 'add data_version = "1", and change it whenever the rows change'
        message = "the data version is missing: such data cannot be fingerprinted"
        source.problem("data_version", message, cure)
    return SourceSpec("spark", path, table, None, version, _options(source))


def _check_table(source: Section, table: str) -> None:
    cure = ""
    try:
        table_parts(table)
    except SourceUnavailable as error:
        cure = error.hint or ""
    if cure:
        source.problem("table", f"{shown(table)} is no name of a table", cure)


def _options(source: Section) -> Mapping[str, str]:
    """The options by Spark's own names, as text."""
    given = source.data.get("spark", {})
    if not isinstance(given, dict):
        cure = "write [source.spark] on a line of its own and its keys below it"
        source.problem("spark", f"{shown(given)} is not a table", cure)
        return {}
    section = Section(given, (*source.where, "spark"), "source.spark", source.findings)
    options: dict[str, str] = {}
    for top, name, value in _flat(given):
        problem = _mistake(name, value)
        if problem is None:
            options[name] = str(value).lower() if isinstance(value, bool) else str(value)
        else:
            section.problem(top, *problem)
    return options


def _flat(given: Mapping[str, Any], above: str = "spark") -> Iterator[tuple[str, str, Any]]:
    """Dotted keys put together: the key at the top, the whole name, the value."""
    for key, value in given.items():
        name = f"{above}.{key}".replace("spark.spark.", "spark.", 1)
        if isinstance(value, dict):
            for _, inner, leaf in _flat(value, name):
                yield key, inner, leaf
        else:
            yield key, name, value


def _mistake(name: str, value: Any) -> tuple[str, str] | None:
    shown_name = toml_key(name.removeprefix("spark."))
    if not _NAME.fullmatch(name):
        return f"{shown_name} is no option of Spark", 'for example: master = "local[4]"'
    if _SECRET.search(name):
        cure = "contracts are public: put it into spark-defaults.conf (in SPARK_CONF_DIR)"
        return f"{shown_name} may hold a secret", cure
    if name in _OWN:
        return f"{shown_name} is set by Defray, since answers depend on it", "remove it"
    if not isinstance(value, str | bool | int | Decimal) or "\n" in str(value):
        return f"{shown(value)} is no value of an option", "write a text, a number, true or false"
    return None
