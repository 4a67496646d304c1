"""Which tests of a source take long: a statement of Spark takes a fifth of a second, whatever the table."""

from __future__ import annotations

from pathlib import Path

import pytest

QUICK = (
    "test_every_column_by_itself[declared-spark]",
    "test_every_column_counted_and_summed[declared-spark]",
    "test_the_same_rows_of_a_unit_are_kept_by_all[spark-3-person]",
    "test_the_scans_of_a_question_together_are_those_of_each[declared-spark]",
    "test_what_some_cells_hold[spark]",
)


@pytest.hookimpl(tryfirst=True)  # before xdist looks at the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.parent == here and "spark" in item.name:
            item.add_marker(pytest.mark.xdist_group("spark"))
            if item.name not in QUICK:
                item.add_marker(pytest.mark.slow)
