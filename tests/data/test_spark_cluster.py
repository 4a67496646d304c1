"""Spark on a cluster: a master and two workers of this machine, begun and ended here."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import spark
from tests.data.spark_processes import run
from tests.tables import write_people

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.slow]


@contextmanager
def daemon(folder: Path, *command: str) -> Iterator[None]:
    """A master or a worker; only this process is ended, and with it what it began."""
    import pyspark

    home = Path(pyspark.__file__).parent
    env = {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_HOME": str(home),
    }
    with (folder / "daemons.log").open("a") as log:
        process = subprocess.Popen(
            [str(home / "bin" / "spark-class"), *command],
            env=env,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


SCRIPT = """
    import sys
    from pathlib import Path
    from fractions import Fraction
    from defray.core.contract import SourceSpec
    from defray.data.duckdb.source import DuckDBSource
    from defray.data.source import Control, Scan
    from defray.data.spark import making
    from defray.data.spark.source import SparkSource
    from defray.errors import Cancelled, SourceUnavailable
    from defray.query.descriptor import Axis
    from defray.query.region import EVERYWHERE
    from tests.data.people import SECRET, contract
    from pyspark import SparkContext

    making.EXECUTOR_SECONDS = float(sys.argv[2])
    options = {"spark.master": sys.argv[1], "spark.executor.memory": "512m",
               "spark.sql.shuffle.partitions": "2"}
    here = Path.cwd()
    spec = SourceSpec("spark", "people.parquet", options=options)
    source = SparkSource(contract(here, spec), SECRET)
    scan = Scan(EVERYWHERE, (Axis(0), Axis(1)), ("age",), ("age",))
    try:
        found = source.scan(scan)
    except SourceUnavailable as error:
        print(error)
        assert SparkContext._active_spark_context is None
        raise SystemExit
    other = DuckDBSource(contract(here, SourceSpec("parquet", "people.parquet")), SECRET).scan(scan)
    assert (found.rows, found.non_null, found.sums) == (other.rows, other.non_null, other.sums)
    try:
        source.scan(scan, Control(timeout=0.001))
    except Cancelled as error:
        print("cancelled")
    executors = SparkContext._active_spark_context._jsc.sc().statusTracker().getExecutorInfos()
    print(len(executors) - 1, "executors")
    source.close()
"""


def test_one_master_and_two_workers(tmp_path: Path) -> None:
    if spark.missing() is not None:
        pytest.skip(str(spark.missing()))
    write_people(tmp_path)
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    here = ("--host", "127.0.0.1", "--webui-port", "0")
    package = "org.apache.spark.deploy"
    with daemon(tmp_path, f"{package}.master.Master", *here, "--port", str(port)):
        last = time.monotonic() + 60
        while time.monotonic() < last:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.1)
        alone = run(tmp_path, "-c", SCRIPT, master, "4")
        assert "gave no executor in 4 s" in alone.stdout, alone.stderr
        assert alone.stderr == ""
        room = ("--cores", "1", "--memory", "600m", "--work-dir", str(tmp_path / "work"))
        worker = (f"{package}.worker.Worker", *here, *room, master)
        with daemon(tmp_path, *worker), daemon(tmp_path, *worker):
            done = run(tmp_path, "-c", SCRIPT, master, "60")
    assert done.stderr == ""
    assert done.stdout == "cancelled\n2 executors\n"
