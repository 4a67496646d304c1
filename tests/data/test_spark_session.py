"""The session that a Spark source runs in: found or made, silent, stopped; and what is said without one.

What needs a process of its own, because the session of the tests is in this one, has one.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from defray.data.spark import making
from defray.data.spark.making import check
from defray.errors import MissingExtra, SourceUnavailable
from tests import spark
from tests.data.people import parquet
from tests.data.spark_processes import run
from tests.tables import write_spark_contract

pytestmark = pytest.mark.xdist_group("spark")
SMALL = "SELECT i % 90 AS age, 'F' AS sex, i AS income FROM range(900) t(i)"


@pytest.fixture(autouse=True)
def there() -> None:
    reason = spark.missing()
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    parquet(tmp_path / "people.parquet", SMALL)
    write_spark_contract(tmp_path)
    return tmp_path


@pytest.mark.long
def test_workers_with_another_python_do_not_matter_and_the_terminal_stays_clean(
    folder: Path,
) -> None:
    """No statement runs Python on Spark's workers; the JVM's own words reach no terminal: no log4j, no
    progress bars, no resets of connections at the end."""
    other = {"PYSPARK_PYTHON": "/nowhere/python2", "PYSPARK_DRIVER_PYTHON": "/nowhere/python3"}
    ask = ("ask", "SELECT COUNT(*) FROM people WHERE age < 45", "--within", "20", "--json")
    done = run(folder, "-m", "defray", *ask, env=other)
    assert (done.returncode, done.stderr) == (0, "")
    assert '"value"' in done.stdout
    assert "WARN" not in done.stdout
    assert sorted(p.name for p in folder.iterdir()) == [
        "contract.ledger", "contract.ledger.witness", "contract.toml", "people.parquet",
    ]  # fmt: skip


@pytest.mark.slow
def test_a_session_is_made_shared_lost_made_again_and_stopped(folder: Path) -> None:
    script = """
        import os, signal
        import defray
        from pyspark import SparkContext

        interrupt = signal.getsignal(signal.SIGINT)
        first = defray.open("contract.toml")
        assert SparkContext._active_spark_context is None, "none before it is needed"
        value = first.ask("SELECT COUNT(*) FROM people", within=20).value
        context = SparkContext._active_spark_context
        assert signal.getsignal(signal.SIGINT) is interrupt
        os.makedirs("other")
        text = open("contract.toml").read().replace('"people.parquet"', '"../people.parquet"')
        open("other/contract.toml", "w").write(text)
        second = defray.open("other/contract.toml")
        second.ask("SELECT COUNT(*) FROM people", within=20)
        assert SparkContext._active_spark_context is context, "one for the process"
        first.close()
        assert not context._jsc.sc().isStopped(), "the other one uses it"
        java = context._jvm.java.lang.ProcessHandle.current().pid()
        os.kill(java, signal.SIGKILL)
        second.ask("SELECT COUNT(*) FROM people WHERE age < 9", within=20)
        again = SparkContext._active_spark_context
        assert again is not context
        second.close()
        assert SparkContext._active_spark_context is None
        print("done")
    """
    done = run(folder, "-c", script)
    assert (done.stdout, done.stderr) == ("done\n", "")


@pytest.mark.slow
def test_a_session_that_is_there_is_used_and_left_alone(folder: Path) -> None:
    script = """
        import warnings
        warnings.simplefilter("ignore")
        from pyspark.sql import SparkSession
        import defray

        mine = (
            SparkSession.builder.master("local[1]")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.shuffle.partitions", "1")
            .getOrCreate()
        )
        mine.conf.set("spark.sql.session.timeZone", "America/New_York")
        mine.conf.set("spark.sql.ansi.enabled", "false")
        mine.sparkContext.addJobTag("mine")
        before = {r.key: r.value for r in mine.sql("SET").collect()}
        with defray.open("contract.toml") as session:
            session.ask("SELECT COUNT(*) FROM people", within=20)
        assert mine.sql("SELECT 1").collect() == [(1,)], "it goes on"
        assert {r.key: r.value for r in mine.sql("SET").collect()} == before
        assert set(mine.sparkContext.getJobTags()) == {"mine"}
        assert not mine.catalog.listTables(), "no view of Defray's"
        assert mine.sparkContext.master == "local[1]", "the contract's options do not count here"
        mine.stop()
        print("done")
    """
    done = run(folder, "-c", script)
    assert done.stdout == "done\n", done.stderr


def test_check_says_what_is_missing(folder: Path, tmp_path: Path) -> None:
    nowhere = {"JAVA_HOME": str(tmp_path / "nowhere")}
    said = run(folder, "-m", "defray", "check", env=nowhere)
    assert said.returncode == 4
    assert "Spark needs Java 17 or later" in " ".join(said.stderr.split())
    assert "JAVA_HOME" in said.stderr
    found = json.loads(run(folder, "-m", "defray", "check", "--json").stdout)["source"]
    assert found["kind"] == "spark"


def test_without_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [m for m in sys.modules if m == "pyspark" or m.startswith("pyspark.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(MissingExtra, match=r'needs PySpark\n.*pip install "defray\[spark\]"'):
        check({})


def test_without_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(
        SourceUnavailable, match=r"Java 17 or later, and none was found\n.*JAVA_HOME"
    ):
        check({})
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SourceUnavailable, match="none was found"):
        check({})


@pytest.mark.parametrize(("version", "major"), [("1.8.0_392", 8), ("11.0.21", 11), ("16", 16)])
def test_a_java_that_is_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, major: int
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2020-01-01' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SourceUnavailable, match=rf"this is Java {major}\n.*JAVA_HOME"):
        check({})


def test_a_master_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "CONNECT_SECONDS", 0.5)
    with pytest.raises(
        SourceUnavailable, match=r"no Spark master answers at 127\.0\.0\.1:1, localhost:2"
    ):
        check({"spark.master": "spark://127.0.0.1:1,localhost:2"})


@pytest.mark.slow
def test_options_that_spark_cannot_begin_with(folder: Path) -> None:
    text = (folder / "contract.toml").read_text().replace('"1g"', '"1 potato"')
    (folder / "contract.toml").write_text(text)
    done = run(folder, "-m", "defray", "ask", "SELECT COUNT(*) FROM people", "--within", "20")
    assert done.returncode == 4
    assert "Spark did not start" in done.stderr
    assert "[source.spark]" in done.stderr
    assert "potato" not in done.stderr
    assert "Exception" not in done.stderr.replace("PySparkRuntimeError", "")
