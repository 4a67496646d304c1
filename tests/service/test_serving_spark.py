"""A service over data in Spark: one session for all who ask, and a log that holds nothing of Spark's."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests import spark
from tests.service.test_server import running
from tests.tables import write_people, write_spark_contract

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.slow]


def test_several_ask_one_session(tmp_path: Path) -> None:
    if spark.missing() is not None:
        pytest.skip(str(spark.missing()))
    write_people(tmp_path)
    with running(write_spark_contract(tmp_path, "rho = 10")) as server:
        asks = [f"SELECT COUNT(*) FROM people WHERE age < {n}" for n in (30, 45, 60, 75)]
        with ThreadPoolExecutor(4) as pool:
            said = list(pool.map(lambda sql: server.ask(sql=sql), asks))
        assert [s.status_code for s in said] == [200] * 4
        values = [s.json()["rows"][0]["value"] for s in said]
        assert values == sorted(values)
        assert abs(values[0] - 10_000 * 30 / 91) < 400
        code, log = server.stop()
    assert code == 0
    assert log, "every line of it is JSON"
