"""The settings of Spark that Defray makes: of a session it begins, and of every session it asks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SETTINGS: Final[Mapping[str, str]] = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.caseSensitive": "true",
    "spark.sql.variable.substitute": "false",
    "spark.sql.groupByAliases": "true",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    # else texts are looked up for each row, not for each group
    "spark.sql.optimizer.excludedRules": (
        "org.apache.spark.sql.catalyst.optimizer.CollapseGroupedSumOfCount"
    ),
    "spark.sql.optimizer.avoidDoubleFilterEval": "false",  # else text does not prune partitions
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.datetime.java8API.enabled": "true",  # else pushed filters move days of October 1582
    "spark.sql.parquet.mergeSchema": "true",
    "spark.sql.parquet.filterPushdown": "true",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
}
"""What a statement's meaning rests on, set in the session it runs in."""

DEFAULTS: Final[Mapping[str, str]] = {
    "spark.master": "local[*]",
    "spark.app.name": "defray",
    "spark.ui.enabled": "false",
    "spark.log.level": "OFF",
    "spark.scheduler.mode": "FAIR",
}
ALWAYS: Final[Mapping[str, str]] = {"spark.ui.showConsoleProgress": "false"}
