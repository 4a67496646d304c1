"""Beginning a Spark session: what can be wrong is looked at first, since Spark says it in pages, or waits.

The JVM writes to no terminal and there are no progress bars.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from defray.data.spark.faults import guarded, quiet
from defray.data.spark.java import check_java
from defray.data.spark.settings import ALWAYS, DEFAULTS
from defray.errors import MissingExtra, SourceUnavailable

if TYPE_CHECKING:
    from pyspark import SparkContext

INSTALL: Final = 'pip install "defray[spark]"'
CONNECT_SECONDS: Final = 5.0
EXECUTOR_SECONDS: Final = 60.0
STOP_SECONDS: Final = 20.0


def check(options: Mapping[str, str]) -> None:
    """What can be said of a session to be made without making it: Java, and the master."""
    check_pyspark()
    check_java()
    _reach(options.get("spark.master", ""))


def check_pyspark() -> None:
    """Raises MissingExtra, or SourceUnavailable where it is too old, or a client of Spark Connect."""
    try:
        with warnings.catch_warnings():  # of libraries that PySpark may use, and nothing here does
            warnings.simplefilter("ignore")
            import pyspark.sql
    except ImportError:
        raise MissingExtra("a source in Spark needs PySpark", hint=INSTALL) from None
    if "SPARK_CONNECT_MODE_ENABLED" in os.environ and "SPARK_LOCAL_REMOTE" not in os.environ:
        raise SourceUnavailable(
            "this process uses Spark Connect, which a source in Spark cannot",
            hint="open the contract in a process with a classic session, or with none",
        )
    if int(pyspark.__version__.partition(".")[0]) < 4:
        raise SourceUnavailable(
            f"PySpark {pyspark.__version__} is too old: 4 or later is needed", hint=INSTALL
        )


def make(options: Mapping[str, str]) -> SparkContext:
    """A context by the options of a contract, with the defaults of this package."""
    check(options)
    settings = {**DEFAULTS, **_local(options.get("spark.master")), **options, **ALWAYS}
    return guarded(
        lambda: _context(settings),
        "Spark did not start",
        "check the options in [source.spark]; the same ones given to spark-submit show why",
    )


def _context(settings: Mapping[str, str]) -> SparkContext:
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if not _jvm_answers():
        SparkContext._gateway = SparkContext._jvm = None
    conf = SparkConf()
    for key, value in settings.items():
        conf.set(key, value)
    gateway = None
    if SparkContext._gateway is None:
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        launch: Any = launch_gateway  # which has no types
        gateway = launch(conf, silent)
    with _signals_kept(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return SparkContext(conf=conf, gateway=gateway)


def stop(context: SparkContext) -> None:
    """Ends a context that was made here, and its JVM: the next one may have other options."""
    from pyspark import SparkContext

    if SparkContext._active_spark_context is not context:
        return
    gateway: Any = SparkContext._gateway
    with quiet(), warnings.catch_warnings(), suppress(Exception):  # it may have ended already
        warnings.simplefilter("ignore")
        context.stop()
    SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None
    with suppress(Exception):
        gateway.shutdown()
    process = getattr(gateway, "proc", None)
    if process is not None:
        process.stdin.close()  # which ends the JVM
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)


def _jvm_answers() -> bool:
    """Whether there is a JVM of an earlier session, still alive."""
    from pyspark import SparkContext

    if SparkContext._jvm is None:
        return False
    try:
        SparkContext._jvm.java.lang.System.nanoTime()
    except Exception:  # it has ended
        return False
    return True


@contextmanager
def _signals_kept() -> Iterator[None]:
    """A new context takes Ctrl-C for itself; whose it was before has it back."""
    main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if main and before is not None:
            signal.signal(signal.SIGINT, before)


def _local(master: str | None) -> Mapping[str, str]:
    """Settings of a session on this machine alone: nothing listens on other networks, and workers in
    Python, which no statement of Defray's needs, would be this Python."""
    loopback = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if master is None or re.match(r"local(\[|$)", master):
        return {**loopback, "spark.pyspark.python": sys.executable}
    hosts = [host for host, _ in _addresses(master)]
    return loopback if hosts and all(h in ("127.0.0.1", "localhost") for h in hosts) else {}


def _addresses(master: str) -> list[tuple[str, int]]:
    """The hosts and ports of a standalone master, ``spark://host:port[,host:port]``."""
    if not master.startswith("spark://"):
        return []
    found = re.findall(r"([^,/:]+):(\d+)", master.removeprefix("spark://"))
    return [(host, int(port)) for host, port in found]


def _reach(master: str) -> None:
    """Raises SourceUnavailable where no standalone master answers: Spark itself tries for a minute."""
    addresses = _addresses(master)
    for address in addresses:
        try:
            socket.create_connection(address, CONNECT_SECONDS).close()
        except OSError:
            continue
        return
    if addresses:
        where = ", ".join(f"{host}:{port}" for host, port in addresses)
        raise SourceUnavailable(
            f"no Spark master answers at {where}",
            hint="start it, or correct master in [source.spark]",
        )


def await_executors(context: SparkContext, options: Mapping[str, str]) -> None:
    """A cluster that has no room would let the first statement wait for ever."""
    if not _addresses(options.get("spark.master", "")):
        return
    if options.get("spark.dynamicAllocation.enabled") == "true":
        return
    last = time.monotonic() + EXECUTOR_SECONDS
    tracker = context._jsc.sc().statusTracker()

    def there() -> bool:
        return len(tracker.getExecutorInfos()) > 1  # the driver is one of them

    while not guarded(there, "the Spark master refused", "check master in [source.spark]"):
        if time.monotonic() > last:
            raise SourceUnavailable(
                f"the Spark cluster gave no executor in {EXECUTOR_SECONDS:g} s",
                hint="start workers, or ask for less in [source.spark]: executor.memory, executor.cores",
            )
        time.sleep(0.05)
