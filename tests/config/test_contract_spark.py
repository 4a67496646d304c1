"""``[source]`` of kind ``spark``: what is read from it, and what is wrong with it."""

from __future__ import annotations

import pytest

from defray.core.contract import SourceSpec
from tests.config.test_contract_reader import contract_text, only, parse

PATH = {"kind": '"spark"', "path": '"people"'}
TABLE = {"kind": '"spark"', "path": None, "table": '"health.People"', "data_version": '"3"'}


def test_a_path_and_a_table() -> None:
    assert parse(contract_text(source=PATH)).source == SourceSpec("spark", "people")
    read = parse(contract_text(source=TABLE))
    assert read.source == SourceSpec("spark", None, "health.People", data_version="3")
    assert read.table == "People"


def test_options_are_sparks_own() -> None:
    options = """
        [source.spark]
        master = "local[4]"
        executor.memory = "2g"
        executor.memoryOverhead = 400
        "sql.shuffle.partitions" = 8
        "spark.eventLog.enabled" = false
    """
    text = contract_text(source=PATH, extra=options)
    assert parse(text).source.options == {
        "spark.master": "local[4]",
        "spark.executor.memory": "2g",
        "spark.executor.memoryOverhead": "400",
        "spark.sql.shuffle.partitions": "8",
        "spark.eventLog.enabled": "false",
    }


MISTAKES = [
    ({**PATH, "path": None}, "source.table", "neither table nor path", "path ="),
    ({**PATH, "table": '"t"'}, "source.table", "both path and table", "keep one"),
    ({**TABLE, "data_version": None}, "source.data_version", "is missing", 'data_version = "1"'),
    ({**PATH, "path": '"s3a://b/x"'}, "source.data_version", "is missing", 'data_version = "1"'),
    ({**PATH, "path": '"people.csv"'}, "source.path", "is not Parquet", 'kind = "csv"'),
    ({**PATH, "path": '"people.csv.gz"'}, "source.path", "is not Parquet", 'kind = "csv"'),
    ({**TABLE, "table": '"a..b"'}, "source.table", "no name of a table", "catalog.schema.table"),
    ({**TABLE, "table": '"a.`b"'}, "source.table", "no name of a table", "quotes"),
    ({**PATH, "dsn": '"x"'}, "source.dsn", "does not apply", "[source.spark]"),
    ({**PATH, "csv": "{}"}, "source.csv", "does not apply", "remove"),
    ({**PATH, "spark": "3"}, "source.spark", "not a table", "[source.spark]"),
    ({**PATH, "spark": "{master = [1]}"}, "source.spark.master", "no value", "a text"),
    ({**PATH, "spark": '{"a b" = 1}'}, 'source.spark."a b"', "no option", "master ="),
    ({**PATH, "spark": '{sql.ansi.enabled = false}'}, "source.spark.sql", "set by Defray", "remove"),
    ({**PATH, "spark": '{ui.showConsoleProgress = true}'}, "source.spark.ui", "set by", "remove"),
    ({**PATH, "spark": '{hadoop.fs.s3a.secret.key = "hunter2"}'}, "source.spark.hadoop",
     "may hold a secret", "spark-defaults.conf"),
    ({**PATH, "spark": '{ssl.keyPassword = "hunter2"}'}, "source.spark.ssl", "secret", "public"),
    ({"kind": '"parquet"', "spark": "{}"}, "source.spark", "does not apply to parquet", "remove"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "key", "message", "cure"), MISTAKES)
def test_a_mistake(changes: dict[str, str | None], key: str, message: str, cure: str) -> None:
    problem = only(contract_text(source=changes))
    assert problem.key == key
    assert message in problem.message
    assert cure in problem.cure
    assert "hunter2" not in str(problem)
